"""Runs one suite and its base concurrently, in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

from msgspec.structs import replace

from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.reports.terminal.progress import CaseDisplay
from holodeck_action.run.closure import add_closures
from holodeck_action.run.confirmation import ask_again, cases_to_confirm
from holodeck_action.run.judge_probes import probe_judges, seen_passes
from holodeck_action.run.open_suites import complete
from holodeck_action.run.run import Run, join_sides
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
    positions: Sequence[int] | None,
) -> Run:
    """Run a suite and its base at the same time, with shared limits, deadline and stop signal, and close both.

    Args:
        ready: the run of the suite, with its base if one runs.
        ui: the options and outputs of the run.
        stop: ends the run early.
        deadline: time at which the run is stopped, in seconds of the system's monotonic clock; None if there is no
            deadline.
        executor: runs the trials; None to run them in this process.
        positions: positions of the suite's cases in the order in which they run until the exit code is certain; None
            to run all cases. The base always runs all its cases.

    Returns:
        The run with its record, and with that of its base if one ran.

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
        sides = await _probe_judges(sides, pool, stop, ui)
        trials = [trial_runner(side, pool) for side in sides]
        if executor is not None:
            trials = [await held.enter_async_context(executor.open(stop, sides[0].exams))]
        with ui.progress.cases(totals, stop_when_decided=ready.settings.stop_when_decided) as shown:
            runs = (
                run_suite(
                    side,
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
                sides = await asyncio.gather(*runs)
            finally:
                waiting.cancel()
        sides = await _confirm(sides, trials, slots, stop, ui)
        sides = await _judge_pairs(sides, stop, ui)
        if ready.settings.gates.summary is not None:
            sides = [replace(side, ended=await add_custom_summary(side.record, pool, side.redactor)) for side in sides]
    _write_notices(sides, written, ui)
    head, *others = sides
    stopped = next((side.record.ended_early for side in others if side.record.ended_early is not None), None)
    if stopped is not None and head.record.ended_early is None:
        # A case that the base lacks may have got worse.
        head = replace(head, ended=head.record.with_end(f"{stopped}; the base was not fully evaluated"))
    return add_closures(join_sides([complete(side) for side in (head, *others)]))


async def _probe_judges(sides: Sequence[Run], pool: WorkerPool, stop: Stop, ui: Ui) -> Sequence[Run]:
    """Return the sides with the results of the judges' probes; the same metrics and judges grade both."""
    if sides[0].resources.judges is None:
        return sides
    with ui.progress.phase("probing the judges"):
        head = await probe_judges(sides[0], seen_passes(sides[0]), pool, stop)
    others = Exams(errors=head.exams.errors)
    return [head, *(replace(side, exams=others) for side in sides[1:])]


async def _confirm(sides: Sequence[Run], trials: Sequence[Trials], slots: Slots, stop: Stop, ui: Ui) -> Sequence[Run]:
    """Run further trials of the cases that got worse, and return the sides with these trials in their records."""
    confirms = sides[0].confirms_regressions and not stop.draining
    ids = cases_to_confirm(join_sides(sides)) if confirms else ()
    if not ids:
        return sides
    more = sides[0].settings.baseline.confirm.trials
    with ui.progress.phase(f"repeating {count_phrase(len(ids), 'case')} that got worse"):
        asked = (ask_again(side, ids, more, each, slots.lane(), stop) for side, each in zip(sides, trials, strict=True))
        return await asyncio.gather(*asked)


async def _judge_pairs(sides: Sequence[Run], stop: Stop, ui: Ui) -> Sequence[Run]:
    """Return the sides with the evaluations of metrics that compare the suite's answers with the base's."""
    head, pairs = join_sides(sides), registry.pairs()
    if pairs is None or not any(map(compares_answers, head.own_cases)):
        return sides
    with ui.progress.phase("comparing answers"):
        judged = await registry.resolve(pairs.judge)(head, head.record, head.base_record, stop)
    reason = "the base's answers are compared in the head's results"
    skipped = (registry.resolve(pairs.skip)(side.record, reason) for side in sides[1:])
    return [replace(side, ended=record) for side, record in zip(sides, (judged, *skipped), strict=True)]


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
