"""Reads test runs that `deepeval test run` keeps in a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from holodeck_action.extensions.results.stored import (
    FormatError,
    StoredCase,
    StoredCheck,
    StoredResults,
    StoredTrial,
    unit_score,
)
from holodeck_action.record.facts import Amount
from holodeck_action.record.record import ToolInvocation, Usage
from holodeck_action.record.serialization import to_plain
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.identity import canonical_json


class _Metric(Struct, frozen=True):
    name: str
    success: bool | None = None
    score: float | None = None
    reason: str | None = None
    error: str | None = None
    threshold: float | None = None


class _Tool(Struct, frozen=True):
    name: str
    arguments: Mapping[str, Any] | None = field(default=None, name="inputParameters")
    output: Any = None


class _Case(Struct, frozen=True):
    name: str
    success: bool | None = None
    input: Any = ""
    answer: str | None = field(default=None, name="actualOutput")
    expected: str | None = field(default=None, name="expectedOutput")
    metrics: Sequence[_Metric] | None = field(default=None, name="metricsData")
    tools: Sequence[_Tool] | None = field(default=None, name="toolsCalled")
    cost: Amount | None = field(default=None, name="tokenCost")
    seconds: Amount | None = field(default=None, name="completionTime")


class Document(Struct, frozen=True):
    """The document of a test run."""

    cases: Sequence[_Case] = field(name="testCases")
    conversations: Sequence[Any] = field(default=(), name="conversationalTestCases")
    file: str | None = field(default=None, name="testFile")
    passed: int | None = field(default=None, name="testPassed")
    failed: int | None = field(default=None, name="testFailed")


def read_document(document: Document, file: str) -> StoredResults:
    """Return the results of a test run, which does not say how many cases there should be.

    Raises:
        FormatError: it has conversations, which are not read, or lacks cases.
    """
    if document.conversations:
        raise FormatError("has conversational test cases, which are not read; evaluate them in another test run")
    if (document.passed or 0) + (document.failed or 0) > len(document.cases):
        raise FormatError(f"is incomplete: it counts more test cases than the {len(document.cases)} that it holds")
    groups: dict[bytes, list[_Case]] = {}
    for case in document.cases:
        groups.setdefault(canonical_json([case.name, case.input, case.expected]), []).append(case)
    source = SourceMark(document.file or file, 1, 1)
    return StoredResults(
        program="DeepEval",
        suite=document.file or "",
        target=document.file or "",
        cases=[_case(group, source) for group in groups.values()],
    )


def _case(group: Sequence[_Case], source: SourceMark) -> StoredCase:
    first = group[0]
    question = first.input if isinstance(first.input, str) else canonical_json(first.input).decode()
    return StoredCase(
        name=first.name,
        question=question,
        asked=[question, first.expected],
        source=source,
        trials=tuple(_trial(case) for case in group),
        repeat=len(group),
        expected=first.expected,
    )


def _trial(case: _Case) -> StoredTrial:
    calls = None
    if case.tools is not None:
        calls = tuple(ToolInvocation(tool.name, tool.arguments or {}, to_plain(tool.output)) for tool in case.tools)
    return StoredTrial(
        answer=case.answer,
        checks=tuple(_checks(case)),
        calls=calls,
        usage=None if case.cost is None else Usage(cost_usd=case.cost),
        duration_ms=None if case.seconds is None else 1000 * case.seconds,
    )


def _checks(case: _Case) -> Iterator[StoredCheck]:
    for metric in case.metrics or ():
        # A metric that raised an error has success false, and no score.
        error = metric.error or ("" if metric.score is not None else "DeepEval has no score of this metric")
        yield StoredCheck(
            metric.name,
            "metric",
            None if error else metric.success,
            None if error else unit_score(metric.score),
            metric.reason or "",
            error,
            settings={} if metric.threshold is None else {"threshold": metric.threshold},
        )
    if not case.metrics and case.success is False:
        yield StoredCheck("DeepEval's verdict", "verdict", error="the test case failed without a metric")
