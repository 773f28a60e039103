"""Sequences whose items are created on demand, so that a large run is never in memory as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeAlias, TypeVar, overload

T = TypeVar("T")


OneByOne: TypeAlias = Sequence[T]
"""A field that holds a tuple, or for a large run a sequence of this module."""


class LazySequence(Sequence[T], Generic[T]):
    """A sequence whose values are created by index on demand; the last one is kept for repeated access."""

    def __init__(self, length: int, make_value: Callable[[int], T] | None = None) -> None:
        """Set the function that creates the value at an index; None if a subclass overrides `make`."""
        self._length, self._make = length, make_value
        self._last: tuple[int, T] | None = None

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, position: int | slice) -> T | Sequence[T]:
        if isinstance(position, slice):
            return tuple(self._get(index) for index in range(self._length)[position])
        return self._get(range(self._length)[position])

    def __iter__(self) -> Iterator[T]:
        return map(self._get, range(self._length))

    def make(self, index: int) -> T:
        """Create the value at an index."""
        assert self._make is not None
        return self._make(index)

    def _get(self, index: int) -> T:
        last = self._last
        if last is not None and last[0] == index:
            return last[1]
        value = self.make(index)
        self._last = (index, value)
        return value
