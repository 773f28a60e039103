"""Redacted excerpts of the lines that problems are about, to show below the message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import Excerpt, LocatedProblem
from holodeck_action.suite.yaml.reading import LISTED_SECRETS, SECRET_KEY
from holodeck_action.text.credentials import credentials_in
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.redaction import MASK, Redactor

LIMIT = 50
"""Maximum number of problems whose lines are shown."""
_MOST_BYTES = 5_000_000
_MOST_CHARACTERS = 500
"""Maximum characters of an excerpt on each side of the problem's column."""
_LINES_ABOVE = 500
"""Maximum number of lines above the shown line that are searched for the key of a multi-line value."""

_YAML_BREAK = lazy_pattern(r"\r\n|[\n\r\x85\u2028\u2029]")
_TABLE_BREAK = lazy_pattern(r"\r\n|[\n\r]")
_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")
# Without a quotation mark, a key begins where a word does: trying each letter of a long word takes quadratic time.
_KEY = lazy_pattern(r"""(?:(?P<quote>["'])|(?<![\w.-]))(?P<key>[\w.-]++)(?(quote)(?P=quote))\s*+:(?=\s|$|["'\[{])\s*""")
_QUOTED = lazy_pattern(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'""")
_LIST = lazy_pattern(rf"""(["']?){LISTED_SECRETS}\1\s*:""")
_ITEM_ENDS = " \t-[],\"'"
_FIRST_KEY = lazy_pattern(r"""[\s-]*+(?P<quote>["']?)(?P<key>[\w.-]++)(?P=quote)\s*:(?=\s|$)\s*(?P<value>.*)""")


class QuotableFiles(Struct, frozen=True):
    """The files of a suite whose lines may be shown.

    Attributes:
        checkout: reads the files.
        files: names of the files whose lines may be shown; None if all may be.
        redact: masks the known secrets.
    """

    checkout: Checkout
    files: frozenset[str] | None
    redact: Callable[[str], str]


def add_excerpts(
    problems: Iterable[str | LocatedProblem], folders: Mapping[Path, QuotableFiles]
) -> list[str | LocatedProblem]:
    """Return the problems. The first `LIMIT` problems in files of `folders` get an excerpt of their line."""

    @cache
    def lines(folder: Path, file: str) -> tuple[str, ...]:
        return _read_lines(folders[folder], file)

    @cache
    def listed(folder: Path, file: str) -> frozenset[str]:
        return frozenset(_listed_secrets(lines(folder, file)))

    found: list[str | LocatedProblem] = []
    shown = 0
    for problem in problems:
        excerpt = None
        if (
            isinstance(problem, LocatedProblem)
            and problem.excerpt is None
            and problem.folder in folders
            and shown < LIMIT
        ):
            mark = problem.mark
            # The bytes of a spreadsheet are no lines.
            if not mark.sheet:
                place = problem.folder, mark.file
                excerpt = _excerpt(lines(*place), mark.line, mark.column, listed(*place))
        if excerpt is None:
            found.append(problem)
        else:
            assert isinstance(problem, LocatedProblem)
            shown += 1
            found.append(replace(problem, excerpt=excerpt.map_text(folders[problem.folder].redact)))
    return found


def _read_lines(quotable: QuotableFiles, file: str) -> tuple[str, ...]:
    if quotable.files is not None and file not in quotable.files:
        return ()
    try:
        text = quotable.checkout.read(file, _MOST_BYTES).lossy_text()
    except OSError:
        return ()
    return tuple((_TABLE_BREAK if file.lower().endswith(_TABLES) else _YAML_BREAK).split(text))


def _excerpt(lines: tuple[str, ...], line: int, column: int, listed: frozenset[str]) -> Excerpt | None:
    """Return a line split at a column, both counted from 1; None if the line does not exist or must not be shown.

    `listed` are secrets that the file lists.
    """
    if not 0 < line <= len(lines) or not column or not lines[line - 1].strip():
        return None
    if _inside_secret(lines, line - 1):
        return None
    text, at = lines[line - 1], min(column - 1, len(lines[line - 1]))
    secrets = tuple(_secret_spans(text))
    at = next((start for start, end in secrets if start < at < end), at)
    before, rest = _mask_part(text, secrets, 0, at), _mask_part(text, secrets, at, len(text))
    # Passwords of addresses, settings such as `--token=…`, and what looks like a key.
    masked = Excerpt(before, rest).map_text(Redactor(listed.union(credentials_in(text))).text)
    if masked is None:
        return None
    before, rest = masked.before, masked.after
    cut_before, cut_rest = len(before) > _MOST_CHARACTERS, len(rest) > _MOST_CHARACTERS
    return Excerpt(
        f"…{before[-_MOST_CHARACTERS:]}" if cut_before else before,
        f"{rest[:_MOST_CHARACTERS]}…" if cut_rest else rest,
    )


def _mask_part(text: str, secrets: Iterable[tuple[int, int]], start: int, end: int) -> str:
    """Return the part of a line from `start` to `end`, with each secret that begins in it masked."""
    shown = ""
    for first, last in secrets:
        if start <= first < end:
            shown += text[start:first] + MASK
            start = last
    return shown + text[start:end]


def _secret_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of each value of a secret key in a line."""
    end = 0
    for match in _KEY.finditer(text):
        if match.start() < end or not SECRET_KEY.search(match["key"]) or match.end() == len(text):
            continue
        value = _QUOTED.match(text, match.end())
        end = len(text) if value is None else value.end()
        yield match.end(), end


def _listed_secrets(lines: Iterable[str]) -> Iterator[str]:
    """Yield the items of the list of secrets in a file, also if the file is not YAML."""
    inside = False
    for line in lines:
        first = _LIST.match(line)
        inside = first is not None or (inside and line[:1] in ("", " ", "\t", "-", "#", "]"))
        if inside:
            items = line[first.end() :] if first is not None else line
            for item in (items, *items.split(",")):
                yield item.strip(_ITEM_ENDS)
                yield item.partition(" #")[0].strip(_ITEM_ENDS)


def _inside_secret(lines: tuple[str, ...], index: int) -> bool:
    """Return whether a line belongs to the value of a secret key above it, by indentation or an open quotation."""
    indent = _indent(lines[index])
    for above in reversed(lines[max(0, index - _LINES_ABOVE) : index]):
        match = _FIRST_KEY.match(above)
        if match is None:
            continue
        value = match["value"]
        deeper = _indent(above) < indent
        if SECRET_KEY.search(match["key"]) and (deeper or _is_open_quotation(value)):
            return True
        indent = min(indent, _indent(above))
    return False


def _is_open_quotation(value: str) -> bool:
    return value.startswith(("'", '"')) and _QUOTED.match(value) is None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
