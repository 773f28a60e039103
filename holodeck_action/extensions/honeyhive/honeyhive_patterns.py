"""Comparisons in HoneyHive's data model: of a run with its base, of judges with human labels, and of runs over time.

HoneyHive defines the names of fields; their exact meaning is defined here and in docs/results.md.
"""

from __future__ import annotations

import math
import statistics
import uuid
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from holodeck_action.decide.compare.comparison import Comparison, Difference, Preference
from holodeck_action.extensions.history.history_lines import HistoryLine, configuration_digest
from holodeck_action.extensions.honeyhive.honeyhive_models import (
    ABTestEvaluation,
    AIEvaluation,
    ComparisonData,
    HumanAIEvaluation,
    HumanEvaluation,
    TemporalEvaluation,
)
from holodeck_action.record.evaluation import Polarity
from holodeck_action.record.judge_card import CardSummary, JudgeCard
from holodeck_action.record.record import Record
from holodeck_action.reports.report_views import MetricView, Report

_CASES_METRIC = "pass_rate"
"""Name of the pass rate of cases in fields that contain names of metrics."""
_NOISE = 0.1
"""Largest stable change of a mean that has no confidence interval; equals the default margin of a comparison."""


def derived_id(prefix: str, *parts: str) -> str:
    """Return an id that depends only on the arguments: the prefix and a UUID derived from the parts."""
    return f"{prefix}_{uuid.uuid5(uuid.NAMESPACE_URL, ' '.join(parts))}"


def ab_tests(comparison: Comparison) -> Iterator[ABTestEvaluation]:
    """Yield the comparisons with the base: of each metric whose judge compared answers; if there is no such metric, of
    the pass rate and every comparable metric."""
    if comparison.preferences:
        judged = {each.metric: each for each in comparison.preferences}
        for metric in comparison.metrics:
            if metric.change is not None and metric.name in judged:
                said = _pairs_text(judged[metric.name])
                yield replace(_ab_test(metric.name, metric.change, comparison), explanation=said)
        return
    if comparison.pass_rate is not None:
        yield _ab_test(_CASES_METRIC, comparison.pass_rate, comparison)
    for metric in comparison.metrics:
        if metric.change is not None:
            yield _ab_test(metric.name, metric.change, comparison)


def _pairs_text(preference: Preference) -> str:
    return (
        f"a judge compared {preference.pairs} pair(s) of answers: this run's was better in {preference.wins}, "
        f"the base's in {preference.losses}, neither in {preference.ties}"
    )


def _ab_test(metric: str, change: Difference, comparison: Comparison) -> ABTestEvaluation:
    head, base = comparison.head, comparison.base
    preference = _preference(change.difference)
    interval = None
    if change.low is not None and change.high is not None:
        interval = (_preference(change.low), _preference(change.high))
    return ABTestEvaluation(
        evaluation_id=derived_id("eval", "ab_test_comparison", head.record_digest, base.record_digest, metric),
        target_event_id=head.record_digest,
        metric=metric,
        score=preference,
        explanation=f"this run has {change.head:.4g} and the base {change.base:.4g} over {change.pairs} case(s)",
        timestamp=head.started_at,
        comparison_data=ComparisonData(
            variant_a_event_id=head.record_digest,
            variant_b_event_id=base.record_digest,
            preference_score=preference,
            confidence_interval=interval,
            sample_size=change.pairs,
            statistical_significance=change.significant,
            difference=change.difference,
            mean_a=change.head,
            mean_b=change.base,
            state=change.state,
        ),
    )


def _preference(difference: float) -> float:
    """Return the preference score ½ + d/2 for a difference d in −1..1.

    If scores are 0 or 1, d is the proportion of cases that A wins minus the proportion that it loses. So the result is
    the proportion that A wins, where a tie counts as half a case: the probability of superiority (Vargha & Delaney
    2000).
    """
    return min(1.0, max(0.0, 0.5 + difference / 2))


def card_comparison(card: JudgeCard) -> HumanAIEvaluation:
    """Return a judge card as a comparison of the judge with human labels over the labelled answers."""
    human, judge = card.pass_rates.human.value, card.pass_rates.judge.value
    what, human_text, judge_text = "answers", "that people pass", "that the judge passes"
    agreed = card.verdicts.agreement_count
    if card.pairs is not None:
        human, judge = card.pairs.win_rates
        what, human_text, judge_text = "pairs of answers", "that people say are won", "that the judge says are won"
        agreed = card.pairs.agreement_count
    return HumanAIEvaluation(
        evaluation_id=derived_id("eval", "human_ai_comparison", card.labels, card.source, card.created_at, card.metric),
        target_event_id=card.source,
        metric=card.metric,
        score=card.judge.agreement.value,
        explanation=f"{agreed} of {card.n} labelled {what} got the same verdict",
        timestamp=card.created_at,
        status="completed" if card.n else "failed",
        human_evaluation=HumanEvaluation(
            annotator_id=f"labels:{card.labels}",
            score=human,
            explanation=f"share of {card.n} labelled {what} {human_text}",
        ),
        ai_evaluation=AIEvaluation(
            model=", ".join(card.judges) or None,
            score=judge,
            explanation=f"share of {card.n} labelled {what} {judge_text}",
        ),
        agreement_score=card.judge.agreement.value,
        discrepancy_analysis=_discrepancy(card),
        sample_size=card.n,
    )


