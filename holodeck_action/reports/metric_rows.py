"""The rows of a table of metrics: a suite with a check for each case has more metrics than a reader wants to see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holodeck_action.reports.untrusted import Fields, value_of

MOST_METRICS = 40
"""Rows of a table of metrics in a comment, a summary and the console. The page and the record have all."""


def metric_rows(metrics: Sequence[Any]) -> Sequence[int]:
    """Return the indexes of the metrics that a table shows, in their order.

    Args:
        metrics: `MetricView`s, or their wrapped or plain data.

    Returns:
        All indexes up to `MOST_METRICS`. Of more metrics, those with the most failures and errors, then the first ones.
    """
    if len(metrics) <= MOST_METRICS:
        return range(len(metrics))
    return sorted(sorted(range(len(metrics)), key=lambda at: -_trouble_count(metrics[at]))[:MOST_METRICS])


def more_metrics(metrics: Sequence[Any]) -> str:
    """Return a sentence about the metrics that a table omits; empty if it shows all."""
    hidden = len(metrics) - MOST_METRICS
    if hidden <= 0:
        return ""
    shown = set(metric_rows(metrics))
    troubled = sum(1 for at in range(len(metrics)) if at not in shown and _trouble_count(metrics[at]))
    which = f"{troubled} of them with failures or errors" if troubled else "none of them with a failure or an error"
    return f"{hidden} more metrics, {which}, are in the full report."


def _trouble_count(metric: Any) -> int:
    value = value_of(metric) if isinstance(metric, Fields) else metric
    failed, errors = (value["failed"], value["errors"]) if isinstance(value, dict) else (value.failed, value.errors)
    return int(failed + errors)
