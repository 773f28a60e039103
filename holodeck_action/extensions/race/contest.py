"""Runs the variants of a race concurrently, and stops a variant when it is dropped."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from signal import Signals

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.consumption import Amounts, add_case_costs
from holodeck_action.extensions.race.evidence import Bounds, Drop, Standing, start_race
from holodeck_action.extensions.race.objective import UnboundedScoreError
from holodeck_action.extensions.race.preparing import PreparedRace
from holodeck_action.record.judge_probe import JudgeProbe
from holodeck_action.record.record import CaseRecord, Record
from holodeck_action.run.closure import add_closures
from holodeck_action.run.judge_probes import probe_judges
from holodeck_action.run.open_suites import complete
from holodeck_action.run.run import Run
from holodeck_action.run.schedule import Slots, Stop
from holodeck_action.run.signals import stop_on_signals
from holodeck_action.run.suite_run import run_suite
from holodeck_action.run.trial_plans import Plan, Position
from holodeck_action.run.trials import grading_pool, trial_runner
from holodeck_action.scoring.evaluations import add_custom_summary
from holodeck_action.seam import registry
from holodeck_action.suite.applicability import compares_answers
from holodeck_action.workers.pool import WorkerPool


class Finished(Struct, frozen=True):
    """The results of a finished race.

    Attributes:
        standing: the standing after the last case that all remaining variants had answered.
        values: each variant's values of the objective in the cases that count, in the order of the race.
        records: the record of each variant.
        spent: cost of each variant's answers, including answers that do not count.
        stopped: reason why the race ended early; None if it was decided, or all cases were answered.
    """

    standing: Standing
    values: Sequence[Sequence[Bounds]]
    records: Sequence[Record]
    spent: Sequence[Amounts]
    stopped: str | None


class _EveryStop(Stop):
    """Stops all variants of the race; calls `wake`, so that waiting trials notice the stop."""

    def __init__(self, stops: Sequence[Stop], wake: Callable[[], None]) -> None:
        super().__init__()
        self._stops, self._wake = stops, wake

    def request(self, reason: str) -> None:
        super().request(reason)
        for stop in self._stops:
            stop.request(reason)

    def drain(self, reason: str) -> None:
        super().drain(reason)
        for stop in self._stops:
            stop.drain(reason)
        self._wake()


class Course:
    """Collects results in any order, and adds them to the race's evidence in the order of its cases.

    No variant runs far ahead: a case starts only if few cases before it are unfinished.
    """

    def __init__(
        self,
        order: Sequence[int],
        weights: Sequence[float],
        stops: Sequence[Stop],
        slots: int,
        on_drop: Callable[[int, Drop], None],
        *,
        drops: bool,
    ) -> None:
        self.standing = start_race(len(stops), len(order), drops=drops)
        self.values: list[list[Bounds]] = [[] for _ in stops]
        self.order, self._weights, self._stops, self._slots = order, weights, stops, slots
        self._places = {at: place for place, at in enumerate(order)}
        self._found: list[dict[int, Bounds]] = [{} for _ in order]
        self._on_drop = on_drop
        self._running = {*range(len(stops))}
        self._moved = asyncio.Event()

    async def wait_counted(self, variant: int) -> frozenset[int]:
        """Wait until results of other variants cannot change which cases of a finished variant count.

        Returns:
            The positions of these cases in the suite.
        """
        self._running.discard(variant)
        self.wake()
        while self._running and not self.standing.is_over and variant not in self.standing.dropped:
            await self._moved.wait()
        return frozenset(self.order[: len(self.values[variant])])

    async def wait_turn(self, variant: int, at: int) -> None:
        """Wait until a variant may start the case at a position, or until the variant is stopped."""
        while not self._stops[variant].draining and self._places[at] >= self.standing.seen + self._window:
            await self._moved.wait()

    @property
    def _window(self) -> int:
        return 2 * math.ceil(self._slots / len(self.standing.living))

    def enter(self, variant: int, at: int, value: Bounds) -> None:
        """Store a variant's value in the case at a position."""
        self._found[self._places[at]][variant] = value
        before = self.standing
        while not self.standing.is_over and self._found[self.standing.seen].keys() >= {*self.standing.living}:
            self._add_case()
        if self.standing is not before:
            self.wake()

    def _add_case(self) -> None:
        before, found = self.standing, self._found[self.standing.seen]
        for variant in before.living:
            self.values[variant].append(found[variant])
        self.standing = after = before.add_case(found, self._weights[self.order[before.seen]])
        for variant in before.living:
            if variant not in after.living:
                drop = after.dropped[variant]
                self._on_drop(variant, drop)
                self._stops[variant].drain(f"dropped from the race after {drop.cases} of {after.cases} cases")
        if len(after.living) == 1 and after.seen < after.cases:
            self._stops[after.living[0]].drain(f"the race was decided after {after.seen} of {after.cases} cases")

    def is_done(self, variant: int) -> bool:
        """Return whether the race needs no more results of a variant."""
        return self.standing.is_over or variant in self.standing.dropped or all(variant in each for each in self._found)

    def wake(self) -> None:
        """Make waiting trials check again whether they may start."""
        self._moved.set()
        self._moved = asyncio.Event()


