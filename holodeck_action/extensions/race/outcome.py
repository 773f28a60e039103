"""The outcome of a race, as in race.json."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from holodeck_action.decide.consumption import Amounts, add_case_costs
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.decide.statistics import equal_quantile, weighted_mean
from holodeck_action.decide.survey import judge_cases
from holodeck_action.extensions.race.contest import Finished
from holodeck_action.extensions.race.evidence import UNKNOWN, Bounds
from holodeck_action.extensions.race.preparing import PreparedRace
from holodeck_action.extensions.race.variants import Value
from holodeck_action.record.facts import Known
from holodeck_action.record.record import ModelCalls, Record, SuiteIdentity
from holodeck_action.text.foreign import Redact

RACE_VERSION = 1
State = Literal["chosen", "left", "dropped", "over_limit"]


class Limits(Struct, frozen=True):
    """Limits on the chosen variant: US dollars per case, and 95th percentile of latency in ms; None for no limit."""

    cost_per_case_usd: float | None = None
    p95_ms: float | None = None


class DroppedBy(Struct, frozen=True):
    """The reason for a drop: name of the better rival, number of cases seen so far, and evidence for the rival."""

    rival: str
    cases: int
    evidence: float


class VariantRun(Struct, frozen=True):
    """Data of a variant's run that differ between repetitions of the race.

    Attributes:
        spent_usd: cost in US dollars of all answers, including answers that do not count; None if a cost is unknown.
        grid_usd: estimated cost in US dollars if the variant answered all cases; None if unknown.
        p95_ms: 95th percentile of the latency, in milliseconds, of answers that count; None if unknown.
        model_calls: totals of the variant's model calls; None if this program made none.
    """

    spent_usd: float | None
    grid_usd: float | None
    p95_ms: float | None
    model_calls: ModelCalls | None


class RacedVariant(Struct, frozen=True):
    """One variant's result in a race.

    Attributes:
        name: name of the variant.
        folder: name of the folder with the variant's results.
        settings: the settings that the variant changes.
        state: `chosen`; `left` if it is not dropped; `dropped`; or `over_limit` if it is left but exceeds a limit.
        value: weighted mean of the objective over the cases that count; None if no case has a known value.
        cases: number of cases that count.
        errors: number of these cases that ended in error.
        unknown: number of these cases whose value is unknown.
        cost_per_case_usd: mean cost of one case, with all of its trials; None if unknown.
        dropped: the reason for the drop; None if the variant was not dropped.
        over: sentences about limits that the variant exceeds or may exceed.
        run: data that differ between repetitions of the race.
    """

    name: str
    folder: str
    settings: Mapping[str, Value]
    state: State
    value: float | None
    cases: int
    errors: int
    unknown: int
    cost_per_case_usd: float | None
    dropped: DroppedBy | None
    over: tuple[str, ...]
    run: VariantRun


class RaceRun(Struct, frozen=True):
    """Data that differ between repetitions of a race: start, duration, cost, and estimated cost of the full grid."""

    started_at: str
    duration_ms: float
    spent_usd: float | None
    grid_usd: float | None


class RaceOutcome(Struct, frozen=True):
    """The outcome of a race.

    Attributes:
        schema_version: version of the file's schema.
        tool_version: version of holodeck-action.
        suite: the suite.
        commit: the commit that was checked out; None if unknown.
        objective: `pass_rate`, or the name of a metric.
        limits: limits on the chosen variant.
        cases: number of cases.
        seen: number of cases that all remaining variants had answered at the end.
        answers: number of answered cases that count, summed over all variants.
        grid_answers: number of cases times number of variants, the answers of the full grid.
        threshold: the evidence at which a variant is dropped.
        outcome: `leader`, `equal` (the variants that are left cannot be told apart), `over_limit` (all of them exceed a
            limit), or `undecided` (the race ended early, or values of variants that are left are unknown).
        exit_code: the exit code.
        reason: the outcome in one sentence.
        chosen: name of the chosen variant; None if there is none.
        variants: the variants, the best first.
        run: data that differ between repetitions of the race.
    """

    schema_version: int
    tool_version: str
    suite: SuiteIdentity
    commit: str | None
    objective: str
    limits: Limits
    cases: int
    seen: int
    answers: int
    grid_answers: int
    threshold: float
    outcome: Literal["leader", "equal", "over_limit", "undecided"]
    exit_code: int
    reason: str
    chosen: str | None
    variants: tuple[RacedVariant, ...]
    run: RaceRun


class _Verdict(Struct, frozen=True):
    outcome: Literal["leader", "equal", "over_limit", "undecided"]
    exit_code: int
    reason: str
    chosen: int | None


def conclude_race(
    race: PreparedRace,
    done: Finished,
    folders: Sequence[str],
    limits: Limits,
    *,
    cheapest: bool,
    run: tuple[str, float],
    redact: Redact,
) -> RaceOutcome:
    """Return the outcome of a race.

    Args:
        race: the race.
        done: results of the finished race.
        folders: names of the folders of the variants.
        limits: limits on the chosen variant.
        cheapest: whether to choose the cheapest of the variants that cannot be told apart.
        run: start of the race as ISO 8601, and its duration in milliseconds.
        redact: removes the secrets of all variants from text.
    """
    standing, first = done.standing, done.records[0]
    names = [redact(variant.name) for variant in race.variants]
    costs = [_cost_per_case(record, len(values)) for record, values in zip(done.records, done.values, strict=True)]
    times = [_p95(record) for record in done.records]
    over = [tuple(_violations(limits, cost, time)) for cost, time in zip(costs, times, strict=True)]
    errors = [sum(each.judged == "error" for each in judge_cases(record)) for record in done.records]
    verdict = _decide(race, done, names, over, costs, errors, cheapest=cheapest)
    raced: list[RacedVariant] = []
    for at, name in enumerate(names):
        drop = standing.dropped.get(at)
        state: State = "dropped" if drop is not None else "over_limit" if over[at] else "left"
        cost, settings = costs[at], race.variants[at].settings
        grid = None if cost is None else cost * len(race.order)
        raced.append(
            RacedVariant(
                name=name,
                folder=folders[at],
                settings={key: redact(value) if isinstance(value, str) else value for key, value in settings.items()},
                state="chosen" if at == verdict.chosen else state,
                value=_mean(done.values[at], [race.weights[place] for place in race.order]),
                cases=len(done.values[at]),
                errors=errors[at],
                unknown=sum(value == UNKNOWN for value in done.values[at]),
                cost_per_case_usd=cost,
                dropped=None if drop is None else DroppedBy(names[drop.rival], drop.cases, drop.wealth),
                over=over[at] if drop is None else (),
                run=VariantRun(done.spent[at].complete_sum, grid, times[at], done.records[at].run.model_calls),
            )
        )
    return RaceOutcome(
        schema_version=RACE_VERSION,
        tool_version=first.provenance.tool_version,
        suite=first.suite,
        commit=first.provenance.commit,
        objective=race.objective.name,
        limits=limits,
        cases=len(race.order),
        seen=standing.seen,
        answers=sum(map(len, done.values)),
        grid_answers=len(names) * len(race.order),
        threshold=standing.threshold,
        outcome=verdict.outcome,
        exit_code=verdict.exit_code,
        reason=verdict.reason,
        chosen=None if verdict.chosen is None else names[verdict.chosen],
        variants=tuple(sorted(raced, key=_rank)),
        run=RaceRun(*run, _sum([each.run.spent_usd for each in raced]), _sum([each.run.grid_usd for each in raced])),
    )


def _rank(variant: RacedVariant) -> tuple[bool, bool, int, float, float]:
    """Return the sort key: the chosen variant first, then others that are left, then dropped ones, the latest first."""
    dropped = variant.dropped
    value = -1.0 if variant.value is None else variant.value
    cost = math.inf if variant.cost_per_case_usd is None else variant.cost_per_case_usd
    return variant.state != "chosen", dropped is not None, -variant.cases, -value, cost


def _decide(
    race: PreparedRace,
    done: Finished,
    names: Sequence[str],
    exceeded: Sequence[Sequence[str]],
    costs: Sequence[float | None],
    errors: Sequence[int],
    *,
    cheapest: bool,
) -> _Verdict:
    standing = done.standing
    left = standing.living
    shown = _join([names[at] for at in left])
    seen = f"{standing.seen} of {count_phrase(standing.cases, 'case')}"
    if not standing.is_over:
        reason = f"undecided after {seen}: {done.stopped or 'the race ended early'}; left: {shown}"
        return _Verdict("undecided", ExitCode.STOPPED, reason, None)
    unknown = sum(value == UNKNOWN for at in left for value in done.values[at])
    if len(left) > 1 and unknown:
        reason = (
            f"undecided: {count_phrase(unknown, 'value')} of the variants that are left could not be evaluated: {shown}"
        )
        return _Verdict("undecided", ExitCode.INCOMPLETE, reason, None)
    if all(errors[at] == len(done.values[at]) for at in left):
        reason = f"undecided: each case of the variants that are left ended in error: {shown}"
        return _Verdict("undecided", ExitCode.INCOMPLETE, reason, None)
    within = [at for at in left if not exceeded[at]]
    if not within:
        reason = "no variant that is left is within the limits: " + "; ".join(
            f"{names[at]}: {', '.join(exceeded[at])}" for at in left
        )
        return _Verdict("over_limit", ExitCode.VIOLATED, reason, None)
    if len(within) == 1:
        alone = f"{names[within[0]]} is the best after {seen}"
        if len(left) > 1:
            others = _join([names[at] for at in left if at not in within])
            alone = f"{names[within[0]]} alone is within the limits; it cannot be told apart from {others}"
        return _Verdict("leader", ExitCode.PASSED, alone, within[0])
    shown = _join([names[at] for at in within])
    reason = f"{len(within)} variants cannot be told apart after {seen}: {shown}"
    priced = {at: cost for at in within if (cost := costs[at]) is not None}
    if not cheapest:
        return _Verdict("equal", ExitCode.PASSED, reason, None)
    if len(priced) < len(within):
        missing = _join([names[at] for at in within if at not in priced])
        return _Verdict(
            "equal", ExitCode.PASSED, f"{reason}; the cheapest is not known, since costs are unknown of {missing}", None
        )
    best = min(priced, key=lambda at: priced[at])
    return _Verdict("leader", ExitCode.PASSED, f"{reason}; the cheapest is {names[best]}", best)


def _violations(limits: Limits, cost: float | None, time: float | None) -> list[str]:
    """Return a clause for each limit that a variant exceeds; an unknown amount may exceed it."""
    found = []
    if limits.cost_per_case_usd is not None and (cost is None or cost > limits.cost_per_case_usd):
        found.append(f"cost per case ${cost:.4g}" if cost is not None else "cost per case unknown")
    if limits.p95_ms is not None and (time is None or time > limits.p95_ms):
        found.append(f"p95 {time:.0f} ms" if time is not None else "p95 unknown")
    return found


def _mean(values: Sequence[Bounds], weights: Sequence[float]) -> float | None:
    return weighted_mean(
        [(value.low, weight) for value, weight in zip(values, weights, strict=False) if value != UNKNOWN]
    )


def _cost_per_case(record: Record, cases: int) -> float | None:
    costs = Amounts()
    for case in record.cases:
        add_case_costs(costs, case)
    return costs.complete_sum / cases if cases and costs.complete_sum is not None else None


def _p95(record: Record) -> float | None:
    """Return the 95th percentile of latency in milliseconds; None without answers, or if a latency is unknown."""
    times = [turn.took_ms for turn in record.turns if turn.response is not None]
    known = [time.value for time in times if isinstance(time, Known)]
    return equal_quantile(known, 0.95) if known and len(known) == len(times) else None


def _sum(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return math.fsum(known) if len(known) == len(amounts) else None


def _join(names: Sequence[str]) -> str:
    return "; ".join(names) if any("," in name for name in names) else ", ".join(names)
