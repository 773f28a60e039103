"""Code graders: the repository's own Python, called in a worker process."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from msgspec.structs import fields
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.metrics.base import BaseEvaluator, Building, EvalParam, EvaluationResult, ParamSpec, RetryConfig
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import UNREPORTED
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.model.base import FormatModel, NonBlank, Number
from holodeck_action.suite.model.metric_base import Metric, Role
from holodeck_action.text.plain import cut_before, storable
from holodeck_action.workers.code_errors import UserCodeError

if TYPE_CHECKING:
    from holodeck_action.workers.pool import WorkerPool

_OUTPUT_SHOWN = 4096
"""Characters of a grader's output kept with its evaluation: the last ones."""

_PASS_MARK = 0.5
"""Lowest passing score, on the 0..1 scale, of a grader that neither gives a verdict nor has a threshold."""


class Scale(FormatModel):
    """`scale` of a code grader."""

    min: Number
    """The lowest score. Example: `1`."""
    max: Number
    """The highest score. Example: `5`."""

    @model_validator(mode="after")
    def _ordered(self) -> Scale:
        if not self.min < self.max:
            raise PydanticCustomError("max", "must be above min")
        return self


class CodeMetric(Metric):
    """`type: code`: a Python function of the repository."""

    PLACE = 4
    TOLD_BY = "grader"
    TAKES_CASE = True

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
    def _threshold_within_scale(self) -> CodeMetric:
        low, high = (self.scale.min, self.scale.max) if self.scale else (0.0, 1.0)
        if self.threshold is not None and not low <= self.threshold <= high:
            raise PydanticCustomError(
                "threshold",
                "threshold {threshold} is outside the grader's scores, so it would decide nothing (allowed: {low} to "
                "{high}; give `scale` when the grader scores on another range)",
                {"threshold": f"{self.threshold:g}", "low": f"{low:g}", "high": f"{high:g}"},
            )
        return self

    def _can_fail(self) -> bool:
        return True

    def _lowest_score(self) -> float:
        return 0.0 if self.scale is None else self.scale.min

    @property
    def measure(self) -> str:
        """The callable with its module."""
        return self.grader

    def base_name(self, k: int | None) -> str:
        """Return the callable's name."""
        return self.grader.rpartition(":")[2]

    @property
    def passing_categories(self) -> tuple[str, ...] | None:
        """The passing categories."""
        return tuple(self.pass_values) if self.pass_values else None

    @property
    def grader_callables(self) -> tuple[str, ...]:
        """The grader."""
        return (self.grader,)

    def evaluator(self, building: Building) -> CodeGraderEvaluator:
        """Return what scores."""
        assert building.pool is not None
        return CodeGraderEvaluator(self, building.pool, **building.options)


