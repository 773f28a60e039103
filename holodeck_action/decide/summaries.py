"""Numbers over a run: per metric, and what all evaluations came to together.

The blocks of the evaluations are HoneyHive's (evaluation data models, performance and quality); what they leave open
is defined here.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from msgspec import Struct

from holodeck_action.decide.agreement import Centred, correlation
from holodeck_action.decide.consumption import Total
from holodeck_action.decide.statistics import MANY_ENOUGH, Weighted, equal_quantile, weighted_mean
from holodeck_action.decide.verdict import CaseVerdict, MetricSummary, MetricVerdict, Outcome
from holodeck_action.record.evaluation import Polarity
from holodeck_action.record.record import TurnRecord

_HIGH, _MEDIUM = 0.8, 0.5


class EvaluationPerformance(Struct, frozen=True):
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


class Correlation(Struct, frozen=True):
    """Pearson's correlation of the scores of two metrics over the cases that have both.

    Attributes:
        metrics: their names.
        cases: number of these cases.
        r: −1 to 1; None where one of the metrics scores all of them alike.
    """

    metrics: tuple[str, str]
    cases: int
    r: float | None


class ConfidenceDistribution(Struct, frozen=True):
    """How sure evaluators said they are: `stated` evaluations say it; the shares of these, None without any.

    High is a confidence from 0.8 on, medium from 0.5 on, low any other.
    """

    stated: int
    high: float | None
    medium: float | None
    low: float | None


class EvaluationQuality(Struct, frozen=True):
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


class EvaluationSummary(Struct, frozen=True):
    """All evaluations of a run."""

    performance: EvaluationPerformance
    quality: EvaluationQuality


class EvaluationTally:
    """All evaluations of a run, added up case by case."""

    def __init__(self) -> None:
        self._cases = 0
        self._successful = self._failed = self._stated = self._high = self._medium = 0
        self._durations, self._agreements = array("d"), array("d")
        # Columns over all cases, so that pairs of metrics can be compared; NaN where a case has no mean.
        self._means: dict[str, array[float]] = {}

    def add(self, turns: Iterable[TurnRecord], verdict: CaseVerdict, means: Mapping[str, float]) -> None:
        """Add a case: its turns, its verdict, and its mean scores by metric."""
        for turn in turns:
            for each in turn.evaluations:
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
        agreeing = _agreeing(verdict)
        if agreeing is not None:
            self._agreements.append(agreeing)
        for name, mean in means.items():
            column = self._means.setdefault(name, array("d"))
            column.extend([math.nan] * (self._cases - len(column)))
            column.append(mean)
        self._cases += 1

    def summary(self, judging_cost: Total) -> EvaluationSummary:
        """Return what they came to; `judging_cost` is the list price of all judges, US dollars."""
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
                agreement=math.fsum(shares) / len(shares) if len(shares) >= MANY_ENOUGH else None,
                agreement_cases=len(shares),
                correlations=tuple(self._correlations()),
                confidence=self._confidence(),
            ),
        )

    def _correlations(self) -> Iterator[Correlation]:
        # Most metrics score every case: their sides are made once.
        whole = {
            name: Centred(column)
            for name, column in self._means.items()
            if len(column) == self._cases and not any(map(math.isnan, column))
        }
        for names in combinations(sorted(self._means), 2):
            if all(name in whole for name in names):
                cases, sides = self._cases, [whole[name] for name in names]
            else:
                columns = zip(*(self._means[name] for name in names), strict=False)
                pairs = [(x, y) for x, y in columns if not math.isnan(x + y)]
                cases, sides = len(pairs), [Centred(side) for side in zip(*pairs, strict=True)]
            if cases >= MANY_ENOUGH:
                yield Correlation(names, cases, correlation(*sides))

    def _confidence(self) -> ConfidenceDistribution:
        n, high, medium = self._stated, self._high, self._medium
        if not n:
            return ConfidenceDistribution(0, None, None, None)
        return ConfidenceDistribution(n, high / n, medium / n, (n - high - medium) / n)


def _agreeing(case: CaseVerdict) -> float | None:
    """Return the share of agreeing pairs of a case's metrics over its counted trials and turns."""
    agreed = pairs = 0
    for turn in case.turns:
        outcomes = [metric.outcome for metric in turn.metrics]
        passed, failed = outcomes.count("passed"), outcomes.count("failed")
        pairs += (passed + failed) * (passed + failed - 1) // 2
        agreed += (passed * (passed - 1) + failed * (failed - 1)) // 2
    return agreed / pairs if pairs else None


class MetricTally:
    """Every metric over the cases that gate, added up case by case.

    A case's score is its mean over counted trials and turns, so that trials are never pooled as cases; the suite's is
    the mean of those, weighted by case weight. Zeros count. docs/results.md has the formulas.
    """

    def __init__(self) -> None:
        self.scores: dict[str, Weighted] = {}
        """The score of every case that has one with its weight, by metric: what the means are made of."""
        self._seen: Counter[tuple[str, Outcome, Polarity, float | None]] = Counter()

    def add(self, metrics: Iterable[MetricVerdict], weight: float, means: Mapping[str, float]) -> None:
        """Add the metrics of a case with its weight and its mean scores by metric."""
        for metric in metrics:
            self._seen[metric.name, metric.outcome, metric.polarity, metric.threshold] += 1
        for name, mean in means.items():
            scores = self.scores.get(name)
            if scores is None:
                scores = self.scores[name] = Weighted()
            scores.add(mean, weight)

    @property
    def summaries(self) -> dict[str, MetricSummary]:
        """What each came to, in order of name."""
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
    """Return the mean score of each metric of a case over its counted trials and turns."""
    scores: dict[str, list[float]] = defaultdict(list)
    for metric in metrics:
        if metric.score is not None and metric.outcome not in ("skipped", "error"):
            scores[metric.name].append(metric.score)
    return {name: found[0] if len(found) == 1 else math.fsum(found) / len(found) for name, found in scores.items()}


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
