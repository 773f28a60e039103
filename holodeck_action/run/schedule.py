"""Runs the trials of cases under a concurrency limit, a run deadline and a stop signal."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from msgspec import Struct, field

from holodeck_action.decide.case_verdicts import deciding_prefix, judge_trial, trials_surely_needed
from holodeck_action.llm.limits.pauses import use_slot
from holodeck_action.record.record import TrialRecord
from holodeck_action.run.trial import Clock
from holodeck_action.suite.values import Case
from holodeck_action.text.redaction import Redactor

TrialKey = tuple[str, int]
OnTrial = Callable[[int, Case, TrialRecord, bool], None]


class Trials(Protocol):
    """Runs trials: `run.trial.TrialRunner` calls the agent, `run.stored.StoredTrials` grades stored answers again."""

    @property
    def clock(self) -> Clock:
        """Clock for times in the record."""
        ...

    @property
    def redactor(self) -> Redactor:
        """Redactor that masks secrets in the record."""
        ...

    async def run(self, case: Case, index: int, slot: AbstractAsyncContextManager[Any]) -> TrialRecord:
        """Run one trial of a case; hold `slot` as long as the trial counts toward the concurrency limit."""
        ...


class Stop:
    """Requests the early end of a run; `reason` is the first reason given, or None if no end is requested."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.reason: str | None = None
        self.draining = False

    def request(self, reason: str) -> None:
        """End the run as soon as possible; finished trials are kept."""
        if self.reason is None:
            self.reason = reason
        self._event.set()

    @property
    def is_requested(self) -> bool:
        """Whether the run is to end as soon as possible."""
        return self._event.is_set()

    def drain(self, reason: str) -> None:
        """Start no more trials, and end the run when the current ones have ended."""
        if self.reason is None:
            self.reason = reason
        self.draining = True

    async def wait(self) -> None:
        """Wait until `request` is called."""
        await self._event.wait()


class ScheduleResult(Struct, frozen=True):
    """For each case, the sorted indexes of the trials that decide it; and why the run ended early, or None."""

    counted: Sequence[tuple[int, ...]]
    stopped: str | None


class _NotStartedError(Exception):
    """A trial was not started because the run is ending."""


class Slots:
    """Limits concurrent sessions to `count`; a session that waits for a rate limit lends its slot to another session.

    Each of several concurrent runs has a lane, which is a queue of waiting sessions. Slots are granted to lanes in
    turn, so that changes over time, such as the load of a service, affect all runs equally. At most `count` slots are
    lent at a time.
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
        """Add a queue of waiting sessions for one of the runs, and return it."""
        self._lanes.append(deque())
        return Lane(self, len(self._lanes) - 1)

    async def acquire(self, lane: int) -> None:
        """Wait in a lane for a free slot, and take it."""
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
        """Lend a slot to another session; return whether that was possible."""
        if not self._lendable:
            return False
        self._lendable -= 1
        self.give_back()
        return True

    def take_back(self) -> None:
        """Take a lent slot back without waiting; in exchange, the next slot that becomes free is not granted."""
        self._lendable += 1
        self._owed += 1

    def give_back(self) -> None:
        """Free a slot."""
        if self._owed:
            self._owed -= 1
        else:
            self._free += 1
            self._grant_soon()

    def _grant_soon(self) -> None:
        """Grant slots in the next step of the event loop, so that all sessions that arrive in this step are waiting."""
        if not self._granting and self._free:
            self._granting = True
            asyncio.get_running_loop().call_soon(self._grant)

    def _grant(self) -> None:
        self._granting = False
        while self._free and (turn := self._next_waiting()) is not None:
            self._free -= 1
            turn.set_result(None)

    def _next_waiting(self) -> asyncio.Future[None] | None:
        """Remove and return the longest-waiting session of the next lane that is not empty; None if all are empty."""
        for step in range(len(self._lanes)):
            at = (self._next + step) % len(self._lanes)
            while self._lanes[at]:
                turn = self._lanes[at].popleft()
                if not turn.done():
                    self._next = (at + 1) % len(self._lanes)
                    return turn
        return None


class Lane(Struct, frozen=True):
    """One run's queue for slots."""

    slots: Slots
    index: int

    @asynccontextmanager
    async def hold_slot(self) -> AsyncIterator[Slot]:
        """Wait for a slot, and hold it within the block."""
        await self.slots.acquire(self.index)
        slot = Slot(self.slots)
        try:
            yield slot
        finally:
            slot.end()


