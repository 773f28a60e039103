"""The outcome of an optimization, as in optimize.json."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from holodeck_action.decide.compare import paired_statistics
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.decide.statistics import weighted_mean
from holodeck_action.extensions.race.contest import Finished
from holodeck_action.extensions.race.objective import RATE
from holodeck_action.extensions.race.outcome import RaceOutcome
from holodeck_action.extensions.race.preparing import PreparedRace
from holodeck_action.extensions.race.variants import Value
from holodeck_action.llm.limits.budget import format_dollars
from holodeck_action.record.record import SuiteIdentity
from holodeck_action.text.plain import one_line

OPTIMIZATION_VERSION = 1


class AxisRace(Struct, frozen=True):
    """The race of one axis.

    Attributes:
        axis: path of the setting.
        cycle: number of the cycle through the axes, from 1.
        folder: name of the folder with the race's results.
        present: name of the variant with the value that the setting had before the race.
        adopted: name of the variant whose value replaces the present one; None if no value replaces it.
        reason: reason for the choice, in one sentence.
        race: the outcome of the race.
    """

    axis: str
    cycle: int
    folder: str
    present: str
    adopted: str | None
    reason: str
    race: RaceOutcome


class Change(Struct, frozen=True):
    """A change of a setting: its path, its value in the suite (None if it has none), and the better value."""

    axis: str
    before: Value | None
    after: Value


class Gain(Struct, frozen=True):
    """The gain on the cases that were held out: the changed suite compared with the suite as it is.

    Attributes:
        cases: number of cases.
        before: weighted mean of the objective for the suite as it is.
        after: weighted mean of the objective for the changed suite.
        difference: weighted mean of the differences per case; above 0 is better.
        low: lower end of the 95 % interval of the difference.
        high: upper end of this interval.
        shown: whether the whole interval is above 0.
    """

    cases: int
    before: float
    after: float
    difference: float
    low: float
    high: float
    shown: bool


Outcome = Literal["improved", "not_shown", "unchanged", "undecided"]


class Result(Struct, frozen=True):
    """The result of an optimization: the outcome, the exit code, a sentence, and the gain if it was measured."""

    outcome: Outcome
    exit_code: int
    reason: str
    gain: Gain | None


class OptimizationRun(Struct, frozen=True):
    """Data that differ between repetitions: start, duration, and cost in US dollars (None if it is unknown)."""

    started_at: str
    duration_ms: float
    spent_usd: float | None


class Optimization(Struct, frozen=True):
    """The outcome of an optimization.

    Attributes:
        schema_version: version of the file's schema.
        tool_version: version of holodeck-action.
        suite: the suite.
        commit: the commit that was checked out; None if unknown.
        objective: `pass_rate`, the name of a metric, or the weights and names of several.
        seed: seed of the choice of the cases that are held out.
        min_delta: the smallest gain of a race for which a setting changes.
        raced: number of cases of the races.
        held_out: number of cases that are held out.
        outcome: `improved` (the gain is shown), `not_shown` (settings changed, but the interval of the gain includes
            0), `unchanged` (no other value is better), or `undecided`.
        exit_code: the exit code.
        reason: the outcome in one sentence.
        changes: the changed settings; if the outcome is `undecided`, the settings changed so far.
        gain: the gain; None if it was not measured.
        races: the races, in their order.
        run: data that differ between repetitions.
    """

    schema_version: int
    tool_version: str
    suite: SuiteIdentity
    commit: str | None
    objective: str
    seed: int
    min_delta: float
    raced: int
    held_out: int
    outcome: Outcome
    exit_code: int
    reason: str
    changes: tuple[Change, ...]
    gain: Gain | None
    races: tuple[AxisRace, ...]
    run: OptimizationRun


def choose_value(race: PreparedRace, done: Finished, present: int, min_delta: float) -> tuple[int, str]:
    """Return the index of a setting's best value after a decided race, and the reason.

    The present value stays unless it was dropped. If so, the remaining value with the highest mean is chosen. It must
    be better than the present value by more than `min_delta` in the cases that both variants answered.
    """
    if present not in done.standing.dropped:
        return present, "no other value is better beyond chance"
    weights = [race.weights[at] for at in race.order]

    # As in the evidence, an unknown value counts against the rival.
    def gain_over(other: int) -> float:
        pairs = zip(done.values[present], done.values[other], weights, strict=False)
        return weighted_mean([(new.low - old.high, weight) for old, new, weight in pairs]) or 0.0

    def mean(other: int) -> float:
        pairs = zip(done.values[other], weights, strict=False)
        return weighted_mean([(value.low, weight) for value, weight in pairs]) or 0.0

    best = max(done.standing.living, key=mean)
    gain = gain_over(best)
    name, cases = race.variants[best].name, count_phrase(done.standing.dropped[present].cases, "case")
    if gain <= min_delta:
        return present, f"{name} is better by {gain:.4g} in {cases}, which is not above min_delta {min_delta:g}"
    return best, f"{name} is better by {gain:.4g} in {cases}"


def measure_gain(race: PreparedRace, done: Finished) -> Gain:
    """Return the gain of the second variant over the first; all values must be known."""
    weights = [race.weights[at] for at in race.order]
    before, after = ([value.low for value in values] for values in done.values)
    differences = [*zip(map(paired_statistics.difference, before, after), weights, strict=True)]
    old, new, gain = (
        weighted_mean(pairs) or 0.0
        for pairs in ([*zip(before, weights, strict=True)], [*zip(after, weights, strict=True)], differences)
    )
    low, high = paired_statistics.interval(differences)
    return Gain(len(differences), old, new, gain, low, high, shown=low > 0)


def gain_phrase(gain: Gain, objective: str) -> str:
    """Return a gain with its interval, such as `60.0 % → 85.0 % (+25.0 points, 95 % interval +7.1 to +42.9)`."""
    if objective == RATE:
        sides, scale, unit, digits = f"{100 * gain.before:.1f} % → {100 * gain.after:.1f} %", 100, " points", ".1f"
    else:
        sides, scale, unit, digits = f"{gain.before:.4g} → {gain.after:.4g}", 1, "", ".4g"
    ends = f"{scale * gain.low:+{digits}} to {scale * gain.high:+{digits}}"
    return f"{sides} ({scale * gain.difference:+{digits}}{unit}, 95 % interval {ends})"


def console_lines(optimization: Optimization) -> Iterator[str]:
    """Yield the lines of the outcome as plain text, without the leaderboards of the races."""
    cases = count_phrase(optimization.raced, "case")
    yield f"optimization of {one_line(optimization.suite.name, 100)}: {cases} raced, {optimization.held_out} held out"
    for race in optimization.races:
        yield f"  {one_line(race.axis)} (cycle {race.cycle}): {one_line(race.reason, 1000)}"
    for change in optimization.changes:
        before = "not set" if change.before is None else one_line(str(change.before))
        yield f"  {one_line(change.axis)}: {before} → {one_line(str(change.after))}"
    yield f"{optimization.outcome}: {one_line(optimization.reason, 1000)}"
    yield f"spent: {'unknown' if optimization.run.spent_usd is None else format_dollars(optimization.run.spent_usd)}"
