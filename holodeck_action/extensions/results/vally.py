"""Reads `results.jsonl` of Vally, whose lines are trials without a number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, convert, field

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
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.identity import canonical_json
from holodeck_action.text.plain import one_line

_TRIAL, _SUMMARY = "trial-result", "run-summary"
_STATUSES = ("success", "error", "skipped")
_SPECIFICATIONS = tuple(f"{'*/' * depth}eval.y*ml" for depth in range(5))
"""Patterns of the files that define stimuli; the results do not name theirs."""


class _Grade(Struct, frozen=True):
    name: str = "grade"
    kind: str = "grader"
    passed: bool | None = None
    score: float | None = None
    evidence: str | None = None
    timestamp: str | None = None
    details: Sequence[_Grade] | None = None
    metadata: Mapping[str, Any] | None = None


class _Stimulus(Struct, frozen=True):
    name: str
    prompt: str = ""


class _Event(Struct, frozen=True):
    type: str
    data: Mapping[str, Any] = {}


class _Tokens(Struct, frozen=True):
    prompt: Count | None = field(default=None, name="inputTokens")
    completion: Count | None = field(default=None, name="outputTokens")


class _Metrics(Struct, frozen=True):
    wall_ms: Amount | None = field(default=None, name="wallTimeMs")
    tokens: _Tokens | None = field(default=None, name="tokenUsage")


class _Trajectory(Struct, frozen=True):
    stimulus: _Stimulus
    id: str | None = None
    events: Sequence[_Event] | None = None
    metrics: _Metrics | None = None
    output: str | None = None
    metadata: Mapping[str, Any] | None = None
    ended: str | None = field(default=None, name="endReason")


class _Row(Struct, frozen=True):
    status: str
    stimulus: str = ""
    eval: str = field(default="", name="evalName")
    model: str | None = None
    variant: str | None = None
    error: Any = None
    grade: _Grade | None = field(default=None, name="gradeResult")
    trajectory: _Trajectory | None = None

    @property
    def name(self) -> str:
        """The name of the stimulus; that of the trajectory counts."""
        return self.trajectory.stimulus.name if self.trajectory else self.stimulus

    @property
    def arm(self) -> tuple[str, str]:
        """What answered: the model and the variant."""
        known = (self.trajectory.metadata if self.trajectory else None) or {}
        return self.model or str(known.get("model") or ""), self.variant or ""


def read_lines(values: Sequence[Any], file: str, marks: Mapping[str, float]) -> StoredResults:
    """Return the results in the lines of a file, which do not say how many there should be.

    Args:
        values: the values of the lines.
        file: name of the file, for positions.
        marks: least passing score of a grader, by its name; under the empty name, of all others.

    Raises:
        FormatError: a line has an unknown type or status, or a trajectory is there twice.
    """
    types = [value.get("type", _TRIAL) if isinstance(value, dict) else None for value in values]
    for number, found in enumerate(types, start=1):
        if found not in (_TRIAL, _SUMMARY):
            raise FormatError(f"line {number}: has the unknown type {found!r:.60} (known: {_TRIAL}, {_SUMMARY})")
    rows = [(at, convert(value, _Row)) for at, value in enumerate(values, start=1) if types[at - 1] == _TRIAL]
    groups: dict[bytes, list[tuple[int, _Row]]] = {}
    seen: set[str] = set()
    for number, row in rows:
        if row.status not in _STATUSES:
            known = ", ".join(_STATUSES)
            raise FormatError(f"line {number}: has the unknown status {one_line(row.status, 60)!r} (known: {known})")
        name = row.trajectory.id if row.trajectory else None
        if name is not None and name in seen:
            raise FormatError(f"line {number}: has the trajectory {one_line(name, 60)!r} of an earlier line, too")
        seen |= set() if name is None else {name}
        # Nothing numbers the trials: those of one stimulus are equal but for their order.
        groups.setdefault(canonical_json([row.eval, row.name, *row.arm]), []).append((number, row))
    arms = {row.arm for _, row in rows}
    typed = any(isinstance(value, dict) and "type" in value for value in values)
    return StoredResults(
        program="Vally",
        suite=", ".join(sorted({row.eval for _, row in rows if row.eval})),
        target=", ".join(sorted({" ".join(filter(None, arm)) for arm in arms})),
        cases=[_case(group, file, marks, with_arm=len(arms) > 1) for group in groups.values()],
        written=max((row.grade.timestamp or "" for _, row in rows if row.grade), default=""),
        stopped="" if not typed or _SUMMARY in types else "Vally's results have no summary of the run",
        evenly=True,
    )


def _case(group: Sequence[tuple[int, _Row]], file: str, marks: Mapping[str, float], *, with_arm: bool) -> StoredCase:
    number, first = group[0]
    prompt = next((row.trajectory.stimulus.prompt for _, row in group if row.trajectory), "")
    name = f"{first.eval}: {first.name}" if first.eval else first.name
    return StoredCase(
        name=f"{name} ({', '.join(filter(None, first.arm))})" if with_arm else name,
        question=prompt or "(the prompt is not in the results)",
        asked=[first.eval, first.name, prompt, *first.arm],
        source=SourceMark(file, number, 0),
        trials=tuple(_trial(row, marks) for _, row in group),
        repeat=len(group),
        definition=Definition(_SPECIFICATIONS, test={"name": first.name}),
    )


def _trial(row: _Row, marks: Mapping[str, float]) -> StoredTrial:
    # A trial in error has a grade with passed false and score 0, too.
    error = "" if row.status != "error" else _message(row.error) or "Vally reports an error without a message"
    trajectory = row.trajectory or _Trajectory(_Stimulus(row.name))
    metrics = trajectory.metrics or _Metrics()
    tokens = metrics.tokens or _Tokens()
    return StoredTrial(
        answer=None if error else trajectory.output,
        checks=() if error else tuple(_checks(row.grade if row.status == "success" else None, marks)),
        error=error,
        calls=None if trajectory.events is None else tuple(_calls(trajectory.events)),
        usage=Usage(tokens.prompt, tokens.completion),
        duration_ms=metrics.wall_ms,
        model=row.arm[0] or None,
        finish_reason=trajectory.ended,
    )


def _message(error: Any) -> str:
    return str(error.get("message") or "") if isinstance(error, dict) else str(error or "")


def _calls(events: Sequence[_Event]) -> Iterator[ToolInvocation]:
    results = {str(event.data.get("toolCallId")): event.data for event in events if event.type == "tool_result"}
    for call in (event.data for event in events if event.type == "tool_call"):
        result = results.get(str(call.get("toolCallId")), {})
        failed = result.get("success") is False
        given = call.get("arguments")
        yield ToolInvocation(
            str(call.get("toolName") or "unknown"),
            given if isinstance(given, dict) else {},
            None if failed else result.get("result"),
            error=_message(result.get("error") or result.get("result")) or "the tool failed" if failed else None,
        )


def _checks(grade: _Grade | None, marks: Mapping[str, float]) -> Iterator[StoredCheck]:
    if grade is None:
        yield StoredCheck("Vally's verdict", "verdict", error="Vally has no grade of this trial")
        return
    found = [_check(each, marks) for each in grade.details or (grade,)]
    yield from found
    failed = any(each.passed is False and each.asserts for each in found)
    errors = [each.error for each in found if each.error]
    unknown = errors[0] if errors and not failed else ""
    reason = "Vally failed the trial" if grade.passed is False else ""
    passed = None if unknown else grade.passed
    if grade.details and (unknown or passed is not None):
        yield StoredCheck("Vally's verdict", "verdict", passed, unit_score(grade.score), reason, unknown)


def _check(grade: _Grade, marks: Mapping[str, float]) -> StoredCheck:
    error = _message((grade.metadata or {}).get("error"))
    reason = grade.evidence or ""
    if not error and grade.passed is None and grade.score is not None:
        return scored_check(grade.name, grade.kind, grade.score, reason, marks)
    if not error and grade.passed is None:
        error = "Vally has no verdict of this grader"
    passed, score = (None, None) if error else (grade.passed, unit_score(grade.score))
    return StoredCheck(grade.name, grade.kind, passed, score, reason, error)
