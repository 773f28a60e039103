"""A fact of a run: a value, known to be none, or unknown. The one place that tells the three apart.

Unknown is never a pass: whatever judges takes a `Fact`, and must say what it does for each of the three. None of them
has a truth value, a length or items, so that neither `if fact` nor `fact or ()` can take unknown for none.

In a record, `null` is unknown and an empty list is known to be none.
"""

from __future__ import annotations

from typing import Annotated, Generic, NoReturn, TypeAlias, TypeVar

from msgspec import Meta, Struct

T = TypeVar("T")
Item = TypeVar("Item")

LARGEST = 2**53
"""Largest number of any kind that enters: count, size, milliseconds, US dollars, score of a retriever, without sign.

Up to here every JSON reader keeps whole numbers exact, and no sum over a run can overflow.
"""
Sum = TypeVar("Sum", int, float)
Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Amount = Annotated[float, Meta(ge=0, le=LARGEST)]
"""Milliseconds or US dollars."""
Rating = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
"""A number on somebody else's scale."""


class _NoTruth(Struct, frozen=True):
    def __bool__(self) -> NoReturn:
        raise TypeError("a fact is neither true nor false: say what happens when it is unknown")


class Known(_NoTruth, Generic[T], frozen=True):
    """A value that is known; a list has at least one item."""

    value: T


class Nothing(_NoTruth, frozen=True):
    """Known to be none: no tool was called, nothing was retrieved, there is no partner."""


class Unknown(_NoTruth, frozen=True):
    """Not known; `because` is one sentence, empty where nothing is known of that either."""

    because: str = ""


Fact: TypeAlias = Known[T] | Nothing | Unknown
"""A value that can be known to be none."""
Measured: TypeAlias = Known[T] | Unknown
"""A number, which is zero rather than none."""


def bounded(number: Sum | None) -> Sum | None:
    """Return a count or an amount that enters; one below 0, beyond `LARGEST`, or no number at all is unknown, None."""
    return number if number is not None and 0 <= number <= LARGEST else None


def measured(value: T | None, because: str = "") -> Measured[T]:
    """Return a number as a record has it; None is unknown."""
    return Unknown(because) if value is None else Known(value)


def listed(items: tuple[Item, ...] | None, because: str = "") -> Fact[tuple[Item, ...]]:
    """Return a list as a record has it; None is unknown, an empty one known to be none."""
    if items is None:
        return Unknown(because)
    return Known(items) if items else Nothing()


def items_of(fact: Fact[tuple[Item, ...]]) -> tuple[Item, ...] | Unknown:
    """Return the items, none of them where that is known."""
    match fact:
        case Known(value):
            return value
        case Nothing():
            return ()
        case Unknown():
            return fact


def stored(fact: Fact[tuple[Item, ...]]) -> tuple[Item, ...] | None:
    """Return a list as a record has it; for what keeps or shows it, not for what judges it."""
    found = items_of(fact)
    return None if isinstance(found, Unknown) else found


def value_or_none(fact: Measured[T]) -> T | None:
    """Return a number as a record has it; for what keeps or shows it, not for what judges it."""
    return fact.value if isinstance(fact, Known) else None


def joined(before: Fact[tuple[Item, ...]], more: Fact[tuple[Item, ...]]) -> Fact[tuple[Item, ...]]:
    """Add the items of a turn to those of the conversation before it; unknown where either is."""
    first, second = items_of(before), items_of(more)
    if isinstance(first, Unknown):
        return first
    return second if isinstance(second, Unknown) else listed(first + second)
