"""Inputs and results of code graders, as the section "Grader contract" of HoloDeck's evaluations guide defines them.

Graders import them as `holodeck.lib.test_runner.code_grader`. Worker processes import this module, so it must import
nothing heavy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from holodeck_action.workers.code_errors import CallError, UserFolders
from holodeck_action.workers.json_values import PlainConverter, python_scalar


@dataclass(frozen=True)
class ToolInvocation:
    """One tool call of the agent; `bytes` is the size of the result's text, `duration_ms` the duration of the call."""

    name: str
    args: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    bytes: int | None = None
    duration_ms: float | None = None
    error: str | None = None


@dataclass(frozen=True)
class GraderContext:
    """The inputs of a grader. Single-turn and multi-turn cases have the same inputs.

    Attributes:
        turn_input: the user's message to the agent.
        agent_response: the agent's answer.
        ground_truth: the expected answer; None if the turn has no expected answer.
        tool_invocations: the tool calls of this turn, in order.
        retrieval_context: the retrieved texts; None if there is no retrieval.
        turn_index: 0-based index of the turn; 0 in single-turn cases.
        test_case_name: the case's name; None if it has no name.
        turn_config: a copy of the turn's free-form settings.
        earlier_turns: the earlier turns of the conversation, in order, with input, answer, tool calls and retrieved
            texts.
        metadata: further facts that the agent reported with the answer; None if it reported none.
        session: id of the conversation that the agent received; None if it received none, or if a recorded answer is
            graded again.
    """

    turn_input: str
    agent_response: str
    ground_truth: str | None = None
    tool_invocations: tuple[ToolInvocation, ...] = ()
    retrieval_context: tuple[str, ...] | None = None
    turn_index: int = 0
    test_case_name: str | None = None
    turn_config: dict[str, Any] = field(default_factory=dict)
    earlier_turns: tuple[GraderContext, ...] = ()
    metadata: dict[str, Any] | None = None
    session: str | None = None

    @property
    def workspace(self) -> dict[str, Any] | None:
        """What a coding agent left in its workspace: `changed`, `difference`, `files`, `commands`; None if unknown."""
        return (self.metadata or {}).get("workspace")


@dataclass(frozen=True)
class GraderResult:
    """A grader's verdict.

    Attributes:
        score: 0..1, or a value allowed by the metric's `scale` or `pass_values`; None if there is only an explanation.
        passed: the verdict; None if the metric's threshold decides.
        reason: explanation of the score in one sentence.
        details: further data as JSON values.
        confidence: the grader's confidence, 0..1; None if it is not known.
    """

    score: bool | float | str | None
    passed: bool | None = None
    reason: str | None = None
    details: dict[str, Any] | None = None
    confidence: float | None = None


UNREPORTED_CALLS = "unreported_calls"
"""Code of the error if a grader reads tool calls, but the target does not report them."""


class _UnreportedCalls(GraderContext):
    """A context whose tool calls are unknown. Reading the tool calls raises an error, since an empty list could make a
    wrong answer pass."""

    def __getattribute__(self, name: str) -> Any:
        if name != "tool_invocations":
            return super().__getattribute__(name)
        # Even if the grader catches the error, its grade will not count.
        self.__dict__["tool_calls_read"] = True
        raise CallError(UNREPORTED_CALLS, "the target does not report tool calls")

    def __repr__(self) -> str:
        known = (each.name for each in fields(self) if each.name != "tool_invocations")
        return f"GraderContext({', '.join(f'{name}={getattr(self, name)!r}' for name in known)})"


_RESULT_FIELDS = ("score", "passed", "reason", "details")


def source_digest(reference: str, function: object, user_folders: UserFolders) -> str:
    """Return the digest (12 hex digits) of a grader's source files in the checkout; empty if there are none.

    The files are the module in the reference, and the module in which the function is defined.
    """
    import hashlib

    names = (reference.partition(":")[0], getattr(function, "__module__", None))
    found = (getattr(sys.modules.get(name), "__file__", None) for name in names if isinstance(name, str))
    files = {file for file in found if isinstance(file, str) and user_folders.relative_path(file) is not None}
    digests = []
    for file in files:
        with open(file, "rb") as source:
            # Line ends may differ between checkouts.
            digests.append(hashlib.sha256(source.read().replace(b"\r\n", b"\n")).hexdigest())
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()[:12] if digests else ""


