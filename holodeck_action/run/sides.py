"""Runs one suite and its base concurrently, in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial

from msgspec.structs import replace

from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.record.judge_probe import JudgeProbe
from holodeck_action.record.record import Record
from holodeck_action.reports.terminal.progress import CaseDisplay
from holodeck_action.run.bases.baselines import Base, FoundBase
from holodeck_action.run.closure import add_closures
from holodeck_action.run.confirmation import ask_again, cases_to_confirm
from holodeck_action.run.judge_probes import probe_judges, seen_passes
from holodeck_action.run.open_suites import complete_record
from holodeck_action.run.run import Run
from holodeck_action.run.schedule import Slots, Stop, Trials
from holodeck_action.run.signals import stop_on_signals
from holodeck_action.run.stages import Executor
from holodeck_action.run.suite_run import run_suite
from holodeck_action.run.trials import SYSTEM_CLOCK, grading_pool, trial_runner
from holodeck_action.run.ui import Ui
from holodeck_action.scoring.evaluations import add_custom_summary
from holodeck_action.scoring.exam_results import Exams
from holodeck_action.seam import registry
from holodeck_action.suite.applicability import compares_answers
from holodeck_action.workers.pool import WorkerPool


async def run_sides(
    ready: Run,
    ui: Ui,
    stop: Stop,
    deadline: float | None,
    executor: Executor | None,
    stored_base: Base,
    positions: Sequence[int] | None,
) -> Sequence[Run]:
    """Run a suite and its base at the same time, with shared limits, deadline and stop signal, and close both.

    Args:
        ready: the run of the suite, with its base if one runs.
        ui: the options and outputs of the run.
        stop: ends the run early.
        deadline: time at which the run is stopped, in seconds of the system's monotonic clock; None if there is no
            deadline.
        executor: runs the trials; None to run them in this process.
        stored_base: results of an earlier run to compare with; None if there are none.
        positions: positions of the suite's cases in the order in which they run until the exit code is certain; None
            to run all cases. The base always runs all its cases.

    Returns:
        The run, and its base if one ran, each with its record.

    Raises:
        ConfigurationError: the executor cannot be used; nothing has run.
    """
    sides: Sequence[Run] = ready.sides
    written = _write_notices(sides, frozenset(), ui)
    slots = Slots(ready.settings.concurrency if executor is None else executor.max_trials)
    totals = [len(side.own_cases) for side in sides]
    left = None if deadline is None else deadline - SYSTEM_CLOCK.monotonic()
    reason = f"the run deadline of {ui.flags.run_timeout_s or 0:g} s was reached"
    async with AsyncExitStack() as held:
        held.enter_context(stop_on_signals(stop, left, reason, ui.caller.signals))
        for budget in ready.resources.budgets:
            held.enter_context(budget.notify_refusal(stop.drain))
        for side in sides:
            if side.resources.wire is not None:
                side.resources.wire.on_outage = stop.drain
        pool = await held.enter_async_context(grading_pool(ready))
        held.push_async_callback(ready.close)
        sides = await _probe_judges(sides, seen_passes(ready, stored_base), pool, stop, ui)
        trials = [trial_runner(side, pool) for side in sides]
        if executor is not None:
            trials = [await held.enter_async_context(executor.open(stop, sides[0].exams))]
        with ui.progress.cases(totals, stop_when_decided=ready.settings.stop_when_decided) as shown:
            runs = (
                run_suite(
                    side,
                    ui.flags,
                    each,
                    slots.lane(),
                    stop,
                    on_case=partial(shown.show_finished, is_base=side.as_base is not None),
                    order=None if side.as_base is not None else positions,
                )
                for side, each in zip(sides, trials, strict=True)
            )
            waiting = asyncio.create_task(_show_waiting(shown))
            try:
                records = await asyncio.gather(*runs)
            finally:
                waiting.cancel()
        records = await _confirm(sides, records, trials, stored_base, slots, stop, ui)
        records = await _judge_pairs(sides, records, stored_base, stop, ui)
        if ready.settings.gates.summary is not None:
            records = [
                await add_custom_summary(record, pool, side.redactor)
                for side, record in zip(sides, records, strict=True)
            ]
    _write_notices(sides, written, ui)
    stopped = next((record.ended_early for record in records[1:] if record.ended_early is not None), None)
    if stopped is not None and records[0].ended_early is None:
        # A case that the base lacks may have got worse.
        records[0] = records[0].with_end(f"{stopped}; the base was not fully evaluated")
    done = [complete_record(side, record) for side, record in zip(sides, records, strict=True)]
    earlier = stored_base.results.results.record if isinstance(stored_base, FoundBase) else None
    done = add_closures(sides, done, earlier)
    return [replace(side, record=record) for side, record in zip(sides, done, strict=True)]


async def _probe_judges(
    sides: Sequence[Run], seen: Mapping[str, JudgeProbe], pool: WorkerPool, stop: Stop, ui: Ui
) -> Sequence[Run]:
    """Return the sides with the results of the judges' probes; the same metrics and judges grade both."""
    if sides[0].resources.judges is None:
        return sides
    with ui.progress.phase("probing the judges"):
        head = await probe_judges(sides[0], seen, pool, stop)
    others = Exams(errors=head.exams.errors)
    return [head, *(replace(side, exams=others) for side in sides[1:])]


async def _confirm(
    sides: Sequence[Run],
    records: Sequence[Record],
    trials: Sequence[Trials],
    stored_base: Base,
    slots: Slots,
    stop: Stop,
    ui: Ui,
) -> list[Record]:
    """Run further trials of the cases that got worse, and return the records with these trials added."""
    ids = [] if stop.draining else cases_to_confirm(sides, records, stored_base)
    if not ids:
        return [*records]
    more = sides[0].settings.baseline.confirm.trials
    with ui.progress.phase(f"repeating {count_phrase(len(ids), 'case')} that got worse"):
        asked = (
            ask_again(side, record, ids, more, each, slots.lane(), stop)
            for side, record, each in zip(sides, records, trials, strict=True)
        )
        return await asyncio.gather(*asked)


async def _judge_pairs(
    sides: Sequence[Run], records: list[Record], stored_base: Base, stop: Stop, ui: Ui
) -> list[Record]:
    """Return the records with the evaluations of metrics that compare the suite's answers with the base's."""
    ready, pairs = sides[0], registry.pairs()
    if pairs is None or not any(map(compares_answers, ready.own_cases)):
        return records
    head, *others = records
    base = others[0] if others else stored_base.results.results.record if isinstance(stored_base, FoundBase) else None
    with ui.progress.phase("comparing answers"):
        head = await registry.resolve(pairs.judge)(ready, head, base, stop)
    reason = "the base's answers are compared in the head's results"
    return [head, *(registry.resolve(pairs.skip)(other, reason) for other in others)]


async def _show_waiting(display: CaseDisplay) -> None:
    while True:
        await asyncio.sleep(1)
        display.show_waiting()


def _write_notices(sides: Sequence[Run], written_notices: frozenset[str], ui: Ui) -> frozenset[str]:
    """Write the notices that are not in `written_notices`; return all notices written so far."""
    for side in sides:
        for notice in side.notices:
            if notice not in written_notices:
                written_notices |= {notice}
                place = "" if side.as_base is None else f"{side.place}: "
                ui.note(side.redactor.text(place + notice))
    return written_notices
