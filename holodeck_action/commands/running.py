"""One suite run, and what it is compared with beside it, in one loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.commands.output import Output
from holodeck_action.record.asker import asker_of
from holodeck_action.record.record import CaseRecord, Record
from holodeck_action.reports.terminal.progress import CasesShown
from holodeck_action.run.bases.baselines import evaluated_commit, folder_of
from holodeck_action.run.case_choice import filters_of
from holodeck_action.run.journal import Journal
from holodeck_action.run.open_suites import Opened
from holodeck_action.run.schedule import Lane, Slots, Stop, Trials
from holodeck_action.run.settings import Flags
from holodeck_action.run.signals import stopping
from holodeck_action.run.stages import Executor
from holodeck_action.run.suite_run import RunPlan, resumable, run_suite
from holodeck_action.run.trials import SYSTEM_CLOCK, grading_pool, trials_of
from holodeck_action.scoring.evaluations import with_custom_summary
from holodeck_action.targets.factory import describe


class Side(Struct, frozen=True):
    """A suite that is to run, with the journal of its trials; None where it has no folder."""

    ready: Opened
    journal: Journal | None


# asyncio makes a text of its main task when it ends, with the task's result.
@dataclass(frozen=True, slots=True, repr=False)
class Ran:
    """What came of a suite: its record, that of what ran beside it (None: nothing), and whether it was interrupted."""

    record: Record
    base: Record | None
    interrupted: bool


async def run_sides(
    sides: Sequence[Side], flags: Flags, output: Output, deadline: float | None, executor: Executor | None
) -> Ran:
    """Run a suite and what it is compared with at the same time, under one limit, deadline and stop, and close them.

    Args:
        sides: the suite, and what runs beside it, if anything does.
        flags: the command line.
        output: where the run writes.
        deadline: by the system's clock, in seconds; None for none.
        executor: runs the trials; None where they run here.

    Raises:
        ConfigurationError: the executor cannot be used; nothing has run then.
    """
    head = sides[0].ready
    settings = head.item.settings
    pool = grading_pool(head)
    for side in sides:
        if side.journal is not None:
            side.ready.imported.tell(side.journal.append_code)
    told = _tell(sides, frozenset(), output)
    stop, slots = Stop(), Slots(settings.concurrency if executor is None else executor.trials)
    held = AsyncExitStack()
    totals = [len(side.ready.item.own_cases) for side in sides]
    with ExitStack() as scope:
        left = None if deadline is None else deadline - SYSTEM_CLOCK.monotonic()
        scope.enter_context(
            stopping(stop, left, f"the run deadline of {flags.run_timeout_s or 0:g} s was reached", output.signals)
        )
        for budget in head.budgets:
            scope.enter_context(budget.telling(stop.drain))
        try:
            trials = [trials_of(side.ready, pool) for side in sides]
            if executor is not None:
                trials = [await held.enter_async_context(executor.open(stop))]
            with output.progress.cases(totals, stop_when_decided=settings.stop_when_decided) as shown:
                runs = (
                    _run(side, flags, each, slots.lane(), stop, shown) for side, each in zip(sides, trials, strict=True)
                )
                waiting = asyncio.create_task(_wait(shown))
                try:
                    records = await asyncio.gather(*runs)
                finally:
                    waiting.cancel()
            records = [
                await with_custom_summary(record, pool, side.ready.redactor)
                for side, record in zip(sides, records, strict=True)
            ]
        finally:
            await held.aclose()
            await head.close()
            await pool.close()
    _tell(sides, told, output)
    stopped = next((record.ended_early for record in records[1:] if record.ended_early is not None), None)
    if stopped is not None and records[0].ended_early is None:
        # What the base lacks could be a case that got worse.
        records[0] = records[0].with_end(f"{stopped}; the base was not done")
    done = [side.ready.completed(record) for side, record in zip(sides, records, strict=True)]
    return Ran(done[0], done[1] if len(done) > 1 else None, stop.requested)


async def _wait(shown: CasesShown) -> None:
    while True:
        await asyncio.sleep(1)
        shown.waiting()


def _tell(sides: Sequence[Side], told: frozenset[str], output: Output) -> frozenset[str]:
    """Write the notices that were not told before; return all that are told now."""
    for side in sides:
        for notice in side.ready.notices:
            if notice not in told:
                told |= {notice}
                place = "" if side.ready.beside is None else f"{side.ready.item.place}: "
                output.note(side.ready.redactor.text(place + notice))
    return told


async def _run(side: Side, flags: Flags, trials: Trials, lane: Lane, stop: Stop, shown: CasesShown) -> Record:
    ready = side.ready
    record = await run_suite(
        ready.item.suite,
        _plan(ready, flags),
        trials,
        lane=lane,
        stop=stop,
        journal=side.journal,
        resumed=resumable(ready.item.cases, ready.resumed.trials, ready.redactor),
        on_case=partial(_show_run, shown, beside=ready.beside is not None),
    )
    shard = record.run.shard
    if shard is None:
        return record
    return replace(record, run=replace(record.run, shard=replace(shard, depends=ready.depends)))


def _show_run(shown: CasesShown, case: CaseRecord, *, beside: bool) -> None:
    # Of cases of other shards, and of those that only the base has, nothing is run.
    if case.trials:
        shown.done(case, beside=beside)


def _plan(ready: Opened, flags: Flags) -> RunPlan:
    item, settings, stored = ready.item, ready.item.settings, ready.item.stored
    plan = RunPlan(
        cases=item.cases,
        target=describe(item.target) if stored is None else stored.record.provenance.target,
        gates=settings.gates,
        run_timeout_s=settings.run_timeout_s,
        stop_when_decided=settings.stop_when_decided,
        filters=filters_of(flags) if stored is None else stored.record.provenance.filters,
        commit=evaluated_commit(item),
        folder=folder_of(item),
        asker=asker_of(item.environ),
    )
    if item.part is not None:
        own = frozenset((case.id, index) for case in item.own_cases for index in range(case.repeat))
        plan = replace(plan, available=own, shard=item.part.shard)
    if ready.beside is not None:
        beside = ready.beside
        cases = (*item.cases, *beside.unpaired)
        return replace(plan, cases=cases, commit=beside.run.commit, folder=beside.folder, available=beside.trials)
    if stored is not None:
        return replace(
            plan,
            available=stored.trials.keys(),
            rejudged=stored.digest,
            stopped=stored.stopped,
            notices=stored.notices,
        )
    return plan
