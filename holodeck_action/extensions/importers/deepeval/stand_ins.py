"""Stand-ins for DeepEval's classes and functions, which record what a test file constructs and checks.

This module runs in the process of `recorder`, with the standard library alone.
"""

from __future__ import annotations

import enum
import inspect
import itertools
import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

_MARK = f"\ufdd0{os.urandom(8).hex()}\ufdd1"
"""Stands in texts where a value is unknown. It is random, so that no file contains it."""
_OWN = os.path.dirname(os.path.dirname(__file__)) + os.sep
_STANDARD = os.path.dirname(os.__file__) + os.sep
_MOST_CASES = 100_000
"""Most cases of one check."""
SINGLE_TURN = frozenset({"LLMTestCase", "MLLMTestCase", "Golden"})
"""Names of the classes of cases with one question."""
CONVERSATIONS = frozenset({"ConversationalTestCase", "ConversationalGolden"})
"""Names of the classes of cases with turns."""
_POSITIONAL: Mapping[str, Sequence[str]] = {
    "LLMTestCase": ("input", "actual_output", "expected_output", "context", "retrieval_context"),
    "Golden": ("input",),
    "ConversationalTestCase": ("turns",),
    "ConversationalGolden": ("scenario",),
    "Turn": ("role", "content"),
    "ToolCall": ("name",),
    "GEval": ("name",),
    "PatternMatchMetric": ("pattern", "ignore_case", "threshold"),
    "ToolCorrectnessMetric": ("available_tools", "threshold"),
    "Task": ("dataset", "setup", "solver", "cleanup", "scorer"),
    "Sample": ("input", "choices", "target", "id"),
    "FieldSpec": ("input", "target", "choices", "id"),
    "match": ("location",),
    "includes": ("ignore_case",),
    **dict.fromkeys(("system_message", "model_graded_qa", "model_graded_fact"), ("template",)),
}
_AT_RUN_TIME = "its value is known only at run time"


class UnknownValueError(Exception):
    """The code depends on a value that is known only at run time."""


class SkippedError(BaseException):
    """The file skips the rest of a test."""


class Unknown:
    """A value of another package. Everything computed from it is unknown."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Unknown:
        if name.startswith("__"):
            raise AttributeError(name)
        return UNKNOWN

    def __setattr__(self, name: str, value: Any) -> None:
        pass

    def _same(self, *args: Any, **kwargs: Any) -> Unknown:
        return UNKNOWN

    __call__ = __getitem__ = __add__ = __radd__ = __mod__ = __or__ = __ror__ = __sub__ = __mul__ = __truediv__ = _same
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __enter__ = _same  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __exit__(self, *args: Any) -> None:
        pass

    async def __aenter__(self) -> Unknown:
        return UNKNOWN

    async def __aexit__(self, *args: Any) -> None:
        pass

    def __await__(self) -> Generator[Any, None, Unknown]:
        yield from ()
        return UNKNOWN

    def _refuse(self, *args: Any) -> Any:
        raise UnknownValueError(_AT_RUN_TIME)

    __bool__ = __len__ = __iter__ = __next__ = __contains__ = __int__ = __float__ = __index__ = _refuse
    __aiter__ = __anext__ = _refuse

    def __str__(self) -> str:
        return _MARK

    def __format__(self, spec: str) -> str:
        return _MARK


UNKNOWN = Unknown()


class Passed:
    """What `metric.is_successful()` returns: true, and known to be the metric's own verdict."""


class Member(str):
    """A member of one of DeepEval's enumerations, by name."""


class Names:
    """An object whose attributes are made of their names, such as an enumeration or `pytest.mark`."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._make(name)


class Recorded:
    """An instance of one of DeepEval's classes, with its arguments and where it was constructed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        names = [*_POSITIONAL.get(type(self).__name__, ("threshold",)), *(f"positional {n}" for n in range(len(args)))]
        self.__dict__.update(zip(names, args, strict=False))
        self.__dict__.update(kwargs)
        RUN.objects.append(self)
        RUN.places[id(self)] = RUN.place()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None if type(self).__name__ in SINGLE_TURN | CONVERSATIONS else UNKNOWN

    def measure(self, test_case: Any = None, *args: Any, **kwargs: Any) -> Unknown:
        """Record a check of a case by this metric."""
        RUN.add_check("measure", test_case, [self])
        return UNKNOWN

    async def a_measure(self, test_case: Any = None, *args: Any, **kwargs: Any) -> Unknown:
        """Record a check of a case by this metric."""
        return self.measure(test_case)

    def is_successful(self) -> Passed:
        """Return the metric's own verdict."""
        return Passed()


class Dataset:
    """The stand-in for `EvaluationDataset`."""

    def __init__(self, goldens: Any = (), test_cases: Any = (), **kwargs: Any) -> None:
        self.goldens = [*goldens]
        self.test_cases = [*test_cases]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.test_cases or self.goldens)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("add_", "pull", "generate_")):
            raise UnknownValueError(f"{name} adds cases only at run time")
        if name.startswith("__"):
            raise AttributeError(name)
        return UNKNOWN

    def add_golden(self, golden: Any) -> None:
        """Add a golden."""
        self.goldens.append(golden)

    def add_test_case(self, test_case: Any) -> None:
        """Add a test case."""
        self.test_cases.append(test_case)

    def add_goldens_from_json_file(self, file_path: Any, **names: Any) -> None:
        """Add the goldens of a JSON file, whose keys may have other names: `input_key_name` and so on."""
        with open(file_path, encoding="utf-8") as file:
            rows = json.load(file)
        keys = {key.removesuffix("_key_name"): name for key, name in names.items() if key.endswith("_key_name")}
        for row in rows:
            renamed = {field: row[name] for field, name in keys.items() if name in row}
            self.add_golden(stand_in_class("Golden")(**{**row, **renamed}))

    def evaluate(self, metrics: Any = None, **kwargs: Any) -> Unknown:
        """Record a check of all test cases."""
        RUN.add_check("evaluate", self, metrics)
        return UNKNOWN

    def evals_iterator(self, metrics: Any = None, **kwargs: Any) -> Iterator[Any]:
        """Record a check of all goldens, and yield them."""
        RUN.add_check("evals_iterator", self.goldens, metrics)
        yield from self.goldens


