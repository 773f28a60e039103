"""`compare`: what changed between two records, without a call to anything (docs/statistics.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from holodeck_action.results.case_changes import case_changes
from holodeck_action.results.comparable_metrics import ComparableMetrics, comparable_metrics
from holodeck_action.results.comparison import (
    ComparedRun,
    Comparison,
    Consumed,
    Difference,
    MetricComparison,
    UnpairedCase,
)
from holodeck_action.results.consumption import Total, consumed, timed
from holodeck_action.results.differences import MetricValues, difference, metric_values, pass_values, with_states
from holodeck_action.results.pairing import CasePair, judged_alike, same_cases
from holodeck_action.results.record import BaseRun, CaseRecord, Record
from holodeck_action.results.statistics import equal_quantile
from holodeck_action.results.verdict import CaseVerdict
from holodeck_action.suite.policy import Baseline


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
    """
    same, others = same_cases(base, head, judged)
    metrics = comparable_metrics(base, head, same)
    all_pairs = [
        judged_alike(each, metrics.silent, base_stops=base.stop_when_decided, head_stops=head.stop_when_decided)
        for each in same
    ]
    both = [pair for pair in all_pairs if not pair.missing]
    changes = case_changes([pair for pair in both if pair.decided])
    missing = [(pair, pair.missing) for pair in all_pairs if pair.missing] + list(changes.unexplained)
    gone = {id(pair) for pair, _ in missing}
    pairs = [pair for pair in both if id(pair) not in gone and not pair.quarantined]
    passed, by_trial = pass_values([pair for pair in pairs if pair.decided])
    values = metric_values(pairs)
    pass_rate, compared = _with_states(
        difference(passed, settings.margin) if passed else None,
        [_metric(name, metrics, values, settings.margin) for name in metrics.polarities],
        settings.margin,
    )
    return Comparison(
        base=replace(_run(base, against.source, digests.base, against.distance), name=against.name),
        head=_run(head, "this run", digests.head),
        margin=settings.margin,
        paired=sum(_comparable(pair, metrics) for pair in pairs),
        pass_rate=pass_rate,
        metrics=compared,
        regressed=changes.regressed,
        fixed=changes.fixed,
        unpaired=(*others, *(_not_evaluated(pair, reason) for pair, reason in missing)),
        base_consumed=_consumed([each.base for each in same]),
        head_consumed=_consumed([each.head for each in same]),
        notices=(
            *against.notices,
            *_notices(base, pairs, by_trial=by_trial),
            *metrics.notices,
            *_left_out(values, metrics),
        ),
    )


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
    return UnpairedCase(pair.same.head.id, pair.same.title, "not evaluated", reason)


def _consumed(cases: Sequence[CaseRecord]) -> Consumed:
    """Return what the cases took that both runs have, so that added cases do not look like a rise."""
    times, took = timed(cases), consumed(cases)
    answered, begun = times.answers.answered, times.first_tokens.answered
    tokens = _known(took.tokens)
    return Consumed(
        cost_usd=_known(took.cost_usd),
        tokens=None if tokens is None else round(tokens),
        p50_latency_ms=equal_quantile(answered, 0.5),
        p95_latency_ms=equal_quantile(answered, 0.95),
        p95_first_token_ms=equal_quantile(begun, 0.95),
    )


def _known(total: Total) -> float | None:
    return None if total.unknown else total.known


def _notices(base: Record, pairs: Sequence[CasePair], *, by_trial: bool) -> Iterator[str]:
    if base.stopped is not None:
        yield f"The base stopped early: {base.stopped}."
    counts = {(pair.same.base.repeat, pair.same.head.repeat) for pair in pairs}
    if any(before != now for before, now in counts):
        yield "The runs repeat their cases differently; of each case as many first trials count as both have."
    if by_trial:
        yield "Cases are repeated, so the pass rate is compared as the share of passing trials."


def _left_out(values: Mapping[str, MetricValues], metrics: ComparableMetrics) -> Iterator[str]:
    for name, found in values.items():
        if found.missing and found.values and name not in metrics.incomparable:
            plural = "s" * (found.missing > 1)
            yield f"{name} leaves out {found.missing} case{plural} that one side did not evaluate ({found.example})."