class Slot:
    """A session's slot (`llm.limits.pauses.ConversationSlot`), which is lent while a call of the session waits."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._waiting_calls = 0
        self._lent = False

    def lend(self) -> None:
        """Lend the slot to another session when a call begins to wait."""
        self._waiting_calls += 1
        if not self._lent:
            self._lent = self._slots.lend()

    def take_back(self) -> None:
        """Take the slot back when the last waiting call continues."""
        self._waiting_calls -= 1
        if self._lent and not self._waiting_calls:
            self._lent = False
            self._slots.take_back()

    def end(self) -> None:
        """Free the slot."""
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
    is_certain: Callable[[int, Sequence[int]], bool]
    certain: asyncio.Event
    available: Set[TrialKey] | None
    counted: list[tuple[int, ...] | None]
    begun: dict[int, dict[int, TrialRecord]] = field(default_factory=dict)
    alike: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)

    async def serve(self) -> None:
        for place, case in self.pending:
            await self._run_case(place, case)

    def counted_trials(self, place: int, case: Case) -> tuple[int, ...]:
        """Return the indexes of the trials that decide the case at position `place`, and release the case's trials."""
        counted = self.counted[place]
        if counted is None:
            done = self.begun.pop(place, None)
            ordered = _counted_in_order(
                self._resumed_trials(place, case) if done is None else done, case, self.stop_when_decided
            )
            found = tuple(trial.index for trial in ordered)
            counted = self.counted[place] = self.alike.setdefault(found, found)
        return counted

    def _resumed_trials(self, place: int, case: Case) -> dict[int, TrialRecord]:
        """Return the case's finished trials of an interrupted run, by trial index."""
        keys = [(case.id, index) for index in range(case.repeat)] if self.resumed else ()
        done = {key[1]: self.resumed[key] for key in keys if key in self.resumed}
        for trial in done.values():
            self.on_trial(place, case, trial, False)
        return done

    async def _run_case(self, place: int, case: Case) -> None:
        done = self.begun[place] = self._resumed_trials(place, case)
        while indexes := self._next_trials(case, done):
            if self.stop.draining:
                return
            async with asyncio.TaskGroup() as group:
                for index in indexes:
                    group.create_task(self._run_trial(place, case, index, done))
        self.on_case(case, [done[index] for index in sorted(done)])
        if self.is_certain(place, self.counted_trials(place, case)):
            self.certain.set()

    def _next_trials(self, case: Case, finished: Mapping[int, TrialRecord]) -> list[int]:
        wanted = self._wanted_trials(case, finished)
        return wanted if self.available is None else [index for index in wanted if (case.id, index) in self.available]

    def _wanted_trials(self, case: Case, finished: Mapping[int, TrialRecord]) -> list[int]:
        missing = [index for index in range(case.repeat) if index not in finished]
        if not self.stop_when_decided or case.repeat == 1:
            return missing
        # Only an interrupted run leaves gaps; the trials before a gap are needed for the deciding prefix.
        prefix = next(iter(missing), case.repeat)
        outcomes = [judge_trial(finished[index]).outcome for index in range(prefix)]
        wanted = trials_surely_needed(outcomes, case.repeat, case.passes_needed)
        return [index for index in range(prefix, prefix + wanted) if index not in finished]

    async def _run_trial(self, place: int, case: Case, index: int, finished: dict[int, TrialRecord]) -> None:
        try:
            trial = await self.trials.run(case, index, self._slot())
        except _NotStartedError:
            return
        if self.stop.draining and _has_error_or_skip(trial):
            # The stop may have caused the errors: only a failure is certain, and --resume runs the trial again.
            if judge_trial(trial).outcome == "failed":
                finished[index] = trial
                self.on_trial(place, case, trial, False)
            return
        finished[index] = trial
        self.on_trial(place, case, trial, True)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        async with self.lane.hold_slot() as place:
            if self.stop.draining:
                raise _NotStartedError
            with use_slot(place):
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
    positions: Sequence[int] | None = None,
    is_certain: Callable[[int, Sequence[int]], bool] = lambda place, counted: False,
    available: Set[TrialKey] | None = None,
) -> ScheduleResult:
    """Run every trial that is not finished yet.

    Args:
        cases: the cases to run, in order.
        trials: runs one trial.
        lane: gives each session a slot.
        run_timeout_s: seconds until the run is stopped; None if there is no limit.
        stop_when_decided: whether to run no more trials of a case after its deciding trial.
        stop: ends the run early; running trials are cancelled, or are finished if `stop` is draining.
        resumed: finished trials of an interrupted run, by (case id, trial index).
        on_trial: called for each trial that may decide a case, with the case's position, the case, the trial, and
            whether to journal it; resumed trials, and trials that a stop may have disturbed, are not to be journaled.
        on_case: called with every finished case, resumed ones included.
        positions: positions of the cases to run, in order; None for all cases.
        is_certain: called with the position of every finished case and the indexes of the trials that decide it;
            returns whether the exit code of the run is certain, so that the run ends.
        available: the trials that may be run; None to run all. A case without available trials counts as finished.

    Returns:
        The indexes of the trials that decide each case, and the reason if the run ended early.
    """
    counted: list[tuple[int, ...] | None] = [None] * len(cases)
    certain = asyncio.Event()
    work = _Work(
        trials=trials,
        pending=((place, cases[place]) for place in (range(len(cases)) if positions is None else positions)),
        lane=lane,
        stop_when_decided=stop_when_decided,
        stop=stop,
        resumed=resumed,
        on_trial=on_trial,
        on_case=on_case,
        is_certain=is_certain,
        certain=certain,
        available=available,
        counted=counted,
    )
    # Twice as many cases as sessions: answers are scored while the next sessions run.
    serving = asyncio.create_task(_serve(work, min(2 * lane.slots.count, max(1, len(cases)))))
    ending = [asyncio.create_task(stop.wait()), asyncio.create_task(certain.wait())]
    await asyncio.wait({serving, *ending}, timeout=run_timeout_s, return_when=asyncio.FIRST_COMPLETED)
    stopped = stop.reason if stop.draining else None
    if not serving.done():
        if stop.is_requested or not certain.is_set():
            stopped = stop.reason or f"the run deadline of {run_timeout_s:g} s was reached"
        serving.cancel()
        await asyncio.wait({serving})
    for task in ending:
        task.cancel()
    if not serving.cancelled():
        serving.result()
    return ScheduleResult([work.counted_trials(place, case) for place, case in enumerate(cases)], stopped)


async def _serve(work: _Work, server_count: int) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(server_count):
            group.create_task(work.serve())


def _has_error_or_skip(trial: TrialRecord) -> bool:
    """Return whether a trial has an error, a skipped turn or a failed evaluation."""
    return (
        trial.error is not None
        or any(turn.error is not None or turn.skipped is not None for turn in trial.turns)
        or any(evaluation.status == "failed" for _, evaluation in trial.graded)
    )


def _counted_in_order(
    finished: Mapping[int, TrialRecord], case: Case, stop_when_decided: bool
) -> tuple[TrialRecord, ...]:
    ordered = [finished[index] for index in sorted(finished) if index < case.repeat]
    if stop_when_decided and len(ordered) > 1:
        outcomes = [judge_trial(trial).outcome for trial in ordered]
        ordered = ordered[: deciding_prefix(outcomes, case.repeat, case.passes_needed)]
    return tuple(ordered)
