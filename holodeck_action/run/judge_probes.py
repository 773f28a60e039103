"""Makes the judges' probes of a run, before its first case.

A file of the checkout never stands in for a probe: only the record of the base branch's own run does, and only if it
has seen the same judge pass with the same version of the metric.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holodeck_action.record.judge_probe import JudgeProbe
from holodeck_action.run.run import FoundBase, Run
from holodeck_action.run.schedule import Stop
from holodeck_action.scoring.exam_results import Exams
from holodeck_action.suite.model.base_sources import parse_source
from holodeck_action.workers.pool import WorkerPool

if TYPE_CHECKING:
    from holodeck_action.scoring.exams import PlannedExam

NOT_RECORDED = (
    "the recording has no probe of the judges, so that it is unknown whether they can tell a right from an absurd "
    "answer; record again, or set judges.probe: never"
)


def seen_passes(suite: Run) -> Mapping[str, JudgeProbe]:
    """Return the probes that the stored run of the base branch has seen pass, by identity; none of a file, and none if
    judges are always probed."""
    base = suite.base
    if (
        suite.settings.probe == "always"
        or not isinstance(base, FoundBase)
        or parse_source(base.run.source)[0] == "file"
    ):
        return {}
    return {probe.identity: probe for probe in base.results.results.record.probes if probe.passed}


def planned_exams(
    open_suite: Run, seen: Mapping[str, JudgeProbe], pool: WorkerPool
) -> list[tuple[PlannedExam, JudgeProbe | None]]:
    """Return a suite's probes, each with its earlier result if that holds; a run makes those without a result."""
    if open_suite.resources.judges is None or open_suite.settings.probe == "never":
        return []
    from holodeck_action.scoring.exams import plan_exams

    planned = plan_exams(open_suite.own_cases, open_suite.resources.judges, pool, open_suite.redactor)
    return [(each, seen.get(each.identity)) for each in planned]


async def probe_judges(open_suite: Run, seen: Mapping[str, JudgeProbe], pool: WorkerPool, stop: Stop) -> Run:
    """Return the suite with the results of its judges' probes.

    Args:
        open_suite: the suite.
        seen: earlier results by identity, such as the passes that `seen_passes` returns.
        pool: the worker processes in which the suite's own code runs.
        stop: ends the probes early.
    """
    planned = planned_exams(open_suite, seen, pool)
    if not planned:
        return open_suite
    from holodeck_action.scoring.exams import errors_of, hold_exam

    calls, slots = open_suite.settings.calls, asyncio.Semaphore(open_suite.settings.concurrency)

    async def probe(each: PlannedExam, earlier: JudgeProbe | None) -> JudgeProbe | None:
        if earlier is not None:
            return replace(earlier, metric=open_suite.redactor.text(each.spec.label), attempts=0, kept=True)
        async with slots:
            stored = open_suite.resources.reuse if calls.mode != "live" else None
            return await hold_exam(each, stored, replay=calls.mode == "replay", redactor=open_suite.redactor)

    made = await _unless_stopped([asyncio.create_task(probe(*each)) for each in planned], stop)
    probes = sorted(made, key=lambda each: (each.metric, each.judge, each.identity))
    notices = (NOT_RECORDED,) if calls.mode == "replay" and len(made) < len(planned) else ()
    errors = errors_of((each for each, _ in planned), probes)
    return replace(open_suite, exams=Exams(tuple(probes), errors, notices))


async def _unless_stopped(tasks: Iterable[asyncio.Task[JudgeProbe | None]], stop: Stop) -> list[JudgeProbe]:
    """Return the results of tasks; if the run is to end before, the results so far."""
    running = [*tasks]
    ending = asyncio.create_task(stop.wait())
    everything = asyncio.create_task(asyncio.wait(running))
    try:
        await asyncio.wait((ending, everything), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (ending, everything, *running):
            task.cancel()
        await asyncio.gather(ending, everything, *running, return_exceptions=True)
    done = [task for task in running if not task.cancelled()]
    return [found for task in done if (found := task.result()) is not None]
