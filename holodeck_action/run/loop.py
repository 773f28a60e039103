"""The loop over the trials of a plan, under a concurrency limit, a deadline and a stop signal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct, field

from holodeck_action.decide.case_verdicts import judge_trial
from holodeck_action.llm.limits.pauses import use_slot
from holodeck_action.record.record import TrialRecord
from holodeck_action.record.serialization import as_read
from holodeck_action.run.schedule import Lane, Stop, Trials
from holodeck_action.run.trial_plans import Plan, Position
from holodeck_action.suite.values import Case


class LoopResult(Struct, frozen=True):
    """The trials that decide each case, by its position; and why the loop ended early, or None."""

    trials: dict[Position, tuple[TrialRecord, ...]]
    stopped: str | None


class _NotStartedError(Exception):
    """A trial was not started because the run is ending."""


class _Loop(Struct):
    plan: Plan
    trials: Trials
    lane: Lane
    stop: Stop
    on_trial: Callable[[Case, TrialRecord], None]
    on_case: Callable[[Case, Sequence[TrialRecord]], None]
    known_result: asyncio.Event
    kept: dict[Position, tuple[TrialRecord, ...]] = field(default_factory=dict)
    running: dict[Position, dict[int, TrialRecord]] = field(default_factory=dict)

    async def serve_all(self) -> None:
        # Twice as many cases as sessions: answers are scored while the next sessions run.
        servers = min(2 * self.lane.slots.count, max(1, len(self.plan.cases)))
        pending = iter(self.plan.order())
        async with asyncio.TaskGroup() as group:
            for _ in range(servers):
                group.create_task(self._serve(pending))

    def keep_unfinished(self) -> None:
        """Keep the deciding trials of the cases that did not finish."""
        for at in range(len(self.plan.cases)):
            if at not in self.kept:
                done = self.running.get(at)
                self._keep(at, self.plan.deciding(at, self.plan.known(at) if done is None else done))

    async def _serve(self, pending: Iterator[Position]) -> None:
        for at in pending:
            case, done = self.plan.cases[at], self.plan.known(at)
            self.running[at] = done
            while indexes := self.plan.next_trials(at, done):
                if self.stop.draining:
                    break
                async with asyncio.TaskGroup() as group:
                    for index in indexes:
                        group.create_task(self._run_trial(at, case, index, done))
            else:
                self._end_case(at, case, done)

    def _end_case(self, at: Position, case: Case, done: dict[int, TrialRecord]) -> None:
        self.on_case(case, [done[index] for index in sorted(done)])
        deciding = self.plan.deciding(at, self.running.pop(at))
        self._keep(at, deciding)
        if self.plan.end_case(at, deciding):
            self.known_result.set()

    def _keep(self, at: Position, deciding: tuple[TrialRecord, ...]) -> None:
        self.kept[at] = as_read(deciding, tuple[TrialRecord, ...])

    async def _run_trial(self, at: Position, case: Case, index: int, done: dict[int, TrialRecord]) -> None:
        try:
            trial = await self.trials.run(case, index, self._hold_slot(at))
        except _NotStartedError:
            return
        if not self.stop.draining or not _has_error_or_skip(trial):
            done[index] = trial
            self.on_trial(case, trial)
        elif judge_trial(trial).outcome == "failed":
            # The stop may have caused the errors: only a failure is certain, and --resume runs the trial again.
            done[index] = trial

    @asynccontextmanager
    async def _hold_slot(self, at: Position) -> AsyncIterator[None]:
        await self.plan.wait_turn(at)
        async with self.lane.hold_slot() as slot:
            if self.stop.draining:
                raise _NotStartedError
            with use_slot(slot):
                yield


async def run_trials(
    plan: Plan,
    trials: Trials,
    lane: Lane,
    stop: Stop,
    *,
    timeout_s: float | None,
    on_trial: Callable[[Case, TrialRecord], None],
    on_case: Callable[[Case, Sequence[TrialRecord]], None] = lambda case, trials: None,
) -> LoopResult:
    """Run the trials of a plan.

    Args:
        plan: chooses the trials.
        trials: runs one trial.
        lane: gives each session a slot.
        stop: ends the loop early; running trials are cancelled, or are finished if `stop` is draining.
        timeout_s: seconds until the loop is stopped; None if there is no limit.
        on_trial: called with each trial that ran and is to be journaled: one that a stop may have disturbed is not.
        on_case: called with every finished case and its finished trials, resumed ones included, in order of index.
    """
    loop = _Loop(plan, trials, lane, stop, on_trial, on_case, asyncio.Event())
    serving = asyncio.create_task(loop.serve_all())
    ending = [asyncio.create_task(stop.wait()), asyncio.create_task(loop.known_result.wait())]
    await asyncio.wait({serving, *ending}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    stopped = stop.reason if stop.draining else None
    if not serving.done():
        if stop.is_requested or not loop.known_result.is_set():
            stopped = stop.reason or f"the run deadline of {timeout_s:g} s was reached"
        serving.cancel()
        await asyncio.wait({serving})
    for task in ending:
        task.cancel()
    if not serving.cancelled():
        serving.result()
    loop.keep_unfinished()
    return LoopResult(loop.kept, stopped)


def _has_error_or_skip(trial: TrialRecord) -> bool:
    """Return whether a trial has an error, a skipped turn or a failed evaluation."""
    return (
        trial.error is not None
        or any(turn.error is not None or turn.skipped is not None for turn in trial.turns)
        or any(evaluation.status == "failed" for _, evaluation in trial.graded)
    )
