"""Code graders: Python functions of the repository that grade answers, called in worker processes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from msgspec.structs import fields
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.metrics.base import EvalParam, EvaluationResult, ParamSpec, Use
from holodeck_action.metrics.computed import ScoringMetric
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.exchange import Exchange
from holodeck_action.metrics.params import UNREPORTED
from holodeck_action.record.facts import items_or_none
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.model.base import FormatModel, NonBlank, Number
from holodeck_action.suite.model.metric_base import Role, ScopedMetric
from holodeck_action.text.plain import cut_start, make_storable
from holodeck_action.workers.code_errors import UserCodeError

if TYPE_CHECKING:
    from holodeck_action.workers.worker_process import Outcome

OUTPUT_SHOWN = 4096
"""Maximum characters of a grader's printed output in its evaluation; the last characters are kept."""

_PASS_MARK = 0.5
"""Lowest passing score, on the 0..1 scale, if the grader returns no verdict and the metric has no threshold."""


class Scale(FormatModel):
    """The setting `scale` of a code grader: the range of its scores."""

    min: Number
    """The lowest score. Example: `1`."""
    max: Number
    """The highest score. Example: `5`."""

    @model_validator(mode="after")
    def _check_order(self) -> Scale:
        if not self.min < self.max:
            raise PydanticCustomError("max", "must be above min")
        return self


