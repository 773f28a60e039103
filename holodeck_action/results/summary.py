"""Per-metric numbers over the suite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holodeck_action.results.evaluation import Polarity
from holodeck_action.results.record import CaseRecord
from holodeck_action.results.statistics import weighted_mean
from holodeck_action.results.verdict import CaseVerdict, MetricSummary, Outcome


@dataclass(slots=True)
class _Tally:
    scores: list[tuple[float, float]] = field(default_factory=list)
    thresholds: set[float | None] = field(default_factory=set)
    polarities: set[Polarity] = field(default_factory=set)
    outcomes: dict[Outcome, int] = field(default_factory=lambda: defaultdict(int))


def summarise(cases: Iterable[tuple[CaseRecord, CaseVerdict]]) -> dict[str, MetricSummary]:
    """Summarise every metric over the given cases, in order of name.

    A case's score is its mean over counted trials and turns, so that trials are never pooled as cases; the suite's is
    the mean of those, weighted by case weight. Zeros count. docs/results.md has the formulas.
    """
    tallies: dict[str, _Tally] = defaultdict(_Tally)
    for case, verdict in cases:
        for metric in verdict.metrics:
            tally = tallies[metric.name]
            tally.outcomes[metric.outcome] += 1
            tally.polarities.add(metric.polarity)
            if metric.outcome != "skipped":
                tally.thresholds.add(metric.threshold)
        for name, mean in _case_means(verdict).items():
            tallies[name].scores.append((mean, case.weight))
    return {name: _summary(tallies[name]) for name in sorted(tallies)}


def case_scores(cases: Iterable[tuple[CaseRecord, CaseVerdict]]) -> dict[str, tuple[tuple[float, float], ...]]:
    """Return the score of every case with its weight, by metric: what the means of `summarise` are made of."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for case, verdict in cases:
        for name, mean in _case_means(verdict).items():
            found[name].append((mean, case.weight))
    return {name: tuple(scores) for name, scores in found.items()}


def _case_means(verdict: CaseVerdict) -> dict[str, float]:
    scores: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for metric in verdict.metrics:
        if metric.score is not None and metric.outcome not in ("skipped", "error"):
            scores[metric.name].append((metric.score, 1.0))
    means = {name: weighted_mean(found) for name, found in scores.items()}
    return {name: mean for name, mean in means.items() if mean is not None}


def summary_score(
    method: str, weights: Mapping[str, float], means: Mapping[str, float], minimized: frozenset[str]
) -> float | None:
    """Aggregate metric means into one number; None when a needed mean is missing.

    Args:
        method: `simple_average`, `weighted_average` (weights normalised) or `minimum`.
        weights: weight per metric name; the metrics taken into account. Empty: all of `means` with equal weight.
        means: mean score per metric name.
        minimized: names whose quality is 1 − score.
    """
    names = sorted(weights or means)
    if not names or any(name not in means for name in names):
        return None
    quality = {name: 1 - means[name] if name in minimized else means[name] for name in names}
    if method == "minimum":
        return min(quality.values())
    if method == "simple_average":
        return weighted_mean([(quality[name], 1.0) for name in names])
    return weighted_mean([(quality[name], weights.get(name, 1.0)) for name in names])


def _summary(tally: _Tally) -> MetricSummary:
    return MetricSummary(
        mean=weighted_mean(tally.scores),
        cases=len(tally.scores),
        threshold=next(iter(tally.thresholds)) if len(tally.thresholds) == 1 else None,
        passed=tally.outcomes["passed"],
        failed=tally.outcomes["failed"],
        errors=tally.outcomes["error"],
        skipped=tally.outcomes["skipped"],
        informational=tally.outcomes["informational"],
        polarity=next(iter(tally.polarities)) if len(tally.polarities) == 1 else "neutral",
    )
