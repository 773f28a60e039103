"""Gates on the scores of one metric over the suite: its mean, the end of the mean's interval, its worst tenth.

A lower bound asks for high scores, an upper one for low ones; each is the other's mirror image: an upper bound of b on
scores x is a lower bound of 1 − b on 1 − x.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holodeck_action.results.statistics import MANY_ENOUGH, mean_lower_bound, mean_upper_bound, quantile
from holodeck_action.results.verdict import GateState, GateVerdict, MetricSummary
from holodeck_action.suite.policy import BOUNDS_OF_METRICS, GateMetric

_TENTH = 0.10
TOLERANCE = 1e-12
"""Slack for sums of floats, so that a mean of 0.9 reaches a gate of 0.9."""

Scores = tuple[tuple[float, float], ...]
"""The score of each case with its weight."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known of a metric over the cases that gate.

    Attributes:
        name: the metric's.
        scores: of the cases that have one.
        summary: None where the metric was evaluated nowhere.
        missing: evaluations that did not happen and are not tolerated: they could have any score.
    """

    name: str
    scores: Scores
    summary: MetricSummary | None
    missing: int


@dataclass(frozen=True, slots=True)
class _Bound:
    """A bound with its key; `best` is the score, 1 or 0, that is as good as can be."""

    key: str
    required: float
    best: float

    def holds(self, actual: float) -> bool:
        return reaches(actual, self.required) if self.best else reaches(self.required, actual)


def metric_gates(bounds: GateMetric, found: Measured) -> Iterator[GateVerdict]:
    """Judge the bounds that are given on a metric."""
    for kind, (low, high) in zip((_mean, _end_of_interval, _worst_tenth), BOUNDS_OF_METRICS, strict=True):
        for key, best in ((low, 1.0), (high, 0.0)):
            required = getattr(bounds, key)
            if required is not None:
                yield kind(_Bound(key, required, best), found)


def _mean(bound: _Bound, found: Measured) -> GateVerdict:
    summary = found.summary
    if summary is None or summary.mean is None:
        return _nowhere(bound, found)
    reason = f"mean over {summary.cases} case(s)"
    return _decided(bound, found, summary.mean, _best_mean(bound, summary, found.missing), reason)


def _end_of_interval(bound: _Bound, found: Measured) -> GateVerdict:
    end = (mean_lower_bound if bound.best else mean_upper_bound)(found.scores)
    if end is None or len(found.scores) < MANY_ENOUGH or found.summary is None:
        reason = f"too few cases: {len(found.scores)} have a score, {MANY_ENOUGH} are needed"
        return GateVerdict(_gate(bound, found), "undetermined", None, bound.required, reason)
    reason = f"95 % interval of the mean over {len(found.scores)} cases"
    # No interval lies beyond its mean, and the mean can still reach this.
    return _decided(bound, found, end, _best_mean(bound, found.summary, found.missing), reason)


def _worst_tenth(bound: _Bound, found: Measured) -> GateVerdict:
    actual = _tenth(found.scores, bound)
    if actual is None:
        return _nowhere(bound, found)
    heaviest = max(weight for _, weight in found.scores)
    best = _tenth([*found.scores, *([(bound.best, heaviest)] * found.missing)], bound)
    assert best is not None
    reason = f"at least 10 % of {len(found.scores)} case(s) score no {'higher' if bound.best else 'lower'}"
    return _decided(bound, found, actual, best, reason)


def _tenth(scores: Sequence[tuple[float, float]], bound: _Bound) -> float | None:
    """Return the score that a tenth of the weight does not exceed in goodness, counted from the worst."""
    sign = 1.0 if bound.best else -1.0
    end = quantile([(sign * score, weight) for score, weight in scores], _TENTH)
    return None if end is None else sign * end


def _best_mean(bound: _Bound, summary: MetricSummary, missing: int) -> float:
    """Return what the mean of n scores can still become with m missing ones: (n·mean + m·best)/(n + m)."""
    assert summary.mean is not None
    return (summary.cases * summary.mean + missing * bound.best) / (summary.cases + missing)


def _decided(bound: _Bound, found: Measured, actual: float, best: float, reason: str) -> GateVerdict:
    """Judge a number; with scores missing, `best` is what it can still become."""
    if found.missing:
        reason += f", {found.missing} evaluation(s) missing"
        state: GateState = "undetermined" if bound.holds(best) else "failed"
    else:
        state = "passed" if bound.holds(actual) else "failed"
    return GateVerdict(_gate(bound, found), state, actual, bound.required, reason)


def _nowhere(bound: _Bound, found: Measured) -> GateVerdict:
    reason = f"{found.name} was evaluated on no case"
    return GateVerdict(_gate(bound, found), "undetermined", None, bound.required, reason)


def _gate(bound: _Bound, found: Measured) -> str:
    return f"metrics.{found.name}.{bound.key}"


def reaches(actual: float, required: float) -> bool:
    """Tell whether a rate or mean reaches what is required, rounding of sums forgiven."""
    return actual >= required - TOLERANCE
