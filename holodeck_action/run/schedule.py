"""Cases × trials under a concurrency limit, a run deadline and a stop signal."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from msgspec import Struct, field

from holodeck_action.decide.case_verdicts import deciding_prefix, judge_trial, trials_surely_needed
from holodeck_action.llm.limits.pauses import working_at
from holodeck_action.record.record import TrialRecord
from holodeck_action.run.trial import Clock
from holodeck_action.suite.values import Case
from holodeck_action.text.redaction import Redactor

TrialKey = tuple[str, int]
OnTrial = Callable[[int, Case, TrialRecord, bool], None]


class Trials(Protocol):
    """What runs trials: `runner.trial.TrialRunner`, or `runner.stored.StoredTrials` for those of an earlier run."""

    @property
    def clock(self) -> Clock:
        """The time."""
        ...

    @property
    def redactor(self) -> Redactor:
        """Masks secrets."""
        ...

    async def run(self, case: Case, index: int, slot: AbstractAsyncContextManager[Any]) -> TrialRecord:
        """Run one trial of a case, holding the slot while it counts among those at a time."""
        ...


class Stop:
    """Asks a run to end early; the first reason given stays."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.reason: str | None = None
        self.draining = False

    def request(self, reason: str) -> None:
        """End the run as soon as possible, keeping what is finished."""
        if self.reason is None:
            self.reason = reason
        self._event.set()

    @property
    def requested(self) -> bool:
        """Whether the run is to end as soon as possible."""
        return self._event.is_set()

    def drain(self, reason: str) -> None:
        """Start no more trials, and end the run when those under way have ended."""
        if self.reason is None:
            self.reason = reason
        self.draining = True

    async def wait(self) -> None:
        """Return once the run should end as soon as possible."""
        await self._event.wait()


class Outcome(Struct, frozen=True):
    """Indexes of the trials of each case that count, in order, and why the run ended early (None: it did not)."""

    counted: Sequence[tuple[int, ...]]
    stopped: str | None


class _NotStartedError(Exception):
    """A trial whose turn came when no more were to start."""


class Slots:
    """So many sessions at a time; those that wait for a rate limit lend their places, at most as many as there are.

    Runs side by side have a lane each. Lanes in which sessions wait take turns, so that what changes during a run, such
    as the load of a service, meets all of them alike.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = count
        self._lendable = count
        self._owed = 0
        self._lanes: list[deque[asyncio.Future[None]]] = []
        self._next = 0
        self._granting = False

    def lane(self) -> Lane:
        """Add a lane."""
        self._lanes.append(deque())
        return Lane(self, len(self._lanes) - 1)

    async def acquire(self, lane: int) -> None:
        """Wait in a lane until a place is free, and take it."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lanes[lane].append(turn)
        self._grant_soon()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()
            raise

    def lend(self) -> bool:
        """Let one more work; tell whether that was possible."""
        if not self._lendable:
            return False
        self._lendable -= 1
        self.give_back()
        return True

    def take_back(self) -> None:
        """Let one less work, from the next end of a session on: who comes back waits for nobody."""
        self._lendable += 1
        self._owed += 1

    def give_back(self) -> None:
        """Free a place."""
        if self._owed:
            self._owed -= 1
        else:
            self._free += 1
            self._grant_soon()

    def _grant_soon(self) -> None:
        """Give places away once all who come at this moment have come: the first to come is not before its turn."""
        if not self._granting and self._free:
            self._granting = True
            asyncio.get_running_loop().call_soon(self._grant)

    def _grant(self) -> None:
        self._granting = False
        while self._free and (turn := self._waiting()) is not None:
            self._free -= 1
            turn.set_result(None)

    def _waiting(self) -> asyncio.Future[None] | None:
        """Take who has waited longest out of the lane whose turn it is; None where nobody waits."""
        for step in range(len(self._lanes)):
            at = (self._next + step) % len(self._lanes)
            while self._lanes[at]:
                turn = self._lanes[at].popleft()
                if not turn.done():
                    self._next = (at + 1) % len(self._lanes)
                    return turn
        return None


class Lane(Struct, frozen=True):
    """The places of one of the runs that share them."""

    slots: Slots
    index: int

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Slot]:
        """Hold a place for the block."""
        await self.slots.acquire(self.index)
        slot = Slot(self.slots)
        try:
            yield slot
        finally:
            slot.end()


