"""The data of a YAML file with the positions of all values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from holodeck_action.suite.errors import Problem, SourceMark, field_path

Path = tuple[str | int, ...]
"""A path in a document: keys and list indexes."""

SUBSTITUTED = 1 << 31
"""Bit of a value's column: the value contains the value of a variable."""
UNSET = 1 << 30
"""Bit of a value's column: the value names an unset variable."""
_COLUMN = UNSET - 1


class MarkedMap(dict[Any, Any]):
    """A mapping with the positions of itself, its keys and its values.

    `marks` has line and column of a key and of its value; keys that are not in it have the mapping's position.
    """

    __slots__ = ("column", "line", "marks")
    line: int
    column: int
    marks: dict[Any, tuple[int, int, int, int]]

    @classmethod
    def at(cls, line: int, column: int, items: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = ()) -> MarkedMap:
        """Return a mapping whose position is that of its keys and values, too."""
        made = cls(items)
        made.line, made.column, made.marks = line, column, {}
        return made

    def key_position(self, key: Any) -> tuple[int, int]:
        """Return line and column of a key."""
        line, column, _, _ = self.positions(key)
        return line, column & _COLUMN

    def value_position(self, key: Any) -> tuple[int, int]:
        """Return line and column of a key's value."""
        _, _, line, column = self.positions(key)
        return line, column & _COLUMN

    def is_substituted(self, key: Any) -> bool:
        """Return whether the value contains the value of a variable."""
        return bool(self.positions(key)[3] & SUBSTITUTED)

    def is_unset(self, key: Any) -> bool:
        """Return whether the value names an unset variable."""
        return bool(self.positions(key)[3] & UNSET)

    def positions(self, key: Any) -> tuple[int, int, int, int]:
        """Return line and column of a key, and those of its value."""
        return self.marks.get(key) or (self.line, self.column, self.line, self.column)


class MarkedList(list[Any]):
    """A list with the positions of itself and its items; if `marks` is empty, all have the list's position."""

    __slots__ = ("column", "line", "marks")
    line: int
    column: int
    marks: list[tuple[int, int]]

    @classmethod
    def at(cls, line: int, column: int, items: Iterable[Any] = ()) -> MarkedList:
        """Return a list whose position is that of its items, too."""
        made = cls(items)
        made.line, made.column, made.marks = line, column, []
        return made

    def value_position(self, index: int) -> tuple[int, int]:
        """Return line and column of an item."""
        line, column = self.marks[index] if self.marks else (self.line, self.column)
        return line, column & _COLUMN

    def is_substituted(self, index: int) -> bool:
        """Return whether the item contains the value of a variable."""
        return bool(self.marks) and bool(self.marks[index][1] & SUBSTITUTED)

    def is_unset(self, index: int) -> bool:
        """Return whether the item names an unset variable."""
        return bool(self.marks) and bool(self.marks[index][1] & UNSET)


def last_position(marked: MarkedMap | MarkedList) -> tuple[int, int]:
    """Return line and column of the last value in a part of a document."""
    last = marked.line, marked.column
    if not marked.marks:
        return last
    for place in marked if isinstance(marked, MarkedMap) else range(len(marked)):
        value = marked[place]
        last = max(last, marked.value_position(place))
        if isinstance(value, MarkedMap | MarkedList):
            last = max(last, last_position(value))
    return last


def position_of(document: Any, path: Path, *, key: bool = False) -> tuple[int, int]:
    """Return line and column of the value at a path, or of its key. If the path does not exist, the position is that of
    the innermost enclosing value.
    """
    place = (getattr(document, "line", 1), getattr(document, "column", 1))
    current = document
    for index, part in enumerate(path):
        if isinstance(current, MarkedMap) and part in current:
            last = index == len(path) - 1
            place = current.key_position(part) if key and last else current.value_position(part)
        elif isinstance(current, MarkedList) and isinstance(part, int) and part < len(current):
            place = current.value_position(part)
        else:
            break
        current = current[part]
    return place


class Document(Struct, frozen=True):
    """The data of a file, its positions and problems.

    Attributes:
        file: the file's name in positions.
        root: the data; None if the file is empty or invalid.
        readable: False if the file is not YAML; `problems` then has the reason.
        problems: duplicate keys, unset variables and the like.
        secrets: values of substituted variables and of literal secret fields.
        sheet: sheet of a spreadsheet; empty for other files.
    """

    file: str
    root: Any
    readable: bool
    problems: tuple[Problem, ...]
    secrets: frozenset[str]
    sheet: str = ""

    def mark(self, line: int, column: int) -> SourceMark:
        """Return a line and column as a position in this file."""
        return SourceMark(self.file, line, column, self.sheet)

    def mark_at(self, path: Path = (), *, key: bool = False) -> SourceMark:
        """Return the position of the value at a path, or of its key. If the path does not exist, the position is that
        of the innermost enclosing value.
        """
        return self.mark(*position_of(self.root, path, key=key))

    def problem(self, path: Path, message: str, *, key: bool = False) -> Problem:
        """Return a problem of the value at a path, or of its key."""
        return Problem(self.mark_at(path, key=key), field_path(path), message)
