"""Summaries over a run: for each metric, and for all evaluations together.

`EvaluationPerformance` and `EvaluationQuality` follow HoneyHive's evaluation data models. Details that HoneyHive does
not define are defined here.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from msgspec import Struct

from holodeck_action.decide.agreement import CentredSample, correlation
from holodeck_action.decide.consumption import KnownTotal
from holodeck_action.decide.statistics import MIN_SAMPLE, WeightedValues, equal_quantile, weighted_mean
from holodeck_action.decide.verdict import CaseVerdict, MetricSummary, MetricVerdict, Outcome
from holodeck_action.record.evaluation import Evaluation, Polarity

_HIGH, _MEDIUM = 0.8, 0.5


class EvaluationPerformance(Struct, frozen=True):
    """Performance of the evaluations of a run, without skipped ones.

    Attributes:
        total: number of attempted evaluations, over all trials and cases.
        successful: number of evaluations with a result, however low.
        failed: number of evaluations without a result.
        success_rate: successful / total; None if no evaluation was attempted.
        average_duration_ms: mean wall time of evaluations with a known time; reused verdicts keep the original time.
        p95_duration_ms: 95 % quantile of these wall times.
        total_cost_usd: list price of all judges' calls; None if the cost of a call is unknown.
    """

    total: int
    successful: int
    failed: int
    success_rate: float | None
    average_duration_ms: float | None
    p95_duration_ms: float | None
    total_cost_usd: float | None


class Correlation(Struct, frozen=True):
    """Pearson's correlation of the scores of two metrics over the cases that have both.

    Attributes:
        metrics: names of the two metrics.
        cases: number of cases that have both scores.
        r: −1 to 1; None if one of the metrics has the same score in all of these cases.
    """

    metrics: tuple[str, str]
    cases: int
    r: float | None


class ConfidenceDistribution(Struct, frozen=True):
    """The number of evaluations that state a confidence, and the proportions with high, medium and low confidence.

    A confidence is high from 0.8, medium from 0.5, else low. Proportions are None if no evaluation states a confidence.
    """

    stated: int
    high: float | None
    medium: float | None
    low: float | None


class EvaluationQuality(Struct, frozen=True):
    """Agreement between the metrics.

    Attributes:
        agreement: the proportion of metric pairs that agree (both pass or both fail the same answer), averaged over
            cases. None if fewer than 10 cases have a pair of metrics with verdicts.
        agreement_cases: number of cases that have such a pair.
        correlations: correlations of pairs of metrics with at least 10 common cases, sorted by name.
        confidence: distribution of the confidence that evaluations state.
    """

    agreement: float | None
    agreement_cases: int
    correlations: tuple[Correlation, ...]
    confidence: ConfidenceDistribution


class EvaluationSummary(Struct, frozen=True):
    """Performance and quality of all evaluations of a run."""

    performance: EvaluationPerformance
    quality: EvaluationQuality


class EvaluationTally:
    """The totals of all evaluations of a run, added up case by case."""

    def __init__(self) -> None:
        self._cases = 0
        self._successful = self._failed = self._stated = self._high = self._medium = 0
        self._durations, self._agreements = array("d"), array("d")
        # Index and mean of each case with a mean, by metric, so that pairs of metrics can be compared.
        self._means: dict[str, tuple[array[int], array[float]]] = {}

    def add(self, evaluations: Iterable[Evaluation], verdict: CaseVerdict, means: Mapping[str, float]) -> None:
        """Add a case: its evaluations, its verdict, and its mean scores by metric."""
        for each in evaluations:
            status = each.status
            if status == "completed":
                self._successful += 1
            elif status == "failed":
                self._failed += 1
            else:
                continue
            if each.duration_ms is not None:
                self._durations.append(each.duration_ms)
            if each.confidence is not None:
                self._stated += 1
                self._high += each.confidence >= _HIGH
                self._medium += _MEDIUM <= each.confidence < _HIGH
        agreeing = _agreement_share(verdict)
        if agreeing is not None:
            self._agreements.append(agreeing)
        for name, mean in means.items():
            indexes, column = self._means.setdefault(name, (array("Q"), array("d")))
            indexes.append(self._cases)
            column.append(mean)
        self._cases += 1

    def summary(self, judging_cost: KnownTotal) -> EvaluationSummary:
        """Return the summary; `judging_cost` is the list price of all judges' calls in US dollars."""
        total, took, shares = self._successful + self._failed, self._durations, self._agreements
        return EvaluationSummary(
            performance=EvaluationPerformance(
                total=total,
                successful=self._successful,
                failed=self._failed,
                success_rate=self._successful / total if total else None,
                average_duration_ms=math.fsum(took) / len(took) if took else None,
                p95_duration_ms=equal_quantile(took, 0.95),
                total_cost_usd=None if judging_cost.unknown else judging_cost.known,
            ),
            quality=EvaluationQuality(
                agreement=math.fsum(shares) / len(shares) if len(shares) >= MIN_SAMPLE else None,
                agreement_cases=len(shares),
                correlations=tuple(self._correlations()),
                confidence=self._confidence(),
            ),
        )

    def _correlations(self) -> Iterator[Correlation]:
        # A suite with a check for each case has many metrics that score one case.
        frequent = {name: found for name, found in self._means.items() if len(found[0]) >= MIN_SAMPLE}
        # Most other metrics score every case, so their columns are centred only once.
        whole = {name: CentredSample(column) for name, (_, column) in frequent.items() if len(column) == self._cases}
        for names in combinations(sorted(frequent), 2):
            if all(name in whole for name in names):
                cases, sides = self._cases, [whole[name] for name in names]
            else:
                first, second = (frequent[name] for name in names)
                means = dict(zip(*first, strict=True))
                pairs = [(means[at], mean) for at, mean in zip(*second, strict=True) if at in means]
                cases, sides = len(pairs), [CentredSample(side) for side in zip(*pairs, strict=True)]
            if cases >= MIN_SAMPLE:
                yield Correlation(names, cases, correlation(*sides))

    def _confidence(self) -> ConfidenceDistribution:
        n, high, medium = self._stated, self._high, self._medium
        if not n:
            return ConfidenceDistribution(0, None, None, None)
        return ConfidenceDistribution(n, high / n, medium / n, (n - high - medium) / n)


