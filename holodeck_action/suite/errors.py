"""Problems of a suite, with their positions in its files."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.redaction import Redactor


def share_texts(value: Struct, *names: str) -> None:
    """Let fields have the text objects that other values have, such as the name of a file; called while `value` is
    made."""
    for name in names:
        text = getattr(value, name)
        if type(text) is str:
            force_setattr(value, name, sys.intern(text))


class SourceMark(Struct, frozen=True, gc=False, order=True, omit_defaults=True):
    """A position in a file.

    Attributes:
        file: path relative to the suite's folder with `/` separators, so that records are equal on every machine.
        line: 1-based line; in a file with rows instead of lines, such as Parquet, the 1-based row.
        column: 1-based column, counted in characters, or in cells for a spreadsheet; 0 if the position is a whole row.
        sheet: name of a spreadsheet's sheet; `line` is then a row of the sheet. Empty in other files.
    """

    file: str
    line: int
    column: int
    sheet: str = ""

    def __post_init__(self) -> None:
        # A record has several positions for each case, nearly all in one file.
        share_texts(self, "file")

    def __str__(self) -> str:
        if self.sheet:
            return f"{self.file}, {self.in_sheet}"
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}: row {self.line}"

    @property
    def short(self) -> str:
        """The position as text, without the column unless the file is a spreadsheet."""
        return f"{self.file}:{self.line}" if self.column and not self.sheet else str(self)

    @property
    def in_sheet(self) -> str:
        """The position in a spreadsheet, such as `sheet Cases, cell C7`; empty in other files."""
        if not self.sheet:
            return ""
        return f"sheet {self.sheet}, {f'cell {_letters(self.column)}' if self.column else 'row '}{self.line}"

    @property
    def file_line(self) -> int:
        """The number of the line to show in a viewer of files; 1 for a spreadsheet, which has no lines."""
        return 1 if self.sheet else self.line


def _letters(column: int) -> str:
    """Return the letters of a spreadsheet's column, such as `AB` for 28."""
    letters = ""
    while column > 0:
        column, digit = divmod(column - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return letters


_LONGEST_QUOTE = 60
_SHORTEST_SECRET = 4
_QUOTATION = lazy_pattern(r'"(?:[^"\\]|\\.)*"')


class Problem(Struct, frozen=True):
    """One problem of a suite's files.

    Attributes:
        mark: position of the problem; None if it is not in a file.
        field: readable path such as `test_cases[3].turns[0].input`; empty if the problem is about the whole file.
        message: the problem and the allowed values, without secrets.
    """

    mark: SourceMark | None
    field: str
    message: str

    def __str__(self) -> str:
        return printable(": ".join(part for part in (str(self.mark or ""), self.field, self.message) if part))


class SuiteError(Exception):
    """A suite cannot be used. `problems` are sorted by file and position; `secrets` are masked in their messages.

    `files` are the names of the files whose lines may be shown after redaction by `redactor`.
    """

    def __init__(self, problems: Iterable[Problem], secrets: Iterable[str] = (), files: Iterable[str] = ()) -> None:
        known = tuple(secrets)
        self.files = frozenset(files)
        self.redactor = redactor = Redactor(known)
        unique = {
            replace(
                problem,
                field=redactor.text(problem.field),
                message=redactor.text(mask_quotations(problem.message, known)),
            )
            for problem in problems
        }
        self.problems = tuple(sorted(unique, key=_sort_key))
        super().__init__("\n".join(str(problem) for problem in self.problems))


def _sort_key(problem: Problem) -> tuple[str, int, int, str, str]:
    mark = problem.mark
    place = (mark.file, mark.line, mark.column) if mark else ("", 0, 0)
    return (*place, problem.field, problem.message)


def field_path(path: Sequence[str | int]) -> str:
    """Return a path in readable form, such as `test_cases[3].turns[0].input`; keys that are not words are quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r"[\w-]{1,60}", part):
            text += f".{part}" if text else part
        else:
            text += f"[{quoted(part)}]"
    return text


def quoted(text: str) -> str:
    """Return a string from the suite in quotes, on one line and with limited length."""
    return json.dumps(text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 1]}…", ensure_ascii=False)


def printable(text: str) -> str:
    """Return a string in which characters that could move the cursor or start a new line are escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def mask_quotations(text: str, secrets: Iterable[str]) -> str:
    """Return a message with `"***"` in place of each quotation that contains a secret or is cut off inside one.

    Secrets of fewer than four characters are not masked.
    """
    # The secrets as they are written inside a quotation.
    known = [json.dumps(secret, ensure_ascii=False)[1:-1] for secret in secrets if len(secret) >= _SHORTEST_SECRET]

    def hide(match: re.Match[str]) -> str:
        shown = match.group()[1:-1]
        cut = shown.removesuffix("…")
        tails = [cut[start:] for start in range(len(cut) - _SHORTEST_SECRET + 1)] if cut != shown else []
        reveals = any(secret in shown or any(secret.startswith(tail) for tail in tails) for secret in known)
        return '"***"' if reveals else match.group()

    return _QUOTATION.sub(hide, text) if known else text
