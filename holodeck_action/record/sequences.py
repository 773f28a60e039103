"""Sequences whose values are made when they are asked for, so that a large run is never in memory as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeAlias, TypeVar, overload

T = TypeVar("T")


OneByOne: TypeAlias = Sequence[T]
"""A field that holds a tuple, or for a large run a sequence of this module."""


class Made(Sequence[T], Generic[T]):
    """So many values, each made by its place from 0; the last one is remembered, as pairs of passes meet at it."""

    def __init__(self, length: int, make: Callable[[int], T] | None = None) -> None:
        """Take what makes a value; None where a subclass has a `made` of its own."""
        self._length, self._make = length, make
        self._last: tuple[int, T] | None = None

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, at: int) -> T: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...

    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
        if isinstance(at, slice):
            return tuple(self._one(place) for place in range(self._length)[at])
        return self._one(range(self._length)[at])

    def __iter__(self) -> Iterator[T]:
        return map(self._one, range(self._length))

    def made(self, place: int) -> T:
        """Make the value at a place."""
        assert self._make is not None
        return self._make(place)

    def _one(self, place: int) -> T:
        last = self._last
        if last is not None and last[0] == place:
            return last[1]
        value = self.made(place)
        self._last = (place, value)
        return value
