"""Numbers over a run: per metric, and what all evaluations came to together.

The blocks of the evaluations are HoneyHive's (evaluation data models, performance and quality); what they leave open
is defined here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from holodeck_action.results.agreement import pearson
from holodeck_action.results.consumption import judging_cost_of
from holodeck_action.results.evaluation import Evaluation, Polarity
from holodeck_action.results.record import CaseRecord, Record
from holodeck_action.results.statistics import MANY_ENOUGH, quantile, weighted_mean
from holodeck_action.results.verdict import CaseVerdict, MetricSummary, Outcome

_HIGH, _MEDIUM = 0.8, 0.5


@dataclass(frozen=True, slots=True)
class EvaluationPerformance:
    """How the evaluations of a run went; those that were skipped do not count.

    Attributes:
        total: evaluations that were tried, all trials and cases included.
        successful: those with a result, however low.
        failed: those without one.
        success_rate: successful / total; None without any.
        average_duration_ms: mean wall time of those of which it is known; of a kept verdict the original one.
        p95_duration_ms: the time within which 95 % of them ended.
        total_cost_usd: list price of all judges; None when that of one is not known.
    """

    total: int
    successful: int
    failed: int
    success_rate: float | None
    average_duration_ms: float | None
    p95_duration_ms: float | None
    total_cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Correlation:
    """Pearson's correlation of the scores of two metrics over the cases that have both.

    Attributes:
        metrics: their names.
        cases: number of these cases.
        r: −1 to 1; None where one of the metrics scores all of them alike.
    """

    metrics: tuple[str, str]
    cases: int
    r: float | None


@dataclass(frozen=True, slots=True)
class ConfidenceDistribution:
    """How sure evaluators said they are: `stated` evaluations say it; the shares of these, None without any.

    High is a confidence from 0.8 on, medium from 0.5 on, low any other.
    """

    stated: int
    high: float | None
    medium: float | None
    low: float | None


@dataclass(frozen=True, slots=True)
class EvaluationQuality:
    """How the metrics go with each other.

    Attributes:
        agreement: mean over cases of the share of pairs of metrics of one answer that both pass or both fail it; None
            with fewer than 10 cases that have such a pair.
        agreement_cases: number of these cases.
        correlations: of pairs of metrics with at least 10 common cases, in order of name.
        confidence: how sure evaluators were.
    """

    agreement: float | None
    agreement_cases: int
    correlations: tuple[Correlation, ...]
    confidence: ConfidenceDistribution


@dataclass(frozen=True, slots=True)
class EvaluationSummary:
    """All evaluations of a run."""

    performance: EvaluationPerformance
    quality: EvaluationQuality


def summarise_evaluations(
    record: Record, cases: Sequence[CaseVerdict], means: Sequence[Mapping[str, float]]
) -> EvaluationSummary:
    """Summarise the evaluations of a run.

    `means` holds the mean score of each case, by metric.
    """
    done = [each for each in record.evaluations if each.status in ("completed", "failed")]
    return EvaluationSummary(
        performance=_performance(done, record),
        quality=EvaluationQuality(
            *_agreement(cases), correlations=tuple(_correlations(means)), confidence=_confidence(done)
        ),
    )


def _performance(done: Sequence[Evaluation], record: Record) -> EvaluationPerformance:
    successful = sum(each.status == "completed" for each in done)
    took = [(each.duration_ms, 1.0) for each in done if each.duration_ms is not None]
    cost = judging_cost_of(record)
    return EvaluationPerformance(
        total=len(done),
        successful=successful,
        failed=len(done) - successful,
        success_rate=successful / len(done) if done else None,
        average_duration_ms=math.fsum(duration for duration, _ in took) / len(took) if took else None,
        p95_duration_ms=quantile(took, 0.95),
        total_cost_usd=None if cost.unknown else cost.known,
    )


def _agreement(cases: Iterable[CaseVerdict]) -> tuple[float | None, int]:
    shares = [share for case in cases if (share := _agreeing(case)) is not None]
    return (math.fsum(shares) / len(shares) if len(shares) >= MANY_ENOUGH else None), len(shares)


def _agreeing(case: CaseVerdict) -> float | None:
    """Return the share of agreeing pairs of a case's metrics over its counted trials and turns."""
    agreed = pairs = 0
    for turn in case.turns:
        passed = sum(metric.outcome == "passed" for metric in turn.metrics)
        failed = sum(metric.outcome == "failed" for metric in turn.metrics)
        pairs += math.comb(passed + failed, 2)
        agreed += math.comb(passed, 2) + math.comb(failed, 2)
    return agreed / pairs if pairs else None


def _correlations(means: Sequence[Mapping[str, float]]) -> Iterator[Correlation]:
    names = sorted({name for scores in means for name in scores})
    for one, other in combinations(names, 2):
        pairs = [(scores[one], scores[other]) for scores in means if one in scores and other in scores]
        if len(pairs) >= MANY_ENOUGH:
            yield Correlation((one, other), len(pairs), pearson(pairs))


def _confidence(done: Iterable[Evaluation]) -> ConfidenceDistribution:
    stated = [each.confidence for each in done if each.confidence is not None]
    if not stated:
        return ConfidenceDistribution(0, None, None, None)
    high = sum(confidence >= _HIGH for confidence in stated)
    medium = sum(_MEDIUM <= confidence < _HIGH for confidence in stated)
    n = len(stated)
    return ConfidenceDistribution(n, high / n, medium / n, (n - high - medium) / n)


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
    return {name: _metric_summary(tallies[name]) for name in sorted(tallies)}


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


def _metric_summary(tally: _Tally) -> MetricSummary:
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
