"""Tables of two columns whose values do not depend on each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def sides(first: Sequence[A], second: Sequence[B]) -> list[tuple[A, B]]:
    """Return N + M - 1 of the N × M pairs: all of each side, with the first of the other."""
    return [*((one, second[0]) for one in first), *((first[0], other) for other in second[1:])]