class CodeMetric(ScopedMetric, ScoringMetric):
    """`type: code`: a Python function of the repository."""

    PLACE = 4
    IDENTIFYING_KEY = "grader"
    TAKES_CASE = True
    LIMITS_CALLS = True
    PARAM_SPEC = ParamSpec(
        required=frozenset({EvalParam.RESPONSE}),
        optional=frozenset(
            {
                EvalParam.QUERY,
                EvalParam.GROUND_TRUTH,
                EvalParam.RETRIEVAL_CONTEXT,
                EvalParam.TOOL_INVOCATIONS,
            }
        ),
        uses_retrieval_context=True,
    )

    type: Annotated[Literal["code"], Role.KIND] = "code"
    grader: Annotated[str, Field(pattern=r"^[\w.]+:\w+$"), Role.KIND]
    """The function, as `module.path:callable`, importable from the suite's folder. Example: `graders:polite`."""
    threshold: Annotated[Number | None, Role.PASS_MARK] = None
    """Lowest passing score, on the grader's own scale. The middle of the scale when absent. Example: `0.5`."""
    scale: Scale | None = None
    """The range of the grader's score; 0 to 1 when absent. Example: `{min: 1, max: 5}`."""
    pass_values: Annotated[Annotated[list[NonBlank], Field(min_length=1)] | None, Role.KIND] = None
    """The passing categories of a grader that returns a text. Example: `[good, excellent]`."""

    @model_validator(mode="after")
    def _check_threshold(self) -> CodeMetric:
        low, high = (self.scale.min, self.scale.max) if self.scale else (0.0, 1.0)
        if self.threshold is not None and not low <= self.threshold <= high:
            raise PydanticCustomError(
                "threshold",
                "threshold {threshold} is outside the range of the grader's scores (allowed: {low} to {high}; "
                "give `scale` if the grader uses another range)",
                {"threshold": f"{self.threshold:g}", "low": f"{low:g}", "high": f"{high:g}"},
            )
        return self

    def _can_fail(self) -> bool:
        return True

    def _lowest_score(self) -> float:
        return 0.0 if self.scale is None else self.scale.min

    @property
    def reads_expected_answer(self) -> bool:
        """True, because graders may read the expected answer."""
        return True

    @property
    def reads_turns(self) -> bool:
        """True, because graders may read earlier turns."""
        return True

    @property
    def measure(self) -> str:
        """The grader as `module.path:callable`."""
        return self.grader

    def base_name(self, k: int | None) -> str:
        """Return the callable's name."""
        return self.grader.rpartition(":")[2]

    @property
    def passing_categories(self) -> tuple[str, ...] | None:
        """The categories that pass, from `pass_values`; None if the setting is absent."""
        return tuple(self.pass_values) if self.pass_values else None

    @property
    def grader_callables(self) -> tuple[str, ...]:
        """A tuple with the grader as `module.path:callable`."""
        return (self.grader,)

    @property
    def evaluator_name(self) -> str:
        """The metric's name, or the callable's name if the metric is unnamed."""
        return self.name or self.grader.partition(":")[2]

    def version_with(self, use: Use) -> str:
        """Return `VERSION`. After the first call, a digest of the grader's file follows, if it is in the checkout."""
        return f"{self.VERSION}, code {use.code}" if use.code else self.VERSION

    def is_transient(self, error: Exception, attempts: int) -> bool:
        """Return whether the grader had a connection error or timeout, and retries are enabled."""
        cause = error.__cause__
        return isinstance(cause, UserCodeError) and cause.transient and attempts > 1

    async def grade(self, inputs: Mapping[str, Any], use: Use) -> EvaluationResult:
        """Call the grader, which is imported with its first call.

        If the function returns a number, it is a score from 0 to 1, or on the metric's `scale`. A boolean is a verdict.
        A category passes if it is in `pass_values`. A result without score is only an explanation. If the result has
        `passed`, that is the verdict; otherwise the answer passes if the score reaches the threshold (on the grader's
        own scale; by default the middle of the scale).

        The metadata contains the grader's `details`, and in `output` the end of its printed output, if these exist.

        Args:
            inputs: the parameters of `PARAM_SPEC`, and the turn's `turn_index`, `test_case_name`, `turn_config`,
                `turns`, `reported` (the metadata of the answers of all turns) and `session`.
            use: has the workers, and the maximum seconds of one call, not counting imports and the wait for a worker.
        """
        assert use.pool is not None
        retrieval_context, calls = inputs.get("retrieval_context"), inputs.get("tool_invocations")
        turns, session = inputs.get("turns", ()), inputs.get("session")
        reported = inputs.get("reported", (None,) * max(len(turns), 1))
        context = {
            "turn_input": inputs.get("query", ""),
            "agent_response": inputs["response"],
            "ground_truth": inputs.get("ground_truth"),
            "tool_invocations": None if calls is None else [_as_json(invocation) for invocation in calls],
            "retrieval_context": None if retrieval_context is None else list(retrieval_context),
            "turn_index": inputs.get("turn_index", 0),
            "test_case_name": inputs.get("test_case_name"),
            "turn_config": dict(inputs.get("turn_config", {})),
            "earlier_turns": [
                {**_turn_data(at, turn), "metadata": given, "session": session}
                for at, (turn, given) in enumerate(zip(turns[:-1], reported[:-1], strict=True))
            ],
            "metadata": reported[-1],
            "session": session,
        }
        try:
            if use.code is None:
                # Read first, so that failed calls report the same version at any concurrency.
                use.code = await source_version(use.pool.call, self.grader, use.timeout)
            outcome = await use.pool.call("grade", self.grader, {"context": context}, use.timeout)
        except UserCodeError as error:
            from holodeck_action.workers.grading import UNREPORTED_CALLS

            if error.code == UNREPORTED_CALLS:
                message = f"{self.grader} reads tool calls, but {UNREPORTED}"
                raise EvaluationError(
                    message, code="missing_input", context={"parameter": "tool_invocations"}
                ) from error
            raise error_of_user_code(error) from error
        return self._result(make_storable(outcome.value), cut_start(outcome.output, OUTPUT_SHOWN))

    def _result(self, grade: Any, output: str) -> EvaluationResult:
        score, verdict, reason, details, confidence = self._check_grade(grade)
        metadata: dict[str, Any] = {}
        if details is not None:
            metadata["details"] = details
        if output:
            metadata["output"] = output
        judged = self._scale_score(score)
        if verdict is not None:
            # The grader's own verdict takes precedence over the threshold.
            judged = _ScaledScore(verdict if score is None else judged.score, judged.raw, verdict)
        return EvaluationResult(
            score=judged.score,
            passed=judged.passed,
            reasoning=reason if reason and reason.strip() else self._default_reason(score, verdict),
            metric_name=self.evaluator_name,
            threshold=judged.threshold,
            raw_score=judged.raw,
            metadata=metadata,
            confidence=confidence,
        )

    def _check_grade(
        self, grade: Any
    ) -> tuple[bool | float | str | None, bool | None, str | None, dict[str, Any] | None, float | None]:
        """Return score, verdict, reason, details and confidence of a grade. Each is checked, since user code may have
        set invalid values.
        """
        match grade:
            case {"kind": "bare", "score": bool() | int() | float() | str() as score}:
                return score, None, None, None, None
            case {
                "kind": "verdict",
                "score": bool() | int() | float() | str() | None as score,
                "passed": bool() | None as verdict,
                "reason": str() | None as reason,
                "details": dict() | None as details,
                "confidence": int() | float() | None as confidence,
            }:
                return score, verdict, reason, details, confidence
            case _:
                raise self._make_error("its process sent an invalid grade", "bad_answer")

    def _scale_score(self, score: bool | float | str | None) -> _ScaledScore:
        match score:
            case None:
                return _ScaledScore(None)
            case bool():
                return _ScaledScore(score, passed=score)
            case str():
                if self.pass_values is None:
                    raise self._make_error(
                        "grader returned unsupported type str (a category needs pass_values in the metric)",
                        "unsupported_type",
                    )
                return _ScaledScore(score, passed=score in self.pass_values)
            case _:
                return self._scale_number(score)

    def _scale_number(self, score: float) -> _ScaledScore:
        scale, threshold = self.scale, self.threshold
        low, high = (0.0, 1.0) if scale is None else (scale.min, scale.max)
        # Compared before conversion, because an integer may be too large for a float. NaN fails this check.
        if not low <= score <= high:
            hint = "; give the metric a `scale` if the grader uses another range" if scale is None else ""
            raise self._make_error(
                f"grader returned the score {score!r:.40}, which is not from {low:g} to {high:g}{hint}", "invalid_score"
            )
        if scale is None and threshold is not None:
            return _ScaledScore(float(score), threshold=threshold)
        normalised = min(1.0, (score - low) / (high - low))
        passed = normalised >= _PASS_MARK if threshold is None else score >= threshold
        return _ScaledScore(normalised, None if scale is None else float(score), passed)

    def _default_reason(self, score: bool | float | str | None, verdict: bool | None) -> str:
        """Return a description of the grade, which is used if the grader gives no reason."""
        given = "no score" if score is None else repr(score)
        said = f"{self.grader} gave {given}"
        if verdict is not None:
            return f"{said} and passed={verdict}"
        if score is None or isinstance(score, bool):
            return said
        if isinstance(score, str):
            return f"{said}; the passing values are {', '.join(self.pass_values or ())}"
        if self.threshold is not None:
            return f"{said}; the threshold is {self.threshold:g}"
        scale = self.scale
        mark = _PASS_MARK if scale is None else scale.min + _PASS_MARK * (scale.max - scale.min)
        return f"{said}; without a threshold {mark:g} passes"

    def _make_error(self, message: str, code: str) -> EvaluationError:
        return EvaluationError(f"{self.grader}: {message}", code=code)


