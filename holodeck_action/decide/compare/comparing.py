"""`compare`: what changed between two records, without a call to anything (docs/statistics.md)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.compare.case_changes import CaseChanges
from holodeck_action.decide.compare.comparable_metrics import ComparableMetrics, MetricsTally
from holodeck_action.decide.compare.comparison import (
    ComparedRun,
    Comparison,
    Consumed,
    Difference,
    MetricComparison,
    Unknown,
    UnpairedCase,
)
from holodeck_action.decide.compare.differences import MetricValues, PassTally, add_metrics, difference, with_states
from holodeck_action.decide.compare.pairing import CasePair, SameCase, judged_alike, title
from holodeck_action.decide.consumption import Consumption, Timings, Total
from holodeck_action.decide.exam import ExamTally
from holodeck_action.decide.statistics import equal_quantile
from holodeck_action.decide.verdict import CaseVerdict
from holodeck_action.record.record import BaseRun, CaseRecord, Record
from holodeck_action.record.sequences import Made
from holodeck_action.record.stored_cases import case_ids
from holodeck_action.suite.model.policy import Baseline, Gates


class Digests(NamedTuple):
    """SHA-256 of the canonical records of both runs; empty where nobody asks for it: making one takes a while."""

    base: str = ""
    head: str = ""


NO_DIGESTS = Digests()


def compare(
    base: Record,
    head: Record,
    settings: Baseline,
    *,
    against: BaseRun,
    judged: Sequence[CaseVerdict],
    digests: Digests = NO_DIGESTS,
    gates: Gates | None = None,
) -> Comparison:
    """Compare a run with its base, case by case.

    Cases are the same by id and content. Both sides are judged by the head's criteria on the metrics that both have, so
    that neither a raised threshold nor a new metric looks like a loss. Cases in quarantine are shown and count nowhere;
    a case that one side could not judge takes no part.

    Args:
        base: the record of the base.
        head: the record of the head.
        settings: the margin is taken from them.
        against: where the base comes from.
        judged: the verdicts on the head's cases, in their order.
        digests: of both records, where they are asked for.
        gates: those that the head is judged by; None for those of its record.
    """
    exam = ExamTally(base, head, against, head.gates if gates is None else gates, settings)
    matched = _matched(base, head, exam, judged)
    same, metrics = matched.same, matched.metrics

    def pair_at(at: int) -> CasePair:
        return judged_alike(
            same[at],
            judged[matched.places[at]],
            metrics.silent,
            base_stops=base.stop_when_decided,
            head_stops=head.stop_when_decided,
        )

    small = isinstance(base.cases, tuple) and isinstance(head.cases, tuple)
    found = _Found(CaseChanges(None if small else pair_at), matched.unselected)
    for at in range(len(same)):
        found.add(pair_at(at), at, metrics)
    passed = found.passed.values
    asked, now = base.provenance.target, head.provenance.target
    pass_rate, compared = _with_states(
        difference(passed, settings.margin) if passed else None,
        [_metric(name, metrics, found.metrics, settings.margin) for name in metrics.polarities],
        settings.margin,
    )
    return Comparison(
        base=replace(_run(base, against.source, digests.base, against.distance), name=against.name),
        head=_run(head, "this run", digests.head),
        margin=settings.margin,
        paired=found.comparable,
        pass_rate=pass_rate,
        metrics=compared,
        regressed=found.changes.worst_first("regressed"),
        fixed=found.changes.worst_first("fixed"),
        unpaired=(*matched.others, *found.missing, *found.unexplained),
        base_consumed=matched.base_took.consumed,
        head_consumed=matched.head_took.consumed,
        notices=(
            *against.notices,
            *_notices(base, found),
            *metrics.notices,
            *_left_out(found.metrics, metrics),
        ),
        unknown_now=found.unknown_now,
        unknown_base=found.unknown_base,
        exam=exam.found(),
        targets=None if asked == now else (asked, now),
    )


class _Took:
    """What the cases took that both runs have, so that added cases do not look like a rise."""

    def __init__(self) -> None:
        self._times, self._took = Timings(), Consumption()

    def add(self, case: CaseRecord) -> None:
        for turn in case.turns:
            self._times.add(turn)
            self._took.add(turn)

    @property
    def consumed(self) -> Consumed:
        answered, begun = self._times.answers, self._times.first_tokens
        tokens = _known(self._took.tokens)
        return Consumed(
            cost_usd=_known(self._took.cost_usd),
            tokens=None if tokens is None else round(tokens),
            p50_latency_ms=answered.quantile(0.5),
            p95_latency_ms=answered.quantile(0.95),
            p95_first_token_ms=equal_quantile(begun.answered, 0.95),
        )


def _known(total: Total) -> float | None:
    return None if total.unknown else total.known


class _Matched(Struct, frozen=True):
    """The cases of two records by id and content.

    Attributes:
        same: those that are the same, in the head's order.
        places: where each of these stands in the head.
        others: all others.
        metrics: what can be compared of these.
        base_took: what they took on the base.
        head_took: what they took now.
        unselected: those that filters left out of the base.
    """

    same: Sequence[SameCase]
    places: Sequence[int]
    others: tuple[UnpairedCase, ...]
    metrics: ComparableMetrics
    base_took: _Took
    head_took: _Took
    unselected: Unknown


def _matched(base: Record, head: Record, exam: ExamTally, judged: Sequence[CaseVerdict]) -> _Matched:
    """Match the cases of two records, and look at what each of them asks."""
    filters = base.provenance.filters
    left_out, unselected = bool(filters) and filters != head.provenance.filters, Unknown()
    metrics, base_took, head_took = MetricsTally(base, head), _Took(), _Took()
    alone = {name: place for place, name in enumerate(case_ids(base.cases))}
    base_places, head_places = array("Q"), array("Q")
    unpaired = []
    for place, case in enumerate(head.cases):
        metrics.add_head(case, place)
        at = alone.pop(case.id, None)
        known = None if at is None else base.cases[at]
        exam.add(case, known, place)
        state = judged[place].outcome == "failed", judged[place].outcome == "quarantined"
        if known is None and left_out:
            reason = f"it is not in the base's selection (its filters: {', '.join(sorted(filters))})"
            unpaired.append(UnpairedCase(case.id, title(case), "not evaluated", reason, *state))
            if judged[place].outcome != "quarantined":
                worse = int(case.asserting and judged[place].judged != "passed")
                unselected = Unknown(unselected.cases + 1, unselected.worse + worse)
            continue
        if at is None or known is None:
            unpaired.append(UnpairedCase(case.id, title(case), "added", "the base does not have it", *state))
            continue
        metrics.add_base(known, at)
        if known.content_hash != case.content_hash:
            reason = "its questions or expectations are not those of the base"
            unpaired.append(UnpairedCase(case.id, title(case), "changed", reason, *state))
            continue
        metrics.add_same(SameCase(known, case))
        base_took.add(known)
        head_took.add(case)
        base_places.append(at)
        head_places.append(place)
    for at in alone.values():
        gone = base.cases[at]
        metrics.add_base(gone, at)
        exam.add_removed(gone, at)
        unpaired.append(UnpairedCase(gone.id, title(gone), "removed", "only the base has it"))
    return _Matched(
        Made(len(head_places), lambda at: SameCase(base.cases[base_places[at]], head.cases[head_places[at]])),
        head_places,
        tuple(sorted(unpaired, key=lambda case: (case.why, case.id))),
        metrics.found,
        base_took,
        head_took,
        unselected,
    )


class _Found:
    """What pairs of cases come to, one by one.

    Attributes:
        changes: those that pass on one side and fail on the other.
        missing: those that one side could not judge.
        unexplained: those whose change rests on what was not evaluated on both sides.
        passed: the values of the pass rate.
        metrics: the values of each metric, by name.
        comparable: how many tell anything.
        repeated_otherwise: whether the runs repeat one differently.
    """

    def __init__(self, changes: CaseChanges, unselected: Unknown) -> None:
        self.changes = changes
        self.missing: list[UnpairedCase] = []
        self.unexplained: list[UnpairedCase] = []
        self.passed = PassTally()
        self.metrics: dict[str, MetricValues] = {}
        self.comparable = 0
        self.repeated_otherwise = False
        self.unknown_now, self.unknown_base = Unknown(), unselected

    def add(self, pair: CasePair, place: int, metrics: ComparableMetrics) -> None:
        if pair.missing:
            self._add_unknown(pair, metrics, counted=False)
            self.missing.append(_not_evaluated(pair, pair.missing))
            return
        reason = self.changes.add(pair, place) if pair.decided else ""
        regressed = (pair.base.judged, pair.head.judged) == ("passed", "failed")
        self._add_unknown(pair, metrics, counted=regressed and not reason)
        if reason:
            self.unexplained.append(_not_evaluated(pair, reason))
            return
        if pair.quarantined:
            return
        if pair.decided:
            self.passed.add(pair)
        add_metrics(self.metrics, pair)
        self.comparable += _comparable(pair, metrics)
        self.repeated_otherwise = self.repeated_otherwise or pair.same.base.repeat != pair.same.head.repeat

    def _add_unknown(self, pair: CasePair, metrics: ComparableMetrics, *, counted: bool) -> None:
        """Count a case of which one side is unknown; of both, the base leaves it open.

        Args:
            pair: the case.
            metrics: which of its metrics can be compared.
            counted: whether it is counted as worse already.
        """
        base, head = pair.unknown_sides(metrics.asserting - metrics.incomparable.keys())
        if pair.quarantined or not (base or head):
            return
        better = (pair.head.judged == "passed" and not head) or (pair.base.judged == "failed" and not base)
        worse = int(not counted and not better and pair.same.head.asserting)
        if base:
            self.unknown_base = Unknown(self.unknown_base.cases + 1, self.unknown_base.worse + worse)
        else:
            self.unknown_now = Unknown(self.unknown_now.cases + 1, self.unknown_now.worse + worse)


def _run(record: Record, source: str, digest: str, distance: int | None = None) -> ComparedRun:
    return ComparedRun(source, record.provenance.commit, record.run.started_at, digest, distance)


def _comparable(pair: CasePair, metrics: ComparableMetrics) -> bool:
    return pair.decided or any(place[1] not in metrics.incomparable for place, _, _ in pair.same.common)


def _metric(
    name: str, metrics: ComparableMetrics, values: Mapping[str, MetricValues], margin: float
) -> MetricComparison:
    polarity, found = metrics.polarities[name], values.get(name)
    reason, change = metrics.incomparable.get(name, ""), None
    if not reason and (found is None or not found.values):
        reason = "no case was evaluated on both sides" + (f" ({found.example})" if found and found.example else "")
    elif not reason and found is not None:
        change = difference(found.values, margin, minimize=polarity == "minimize")
    return MetricComparison(name, polarity, change, reason, name in metrics.asserting)


def _with_states(
    pass_rate: Difference | None, metrics: Sequence[MetricComparison], margin: float
) -> tuple[Difference | None, tuple[MetricComparison, ...]]:
    """Adjust all p-values together, and say what each difference shows."""
    measures = [(each.change, each.gates) for each in metrics if each.change is not None]
    if pass_rate is not None:
        measures.append((pass_rate, True))
    states = iter(with_states([change for change, _ in measures], [gates for _, gates in measures], margin))
    compared = tuple(each if each.change is None else replace(each, change=next(states)) for each in metrics)
    return next(states, None), compared


def _not_evaluated(pair: CasePair, reason: str) -> UnpairedCase:
    failing = pair.head.judged == "failed" and not pair.quarantined
    return UnpairedCase(pair.same.head.id, pair.same.title, "not evaluated", reason, failing, pair.quarantined)


def _notices(base: Record, found: _Found) -> Iterator[str]:
    if base.stopped is not None:
        yield f"The base stopped early: {base.stopped}."
    if found.repeated_otherwise:
        yield "The runs repeat their cases differently; of each case as many first trials count as both have."
    if found.passed.by_trial:
        yield "Cases are repeated, so the pass rate is compared as the share of passing trials."


def _left_out(values: Mapping[str, MetricValues], metrics: ComparableMetrics) -> Iterator[str]:
    for name, found in sorted(values.items()):
        if found.missing and found.values and name not in metrics.incomparable:
            plural = "s" * (found.missing > 1)
            yield f"{name} leaves out {found.missing} case{plural} that one side did not evaluate ({found.example})."