class Encoder:
    """Turns recorded values into JSON data. Instances are numbered, and listed once in each state."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._numbers: dict[int, int] = {}
        self.objects: list[dict[str, Any]] = []

    def value(self, value: Any) -> Any:
        """Return a value as JSON data: texts and numbers as they are, everything else as `{kind: …}`."""
        if isinstance(value, Member):
            return {"member": str(value)}
        if isinstance(value, enum.Enum):
            return self.value(value.value)
        if isinstance(value, str):
            return {"unknown": True} if _MARK in value else str(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {"map": [[str(key), self.value(item)] for key, item in value.items()]}
        return {"object": self.number(value)} if isinstance(value, Recorded) else {"unknown": True}

    def number(self, value: Recorded) -> int:
        """Return the number of an instance in its present state."""
        kind = type(value)
        made = {
            "kind": kind.__name__,
            "own": kind.__module__ != "deepeval",
            "place": self._run.places[id(value)],
            "given": {key: self.value(item) for key, item in vars(value).items()},
        }
        number = self._numbers.get(id(value))
        if number is None or self.objects[number] != made:
            number = self._numbers[id(value)] = len(self.objects)
            self.objects.append(made)
        return number


class Run:
    """What is recorded, and where the code is that runs."""

    def __init__(self) -> None:
        self.folder = ""
        self.names: Sequence[str] = ()
        self.function = ""
        self.refused = ""
        self.objects: list[Recorded] = []
        self.places: dict[int, Sequence[Any]] = {}
        self.checks: list[dict[str, Any]] = []
        self.encoder = Encoder(self)

    def place(self) -> Sequence[Any]:
        """Return file, line and column of the code of the checkout that is running."""
        frame = inspect.currentframe()
        while frame is not None and not self._is_own(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return ("", 1, 1)
        line, _, column, _ = next(
            itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None, None, None, None)
        )
        return (self.shown(frame.f_code.co_filename), line or frame.f_lineno, (column or 0) + 1)

    def shown(self, file: str) -> str:
        """Return a path relative to the folder of the test file."""
        return os.path.relpath(file, self.folder)

    def _is_own(self, file: str) -> bool:
        return os.path.isabs(file) and not file.startswith(_OWN) and not file.startswith(_STANDARD)

    def add_check(self, what: str, cases: Any, metrics: Any, note: str = "") -> None:
        """Record a check.

        Args:
            what: what the file calls.
            cases: a case, several or a dataset; None if they exist only at run time.
            metrics: the metrics; None if there are none.
            note: why the check cannot be imported.
        """
        if isinstance(cases, Dataset):
            cases = [*cases]
        elif isinstance(cases, Recorded):
            cases = [cases]
        self._add(what, self.place(), cases, metrics, note or self.refused)

    def add_task(self, value: Recorded) -> None:
        """Record what a function with `@task` of Inspect returns."""
        self._add("task", self.places[id(value)], [value], None, self.refused)

    def stop(self, place: Sequence[Any], what: str, error: BaseException) -> None:
        """Record that code ended with an error, after which nothing of it is checked."""
        known = isinstance(error, UnknownValueError | SkippedError)
        reason = str(error) if known else f"the code raises {type(error).__name__}: {str(error)[:200]}"
        self._add(what, place, None, None, reason)

    def _add(self, what: str, place: Sequence[Any], cases: Any, metrics: Any, note: str) -> None:
        if isinstance(cases, list) and len(cases) > _MOST_CASES:
            raise UnknownValueError(f"it checks more than {_MOST_CASES:,} cases; split it")
        # Encoded at once, because the file may change a case later.
        values = {"cases": self.encoder.value(cases), "metrics": self.encoder.value(metrics)}
        self.checks.append({"what": what, "function": self.function, "place": place, "note": note, **values})


RUN = Run()
_CLASSES: dict[str, type[Recorded]] = {}


def stand_in_class(name: str) -> type[Recorded]:
    """Return the stand-in for a class of DeepEval; always the same one for a name."""
    if name not in _CLASSES:
        _CLASSES[name] = type(name, (Recorded,), {"__module__": "deepeval"})
    return _CLASSES[name]


def assert_test(test_case: Any = None, metrics: Any = None, golden: Any = None, *args: Any, **kwargs: Any) -> None:
    """Record a check of a case, or of a golden that the application answers."""
    RUN.add_check("assert_test", golden if test_case is None else test_case, metrics)


def evaluate(test_cases: Any = None, metrics: Any = None, *args: Any, **kwargs: Any) -> Unknown:
    """Record a check of cases."""
    cases = kwargs.get("goldens") if test_cases is None else test_cases
    RUN.add_check("evaluate", cases, metrics)
    return UNKNOWN


def observe(*args: Any, **kwargs: Any) -> Any:
    """Return the decorated function itself."""
    return args[0] if args and callable(args[0]) else lambda function: function


DEEPEVAL: Mapping[str, Any] = {
    "assert_test": assert_test,
    "evaluate": evaluate,
    "observe": observe,
    "EvaluationDataset": Dataset,
}
CHECKS = frozenset({"assert_test", "evaluate", "evals_iterator", "measure", "a_measure"})
"""Names of the functions and methods that check something."""