def _agreement_share(case: CaseVerdict) -> float | None:
    """Return the proportion of a case's metric pairs that agree, over its counted trials, turns and conversations; None
    if it has no pair."""
    agreed = pairs = 0
    for part in case.parts:
        outcomes = [metric.outcome for metric in part.metrics]
        passed, failed = outcomes.count("passed"), outcomes.count("failed")
        pairs += (passed + failed) * (passed + failed - 1) // 2
        agreed += (passed * (passed - 1) + failed * (failed - 1)) // 2
    return agreed / pairs if pairs else None


class MetricTally:
    """The totals of every metric over the cases that are not quarantined, added up case by case.

    A case's score is the mean over its counted trials and turns, so that a case with many trials has no greater weight.
    The suite's score is the mean over cases, weighted by case weight. Scores of 0 count. docs/verdict.md has the
    formulas.
    """

    def __init__(self) -> None:
        self.scores: dict[str, WeightedValues] = {}
        """For each metric, score and weight of every case with a score."""
        self._seen: Counter[tuple[str, Outcome, Polarity, float | None]] = Counter()

    def add(self, metrics: Iterable[MetricVerdict], weight: float, means: Mapping[str, float]) -> None:
        """Add the metrics of a case with its weight and its mean scores by metric."""
        for metric in metrics:
            self._seen[metric.name, metric.outcome, metric.polarity, metric.threshold] += 1
        for name, mean in means.items():
            scores = self.scores.get(name)
            if scores is None:
                scores = self.scores[name] = WeightedValues()
            scores.add(mean, weight)

    @property
    def summaries(self) -> dict[str, MetricSummary]:
        """The summary of each metric, sorted by name."""
        return {name: self._summary(name) for name in sorted({name for name, *_ in self._seen})}

    def _summary(self, name: str) -> MetricSummary:
        outcomes: Counter[Outcome] = Counter()
        thresholds: set[float | None] = set()
        polarities: set[Polarity] = set()
        for (metric, outcome, polarity, threshold), number in self._seen.items():
            if metric == name:
                outcomes[outcome] += number
                polarities.add(polarity)
                if outcome != "skipped":
                    thresholds.add(threshold)
        scores = self.scores.get(name, ())
        return MetricSummary(
            mean=weighted_mean(scores),
            cases=len(scores),
            threshold=next(iter(thresholds)) if len(thresholds) == 1 else None,
            passed=outcomes["passed"],
            failed=outcomes["failed"],
            errors=outcomes["error"],
            skipped=outcomes["skipped"],
            informational=outcomes["informational"],
            polarity=next(iter(polarities)) if len(polarities) == 1 else "neutral",
        )


def case_means(metrics: Iterable[MetricVerdict]) -> dict[str, float]:
    """Return the mean of each metric of a case over its counted trials and turns, without metrics that have no
    score."""
    scores: dict[str, list[float]] = defaultdict(list)
    for metric in metrics:
        if metric.score is not None and metric.outcome not in ("skipped", "error"):
            scores[metric.name].append(metric.score)
    return {name: found[0] if len(found) == 1 else math.fsum(found) / len(found) for name, found in scores.items()}


def summary_score(
    method: str, weights: Mapping[str, float], means: Mapping[str, float], minimized: frozenset[str]
) -> float | None:
    """Combine the means of metrics into one number; None if an included metric has no mean or there is no metric.

    Args:
        method: `simple_average`, `weighted_average` (weights normalised) or `minimum`.
        weights: weight of each metric to be included, by name; if empty, all of `means` have equal weight.
        means: mean score per metric name.
        minimized: names of metrics whose low scores are good, so that their quality is 1 − score.
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
