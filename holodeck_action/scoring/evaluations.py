"""What came of a metric as an `Evaluation`: done, failed, skipped or never begun; and a suite's own summary."""

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
from holodeck_action.scoring.computing import Done
from holodeck_action.scoring.planning import PlannedMetric
from holodeck_action.text.plain import cut
from holodeck_action.text.redaction import Redactor
from holodeck_action.workers.code_errors import UserCodeError
from holodeck_action.workers.pool import WorkerPool


class EvaluationWriter:
    """Writes the evaluations of one turn; they share its event id and their time."""

    def __init__(self, clock: Callable[[], datetime], new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._timestamp = clock().isoformat()
        self._target = f"evt_{new_id()}"

    def skipped(self, metric: PlannedMetric, reason: str) -> Evaluation:
        """Return the evaluation of a metric that does not apply."""
        return self._write(metric, "skipped", reason)

    def pending(self, metric: PlannedMetric, reason: str) -> Evaluation:
        """Return the evaluation of a metric that was planned and did not happen."""
        return self._write(metric, "pending", reason)

    def done(self, metric: PlannedMetric, done: Done[EvaluationResult]) -> Evaluation:
        """Return the evaluation of a metric that was tried."""
        if done.result is None:
            error = error_info(done.error or EvaluationError("nothing came of the evaluation"))
            return self._write(metric, "failed", error.message, None, done, error)
        unfit = _unfit(done.result)
        if unfit is not None:
            error = error_info(
                EvaluationError(f"{metric.spec.label} gave no JSON values: {unfit}", code="invalid_result")
            )
            return self._write(metric, "failed", error.message, None, done, error)
        return self._write(metric, "completed", done.result.reasoning, done.result, done)

    def _write(
        self,
        metric: PlannedMetric,
        status: Status,
        explanation: str,
        result: EvaluationResult | None = None,
        done: Done[EvaluationResult] | None = None,
        error: ErrorInfo | None = None,
    ) -> Evaluation:
        usage = None if done is None else done.usage
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
            duration_ms=None if done is None else done.duration_ms,
            status=status,
            # A whole number would have other canonical bytes than what is read from the file.
            confidence=None if result is None or result.confidence is None else float(result.confidence),
            cost_usd=None if usage is None else usage.cost_usd,
            error=error,
            cached=done is not None and done.cached,
        )


def _unfit(result: EvaluationResult) -> str | None:
    """Say why a record cannot hold what a metric gave; None where it can."""
    kept = (result.score, result.reasoning, result.raw_score, result.evaluation_steps, result.metadata)
    if _is_plain(kept):
        return None
    try:
        json.dumps(to_plain(kept), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return describe(error)
    return None


_DEPTH = 8


def _is_plain(value: Any, depth: int = _DEPTH) -> bool:
    """Tell whether a value is certainly JSON; most are, and to look takes less time than to write them."""
    kind = type(value)
    if kind is str:
        # A text that is not ASCII is written to see.
        return bool(value.isascii())
    if kind is float:
        return math.isfinite(value)
    if value is None or kind is bool:
        return True
    if kind is dict and depth:
        names = all(type(key) is str and key.isascii() for key in value)
        return names and all(_is_plain(item, depth - 1) for item in value.values())
    return (kind is tuple or kind is list) and depth > 0 and all(_is_plain(item, depth - 1) for item in value)


def error_info(error: Exception) -> ErrorInfo:
    """Return why an evaluation failed."""
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
    # A verdict that follows from a threshold is left to whoever judges the record: the threshold may change.
    if result.threshold is None and result.passed is not None:
        metadata["passed"] = result.passed
    return metadata


TIMEOUT_S = 60.0
"""Seconds the callable may take."""


async def with_custom_summary(record: Record, pool: WorkerPool, redactor: Redactor) -> Record:
    """Call what summarises the suite, if its gates ask for it, and keep what it gave.

    The callable takes `means`, the mean score of every metric that has one by its name, and gives a number from 0 to 1.
    Whatever goes wrong is kept as the reason why there is no score: such a gate is undetermined, never passed.

    Args:
        record: the whole run.
        pool: the workers in which the suite's own code runs.
        redactor: masks secrets in what the callable said.
    """
    summary = record.gates.summary
    if summary is None or summary.function is None:
        return record
    means = {name: metric.mean for name, metric in decide(record).metrics.items() if metric.mean is not None}
    return replace(record, summary=await _summary(summary.function, means, pool, redactor))


async def _summary(function: str, means: dict[str, float], pool: WorkerPool, redactor: Redactor) -> CustomSummary:
    try:
        outcome = await pool.call("tool", function, {"args": {"means": means}}, TIMEOUT_S)
    except UserCodeError as error:
        return CustomSummary(function, None, redactor.text(error.message))
    found = outcome.value.get("value") if isinstance(outcome.value, dict) else None
    if isinstance(found, bool) or not isinstance(found, int | float):
        return CustomSummary(
            function, None, f"{redactor.text(function)} gave {cut(redactor.text(repr(found)), 100)}, which is no number"
        )
    try:
        check_score(found, function)
    except EvaluationError as error:
        return CustomSummary(function, None, error.message)
    return CustomSummary(function, float(found))