async def source_version(call: Callable[..., Awaitable[Outcome]], reference: str, timeout_s: float | None) -> str:
    """Return the digest of the suite's code to which a reference points (see `grading.source_digest`); `call` is the
    method `call` of a `WorkerPool` or `Lease`."""
    source = await call("source", reference, {}, timeout_s)
    # User code may have forged it.
    return str(source.value) if re.fullmatch("[0-9a-f]{12}", str(source.value)) else ""


def error_of_user_code(error: UserCodeError) -> EvaluationError:
    """Convert an error of user code to the error of its evaluation."""
    facts = error.context
    if error.output:
        facts["output"] = cut_start(error.output, OUTPUT_SHOWN)
    return EvaluationError(error.message, code=error.code, context=facts)


class _ScaledScore(NamedTuple):
    """A grader's score, converted to the form that the record stores.

    Attributes:
        score: score on the 0..1 scale, or a boolean, a category or None.
        raw: score on the grader's own scale; None if this is the 0..1 scale.
        passed: verdict; None if `threshold` decides, or if there is no verdict.
        threshold: lowest passing score on the 0..1 scale; None if it does not apply.
    """

    score: bool | float | str | None
    raw: float | None = None
    passed: bool | None = None
    threshold: float | None = None


def _turn_data(index: int, turn: Exchange) -> dict[str, Any]:
    calls, texts = items_or_none(turn.calls), items_or_none(turn.texts)
    return {
        "turn_input": turn.input,
        "agent_response": turn.response,
        "tool_invocations": None if calls is None else [_as_json(call) for call in calls],
        "retrieval_context": None if texts is None else list(texts),
        "turn_index": index,
    }


def _as_json(invocation: ToolInvocation) -> dict[str, Any]:
    return {field: getattr(invocation, field) for field in _INVOCATION_FIELDS}


_INVOCATION_FIELDS = tuple(field.name for field in fields(ToolInvocation))
