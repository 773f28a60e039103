"""Reads test runs that `deepeval test run` keeps in a folder."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from holodeck_action.extensions.results.stored import (
    Definition,
    FormatError,
    StoredCase,
    StoredCheck,
    StoredResults,
    StoredTrial,
    scored_check,
    unit_score,
)
from holodeck_action.record.facts import Amount, Count
from holodeck_action.record.record import ToolInvocation, Usage
from holodeck_action.record.serialization import to_plain
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.identity import canonical_json
from holodeck_action.text.lazy_patterns import lazy_pattern

_REPETITION = lazy_pattern(r"(.+)([\[-])(\d{1,4})-(\d{1,4})\]")
"""The name of a test's repetition: pytest-repeat writes its number and how many there are behind the parameters."""


class _Metric(Struct, frozen=True):
    name: str
    success: bool | None = None
    score: float | None = None
    reason: str | None = None
    error: str | None = None
    threshold: float | None = None
    flaky: bool = False


class _Expectations(Struct, frozen=True):
    success: bool | None = None
    score: float | None = None
    reason: str | None = None
    error: str | None = None


class _Tool(Struct, frozen=True):
    name: str
    arguments: Mapping[str, Any] | None = field(default=None, name="inputParameters")
    output: Any = None


class _Turn(Struct, frozen=True):
    role: str
    content: str = ""
    tools: Sequence[_Tool] | None = field(default=None, name="toolsCalled")


class _Graded(Struct, frozen=True, kw_only=True):
    name: str
    success: bool | None = None
    flaky: bool = False
    metrics: Sequence[_Metric] | None = field(default=None, name="metricsData")
    expectations: _Expectations | None = field(default=None, name="expectationsData")


class _Case(_Graded, frozen=True, kw_only=True):
    input: Any = ""
    answer: str | None = field(default=None, name="actualOutput")
    expected: str | None = field(default=None, name="expectedOutput")
    tools: Sequence[_Tool] | None = field(default=None, name="toolsCalled")
    cost: Amount | None = field(default=None, name="tokenCost")
    prompt_tokens: Count | None = field(default=None, name="inputTokenCount")
    completion_tokens: Count | None = field(default=None, name="outputTokenCount")
    seconds: Amount | None = field(default=None, name="completionTime")

    @property
    def question(self) -> str:
        """The input as text."""
        return self.input if isinstance(self.input, str) else canonical_json(self.input).decode()

    @property
    def trial(self) -> StoredTrial:
        """The answer, without its grades."""
        return StoredTrial(
            answer=self.answer,
            calls=None if self.tools is None else tuple(map(_call, self.tools)),
            usage=Usage(self.prompt_tokens, self.completion_tokens, self.cost),
            duration_ms=None if self.seconds is None else 1000 * self.seconds,
        )


class _Conversation(_Graded, frozen=True, kw_only=True):
    turns: Sequence[_Turn] = ()
    scenario: str | None = None
    expected: str | None = field(default=None, name="expectedOutcome")

    @property
    def _answered(self) -> bool:
        return bool(self.turns) and self.turns[-1].role == "assistant"

    @property
    def question(self) -> str:
        """Everything before the last answer."""
        turns = self.turns[:-1] if self._answered else self.turns
        return "\n".join(f"{turn.role}: {turn.content}" for turn in turns)

    @property
    def trial(self) -> StoredTrial:
        """The last answer, and the calls of the whole conversation, without grades."""
        calls = [call for turn in self.turns for call in turn.tools or ()]
        known = any(turn.tools is not None for turn in self.turns)
        return StoredTrial(
            answer=self.turns[-1].content if self._answered else None,
            calls=tuple(map(_call, calls)) if known else None,
        )


class Document(Struct, frozen=True):
    """The document of a test run."""

    cases: Sequence[_Case] = field(name="testCases")
    conversations: Sequence[_Conversation] = field(default=(), name="conversationalTestCases")
    file: str | None = field(default=None, name="testFile")
    passed: int | None = field(default=None, name="testPassed")
    failed: int | None = field(default=None, name="testFailed")


