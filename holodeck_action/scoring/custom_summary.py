"""A summary of a suite by its own callable: `gates.summary` with `method: custom`."""

from __future__ import annotations

from dataclasses import replace

from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.result import check_score
from holodeck_action.results.decision import decide
from holodeck_action.results.record import CustomSummary, Record
from holodeck_action.text.plain import cut
from holodeck_action.text.redaction import Redactor
from holodeck_action.workers.code_errors import UserCodeError
from holodeck_action.workers.pool import WorkerPool

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
            function, None, redactor.text(f"{function} gave {cut(repr(found), 100)}, which is no number")
        )
    try:
        check_score(found, function)
    except EvaluationError as error:
        return CustomSummary(function, None, error.message)
    return CustomSummary(function, float(found))
