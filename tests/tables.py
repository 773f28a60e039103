"""Tables whose rows are checked in one test, and pairs of columns."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import pytest

A = TypeVar("A")
B = TypeVar("B")
Test = Callable[..., None]


def sides(first: Sequence[A], second: Sequence[B]) -> list[tuple[A, B]]:
    """Return N + M - 1 of the N × M pairs: all of each side, with the first of the other."""
    return [*((one, second[0]) for one in first), *((first[0], other) for other in second[1:])]


def walk(columns: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Return a decorator that makes one test of all rows, which share its fixtures but for a `tmp_path` each.

    It takes what `parametrize` takes, and is for rows that cost little beside what pytest does for a test. All rows are
    tried: the test raises what failed as one group, each with a note that has its row.
    """
    names = (columns,) if isinstance(columns, str) else columns
    table = [(row,) if isinstance(columns, str) else row for row in rows]

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def walked(**fixtures: Any) -> None:
            failed: list[Exception] = []
            for number, row in enumerate(table):
                given = {**fixtures, **dict(zip(names, row, strict=True))}
                if "tmp_path" in fixtures:
                    given["tmp_path"] = fixtures["tmp_path"] / str(number)
                    given["tmp_path"].mkdir()
                try:
                    test(**given)
                except Exception as error:
                    error.add_note(f"in the row {row}")
                    failed.append(error)
                except pytest.fail.Exception as error:
                    # This may be the time limit, which is gone for the other rows.
                    error.add_note(f"in the row {row}")
                    raise
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(table)} rows", failed)

        signature = inspect.signature(test)
        others = [parameter for name, parameter in signature.parameters.items() if name not in names]
        vars(walked)["__signature__"] = signature.replace(parameters=others)
        return walked

    return decorate