class Slot:
    """One session's place (`llm.pauses.Place`); it is lent as long as one of its calls waits."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._waiting = 0
        self._lent = False

    def lend(self) -> None:
        """Let another session work."""
        self._waiting += 1
        if not self._lent:
            self._lent = self._slots.lend()

    def take_back(self) -> None:
        """Work on."""
        self._waiting -= 1
        if self._lent and not self._waiting:
            self._lent = False
            self._slots.take_back()

    def end(self) -> None:
        """Give the place back for good."""
        self._slots.give_back()


class _Work(Struct):
    trials: Trials
    pending: Iterator[tuple[int, Case]]
    lane: Lane
    stop_when_decided: bool
    stop: Stop
    resumed: Mapping[TrialKey, TrialRecord]
    on_trial: OnTrial
    on_case: Callable[[Case, Sequence[TrialRecord]], None]
    available: Set[TrialKey] | None
    counted: list[tuple[int, ...] | None]
    begun: dict[int, dict[int, TrialRecord]] = field(default_factory=dict)
    alike: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)

    async def serve(self) -> None:
        for place, case in self.pending:
            await self._run_case(place, case)

    def count(self, place: int, case: Case) -> tuple[int, ...]:
        """Settle which trials of the case at a place count, done or not; they are not held any more."""
        counted = self.counted[place]
        if counted is None:
            done = self.begun.pop(place, None)
            ordered = _in_order(self._before(place, case) if done is None else done, case, self.stop_when_decided)
            found = tuple(trial.index for trial in ordered)
            counted = self.counted[place] = self.alike.setdefault(found, found)
        return counted

    def _before(self, place: int, case: Case) -> dict[int, TrialRecord]:
        """Return the trials of an interrupted run."""
        keys = [(case.id, index) for index in range(case.repeat)] if self.resumed else ()
        done = {key[1]: self.resumed[key] for key in keys if key in self.resumed}
        for trial in done.values():
            self.on_trial(place, case, trial, False)
        return done

    async def _run_case(self, place: int, case: Case) -> None:
        done = self.begun[place] = self._before(place, case)
        while indexes := self._next_trials(case, done):
            if self.stop.draining:
                return
            async with asyncio.TaskGroup() as group:
                for index in indexes:
                    group.create_task(self._run_trial(place, case, index, done))
        self.on_case(case, [done[index] for index in sorted(done)])
        self.count(place, case)

    def _next_trials(self, case: Case, done: Mapping[int, TrialRecord]) -> list[int]:
        wanted = self._wanted_trials(case, done)
        return wanted if self.available is None else [index for index in wanted if (case.id, index) in self.available]

    def _wanted_trials(self, case: Case, done: Mapping[int, TrialRecord]) -> list[int]:
        missing = [index for index in range(case.repeat) if index not in done]
        if not self.stop_when_decided or case.repeat == 1:
            return missing
        # A gap can only come from an interrupted run: the deciding prefix needs the indexes before it first.
        prefix = next(iter(missing), case.repeat)
        outcomes = [judge_trial(done[index]).outcome for index in range(prefix)]
        wanted = trials_surely_needed(outcomes, case.repeat, case.passes_needed)
        return [index for index in range(prefix, prefix + wanted) if index not in done]

    async def _run_trial(self, place: int, case: Case, index: int, done: dict[int, TrialRecord]) -> None:
        try:
            trial = await self.trials.run(case, index, self._slot())
        except _NotStartedError:
            return
        if self.stop.draining and _disturbed(trial):
            # What it lacks, the stop may have taken from it: only what it violates is sure, and --resume runs it again.
            if judge_trial(trial).outcome == "failed":
                done[index] = trial
                self.on_trial(place, case, trial, False)
            return
        done[index] = trial
        self.on_trial(place, case, trial, True)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        async with self.lane.one() as place:
            if self.stop.draining:
                raise _NotStartedError
            with working_at(place):
                yield


async def run_cases(
    cases: Sequence[Case],
    trials: Trials,
    *,
    lane: Lane,
    run_timeout_s: float | None,
    stop_when_decided: bool,
    stop: Stop,
    resumed: Mapping[TrialKey, TrialRecord],
    on_trial: OnTrial,
    on_case: Callable[[Case, Sequence[TrialRecord]], None],
    available: Set[TrialKey] | None = None,
) -> Outcome:
    """Run every trial that is not already there.

    Args:
        cases: what to run, in order.
        trials: runs one trial.
        lane: gives each session its place.
        run_timeout_s: seconds until the run is stopped; None for no limit.
        stop_when_decided: run no trial beyond the one that decides its case.
        stop: ends the run early; trials in flight are dropped, or finished when it drains.
        resumed: finished trials of an interrupted run, by (case id, trial index).
        on_trial: told of every trial that may count, with its case and that one's place, and whether it is finished
            now: what was finished before, and what a stop may have disturbed, is not.
        on_case: told of every case that is done, resumed ones included.
        available: the trials that there are; None for all. A case that lacks one is done without it.

    Returns:
        Which trials count.
    """
    counted: list[tuple[int, ...] | None] = [None] * len(cases)
    work = _Work(
        trials, enumerate(cases), lane, stop_when_decided, stop, resumed, on_trial, on_case, available, counted
    )
    # Twice as many cases under way as sessions: answers are scored while the next sessions run.
    serving = asyncio.create_task(_serve(work, min(2 * lane.slots.count, max(1, len(cases)))))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, timeout=run_timeout_s, return_when=asyncio.FIRST_COMPLETED)
    stopped = stop.reason if stop.draining else None
    if not serving.done():
        stopped = stop.reason or f"the run deadline of {run_timeout_s:g} s was reached"
        serving.cancel()
        await asyncio.wait({serving})
    stopping.cancel()
    if not serving.cancelled():
        serving.result()
    return Outcome([work.count(place, case) for place, case in enumerate(cases)], stopped)


async def _serve(work: _Work, servers: int) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(servers):
            group.create_task(work.serve())


def _disturbed(trial: TrialRecord) -> bool:
    """Tell whether something in a trial could not be done."""
    return trial.error is not None or any(
        turn.error is not None
        or turn.skipped is not None
        or any(evaluation.status == "failed" for evaluation in turn.evaluations)
        for turn in trial.turns
    )


def _in_order(done: Mapping[int, TrialRecord], case: Case, stop_when_decided: bool) -> tuple[TrialRecord, ...]:
    ordered = [done[index] for index in sorted(done) if index < case.repeat]
    if stop_when_decided and len(ordered) > 1:
        outcomes = [judge_trial(trial).outcome for trial in ordered]
        ordered = ordered[: deciding_prefix(outcomes, case.repeat, case.passes_needed)]
    return tuple(ordered)
