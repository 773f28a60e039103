"""Positions in the files that ask the questions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class SourceMark:
    """Where something stands in a file.

    Attributes:
        file: path relative to the suite's folder with `/` separators, so that records are equal on every machine.
        line: 1-based line.
        column: 1-based column, in characters.
    """

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"
