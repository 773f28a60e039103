"""The data of a YAML file with the position of everything in it."""

from __future__ import annotations

from array import array
from typing import Any

from msgspec import Struct

from holodeck_action.suite.errors import Problem, SourceMark, field_path

Path = tuple[str | int, ...]
"""Where something stands in a document: keys and positions in lists."""

PACKED = "I"
"""Array type of packed positions: line and column of each key and value, or of each item."""
SUBSTITUTED = 1 << 31
"""Bit of a value's column: it holds the value of a variable."""
UNSET = 1 << 30
"""Bit of a value's column: it names a variable that is not set."""
_COLUMN = UNSET - 1


class MarkedMap(dict[Any, Any]):
    """A mapping with the position of itself, its keys and its values; without marks everything in it stands there."""

    __slots__ = ("column", "line", "marks")
    line: int
    column: int
    marks: bytes

    @classmethod
    def empty(cls) -> MarkedMap:
        """A mapping without entries at the start of a file."""
        made = cls()
        made.line, made.column, made.marks = 1, 1, b""
        return made

    def key_position(self, key: Any) -> tuple[int, int]:
        """Line and column of a key."""
        line, column, _, _ = self.entry(key)
        return line, column & _COLUMN

    def value_position(self, key: Any) -> tuple[int, int]:
        """Line and column of a key's value."""
        _, _, line, column = self.entry(key)
        return line, column & _COLUMN

    def substituted(self, key: Any) -> bool:
        """Whether the value holds the value of a variable."""
        return bool(self.entry(key)[3] & SUBSTITUTED)

    def unset(self, key: Any) -> bool:
        """Whether the value names a variable that is not set."""
        return bool(self.entry(key)[3] & UNSET)

    def entry(self, key: Any) -> tuple[int, int, int, int]:
        """Packed positions of a key and its value."""
        if not self.marks:
            return self.line, self.column, self.line, self.column
        index = list(self).index(key)
        if 16 * index >= len(self.marks):
            # Filled in from another file.
            return self.line, self.column, self.line, self.column
        first, second, third, fourth = array(PACKED, self.marks)[4 * index : 4 * index + 4]
        return first, second, third, fourth


class MarkedList(list[Any]):
    """A list with the position of itself and its items; without marks everything in it stands there."""

    __slots__ = ("column", "line", "marks")
    line: int
    column: int
    marks: bytes

    def value_position(self, index: int) -> tuple[int, int]:
        """Line and column of an item."""
        if not self.marks:
            return self.line, self.column
        packed = array(PACKED, self.marks)
        return packed[2 * index], packed[2 * index + 1] & _COLUMN

    def substituted(self, index: int) -> bool:
        """Whether the item holds the value of a variable."""
        return bool(self.marks) and bool(array(PACKED, self.marks)[2 * index + 1] & SUBSTITUTED)

    def unset(self, index: int) -> bool:
        """Whether the item names a variable that is not set."""
        return bool(self.marks) and bool(array(PACKED, self.marks)[2 * index + 1] & UNSET)


def last_position(marked: MarkedMap | MarkedList) -> tuple[int, int]:
    """Return line and column of the value in a part of a document that begins last: what begins later is outside."""
    last = marked.line, marked.column
    if not marked.marks:
        return last
    for place in marked if isinstance(marked, MarkedMap) else range(len(marked)):
        value = marked[place]
        last = max(last, marked.value_position(place))
        if isinstance(value, MarkedMap | MarkedList):
            last = max(last, last_position(value))
    return last


def position_of(root: Any, path: Path, *, key: bool = False) -> tuple[int, int]:
    """Line and column of a value in a marked part of a document, or of its key; of what encloses it if it is absent."""
    place = (getattr(root, "line", 1), getattr(root, "column", 1))
    current = root
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
    """A file as data.

    Attributes:
        file: how the file is called in positions.
        root: the data; None for an empty file and for one that is not YAML.
        readable: False when the file is not YAML: `problems` then says why and nothing else is known.
        problems: duplicate keys, unset variables and the like.
        secrets: values of variables and of literal secret fields.
    """

    file: str
    root: Any
    readable: bool
    problems: tuple[Problem, ...]
    secrets: frozenset[str]

    def mark(self, line: int, column: int) -> SourceMark:
        """A position in this file."""
        return SourceMark(self.file, line, column)

    def place(self, path: Path = (), *, key: bool = False) -> SourceMark:
        """Where a value of the data stands, or its key; where it is absent, what would enclose it."""
        return self.mark(*position_of(self.root, path, key=key))

    def problem(self, path: Path, message: str, *, key: bool = False) -> Problem:
        """A problem of a value of the data, or of its key."""
        return Problem(self.place(path, key=key), field_path(path), message)
