"""Finds the best value of one setting after the other by races, and measures the gain at the end."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.extensions.race.axes import Axis, same_value
from holodeck_action.extensions.race.contest import Finished
from holodeck_action.extensions.race.evidence import UNKNOWN
from holodeck_action.extensions.race.leaderboard import console_lines
from holodeck_action.extensions.race.optimization import (
    OPTIMIZATION_VERSION,
    AxisRace,
    Change,
    Optimization,
    OptimizationRun,
    Result,
    choose_value,
    gain_phrase,
    measure_gain,
)
from holodeck_action.extensions.race.outcome import Limits, conclude_race
from holodeck_action.extensions.race.preparing import PreparedRace, RacedSuite
from holodeck_action.extensions.race.racing import LEADERBOARD_FILE, RACE_FILE, write_outcome
from holodeck_action.extensions.race.running import (
    calls_models,
    claim_folders,
    planned_calls,
    run_variants,
    variant_folders,
    write_variants,
)
from holodeck_action.extensions.race.variants import Value, Variant
from holodeck_action.record.folder import Claims
from holodeck_action.record.record import Record
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.run.caller import Caller
from holodeck_action.run.journal import Journal
from holodeck_action.run.open_suites import closing, open_suites
from holodeck_action.suite.identity import slug
from holodeck_action.suite.values import Case
from holodeck_action.text.given_paths import GivenPath

HELD_OUT_FOLDER = "held-out"


class Plan(Struct, frozen=True):
    """The settings to optimize, and the cases to optimize them with.

    Attributes:
        suite: the suite.
        axes: the settings, in the order of their races.
        raced: the cases of the races.
        held_out: the cases on which the gain is measured.
        cycles: maximum number of cycles through the axes.
        min_delta: the smallest gain of a race for which a setting changes.
        seed: seed of the choice of the cases that are held out.
    """

    suite: RacedSuite
    axes: Sequence[Axis]
    raced: Sequence[Case]
    held_out: Sequence[Case]
    cycles: int
    min_delta: float
    seed: int

    def race(self, axis: Axis, base: Mapping[str, Value]) -> PreparedRace:
        """Return the race of an axis; its first variant has the present value.

        Args:
            axis: the axis.
            base: the settings that earlier races changed, by key.

        Raises:
            ConfigurationError: a value cannot be used.
        """
        present = base.get(axis.key, axis.present)
        kept = {key: value for key, value in base.items() if key != axis.key}
        values = (axis.present, *axis.values)
        others = [value for value in values if value is not None and not same_value(value, present)]
        variants = [
            Variant(f"{axis.path}={'not set' if present is None else present}", dict(base)),
            *(Variant(f"{axis.path}={value}", {**kept, axis.key: value}) for value in others),
        ]
        return self.suite.race(variants, self.raced)

    def held_out_race(self, base: Mapping[str, Value]) -> PreparedRace:
        """Return the race of the unchanged against the changed suite on the held-out cases."""
        variants = [Variant("as it is", {}), Variant("changed", dict(base))]
        return self.suite.race(variants, self.held_out, drops=False)


class Descent:
    """Runs the races of a plan with shared connections and one budget. The caller must close `host`."""

    def __init__(self, plan: Plan, folder: GivenPath, claims: Claims, caller: Caller, runner: asyncio.Runner) -> None:
        """Open the host, whose connections all races share. All races run in the event loop of `runner`.

        Raises:
            ConfigurationError: the suite's model or judges cannot be called.
        """
        self._plan, self._folder = plan, folder
        self._claims, self._caller, self._runner = claims, caller, runner
        self._flags = plan.suite.loaded.flags
        as_it_is = plan.suite.race([Variant("as it is", {})], plan.raced)
        (self.host,) = open_suites(as_it_is.to_open([None]), siblings=True)
        self._redact = self.host.redactor.text
        self._started, self._begun = datetime.now(UTC), time.monotonic()
        self._base: dict[str, Value] = {}
        self._races: list[AxisRace] = []
        self._spent: list[float | None] = []
        self._journals: list[Journal] = []
        self._record: Record | None = None

    def plan_lines(self) -> Iterator[str]:
        """Yield the lines of the plan, with the calls of one cycle and of the measurement if no variant is dropped."""
        plan = self._plan
        races = [plan.race(axis, {}) for axis in plan.axes]
        every = [*races, plan.held_out_race({axis.key: axis.values[0] for axis in plan.axes})]
        wanted = [each for race in every for each in race.to_open([None] * len(race.items))]
        suites = open_suites(wanted, siblings=True, host=self.host)
        with closing(suites):
            yield from planned_calls(suites)
        trials = [len(race.items) * sum(case.repeat for case in race.cases) for race in every]
        cycles = 1 if len(races) == 1 else plan.cycles
        yield (
            f"plan: optimization of {count_phrase(len(races), 'setting')} for {plan.suite.objective}: "
            f"{count_phrase(len(plan.raced), 'case')} raced in at most {count_phrase(cycles, 'cycle')}, "
            f"{len(plan.held_out)} held out, at most {cycles * sum(trials[:-1]) + trials[-1]:,} trials; "
            "values that are dropped need fewer"
        )

    def run(self) -> tuple[Optimization, Mapping[str, Value]]:
        """Run all races and measure the gain.

        Returns:
            The outcome, and the new values of the settings to change, by key.

        Raises:
            OSError: results cannot be written.
            ConfigurationError: a folder or a journal cannot be used, or a score is not between 0 and 1.
        """
        if calls_models([self.host]):
            self._caller.stderr.writelines(f"{line}\n" for line in self.plan_lines())
            self._caller.stderr.flush()
        return self._outcome(self._race_all() or self._measure()), self._base

    def remove_journals(self) -> None:
        """Remove the journals, which only an interrupted optimization needs."""
        for journal in self._journals:
            journal.remove()

    def _race_all(self) -> Result | None:
        """Race the axes in cycles until no setting changes; return the result, or None if the gain must be measured."""
        plan = self._plan
        raced_on: dict[str, Mapping[str, Value]] = {}
        for cycle in range(1, plan.cycles + 1):
            for axis in plan.axes:
                others = {key: value for key, value in self._base.items() if key != axis.key}
                if raced_on.get(axis.key) == others:
                    # This race has already run with the same other settings.
                    continue
                raced_on[axis.key] = others
                race = self._race_axis(axis, cycle).race
                if race.outcome == "undecided":
                    never = [each.path for each in plan.axes if each.key not in raced_on]
                    also = f"; not raced: {', '.join(never)}" if never else ""
                    reason = f"{axis.path}: {race.reason}{also}; the gain was not measured"
                    return Result("undecided", race.exit_code, self._redact(reason), None)
        if not self._base:
            return Result("unchanged", ExitCode.PASSED, "no other value is better beyond chance", None)
        return None

    def _race_axis(self, axis: Axis, cycle: int) -> AxisRace:
        """Race the values of an axis, and change its setting if another value is better."""
        started, begun = datetime.now(UTC), time.monotonic()
        race = self._plan.race(axis, self._base)
        folder = self._folder / f"{len(self._races) + 1}-{slug(axis.path)}"
        done, folders, concluded = self._run(race, folder)
        outcome = conclude_race(
            *(race, done, [each.path.name for each in folders], Limits()),
            cheapest=False,
            run=(started.isoformat(), 1000 * (time.monotonic() - begun)),
            redact=self._redact,
        )
        write_outcome(outcome, concluded, folder, self._caller, html=self._flags.html)
        self._caller.stdout.writelines(f"{line}\n" for line in console_lines(outcome))
        self._caller.stdout.flush()
        chosen, reason = 0, outcome.reason
        if outcome.outcome != "undecided":
            chosen, reason = choose_value(race, done, 0, self._plan.min_delta)
        names = [self._redact(variant.name) for variant in race.variants]
        adopted = names[chosen] if chosen else None
        if chosen:
            value = race.variants[chosen].settings[axis.key]
            self._base.pop(axis.key, None)
            if not same_value(value, axis.present):
                self._base[axis.key] = value
        made = AxisRace(axis.path, cycle, folder.path.name, names[0], adopted, self._redact(reason), outcome)
        self._races.append(made)
        return made

    def _measure(self) -> Result:
        """Compare the changed suite with the suite as it is, on the cases that are held out."""
        race = self._plan.held_out_race(self._base)
        done, _, _ = self._run(race, self._folder / HELD_OUT_FOLDER)
        held_out = f"on {count_phrase(len(race.order), 'case')} held out"
        if not done.standing.is_over:
            why = (
                f"{done.stopped or 'the measurement ended early'} after {done.standing.seen} of {len(race.order)} cases"
            )
            return Result("undecided", ExitCode.STOPPED, f"the gain {held_out} is undecided: {why}", None)
        unknown = sum(value == UNKNOWN for values in done.values for value in values)
        if unknown:
            why = f"{count_phrase(unknown, 'value')} could not be evaluated"
            return Result("undecided", ExitCode.INCOMPLETE, f"the gain {held_out} is undecided: {why}", None)
        gain = measure_gain(race, done)
        phrase = gain_phrase(gain, race.objective.name)
        if gain.shown:
            return Result("improved", ExitCode.PASSED, f"better {held_out}: {phrase}", gain)
        return Result("not_shown", ExitCode.PASSED, f"no gain is shown {held_out}: {phrase}", gain)

    def _run(
        self, race: PreparedRace, folder: GivenPath
    ) -> tuple[Finished, Sequence[GivenPath], Mapping[str, Conclusion]]:
        folders = variant_folders(race, folder)
        claim_folders((folder, *folders), (RACE_FILE, LEADERBOARD_FILE), self._claims, self._caller)
        suites = open_suites(race.to_open(folders), siblings=True, host=self.host)
        limit = self._flags.run_timeout_s
        remaining = None if limit is None else limit - (time.monotonic() - self._begun)
        with closing(suites):
            done, journals = run_variants(race, suites, self._caller, self._runner.run, remaining)
        self._journals += journals
        self._spent += [each.complete_sum for each in done.spent]
        self._record = self._record or done.records[0]
        return done, folders, write_variants(folders, done, self.host.display_folder, self._caller)

    def _outcome(self, result: Result) -> Optimization:
        plan, first = self._plan, self._record
        assert first is not None
        known = [amount for amount in self._spent if amount is not None]
        spent = math.fsum(known) if len(known) == len(self._spent) else None
        return Optimization(
            schema_version=OPTIMIZATION_VERSION,
            tool_version=first.provenance.tool_version,
            suite=first.suite,
            commit=first.provenance.commit,
            objective=plan.suite.objective.name,
            seed=plan.seed,
            min_delta=plan.min_delta,
            raced=len(plan.raced),
            held_out=len(plan.held_out),
            outcome=result.outcome,
            exit_code=result.exit_code,
            reason=result.reason,
            changes=tuple(self._change(axis, self._base[axis.key]) for axis in plan.axes if axis.key in self._base),
            gain=result.gain,
            races=tuple(self._races),
            run=OptimizationRun(self._started.isoformat(), 1000 * (time.monotonic() - self._begun), spent),
        )

    def _change(self, axis: Axis, value: Value) -> Change:
        before = self._redact(axis.present) if isinstance(axis.present, str) else axis.present
        return Change(axis.path, before, self._redact(value) if isinstance(value, str) else value)
