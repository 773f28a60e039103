"""The search for pieces of random values: no `width` of their letters and digits in a row pass.

A text is read in groups of four characters. Each row holds a whole group, so a look into the set of all groups rules
out nearly every place; what is left is compared letter by letter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from msgspec import Struct

_GROUP = 4
"""Characters that are looked up at once: a row of eight or more holds a group that begins at a fourth place."""
_SIX = 6
"""Characters that are looked up then: a row that holds the group holds the two before or the two after it, too."""
_CHUNK = 512
"""Groups that are looked at together."""


class Value(Struct, frozen=True):
    """One way to write a random value.

    Attributes:
        letters: its letters and digits, small.
        width: how many of them in a row make it known.
        starts: where the rows begin that do.
    """

    letters: str
    width: int
    starts: tuple[int, ...]

    @property
    def is_covered(self) -> bool:
        """Whether each of its letters is in a row that makes it known."""
        places = (*self.starts, len(self.letters))
        return places[0] == 0 and all(after - before <= self.width for before, after in pairwise(places))


class Windows:
    """All rows of some values."""

    def __init__(self, values: Iterable[Value]) -> None:
        self._values = tuple(value for value in values if value.starts)
        self._rows: dict[int, dict[str, list[tuple[int, int]]]] = {}
        self._sixes: set[str] = set()
        for number, value in enumerate(self._values):
            known = self._rows.setdefault(value.width, {})
            for start in value.starts:
                row = value.letters[start : start + value.width]
                known.setdefault(row, []).append((number, start))
                self._sixes.update(row[at : at + _SIX] for at in range(value.width - _SIX + 1))
        groups = {_ascii(six[at : at + _GROUP]) for six in self._sixes for at in range(_SIX - _GROUP + 1)}
        self._groups = frozenset(_groups_in(b"".join(groups)))
        self._least = min((value.width for value in self._values), default=0)

    def __bool__(self) -> bool:
        return bool(self._values)

    def find(self, view: str) -> list[tuple[int, int]]:
        """Return where pieces of values are in the letters and digits of a text: start and end."""
        if len(view) < self._least:
            return []
        groups = _groups_in(_ascii(view))
        # Most texts hold none, which one look shows.
        if self._groups.isdisjoint(groups):
            return []
        found: list[tuple[int, int]] = []
        done: dict[int, int] = {}
        for place in self._places(groups):
            if view[place : place + _SIX] in self._sixes or view[place + _GROUP - _SIX : place + _GROUP] in self._sixes:
                for at, number, own in self._rows_with(view, place):
                    if at >= done.get(number, 0):
                        span = self._whole(view, at, number, own)
                        done[number] = span[1]
                        found.append(span)
        return found

    def _places(self, groups: memoryview[int]) -> Iterator[int]:
        """Yield where groups of rows are."""
        for first in range(0, len(groups), _CHUNK):
            some = groups[first : first + _CHUNK]
            if not self._groups.isdisjoint(some):
                yield from (place * _GROUP for place, group in enumerate(some, first) if group in self._groups)

    def _rows_with(self, view: str, group: int) -> Iterator[tuple[int, int, int]]:
        """Yield the rows that hold the group at a place: start in the view, number of the value, start in that."""
        for width, known in self._rows.items():
            for at in range(max(0, group - width + _GROUP), group + 1):
                for number, own in known.get(view[at : at + width], ()):
                    yield at, number, own

    def _whole(self, view: str, at: int, number: int, own: int) -> tuple[int, int]:
        """Return how far a view goes on as a value does, to both sides of a row that begins at `at` and at `own`."""
        letters = self._values[number].letters
        after = _common(view[at : at + len(letters) - own], letters[own:])
        before = _common(view[max(0, at - own) : at][::-1], letters[:own][::-1])
        return at - before, at + after


def _common(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginnings."""
    for length, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return length
    return min(len(one), len(other))


def _groups_in(data: bytes) -> memoryview[int]:
    """Return the groups of four bytes as numbers; what is left at the end is no group."""
    return memoryview(data)[: len(data) & -_GROUP].cast("I")


def _ascii(text: str) -> bytes:
    return text.encode("ascii", "replace")
