"""Stand-ins for pytest, and the tests of a module, run as pytest would.

This module runs in the process of `recorder`, with the standard library alone.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from holodeck_action.extensions.importers.deepeval.stand_ins import (
    RUN,
    UNKNOWN,
    Names,
    Recorded,
    SkippedError,
    Unknown,
    UnknownValueError,
)

_EXPECTED_TO_FAIL = "the file expects this case to fail; write what the answer must be"
_SKIPPED = "the file skips it"


class Parameters:
    """`pytest.param`."""

    def __init__(self, *values: Any, marks: Any = (), id: Any = None) -> None:
        self.values = values
        self.marks = marks if isinstance(marks, list | tuple) else [marks]


class Mark:
    """A mark of pytest, which decorates a function or a class."""

    def __init__(self, name: str, args: Sequence[Any] = (), given: Mapping[str, Any] | None = None) -> None:
        self.name, self.args, self.given = name, args, given or {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Mark a function or class, or return a mark with arguments."""
        if len(args) == 1 and not kwargs and (inspect.isfunction(args[0]) or inspect.isclass(args[0])):
            marked: Any = args[0]
            marked.pytestmark = [*getattr(marked, "pytestmark", ()), self]
            return marked
        return Mark(self.name, args, kwargs)


class Raises:
    """`pytest.raises`: what is checked inside is expected to fail."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._before = ""

    def __enter__(self) -> Unknown:
        self._before, RUN.refused = RUN.refused, _EXPECTED_TO_FAIL
        return UNKNOWN

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        RUN.refused = self._before
        return isinstance(error, Exception)


def fixture(*args: Any, **kwargs: Any) -> Any:
    """Mark a function as a fixture."""

    def mark(function: Any) -> Any:
        function.is_fixture = True
        return function

    return mark(args[0]) if args and callable(args[0]) else mark


def skip(*args: Any, **kwargs: Any) -> None:
    """End the test."""
    raise SkippedError(_SKIPPED)


PYTEST: Mapping[str, Any] = {
    "mark": Names(Mark),
    "param": Parameters,
    "fixture": fixture,
    "raises": Raises,
    "skip": skip,
}


class Tests:
    """Runs the test functions of a module as pytest would."""

    def __init__(self, names: Mapping[str, Any], fixtures: Mapping[str, Any]) -> None:
        self._names = names
        self._fixtures = {**fixtures, **fixtures_of(names)}

    def run(self) -> None:
        """Run all tests."""
        marks = _listed(self._names.get("pytestmark", ()))
        for name, found in [*self._names.items()]:
            if inspect.isfunction(found) and (name.startswith("test") or getattr(found, "is_task", False)):
                self._run_function(found, partial(types.SimpleNamespace, **{name: found}), marks)
            elif inspect.isclass(found) and name.startswith("Test"):
                for inner, method in inspect.getmembers(found, inspect.isfunction):
                    if inner.startswith("test"):
                        marked = [*marks, *_listed(getattr(found, "pytestmark", ()))]
                        self._run_function(method, found, marked)

    def _run_function(self, function: Any, owner: Callable[[], Any], marks: Sequence[Mark]) -> None:
        """Run a test with each row of its parameters; `owner` makes what holds it."""
        RUN.function = function.__name__
        marks = [*marks, *getattr(function, "pytestmark", ())]
        try:
            for given, own_marks in [*_rounds(marks)]:
                RUN.refused = _refusal([*marks, *own_marks])
                called = getattr(owner(), function.__name__)
                try:
                    result = called(**{name: self._argument(name, given) for name in _parameters(called)})
                    if isinstance(result, Recorded) and getattr(function, "is_task", False):
                        RUN.add_task(result)
                    if inspect.iscoroutine(result):
                        asyncio.run(result)
                except (Exception, SystemExit, SkippedError) as error:  # noqa: BLE001 - it raises what it likes
                    _stop(function, error)
        except Exception as error:  # noqa: BLE001 - it raises what it likes
            _stop(function, error)
        RUN.function = RUN.refused = ""

    def _argument(self, name: str, given: Mapping[str, Any]) -> Any:
        """Return a parameter, or the value of a fixture; what pytest itself offers is unknown."""
        made = self._fixtures.get(name)
        if made is None:
            return given.get(name, UNKNOWN)
        inner = {**given, "request": types.SimpleNamespace(param=given.get(name, UNKNOWN))}
        value = made(**{each: self._argument(each, inner) for each in _parameters(made)})
        return next(value) if inspect.isgenerator(value) else value


def _stop(function: Any, error: BaseException) -> None:
    """Record that a test ended with an error, at its line."""
    code = function.__code__
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == code.co_filename]
    RUN.stop((RUN.shown(code.co_filename), (lines or [code.co_firstlineno])[0], 1), "code of the test", error)


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _parameters(function: Callable[..., Any]) -> Sequence[str]:
    found = inspect.signature(function).parameters.values()
    return [each.name for each in found if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD]


def _refusal(marks: Iterable[Any]) -> str:
    names = {mark.name for mark in marks if isinstance(mark, Mark)}
    if "xfail" in names:
        return _EXPECTED_TO_FAIL
    return _SKIPPED if "skip" in names else ""


def _rounds(marks: Sequence[Mark]) -> Iterator[tuple[dict[str, Any], Sequence[Any]]]:
    """Yield the parameters of each run of a test, with their marks."""
    axes = []
    for mark in marks:
        if mark.name == "parametrize":
            names, values = [*mark.args, *mark.given.values()][:2]
            listed = names.split(",") if isinstance(names, str) else names
            axes.append([_row([each.strip() for each in listed if each.strip()], value) for value in values])
    for rows in itertools.product(*axes):
        yield {key: item for row, _ in rows for key, item in row.items()}, [mark for _, found in rows for mark in found]


def _row(names: Sequence[str], value: Any) -> tuple[dict[str, Any], Sequence[Any]]:
    marks: Sequence[Any] = ()
    if isinstance(value, Parameters):
        value, marks = (value.values[0] if len(names) == 1 else value.values), value.marks
    values = [value] if len(names) == 1 else [*value]
    if len(names) != len(values):
        raise UnknownValueError("a row of its parameters has fewer or more values than names")
    return dict(zip(names, values, strict=True)), marks


def fixtures_of(names: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fixtures of a module by name."""
    return {name: found for name, found in names.items() if getattr(found, "is_fixture", False) is True}