def _discrepancy(card: JudgeCard) -> str:
    table = card.verdicts
    text = (
        f"the judge passes {table.false_pass} of {table.human_fails} answers that people fail, and fails "
        f"{table.false_fail} of {table.human_passes} that people pass"
    )
    if card.pairs is not None:
        text = f"the order decided {card.pairs.flipped} of {card.n} verdicts, which are ties"
    if card.judge.kappa.value is not None:
        text += f"; Cohen's κ {card.judge.kappa.value:.3f}"
    if card.disagreements:
        text += f"; lines of the labels: {', '.join(str(each.line) for each in card.disagreements)}"
    return text


def summary_comparison(card: CardSummary, record: Record, record_digest: str) -> HumanAIEvaluation:
    """Convert a judge card in the record to a comparison of the judge with humans on this run.

    The scores are the judge's pass rate and the estimate of the pass rate that people would give.
    """
    if card.stale:
        text = f"the judge card of {card.made_on} is stale: {'; '.join(card.stale)}"
        estimated = "not estimated, because the judge card is stale"
    else:
        kappa = "not defined" if card.kappa.value is None else f"{card.kappa.value:.3f}"
        text = f"on {card.labels} labelled answers Cohen's κ is {kappa}"
        estimated = f"share of this run's answers that people would pass, estimated from {card.labels} labelled answers"
    if card.of_pairs:
        estimated = "not estimated, because the labels compare two answers"
    configuration = record.configurations.get(card.metric)
    return HumanAIEvaluation(
        evaluation_id=derived_id("eval", "human_ai_comparison", record_digest, card.metric, card.made_on),
        target_event_id=record_digest,
        metric=card.metric,
        score=card.agreement.value,
        explanation=f"agreement of judge and people on {card.labels} labelled answers of {card.made_on}",
        timestamp=record.run.finished_at,
        status="completed" if card.agreement.value is not None else "failed",
        human_evaluation=HumanEvaluation(f"judge-card:{card.made_on}", card.corrected.value, estimated),
        ai_evaluation=AIEvaluation(
            model=None if configuration is None else ", ".join(configuration.judges),
            score=card.pass_rate.value,
            explanation=f"share of {card.judged} answers of this run that the judge passes",
        ),
        agreement_score=card.agreement.value,
        discrepancy_analysis=text,
        sample_size=card.labels,
    )


def temporal_evaluations(
    report: Report, record: Record, earlier_lines: Sequence[HistoryLine]
) -> Iterator[TemporalEvaluation]:
    """Yield the trend of the pass rate and of each metric's mean: one value per run, oldest first, this run last.

    Means of earlier runs with other judges or other judge settings are omitted.
    """
    digest, now = report.provenance.record_digest, record.run.started_at
    if report.pass_rate is not None:
        points = [(line.time, line.pass_rate.value) for line in earlier_lines if line.pass_rate is not None]
        yield _temporal_evaluation(_CASES_METRIC, "maximize", [*points, (now, report.pass_rate)], _NOISE, digest)
    for metric in report.metrics:
        if metric.mean is not None:
            points = list(_earlier_means(metric.name, record, earlier_lines))
            yield _temporal_evaluation(
                metric.name, metric.polarity, [*points, (now, metric.mean)], _mean_margin(metric), digest
            )


def _earlier_means(metric: str, record: Record, earlier_lines: Sequence[HistoryLine]) -> Iterator[tuple[str, float]]:
    found = record.configurations.get(metric)
    judged = None if found is None else configuration_digest(found)
    for line in earlier_lines:
        point = line.metrics.get(metric)
        if point is not None and point.configuration == judged:
            yield line.time, point.mean.value


def _mean_margin(metric: MetricView) -> float:
    """Return half the width of the confidence interval of a metric's mean, or `_NOISE` without an interval."""
    return _NOISE if metric.low is None or metric.high is None else (metric.high - metric.low) / 2


def _temporal_evaluation(
    metric: str, polarity: Polarity, points: Sequence[tuple[str, float]], noise: float, digest: str
) -> TemporalEvaluation:
    scores = [score for _, score in points]
    rate = _slope(scores)
    several = len(scores) > 1
    text = f"{len(scores)} runs, from {min(scores):.4g} to {max(scores):.4g}" if several else "this run alone"
    return TemporalEvaluation(
        evaluation_id=derived_id("eval", "temporal_quality", digest, metric, *(time for time, _ in points)),
        target_event_id=digest,
        metric=metric,
        score=scores[-1],
        explanation=text,
        timestamp=points[-1][0],
        polarity=polarity,
        current_score=scores[-1],
        historical_scores=tuple(scores),
        historical_timestamps=tuple(time for time, _ in points),
        trend=None if rate is None else _trend(rate * (len(scores) - 1), noise, polarity),
        change_rate=rate,
        stability_score=None if rate is None else max(0.0, 1 - 2 * statistics.pstdev(scores)),
    )


def _slope(scores: Sequence[float]) -> float | None:
    """Return the slope of the least-squares line through scores at 0, 1, 2, …; None for fewer than two scores."""
    if len(scores) < 2:
        return None
    middle, mean = (len(scores) - 1) / 2, statistics.fmean(scores)
    across = math.fsum((at - middle) ** 2 for at in range(len(scores)))
    return math.fsum((at - middle) * (score - mean) for at, score in enumerate(scores)) / across


def _trend(slope: float, noise: float, polarity: Polarity) -> Literal["improving", "stable", "degrading"] | None:
    if polarity == "neutral":
        return None
    if abs(slope) <= noise:
        return "stable"
    return "improving" if (slope > 0) == (polarity == "maximize") else "degrading"