def read_document(document: Document, file: str, marks: Mapping[str, float]) -> StoredResults:
    """Return the results of a test run, which does not say how many cases there should be.

    Args:
        document: the document.
        file: name of the file, for positions.
        marks: least passing score of a metric, by its name; under the empty name, of all others.

    Raises:
        FormatError: it lacks cases.
    """
    cases: list[_Case | _Conversation] = [*document.cases, *document.conversations]
    if (document.passed or 0) + (document.failed or 0) > len(cases):
        raise FormatError(f"is incomplete: it counts more test cases than the {len(cases)} that it holds")
    repeat = _repetitions([case.name for case in cases])
    groups: dict[bytes, list[_Case | _Conversation]] = {}
    for case in cases:
        groups.setdefault(canonical_json([_base_name(case.name, repeat), *_asked(case)]), []).append(case)
    tests = (document.file or "").partition("::")[0]
    source = SourceMark(tests, 1, 1) if tests.endswith(".py") else SourceMark(file, 1, 0)
    files = (glob.escape(tests), f"{glob.escape(tests)}/**/*.py") if tests else ()
    return StoredResults(
        program="DeepEval",
        suite=document.file or "",
        target=document.file or "",
        cases=[_stored(group, repeat, source, files, marks) for group in groups.values()],
    )


def _repetitions(names: Sequence[str]) -> int:
    """Return how often each test was run, from the names of tests without an explicit name; 1 if it is unknown."""
    found = [match for match in map(_REPETITION.fullmatch, names) if match is not None]
    counts = {int(match[4]) for match in found}
    repeat = min(counts, default=1)
    return repeat if len(counts) == 1 and all(0 < int(match[3]) <= repeat for match in found) else 1


def _base_name(name: str, repeat: int) -> str:
    """Return the name of a test without the number of its repetition."""
    match = _REPETITION.fullmatch(name) if repeat > 1 else None
    return name if match is None else match[1] + ("]" if match[2] == "-" else "")


def _asked(case: _Case | _Conversation) -> list[Any]:
    """Return the parts that identify the question; a conversation with a scenario has other words each time."""
    if isinstance(case, _Case):
        return [case.input, case.expected]
    return [case.scenario or [turn.content for turn in case.turns if turn.role == "user"], case.expected]


def _stored(
    group: Sequence[_Case | _Conversation],
    repeat: int,
    source: SourceMark,
    files: tuple[str, ...],
    marks: Mapping[str, float],
) -> StoredCase:
    first = group[0]
    name = _base_name(first.name, repeat)
    return StoredCase(
        name=name,
        question=first.question,
        asked=[first.question, first.expected] if isinstance(first, _Case) else _asked(first),
        source=source,
        trials=tuple(replace(case.trial, checks=tuple(_checks(case, marks))) for case in group),
        repeat=max(len(group), repeat),
        expected=first.expected,
        # A test case without an explicit name has that of its test.
        definition=Definition(files, name.partition("[")[0]),
    )


def _call(tool: _Tool) -> ToolInvocation:
    return ToolInvocation(tool.name, tool.arguments or {}, to_plain(tool.output))


def _checks(case: _Case | _Conversation, marks: Mapping[str, float]) -> Iterator[StoredCheck]:
    checks = [_check(metric, marks, asserts=not (metric.flaky or case.flaky)) for metric in case.metrics or ()]
    if case.expectations is not None:
        graded = case.expectations
        shown = _Metric("expectations", graded.success, graded.score, graded.reason, graded.error)
        checks.append(_check(shown, marks, asserts=not case.flaky))
    yield from checks
    explained = any(check.asserts and (check.error or check.passed is False) for check in checks)
    if case.success is False and not case.flaky and not explained:
        error = "" if checks else "DeepEval failed the test case without a metric"
        passed, reason = (False, "DeepEval failed the test case") if checks else (None, "")
        yield StoredCheck("DeepEval's verdict", "verdict", passed, None, reason, error)


def _check(metric: _Metric, marks: Mapping[str, float], *, asserts: bool) -> StoredCheck:
    # A metric that raised an error has success false, and no score.
    error = metric.error or ("" if metric.score is not None else "DeepEval has no score of this metric")
    settings = {} if metric.threshold is None else {"threshold": metric.threshold}
    if not error and metric.success is None:
        found = scored_check(metric.name, "metric", metric.score or 0.0, metric.reason or "", marks, settings)
        return replace(found, asserts=found.asserts and asserts)
    return StoredCheck(
        metric.name,
        "metric",
        None if error else metric.success,
        None if error else unit_score(metric.score),
        metric.reason or "",
        error,
        asserts=asserts,
        settings=settings,
    )
