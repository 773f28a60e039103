"""The rows of a table of metrics, limited in number: a suite can have its own check for each case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holodeck_action.decide.statistics import weighted_mean
from holodeck_action.reports.report_views import MetricView
from holodeck_action.reports.untrusted import Fields, value_of
from holodeck_action.text.lazy_patterns import lazy_pattern

MOST_METRICS = 40
"""Maximum number of metrics with their own row in a comment, a summary and the console. Page and record have all."""
MIN_JOINED = 6
"""Minimum number of checks of one type that share a row."""
_CHECK = lazy_pattern(r"(\w+) [\"/]")
"""Start of the default name of a check: its type, and the quoted value."""


def metric_rows(metrics: Sequence[Any]) -> Sequence[int]:
    """Return the indexes of the metrics that have a row to themselves, in ascending order.

    Args:
        metrics: `MetricView`s, or their wrapped or plain data.

    Returns:
        The metrics that share no row of `joined_metrics`; if there are more than `MOST_METRICS`, those with the most
        failures and errors, and among equals the first.
    """
    own = _own_rows(metrics)
    if len(own) <= MOST_METRICS:
        return own
    return sorted(sorted(own, key=lambda at: -_trouble_count(metrics[at]))[:MOST_METRICS])


def joined_metrics(metrics: Sequence[Any]) -> Sequence[MetricView]:
    """Return a row for each type with at least `MIN_JOINED` checks, with a name such as `contains (12 checks)`.

    Args:
        metrics: `MetricView`s, or their wrapped or plain data.
    """
    made = []
    for kind, places in _joined_places(metrics).items():
        views = [_view_of(metrics[at]) for at in places]
        counts = {name: sum(getattr(view, name) for view in views) for name in _COUNTS}
        made.append(
            MetricView(
                name=f"{kind} ({len(views)} checks)",
                mean=weighted_mean([(view.mean, view.cases) for view in views if view.mean is not None]),
                threshold=views[0].threshold if len({view.threshold for view in views}) == 1 else None,
                margin=None,
                polarity=views[0].polarity,
                low=None,
                high=None,
                within_noise=False,
                **counts,
            )
        )
    return made


def more_metrics(metrics: Sequence[Any]) -> str:
    """Return a sentence about the metrics that a table omits; empty if it shows all."""
    own = _own_rows(metrics)
    hidden = len(own) - MOST_METRICS
    if hidden <= 0:
        return ""
    shown = set(metric_rows(metrics))
    troubled = sum(1 for at in own if at not in shown and _trouble_count(metrics[at]))
    which = f"{troubled} of them with failures or errors" if troubled else "none of them with a failure or an error"
    return f"{hidden} more metrics, {which}, are in the full report."


_COUNTS = ("cases", "passed", "failed", "errors", "skipped", "informational")


def _own_rows(metrics: Sequence[Any]) -> list[int]:
    joined = {at for places in _joined_places(metrics).values() for at in places}
    return [at for at in range(len(metrics)) if at not in joined]


def _joined_places(metrics: Sequence[Any]) -> dict[str, list[int]]:
    """Return the indexes of the checks that share a row, by their type."""
    found: dict[str, list[int]] = {}
    for at, metric in enumerate(metrics):
        if check := _CHECK.match(_view_of(metric).name):
            found.setdefault(check[1], []).append(at)
    return {kind: places for kind, places in found.items() if len(places) >= MIN_JOINED}


def _view_of(metric: Any) -> MetricView:
    value = value_of(metric) if isinstance(metric, Fields) else metric
    return MetricView(**value) if isinstance(value, dict) else value


def _trouble_count(metric: Any) -> int:
    view = _view_of(metric)
    return view.failed + view.errors
