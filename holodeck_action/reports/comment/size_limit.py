"""How much fits where, and what is dropped first when it does not (docs/github.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from msgspec import Struct

Detail = Literal["full", "counts", "reasons", "tables"]

DETAILS: tuple[Detail, ...] = ("full", "counts", "reasons", "tables")
"""From all to least: everything; passing cases only counted; failing cases without the model's output; tables only."""


class SizeLimit(Struct, frozen=True):
    """The most a text may hold: Unicode characters and UTF-8 bytes, both counted."""

    characters: int
    bytes: int

    def holds(self, characters: int, size: int) -> bool:
        """Tell whether so many characters and bytes fit."""
        return characters <= self.characters and size <= self.bytes

    def without(self, text: str) -> SizeLimit:
        """Return what is left beside a text."""
        return SizeLimit(self.characters - len(text), self.bytes - len(text.encode()))


COMMENT = SizeLimit(65_000, 65_000)
"""A comment's body: GitHub refuses more than 65,536 characters; the rest is for a marker and a link."""

CHECK = SizeLimit(65_535, 65_535)
"""`output.summary` and `output.text` of a check run: `maxLength` of GitHub's OpenAPI description."""

JOB_SUMMARY = SizeLimit(1024 * 1024, 1024 * 1024)
"""A step's job summary: 1 MiB; the runner uploads nothing of a larger one."""

IN_THE_RECORD = "the whole record is in results.json"
"""Where the rest of a cut report is, unless said otherwise."""

_SHORTEST_ROW = 20
"""Characters of a row with a title and a place, at the very least."""
_LINE = re.compile(r"[^\n]*\n")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)")
_HTML_BLOCK = re.compile(
    r" {0,3}</?(details|summary|div|table|tr|td|th|tbody|thead|ul|ol|li|p|h[1-6])\b", re.IGNORECASE
)
_DETAILS = re.compile(r"<(/?)details\b", re.IGNORECASE)


def fit(render: Callable[[Detail], Iterable[str]], limit: SizeLimit, rest: str, listed: int = 0) -> str:
    """Return the most detailed rendering that fits; when none does, the least detailed one, cut.

    Args:
        render: yields the text in pieces for a level of detail; it is asked no further once the limit is used up.
        limit: what the text may hold.
        rest: trusted Markdown saying where the whole report is, put behind a cut text.
        listed: number of rows that only the first level has.
    """
    text = ""
    # Rows that cannot fit are not even made.
    for detail in DETAILS[listed * _SHORTEST_ROW > limit.characters :]:
        text, whole = gather(render(detail), limit)
        if whole:
            return text
    return cut(text, limit, rest)


def gather(pieces: Iterable[str], limit: SizeLimit) -> tuple[str, bool]:
    """Join pieces until the limit is used up.

    Returns:
        The text, and whether it is whole; if not, it is just longer than the limit.
    """
    gathered: list[str] = []
    characters = size = 0
    for piece in pieces:
        gathered.append(piece)
        characters += len(piece)
        size += len(piece.encode("utf-8", "replace"))
        if not limit.holds(characters, size):
            return "".join(gathered), False
    return "".join(gathered), True


def cut(text: str, limit: SizeLimit, rest: str) -> str:
    """Cut Markdown at the end of a line, closing what is open there: a fence, `<details>`.

    Args:
        text: Markdown whose `<details>` tags stand outside HTML comments.
        limit: what the result may hold.
        rest: trusted Markdown put at the end.
    """
    end = f"\n\n_The report was cut here: {rest}_\n"
    best = ""
    characters = size = 0
    for line, closing in _lines(text):
        characters += len(line)
        size += len(line.encode())
        tail = closing + end
        if not limit.holds(characters, size):
            break
        if limit.holds(characters + len(tail), size + len(tail.encode())):
            best = text[:characters] + tail
    return best or end.lstrip()


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield every whole line with what would close the text behind it."""
    fence = ""
    html = False
    depth = 0
    for line in _LINE.findall(text):
        mark = None if html else _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
        else:
            # Until the next blank line everything is HTML, what looks like a fence or a code span, too.
            html = bool(line.strip()) and (html or bool(_HTML_BLOCK.match(line)))
            for slash in _DETAILS.findall(line if html else _CODE_SPAN.sub("", line)):
                depth = max(0, depth - 1) if slash else depth + 1
        yield line, (f"{fence}\n" if fence else "") + "\n</details>" * depth
