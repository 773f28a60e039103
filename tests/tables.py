"""Tables whose rows are checked, alone or all in one test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")


def sides(first: Sequence[A], second: Sequence[B]) -> list[tuple[A, B]]:
    """Return N + M - 1 of the N × M pairs: all of each side, with the first of the other."""
    return [*((one, second[0]) for one in first), *((first[0], other) for other in second[1:])]


def check_rows(check: Callable[..., object], rows: Iterable[tuple[Any, ...]]) -> None:
    """Call `check` with each row, all of them; raises what failed as one group, each with a note that has its row."""
    failed: list[Exception] = []
    for row in rows:
        try:
            check(*row)
        except Exception as error:
            error.add_note(f"in the row {row}")
            failed.append(error)
    if failed:
        raise ExceptionGroup("rows of a table", failed)