def grade(call_grader: Callable[[object], Any], payload: Mapping[str, Any], max_bytes: int) -> dict[str, Any]:
    """Call a grader and check its result.

    Args:
        call_grader: calls the grader with a context and returns the grader's result.
        payload: fields of `GraderContext` as JSON values; `tool_invocations` is None if the calls are not known.
        max_bytes: maximum size of reason and details together, in bytes.

    Returns:
        `{kind: verdict, score, passed, reason, details, confidence}`, or `{kind: bare, score}` if the grader returned
        only a score.

    Raises:
        CallError: the grader returned an invalid result, or read tool calls that are not known (code
            `unreported_calls`).
    """
    context = _build_context(payload)
    try:
        returned = python_scalar(call_grader(context))
    finally:
        if any("tool_calls_read" in each.__dict__ for each in (context, *context.earlier_turns)):
            raise CallError(UNREPORTED_CALLS, "the target does not report tool calls")
    plain = PlainConverter(max_bytes)
    if isinstance(returned, (bool, int, float, str)):
        return {"kind": "bare", "score": _check_score(returned, plain)}
    if not all(hasattr(returned, name) for name in _RESULT_FIELDS):
        raise CallError("unsupported_type", f"grader returned unsupported type {type(returned).__name__}")
    passed = python_scalar(returned.passed)
    if not (passed is None or isinstance(passed, bool)):
        raise CallError(
            "unsupported_type", f"the result's passed is of type {type(passed).__name__}, not True, False or None"
        )
    details = returned.details
    if not (details is None or isinstance(details, Mapping)):
        raise CallError("not_json", f"the result's details are of type {type(details).__name__}, not a mapping")
    return {
        "kind": "verdict",
        "score": _check_score(python_scalar(returned.score), plain),
        "passed": passed,
        "reason": None if returned.reason is None else plain.convert(str(returned.reason), "reason"),
        "details": None if details is None else plain.convert(details, "details"),
        "confidence": _check_confidence(python_scalar(getattr(returned, "confidence", None)), plain),
    }


def _check_confidence(confidence: Any, converter: PlainConverter) -> float | None:
    if isinstance(confidence, float):
        return float(confidence)
    if confidence is None or (isinstance(confidence, int) and not isinstance(confidence, bool)):
        converted: int | None = converter.convert(confidence, "confidence")
        return converted
    raise CallError(
        "unsupported_type", f"the result's confidence is of type {type(confidence).__name__}, not a number or None"
    )


def _check_score(score: Any, converter: PlainConverter) -> bool | float | str | None:
    if isinstance(score, float):
        # The evaluator, which knows the scale, refuses NaN and infinities.
        return float(score)
    if score is None or isinstance(score, (bool, int, str)):
        converted: bool | int | str | None = converter.convert(score, "score")
        return converted
    raise CallError("unsupported_type", f"the result's score is of unsupported type {type(score).__name__}")


def _build_context(payload: Mapping[str, Any]) -> GraderContext:
    retrieval_context, calls = payload["retrieval_context"], payload["tool_invocations"]
    kind = _UnreportedCalls if calls is None else GraderContext
    return kind(
        turn_input=payload["turn_input"],
        agent_response=payload["agent_response"],
        ground_truth=payload.get("ground_truth"),
        tool_invocations=tuple(ToolInvocation(**invocation) for invocation in calls or ()),
        retrieval_context=None if retrieval_context is None else tuple(retrieval_context),
        turn_index=payload["turn_index"],
        test_case_name=payload.get("test_case_name"),
        turn_config=payload.get("turn_config", {}),
        earlier_turns=tuple(map(_build_context, payload.get("earlier_turns", ()))),
        metadata=payload.get("metadata"),
        session=payload.get("session"),
    )