class CodeGraderEvaluator(BaseEvaluator):
    """Scores a turn with `module.path:callable`.

    A number is a score from 0 to 1, or on the metric's `scale`; a boolean stays one and is the verdict; a category is
    judged by `pass_values`; a result without a score is an explanation only. The verdict is the result's own `passed`,
    else whether the score reaches the threshold (on the grader's own scale; half of the scale without one).

    The result's metadata holds `details` (the grader's) and `output` (the end of what it printed), if there are any.
    """

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

    def __init__(
        self,
        config: CodeMetric,
        pool: WorkerPool,
        timeout: float | None = 60.0,
        retry_config: RetryConfig | None = None,
    ) -> None:
        """Prepare the grader; it is imported by its first evaluation.

        Args:
            config: the metric's entry.
            pool: the workers it runs in.
            timeout: seconds one call of the grader may take, waiting for a free worker and imports excluded.
            retry_config: retries of calls that met connection trouble or a timeout inside the grader.
        """
        super().__init__(timeout=None, retry_config=retry_config)
        self._config = config
        self._pool = pool
        self._call_timeout = timeout
        self._code: str | None = None

    @property
    def version(self) -> str:
        """`VERSION`, and once it has been called a digest of the grader's file, where that is in the checkout."""
        return f"{self.VERSION}, code {self._code}" if self._code else self.VERSION

    @property
    def name(self) -> str:
        """The metric's name, else the callable's."""
        return self._config.name or self._config.grader.partition(":")[2]

    def is_transient(self, error: Exception) -> bool:
        """Tell whether the grader itself met connection trouble or a timeout, and trying again is wanted."""
        cause = error.__cause__
        return isinstance(cause, UserCodeError) and cause.transient and self.retry_config.attempts > 1

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        """Call the grader.

        Args:
            **kwargs: the parameters of `PARAM_SPEC`, and the turn's `turn_index`, `test_case_name` and `turn_config`.
        """
        retrieval_context, calls = kwargs.get("retrieval_context"), kwargs.get("tool_invocations")
        context = {
            "turn_input": kwargs.get("query", ""),
            "agent_response": kwargs["response"],
            "ground_truth": kwargs.get("ground_truth"),
            "tool_invocations": None if calls is None else [_as_json(invocation) for invocation in calls],
            "retrieval_context": None if retrieval_context is None else list(retrieval_context),
            "turn_index": kwargs.get("turn_index", 0),
            "test_case_name": kwargs.get("test_case_name"),
            "turn_config": dict(kwargs.get("turn_config", {})),
        }
        try:
            if self._code is None:
                # First: a call that fails names the same version at any concurrency.
                source = await self._pool.call("source", self._config.grader, {}, self._call_timeout)
                # User code may have forged it.
                self._code = source.value if re.fullmatch("[0-9a-f]{12}", str(source.value)) else ""
            outcome = await self._pool.call("grade", self._config.grader, {"context": context}, self._call_timeout)
        except UserCodeError as error:
            from holodeck_action.workers.grading import UNREPORTED_CALLS

            if error.code == UNREPORTED_CALLS:
                message = f"{self._config.grader} looks at tool calls, and {UNREPORTED}"
                raise EvaluationError(
                    message, code="missing_input", context={"parameter": "tool_invocations"}
                ) from error
            facts = error.context
            if error.output:
                facts["output"] = cut_before(error.output, _OUTPUT_SHOWN)
            raise EvaluationError(error.message, code=error.code, context=facts) from error
        return self._result(storable(outcome.value), cut_before(outcome.output, _OUTPUT_SHOWN))

    def _result(self, grade: Any, output: str) -> EvaluationResult:
        score, verdict, reason, details, confidence = self._parts(grade)
        metadata: dict[str, Any] = {}
        if details is not None:
            metadata["details"] = details
        if output:
            metadata["output"] = output
        judged = self._judge(score)
        if verdict is not None:
            # What the grader says beats the threshold, which then plays no part.
            judged = _Judged(verdict if score is None else judged.score, judged.raw, verdict)
        return EvaluationResult(
            score=judged.score,
            passed=judged.passed,
            reasoning=reason if reason and reason.strip() else self._reason(score, verdict),
            metric_name=self.name,
            threshold=judged.threshold,
            raw_score=judged.raw,
            metadata=metadata,
            confidence=confidence,
        )

    def _parts(
        self, grade: Any
    ) -> tuple[bool | float | str | None, bool | None, str | None, dict[str, Any] | None, float | None]:
        """Return score, verdict, reason, details and confidence, each checked: user code may have forged it."""
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
                raise self._error("its process sent what no grade can be", "bad_answer")

    def _judge(self, score: bool | float | str | None) -> _Judged:
        match score:
            case None:
                return _Judged(None)
            case bool():
                return _Judged(score, passed=score)
            case str():
                if self._config.pass_values is None:
                    raise self._error(
                        "grader returned unsupported type str (a category needs pass_values in the metric)",
                        "unsupported_type",
                    )
                return _Judged(score, passed=score in self._config.pass_values)
            case _:
                return self._judge_number(score)

    def _judge_number(self, score: float) -> _Judged:
        scale, threshold = self._config.scale, self._config.threshold
        low, high = (0.0, 1.0) if scale is None else (scale.min, scale.max)
        # Comparing first: an integer may be too large for a float. NaN is in no range.
        if not low <= score <= high:
            hint = "; give the metric a scale if that is what the grader means" if scale is None else ""
            raise self._error(
                f"grader returned the score {score!r:.40}, which is not from {low:g} to {high:g}{hint}", "invalid_score"
            )
        if scale is None and threshold is not None:
            return _Judged(float(score), threshold=threshold)
        normalised = min(1.0, (score - low) / (high - low))
        passed = normalised >= _PASS_MARK if threshold is None else score >= threshold
        return _Judged(normalised, None if scale is None else float(score), passed)

    def _reason(self, score: bool | float | str | None, verdict: bool | None) -> str:
        """Say what the grader gave, for graders that do not."""
        given = "no score" if score is None else repr(score)
        said = f"{self._config.grader} gave {given}"
        if verdict is not None:
            return f"{said} and passed={verdict}"
        if score is None or isinstance(score, bool):
            return said
        if isinstance(score, str):
            return f"{said}; passing are {', '.join(self._config.pass_values or ())}"
        if self._config.threshold is not None:
            return f"{said}; the threshold is {self._config.threshold:g}"
        scale = self._config.scale
        mark = _PASS_MARK if scale is None else scale.min + _PASS_MARK * (scale.max - scale.min)
        return f"{said}; without a threshold {mark:g} passes"

    def _error(self, message: str, code: str) -> EvaluationError:
        return EvaluationError(f"{self._config.grader}: {message}", code=code)


class _Judged(NamedTuple):
    """A score as the record has it.

    Attributes:
        score: on the 0..1 scale, or a boolean, a category, or None.
        raw: on the grader's own scale; None where that is 0..1.
        passed: the verdict; None when `threshold` decides or there is none.
        threshold: on the 0..1 scale.
    """

    score: bool | float | str | None
    raw: float | None = None
    passed: bool | None = None
    threshold: float | None = None


def _as_json(invocation: ToolInvocation) -> dict[str, Any]:
    return {field: getattr(invocation, field) for field in _INVOCATION_FIELDS}


_INVOCATION_FIELDS = tuple(field.name for field in fields(ToolInvocation))
