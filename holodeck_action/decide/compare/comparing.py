"""`compare`: finds the changes between two records, without calling a model (docs/statistics.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.compare.case_changes import CaseChanges
from holodeck_action.decide.compare.comparable_metrics import ComparableMetrics, MetricsTally
from holodeck_action.decide.compare.comparison import (
    ComparedRun,
    Comparison,
    Difference,
    MetricComparison,
    Preference,
    UnknownCases,
    UnpairedCase,
)
from holodeck_action.decide.compare.confirming import FurtherTrials
from holodeck_action.decide.compare.differences import (
    MetricValues,
    PassTally,
    add_metrics,
    classify_differences,
    difference,
)
from holodeck_action.decide.compare.pairing import CasePair, SameCase, case_difference, judge_pair, same_case, title
from holodeck_action.decide.compare.usage_tally import UsageTally
from holodeck_action.decide.compared_terms import TermsTally
from holodeck_action.decide.survey import case_judge
from holodeck_action.decide.verdict import CaseVerdict
from holodeck_action.record.record import BaseRun, Record
from holodeck_action.seam import registry
from holodeck_action.suite.model.policy import Baseline, Gates


class Digests(NamedTuple):
    """SHA-256 digests of both canonical records; empty if they were not computed, which is slow."""

    base: str = ""
    head: str = ""


NO_DIGESTS = Digests()


def compare(
    base: Record,
    head: Record,
    settings: Baseline,
    *,
    base_run: BaseRun,
    judged: Sequence[CaseVerdict],
    digests: Digests = NO_DIGESTS,
    gates: Gates | None = None,
) -> Comparison:
    """Compare a run with its base, case by case.

    Cases are matched by id and content. Both sides are judged by the head's criteria on the metrics that both have, so
    that neither a raised threshold nor a new metric looks like a regression. Quarantined cases are reported but not
    counted. A case that one side could not judge is not compared.

    Args:
        base: the record of the base.
        head: the record of the head.
        settings: settings of the comparison, with the margin.
        base_run: the origin of the base.
        judged: the verdicts on the head's cases, in the order of the cases.
        digests: digests of both records; empty if they are not needed.
        gates: the gates by which the head is judged; None to use the gates of its record.
    """
    terms = TermsTally(base, head, base_run, head.gates if gates is None else gates, settings)
    matched = _match_cases(base, head, terms, judged)
    metrics = matched.metrics
    further = _further_trials(base, head, settings) if settings.on_case_regression == "confirm" else None
    found = _PairTally(CaseChanges(further), matched.unselected)
    for same, verdict in matched.same:
        pair = judge_pair(
            same,
            verdict,
            metrics.informational,
            base_stops=base.stop_when_decided,
            head_stops=head.stop_when_decided,
        )
        found.add(pair, metrics)
    shown = (same for same, verdict in matched.same if verdict.outcome != "quarantined")
    preferences = _judged_pairs(shown, metrics, settings.margin, records=(base, head), gates=gates or head.gates)
    passed = found.passed.values
    asked, now = base.provenance.target, head.provenance.target
    pass_rate, compared = _judge_measures(
        difference(passed, settings.margin) if passed else None,
        [
            preferences[name][0]
            if name in preferences
            else _compare_metric(name, metrics, found.metrics, settings.margin)
            for name in metrics.polarities
        ],
        settings.margin,
    )
    return Comparison(
        base=replace(_compared_run(base, base_run.source, digests.base, base_run.distance), name=base_run.name),
        head=_compared_run(head, "this run", digests.head),
        margin=settings.margin,
        paired=found.comparable,
        pass_rate=pass_rate,
        metrics=compared,
        regressed=found.changes.largest_first("regressed"),
        fixed=found.changes.largest_first("fixed"),
        flaky=found.changes.largest_first("flaky"),
        undecided=found.changes.largest_first("undecided"),
        unpaired=(*matched.others, *found.missing, *found.unexplained),
        base_consumed=matched.base_usage.consumed,
        head_consumed=matched.head_usage.consumed,
        notices=(
            *base_run.notices,
            *_notices(base, found),
            *metrics.notices,
            *_partial_metric_notices(found.metrics, metrics),
        ),
        unknown_now=found.unknown_now,
        unknown_base=found.unknown_base,
        terms=terms.changes(),
        targets=None if asked == now else (asked, now),
        preferences=tuple(preference for _, preference in preferences.values()),
        same_outcomes=_has_same_outcomes(base, matched),
    )


def _has_same_outcomes(base: Record, matched: _MatchedCases) -> bool:
    """Return whether each case of both runs has the outcome that it had by the base's own criteria and trials."""
    judge = case_judge(base)
    return all(judge(same.whole[0]).outcome == verdict.outcome for same, verdict in matched.same)