class VariantPlan(Plan):
    """The plan of a variant: its cases run in the order of the race, as soon as the race allows them."""

    def __init__(self, plan: Plan, course: Course, variant: int, end_early: Callable[[int], None]) -> None:
        super().__init__(plan)
        self._course, self._variant, self._end_early = course, variant, end_early

    def order(self) -> Sequence[Position]:
        """Return the positions of the cases, in the order of the race."""
        return self._course.order

    async def wait_turn(self, at: Position) -> None:
        """Wait until a trial of the case may start, or until the variant is stopped."""
        await self._course.wait_turn(self._variant, at)

    async def counted(self, *, stopped: bool) -> frozenset[Position]:
        """Wait for the other variants; return the positions of the cases that count."""
        if not self._course.is_done(self._variant):
            # The others would wait for its results.
            self._end_early(self._variant)
        return await self._course.wait_counted(self._variant)


async def run_race(
    race: PreparedRace,
    contenders: Sequence[Run],
    signals: Sequence[Signals],
    note: Callable[[str], None],
    remaining_s: float | None = None,
) -> Finished:
    """Run the variants, and close them.

    Args:
        race: the race.
        contenders: the variants, which share one connection layer for model calls.
        signals: signals that stop the race.
        note: called with a sentence for each variant that is dropped, and with notices.
        remaining_s: seconds left until the run deadline; None if all of its seconds are left.

    Raises:
        UnboundedScoreError: the objective cannot be used.
    """
    head = contenders[0]
    settings, pool = head.settings, grading_pool(head)
    stops = [Stop() for _ in contenders]
    slots = Slots(settings.concurrency)

    def note_drop(variant: int, drop: Drop) -> None:
        names = [race.variants[at].name for at in (variant, drop.rival)]
        note(f"dropped after {drop.cases} of {len(race.order)} cases: {names[0]}, which is worse than {names[1]}")

    course = Course(race.order, race.weights, stops, slots.count, note_drop, drops=race.drops)
    everything = _EveryStop(stops, course.wake)
    spent, lanes = [Amounts() for _ in contenders], [slots.lane() for _ in contenders]
    recorded = {head.redactor.case_id(case.id, case.content_hash): at for at, case in enumerate(race.cases)}
    troubles: list[UnboundedScoreError] = []

    def finish_case(variant: int, case: CaseRecord) -> None:
        add_case_costs(spent[variant], case)
        try:
            value = race.objective.value(case)
        except UnboundedScoreError as error:
            troubles.append(error)
            everything.drain("the objective cannot be used")
            return
        course.enter(variant, recorded[case.id], value)

    def end_early(variant: int) -> None:
        everything.drain(stops[variant].reason or "a variant ended early")

    async def run_variant(variant: int) -> Run:
        return await run_suite(
            contenders[variant],
            trial_runner(contenders[variant], pool),
            lanes[variant],
            stops[variant],
            on_case=partial(finish_case, variant),
            change_plan=lambda plan: VariantPlan(plan, course, variant, end_early),
        )

    timeout = head.flags.run_timeout_s
    with ExitStack() as scope:
        reason = f"the run deadline of {timeout or 0:g} s was reached"
        left = timeout if remaining_s is None else remaining_s
        scope.enter_context(stop_on_signals(everything, left, reason, signals))
        for budget in head.resources.budgets:
            scope.enter_context(budget.notify_refusal(everything.drain))
        try:
            contenders = await _probe_judges(contenders, pool, everything)
            done = await asyncio.gather(*map(run_variant, range(len(contenders))))
            records = [await _complete(each, pool) for each in done]
        finally:
            for each in contenders:
                await each.close()
            await pool.close()
    if troubles:
        raise troubles[0]
    return Finished(
        course.standing, course.values, records, spent, None if course.standing.is_over else everything.reason
    )


async def _probe_judges(contenders: Sequence[Run], pool: WorkerPool, stop: Stop) -> list[Run]:
    """Return the contenders with the results of their judges' probes; equal probes are made once."""
    found: list[Run] = []
    seen: dict[str, JudgeProbe] = {}
    for each in contenders:
        probed = await probe_judges(each, seen, pool, stop)
        seen |= {probe.identity: probe for probe in probed.exams.probes}
        found.append(probed)
    return found


async def _complete(open_suite: Run, pool: WorkerPool) -> Record:
    """Return a variant's record with summaries and the totals of model calls."""
    record, pairs = open_suite.record, registry.pairs()
    if pairs is not None and any(map(compares_answers, open_suite.own_cases)):
        record = registry.resolve(pairs.skip)(record, "a race has no base to compare answers with")
    record = await add_custom_summary(record, pool, open_suite.redactor)
    return add_closures(complete(replace(open_suite, ended=record))).record
