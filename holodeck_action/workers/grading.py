"""What code graders get and give: the contract of HoloDeck's evaluations guide, "Grader contract".

Served to graders as `holodeck.lib.test_runner.code_grader`. Imported inside the worker process: light on purpose.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from holodeck_action.workers.code_errors import CallError, Places
from holodeck_action.workers.json_values import Plain, scalar_of


@dataclass(frozen=True)
class ToolInvocation:
    """One tool call of the agent in this turn; `bytes` is the size of the result's text, `duration_ms` its time."""

    name: str
    args: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    bytes: int | None = None
    duration_ms: float | None = None
    error: str | None = None


@dataclass(frozen=True)
class GraderContext:
    """Everything a grader may look at, the same in single- and multi-turn cases.

    Attributes:
        turn_input: what the agent was asked.
        agent_response: what it answered.
        ground_truth: the expected answer; None when the turn has none.
        tool_invocations: the tool calls of this turn, in order.
        retrieval_context: the retrieved texts; None when there is no retrieval.
        turn_index: 0-based; 0 in single-turn cases.
        test_case_name: the case's name; None when it has none.
        turn_config: the turn's free-form settings; the grader's own copy.
    """

    turn_input: str
    agent_response: str
    ground_truth: str | None = None
    tool_invocations: tuple[ToolInvocation, ...] = ()
    retrieval_context: tuple[str, ...] | None = None
    turn_index: int = 0
    test_case_name: str | None = None
    turn_config: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GraderResult:
    """A grader's verdict.

    Attributes:
        score: 0..1, or as the metric's `scale` or `pass_values` say; None for an explanation without a score.
        passed: the verdict; None leaves it to the threshold.
        reason: one sentence for the reader.
        details: further facts, JSON values.
        confidence: how sure the grader is, 0..1; None when it says nothing.
    """

    score: bool | float | str | None
    passed: bool | None = None
    reason: str | None = None
    details: dict[str, Any] | None = None
    confidence: float | None = None


UNREPORTED_CALLS = "unreported_calls"
"""Code of the error that a grader gets who looks at tool calls of which the target says nothing."""


class _UnreportedCalls(GraderContext):
    """A context without tool calls, since nobody knows them: taking them for none would pass what may be wrong."""

    def __getattribute__(self, name: str) -> Any:
        if name != "tool_invocations":
            return super().__getattribute__(name)
        # Whatever the grader makes of the error, its grade will not count.
        self.__dict__["looked"] = True
        raise CallError(UNREPORTED_CALLS, "the target says nothing of tool calls")

    def __repr__(self) -> str:
        known = (each.name for each in fields(self) if each.name != "tool_invocations")
        return f"GraderContext({', '.join(f'{name}={getattr(self, name)!r}' for name in known)})"


_RESULT_FIELDS = ("score", "passed", "reason", "details")


def source_digest(reference: str, function: object, places: Places) -> str:
    """Return what tells a grader's code apart: 12 hex digits over the files of the checkout that have it.

    These are the module that it is named in and, where it comes from there, the one that defines it. Empty without any.
    """
    import hashlib

    names = (reference.partition(":")[0], getattr(function, "__module__", None))
    found = (getattr(sys.modules.get(name), "__file__", None) for name in names if isinstance(name, str))
    files = {file for file in found if isinstance(file, str) and places.shown(file) is not None}
    digests = []
    for file in files:
        with open(file, "rb") as source:
            # A checkout may have other line ends.
            digests.append(hashlib.sha256(source.read().replace(b"\r\n", b"\n")).hexdigest())
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()[:12] if digests else ""


def grade(call: Callable[[object], Any], payload: Mapping[str, Any], max_bytes: int) -> dict[str, Any]:
    """Call a grader.

    Args:
        call: calls the grader with its context and returns what it returned.
        payload: fields of `GraderContext` as JSON values; `tool_invocations` is null where they are not known.
        max_bytes: most bytes of reason and details together.

    Returns:
        `{kind: verdict, score, passed, reason, details, confidence}`, or `{kind: bare, score}` for a score on its own.

    Raises:
        CallError: the grader returned something that is no grade, or looked at tool calls that are not known (code
            `unreported_calls`).
    """
    context = _context(payload)
    try:
        returned = scalar_of(call(context))
    finally:
        if "looked" in context.__dict__:
            raise CallError(UNREPORTED_CALLS, "the target says nothing of tool calls")
    plain = Plain(max_bytes)
    if isinstance(returned, (bool, int, float, str)):
        return {"kind": "bare", "score": _score(returned, plain)}
    if not all(hasattr(returned, name) for name in _RESULT_FIELDS):
        raise CallError("unsupported_type", f"grader returned unsupported type {type(returned).__name__}")
    passed = scalar_of(returned.passed)
    if not (passed is None or isinstance(passed, bool)):
        raise CallError(
            "unsupported_type", f"the result's passed is of type {type(passed).__name__}, not True, False or None"
        )
    details = returned.details
    if not (details is None or isinstance(details, Mapping)):
        raise CallError("not_json", f"the result's details are of type {type(details).__name__}, not a mapping")
    return {
        "kind": "verdict",
        "score": _score(scalar_of(returned.score), plain),
        "passed": passed,
        "reason": None if returned.reason is None else plain.convert(str(returned.reason), "reason"),
        "details": None if details is None else plain.convert(details, "details"),
        "confidence": _confidence(scalar_of(getattr(returned, "confidence", None)), plain),
    }


def _confidence(confidence: Any, plain: Plain) -> float | None:
    if isinstance(confidence, float):
        return float(confidence)
    if confidence is None or (isinstance(confidence, int) and not isinstance(confidence, bool)):
        converted: int | None = plain.convert(confidence, "confidence")
        return converted
    raise CallError(
        "unsupported_type", f"the result's confidence is of type {type(confidence).__name__}, not a number or None"
    )


def _score(score: Any, plain: Plain) -> bool | float | str | None:
    if isinstance(score, float):
        # NaN and infinities are for the evaluator to refuse: it knows the scale.
        return float(score)
    if score is None or isinstance(score, (bool, int, str)):
        converted: bool | int | str | None = plain.convert(score, "score")
        return converted
    raise CallError("unsupported_type", f"the result's score is of unsupported type {type(score).__name__}")


def _context(payload: Mapping[str, Any]) -> GraderContext:
    retrieval_context, calls = payload["retrieval_context"], payload["tool_invocations"]
    kind = _UnreportedCalls if calls is None else GraderContext
    return kind(
        turn_input=payload["turn_input"],
        agent_response=payload["agent_response"],
        ground_truth=payload["ground_truth"],
        tool_invocations=tuple(ToolInvocation(**invocation) for invocation in calls or ()),
        retrieval_context=None if retrieval_context is None else tuple(retrieval_context),
        turn_index=payload["turn_index"],
        test_case_name=payload["test_case_name"],
        turn_config=payload["turn_config"],
    )