def _further_trials(base: Record, head: Record, settings: Baseline) -> FurtherTrials:
    """Return the numbers of further trials that were planned when each side ran. A base that ran beside the head has
    the head's settings."""
    asked = settings if head.baseline is None else head.baseline.settings
    return FurtherTrials(
        (asked if base.baseline is None else base.baseline.settings).confirm.trials, asked.confirm.trials
    )


def _judged_pairs(
    cases: Iterable[SameCase],
    metrics: ComparableMetrics,
    margin: float,
    *,
    records: tuple[Record, Record],
    gates: Gates,
) -> Mapping[str, tuple[MetricComparison, Preference]]:
    """Return, by name, each metric that compares the head's answers with the base's, together with its verdicts on the
    pairs.

    These metrics can fail the run if the gate on the win rate is set.
    """
    pairs = registry.pairs()
    if pairs is None or not metrics.paired:
        return {}
    targets = tuple(record.provenance.target for record in records)
    found: Mapping[str, tuple[MetricComparison, Preference]] = registry.resolve(pairs.summarise)(
        (each.whole for each in cases),
        targets,
        margin,
        gates=gates.min_win_rate_lower_bound is not None,
    )
    return found


class _MatchedCases(Struct, frozen=True):
    """The cases of two records by id and content.

    Attributes:
        same: cases that both records have with equal content, with the head's verdicts, in the head's order.
        others: all other cases.
        metrics: the metrics that can be compared.
        base_usage: the base's usage for the cases in `same`.
        head_usage: the head's usage for the cases in `same`.
        unselected: number of cases that the base did not run because of filters.
    """

    same: Sequence[tuple[SameCase, CaseVerdict]]
    others: tuple[UnpairedCase, ...]
    metrics: ComparableMetrics
    base_usage: UsageTally
    head_usage: UsageTally
    unselected: UnknownCases


def _match_cases(base: Record, head: Record, terms: TermsTally, judged: Sequence[CaseVerdict]) -> _MatchedCases:
    """Match the cases of two records, and collect their metrics, terms and usage."""
    filters = base.provenance.filters
    left_out, unselected = bool(filters) and filters != head.provenance.filters, UnknownCases()
    metrics, base_usage, head_usage = MetricsTally(base, head), UsageTally(), UsageTally()
    alone = {case.id: case for case in base.cases}
    same = []
    unpaired = []
    for case, verdict in zip(head.cases, judged, strict=True):
        known = alone.pop(case.id, None)
        terms.add(case, known)
        state = verdict.outcome == "failed", verdict.outcome == "quarantined"
        if known is None and left_out:
            reason = f"it is not in the base's selection (its filters: {', '.join(sorted(filters))})"
            unpaired.append(UnpairedCase(case.id, title(case), "not evaluated", reason, *state))
            if verdict.outcome != "quarantined":
                worse = int(case.asserting and verdict.judged != "passed")
                unselected = UnknownCases(unselected.cases + 1, unselected.worse + worse)
            continue
        if known is None:
            unpaired.append(UnpairedCase(case.id, title(case), "added", "the base does not have it", *state))
            continue
        difference = case_difference(known, case)
        if difference is not None:
            unpaired.append(UnpairedCase(case.id, title(case), "changed", difference, *state))
            continue
        pair = same_case(known, case)
        metrics.add(pair)
        base_usage.add(known)
        head_usage.add(case)
        same.append((pair, verdict))
    for gone in alone.values():
        terms.add_removed(gone)
        unpaired.append(UnpairedCase(gone.id, title(gone), "removed", "only the base has it"))
    return _MatchedCases(
        same,
        tuple(sorted(unpaired, key=lambda case: (case.why, case.id))),
        metrics.result,
        base_usage,
        head_usage,
        unselected,
    )


