"""Creates the `Evaluation` of a metric (completed, failed, skipped or pending), and calls the summary function of a
suite.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from holodeck_action.decide.decision import decide
from holodeck_action.metrics.base import BaseEvaluator, EvaluationResult, describe
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.result import check_score
from holodeck_action.record.evaluation import ErrorInfo, Evaluation, Status
from holodeck_action.record.record import CustomSummary, Record, Usage
from holodeck_action.record.serialization import to_plain
from holodeck_action.scoring.computing import JobResult
from holodeck_action.scoring.planning import PlannedMetric
from holodeck_action.text.plain import cut
from holodeck_action.text.redaction import Redactor
from holodeck_action.workers.code_errors import UserCodeError
from holodeck_action.workers.pool import WorkerPool


class EvaluationWriter:
    """Creates the evaluations of one turn, which share an event id and a timestamp."""

    def __init__(self, clock: Callable[[], datetime], new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._timestamp = clock().isoformat()
        self._target = f"evt_{new_id()}"

    def write_skipped(self, metric: PlannedMetric, reason: str) -> Evaluation:
        """Return the evaluation of a metric that does not apply."""
        return self._write(metric, "skipped", reason)

    def write_pending(self, metric: PlannedMetric, reason: str) -> Evaluation:
        """Return the evaluation of a metric that was planned but not run."""
        return self._write(metric, "pending", reason)

    def write_result(self, metric: PlannedMetric, result: JobResult[EvaluationResult]) -> Evaluation:
        """Return the evaluation of a metric that was run."""
        if result.result is None:
            error = error_info(result.error or EvaluationError("the evaluation gave no result"))
            return self._write(metric, "failed", error.message, None, result, error)
        unstorable = _unstorable_reason(result.result)
        if unstorable is not None:
            error = error_info(
                EvaluationError(f"{metric.spec.label} gave no JSON values: {unstorable}", code="invalid_result")
            )
            return self._write(metric, "failed", error.message, None, result, error)
        return self._write(metric, "completed", result.result.reasoning, result.result, result)

    def _write(
        self,
        metric: PlannedMetric,
        status: Status,
        explanation: str,
        result: EvaluationResult | None = None,
        job_result: JobResult[EvaluationResult] | None = None,
        error: ErrorInfo | None = None,
    ) -> Evaluation:
        usage = None if job_result is None else job_result.usage
        return Evaluation(
            evaluation_id=f"eval_{self._new_id()}",
            target_event_id=self._target,
            evaluator_name=metric.spec.label,
            evaluator_version=metric.evaluator.version if isinstance(metric.evaluator, BaseEvaluator) else None,
            score=None if result is None else result.score,
            explanation=explanation,
            criteria=metric.criteria,
            metadata={} if result is None else _metadata(result, usage),
            timestamp=self._timestamp,
            duration_ms=None if job_result is None else job_result.duration_ms,
            status=status,
            # The canonical bytes of 1 and 1.0 differ, and a record that is read from a file has floats.
            confidence=None if result is None or result.confidence is None else float(result.confidence),
            cost_usd=None if usage is None else usage.cost_usd,
            error=error,
            cached=job_result is not None and job_result.cached,
        )


def _unstorable_reason(result: EvaluationResult) -> str | None:
    """Return the reason why a record cannot contain a metric's result; None if the result can be stored."""
    kept = (result.score, result.reasoning, result.raw_score, result.evaluation_steps, result.metadata)
    if _is_json(kept):
        return None
    try:
        json.dumps(to_plain(kept), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return describe(error)
    return None


_MAX_DEPTH = 8


def _is_json(value: Any, depth: int = _MAX_DEPTH) -> bool:
    """Return True if a value is certainly valid JSON; False if it may not be. This is faster than encoding the
    value."""
    kind = type(value)
    if kind is str:
        # A text that is not ASCII may contain half of a surrogate pair.
        return bool(value.isascii())
    if kind is float:
        return math.isfinite(value)
    if value is None or kind is bool:
        return True
    if kind is dict and depth:
        names = all(type(key) is str and key.isascii() for key in value)
        return names and all(_is_json(item, depth - 1) for item in value.values())
    return (kind is tuple or kind is list) and depth > 0 and all(_is_json(item, depth - 1) for item in value)


def error_info(error: Exception) -> ErrorInfo:
    """Convert the exception of a failed evaluation to the form in which records store it."""
    if isinstance(error, EvaluationError):
        kind = type(error.__cause__ or error).__name__
        return ErrorInfo(kind, error.message or describe(error), error.code, error.context)
    if isinstance(error, TimeoutError):
        return ErrorInfo("TimeoutError", str(error), "timeout")
    return ErrorInfo(type(error).__name__, describe(error), "evaluator_error")


def _metadata(result: EvaluationResult, usage: Usage | None) -> dict[str, Any]:
    metadata = dict(result.metadata)
    if usage is not None:
        metadata["usage"] = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
    if result.raw_score is not None:
        metadata["raw_score"] = result.raw_score
    if result.evaluation_steps is not None:
        metadata["evaluation_steps"] = list(result.evaluation_steps)
    # A verdict that follows from a threshold is not recorded: the threshold may change.
    if result.threshold is None and result.passed is not None:
        metadata["passed"] = result.passed
    return metadata


TIMEOUT_S = 60.0
"""Time limit of the suite's summary function, in seconds."""


async def add_custom_summary(record: Record, pool: WorkerPool, redactor: Redactor) -> Record:
    """Call the suite's summary function, if its gates name one, and add the result to the record.

    The function takes `means`, the mean scores of metrics by name, and returns a number from 0 to 1. Any failure is
    recorded as the reason for a missing score: the gate is then undetermined, never passed. The function is not called
    for a run that stopped because its exit code was certain.

    Args:
        record: the record of the whole run.
        pool: the worker processes in which the suite's own code runs.
        redactor: masks secrets in the function's errors.
    """
    summary = record.gates.summary
    if summary is None or summary.function is None or record.certain is not None:
        return record
    means = {name: metric.mean for name, metric in decide(record).metrics.items() if metric.mean is not None}
    return replace(record, summary=await _call_summary(summary.function, means, pool, redactor))


async def _call_summary(function: str, means: dict[str, float], pool: WorkerPool, redactor: Redactor) -> CustomSummary:
    try:
        outcome = await pool.call("tool", function, {"args": {"means": means}}, TIMEOUT_S)
    except UserCodeError as error:
        return CustomSummary(function, None, redactor.text(error.message))
    found = outcome.value.get("value") if isinstance(outcome.value, dict) else None
    if isinstance(found, bool) or not isinstance(found, int | float):
        return CustomSummary(
            function,
            None,
            f"{redactor.text(function)} gave {cut(redactor.text(repr(found)), 100)}, which is not a number",
        )
    try:
        check_score(found, function)
    except EvaluationError as error:
        return CustomSummary(function, None, error.message)
    return CustomSummary(function, float(found))
