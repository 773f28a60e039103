"""`Fact`: a value that a run reports. It is known (`Known`), known to be absent (`Nothing`), or not reported
(`Unknown`).

An unknown value must never lead to a pass, so code that computes verdicts must handle all three types. These types have
no truth value, length or items: `if fact` and `fact or ()` raise an error instead of treating unknown as absent. In a
record, `null` stands for unknown, and an empty list for known to be absent.
"""

from __future__ import annotations

from typing import Annotated, Generic, NoReturn, TypeAlias, TypeVar

from msgspec import Meta, Struct

T = TypeVar("T")
Item = TypeVar("Item")

LARGEST = 2**53
"""Largest absolute value of a number from outside: count, size, milliseconds, US dollars, score of a retriever.

Up to this value every JSON reader keeps whole numbers exact, and no sum over a run can overflow.
"""
Sum = TypeVar("Sum", int, float)
Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Amount = Annotated[float, Meta(ge=0, le=LARGEST)]
"""Milliseconds or US dollars."""
Rating = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
"""A number on another tool's scale."""


class _NoTruth(Struct, frozen=True):
    def __bool__(self) -> NoReturn:
        raise TypeError("a fact is neither true nor false; say what happens if it is unknown")


class Known(_NoTruth, Generic[T], frozen=True):
    """A value that is known; a list has at least one item."""

    value: T


class Nothing(_NoTruth, frozen=True):
    """Known to be absent: for example, no tool was called, nothing was retrieved, or the other run lacks the case."""


class Unknown(_NoTruth, frozen=True):
    """Not known; `because` is the reason in one sentence, or empty if no reason is known."""

    because: str = ""


Fact: TypeAlias = Known[T] | Nothing | Unknown
"""A value that is known, known to be absent, or unknown."""
Measured: TypeAlias = Known[T] | Unknown
"""A number that is known or unknown. `Nothing` is not needed, since zero expresses absence."""


def within_bounds(number: Sum | None) -> Sum | None:
    """Return an external number if it is between 0 and `LARGEST`, else None."""
    return number if number is not None and 0 <= number <= LARGEST else None


def measured_fact(value: T | None, reason: str = "") -> Measured[T]:
    """Return a number of a record as a fact; None becomes unknown."""
    return Unknown(reason) if value is None else Known(value)


def list_fact(items: tuple[Item, ...] | None, reason: str = "") -> Fact[tuple[Item, ...]]:
    """Return a list of a record as a fact; None becomes unknown, and an empty list becomes `Nothing`."""
    if items is None:
        return Unknown(reason)
    return Known(items) if items else Nothing()


def items_of(fact: Fact[tuple[Item, ...]]) -> tuple[Item, ...] | Unknown:
    """Return the items of a fact, an empty tuple if it is `Nothing`, or the fact itself if it is unknown."""
    match fact:
        case Known(value):
            return value
        case Nothing():
            return ()
        case Unknown():
            return fact


def items_or_none(fact: Fact[tuple[Item, ...]]) -> tuple[Item, ...] | None:
    """Return the items as a record stores them, None if unknown; for storage and display, not for decisions."""
    found = items_of(fact)
    return None if isinstance(found, Unknown) else found


def value_or_none(fact: Measured[T]) -> T | None:
    """Return a number as a record stores it, None if unknown; for storage and display, not for decisions."""
    return fact.value if isinstance(fact, Known) else None


def join_facts(first_fact: Fact[tuple[Item, ...]], second_fact: Fact[tuple[Item, ...]]) -> Fact[tuple[Item, ...]]:
    """Return a fact with the items of both facts; unknown if either fact is unknown."""
    first, second = items_of(first_fact), items_of(second_fact)
    if isinstance(first, Unknown):
        return first
    return second if isinstance(second, Unknown) else list_fact(first + second)