class _PairTally:
    """Adds up, pair by pair, the results of the cases of both runs.

    Attributes:
        changes: cases that pass on one side and fail on the other.
        missing: cases that one side could not judge.
        unexplained: changed cases for which no metric that both sides evaluated explains the change.
        passed: the results of each case on both sides.
        metrics: the values of each metric, by name.
        comparable: number of cases with a verdict or a comparable metric.
        trial_counts_differ: whether a case has different numbers of trials in both runs.
    """

    def __init__(self, changes: CaseChanges, unselected: UnknownCases) -> None:
        self.changes = changes
        self.missing: list[UnpairedCase] = []
        self.unexplained: list[UnpairedCase] = []
        self.passed = PassTally()
        self.metrics: dict[str, MetricValues] = {}
        self.comparable = 0
        self.trial_counts_differ = False
        self.unknown_now, self.unknown_base = UnknownCases(), unselected

    def add(self, pair: CasePair, metrics: ComparableMetrics) -> None:
        if pair.unjudged_reason:
            self._add_unknown(pair, metrics, is_counted=False)
            self.missing.append(_unevaluated_case(pair, pair.unjudged_reason))
            return
        reason = self.changes.add(pair) if pair.is_decided else ""
        regressed = (pair.base.judged, pair.head.judged) == ("passed", "failed")
        self._add_unknown(pair, metrics, is_counted=regressed and not reason)
        if reason:
            self.unexplained.append(_unevaluated_case(pair, reason))
            return
        if pair.quarantined:
            return
        if pair.is_decided:
            self.passed.add(pair)
        add_metrics(self.metrics, pair)
        self.comparable += _is_comparable(pair, metrics)
        self.trial_counts_differ = self.trial_counts_differ or pair.same.base.repeat != pair.same.head.repeat

    def _add_unknown(self, pair: CasePair, metrics: ComparableMetrics, *, is_counted: bool) -> None:
        """Count a case whose result is unknown on one side or on both. If it is unknown on both, it counts as unknown
        on the base.

        Args:
            pair: the case.
            metrics: the metrics that can be compared.
            is_counted: whether the case already counts as worse.
        """
        base, head = pair.unknown_sides(metrics.asserting - metrics.incomparable.keys())
        if pair.quarantined or not (base or head):
            return
        better = (pair.head.judged == "passed" and not head) or (pair.base.judged == "failed" and not base)
        worse = int(not is_counted and not better and pair.same.head.asserting)
        if base:
            self.unknown_base = UnknownCases(self.unknown_base.cases + 1, self.unknown_base.worse + worse)
        else:
            self.unknown_now = UnknownCases(self.unknown_now.cases + 1, self.unknown_now.worse + worse)


def _compared_run(record: Record, source: str, digest: str, distance: int | None = None) -> ComparedRun:
    return ComparedRun(source, record.provenance.commit, record.run.started_at, digest, distance)


def _is_comparable(pair: CasePair, metrics: ComparableMetrics) -> bool:
    return pair.is_decided or any(place[1] not in metrics.incomparable for place, _, _ in pair.same.common_evaluations)


def _compare_metric(
    name: str, metrics: ComparableMetrics, values: Mapping[str, MetricValues], margin: float
) -> MetricComparison:
    polarity, found = metrics.polarities[name], values.get(name)
    reason, change = metrics.incomparable.get(name, ""), None
    if not reason and (found is None or not found.values):
        reason = "no case was evaluated on both sides" + (f" ({found.example})" if found and found.example else "")
    elif not reason and found is not None:
        change = difference(found.values, margin, minimize=polarity == "minimize")
    return MetricComparison(name, polarity, change, reason, name in metrics.asserting)


def _judge_measures(
    pass_rate: Difference | None, metrics: Sequence[MetricComparison], margin: float
) -> tuple[Difference | None, tuple[MetricComparison, ...]]:
    """Return the pass rate and the metrics with adjusted p-values and the state of each difference."""
    measures = [(each.change, each.gates) for each in metrics if each.change is not None]
    if pass_rate is not None:
        measures.append((pass_rate, True))
    states = iter(classify_differences([change for change, _ in measures], [gates for _, gates in measures], margin))
    compared = tuple(each if each.change is None else replace(each, change=next(states)) for each in metrics)
    return next(states, None), compared


def _unevaluated_case(pair: CasePair, reason: str) -> UnpairedCase:
    failing = pair.head.judged == "failed" and not pair.quarantined
    return UnpairedCase(pair.same.head.id, pair.same.title, "not evaluated", reason, failing, pair.quarantined)


def _notices(base: Record, tally: _PairTally) -> Iterator[str]:
    if base.stopped is not None:
        yield f"The base stopped early: {base.stopped}."
    if tally.trial_counts_differ:
        yield (
            "The runs repeat cases a different number of times; for each case, only as many trials count as "
            "both runs have."
        )
    if tally.passed.by_trial:
        yield "Cases are repeated, so the pass rate is compared as the share of passing trials."


def _partial_metric_notices(values: Mapping[str, MetricValues], metrics: ComparableMetrics) -> Iterator[str]:
    for name, found in sorted(values.items()):
        if found.missing and found.values and name not in metrics.incomparable:
            plural = "s" * (found.missing > 1)
            yield f"{name} leaves out {found.missing} case{plural} that one side did not evaluate ({found.example})."
