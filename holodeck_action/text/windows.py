"""Searches texts for parts of random values: any n-gram of `width` letters and digits (see `randomness`).

A text is read in groups of four characters. Each n-gram contains a whole group, so looking up the groups in the set of
all groups of the values rules out nearly every position. The remaining positions are compared letter by letter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from msgspec import Struct

_GROUP = 4
"""Number of characters in a group, which is looked up first. An n-gram of at least eight characters contains a group
that begins at a multiple of four.
"""
_WIDE = 6
"""Number of characters that are looked up next: the group with the two characters before it, or with the two characters
after it. An n-gram that contains the group contains at least one of these two strings.
"""
_CHUNK = 512
"""Number of groups that are looked up together."""


class Value(Struct, frozen=True):
    """A spelling of a random value: plain or encoded.

    Attributes:
        letters: letters and digits of the spelling, in lower case.
        width: number of consecutive letters and digits that identify the value: the length of its n-grams.
        starts: indexes in `letters` at which the identifying n-grams begin.
    """

    letters: str
    width: int
    starts: tuple[int, ...]

    @property
    def is_covered(self) -> bool:
        """Whether each letter or digit is part of an identifying n-gram."""
        places = (*self.starts, len(self.letters))
        return places[0] == 0 and all(after - before <= self.width for before, after in pairwise(places))


class RandomValueSearch:
    """Finds parts of secrets in texts: n-grams of letters and digits that are long enough to identify a random
    value."""

    def __init__(self, values: Iterable[Value]) -> None:
        self._values = tuple(value for value in values if value.starts)
        self._ngrams: dict[int, dict[str, list[tuple[int, int]]]] = {}
        self._wide: set[str] = set()
        for number, value in enumerate(self._values):
            known = self._ngrams.setdefault(value.width, {})
            done = 0
            for start in value.starts:
                end = start + value.width
                known.setdefault(value.letters[start:end], []).append((number, start))
                # Neighbouring n-grams share most of their characters.
                self._wide.update(value.letters[at : at + _WIDE] for at in range(max(start, done), end - _WIDE + 1))
                done = end - _WIDE + 1
        groups = {_ascii(wide[at : at + _GROUP]) for wide in self._wide for at in range(_WIDE - _GROUP + 1)}
        self._groups = frozenset(_groups_in(b"".join(groups)))
        self._least = min((value.width for value in self._values), default=0)

    def __bool__(self) -> bool:
        return bool(self._values)

    def find(self, view: str) -> list[tuple[int, int]]:
        """Return the (start, end) of each part of a value in `view`, the letters and digits of a text."""
        if len(view) < self._least:
            return []
        groups = _groups_in(_ascii(view))
        # Most texts contain no group of a value.
        if self._groups.isdisjoint(groups):
            return []
        found: list[tuple[int, int]] = []
        done: dict[int, int] = {}
        for place in self._candidate_positions(groups):
            if view[place : place + _WIDE] in self._wide or view[place + _GROUP - _WIDE : place + _GROUP] in self._wide:
                for at, number, own in self._ngrams_around(view, place):
                    if at >= done.get(number, 0):
                        span = self._extend(view, at, number, own)
                        done[number] = span[1]
                        found.append(span)
        return found

    def _candidate_positions(self, groups: memoryview[int]) -> Iterator[int]:
        """Yield the positions in the view of all groups that equal a group in an n-gram of a value."""
        for first in range(0, len(groups), _CHUNK):
            some = groups[first : first + _CHUNK]
            if not self._groups.isdisjoint(some):
                yield from (place * _GROUP for place, group in enumerate(some, first) if group in self._groups)

    def _ngrams_around(self, view: str, group: int) -> Iterator[tuple[int, int, int]]:
        """Yield the n-grams of values that contain the group at position `group` of the view.

        Each is a tuple (start in the view, index of the value, start in the value).
        """
        for width, known in self._ngrams.items():
            for at in range(max(0, group - width + _GROUP), group + 1):
                for number, own in known.get(view[at : at + width], ()):
                    yield at, number, own

    def _extend(self, view: str, position: int, number: int, own: int) -> tuple[int, int]:
        """Extend an n-gram to both sides as long as the letters are equal; return its (start, end) in the view.

        The n-gram begins at `position` in the view, and at `own` in the value with the index `number`.
        """
        letters = self._values[number].letters
        after = _common_length(view[position : position + len(letters) - own], letters[own:])
        before = _common_length(view[max(0, position - own) : position][::-1], letters[:own][::-1])
        return position - before, position + after


def _common_length(first: str, second: str) -> int:
    """Return the length of the common prefix of two strings."""
    for length, (left, right) in enumerate(zip(first, second, strict=False)):
        if left != right:
            return length
    return min(len(first), len(second))


def _groups_in(data: bytes) -> memoryview[int]:
    """Return each group of four bytes as an integer; an incomplete last group is omitted."""
    return memoryview(data)[: len(data) & -_GROUP].cast("I")


def _ascii(text: str) -> bytes:
    return text.encode("ascii", "replace")
