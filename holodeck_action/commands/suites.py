"""Prepared suites evaluated one after the other, decided and reported: what `run`, `rejudge` and the step share."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from holodeck_action.commands.output import Done, Output, SuiteDone, report_suite, report_together
from holodeck_action.github.job import Job
from holodeck_action.prepare.baselines import compared, evaluated_commit, find_bases, place_of
from holodeck_action.prepare.histories import open_history
from holodeck_action.prepare.loading import writable_folder
from holodeck_action.prepare.open_suites import Opened, budget_of, close_all, open_all
from holodeck_action.prepare.preflight import Prepared
from holodeck_action.prepare.request import Request
from holodeck_action.prepare.settings import Flags, filters_of
from holodeck_action.reports.progress import progress
from holodeck_action.results.conclusion import Conclusion, conclude
from holodeck_action.results.decision import Terms
from holodeck_action.results.exit_codes import ExitCode
from holodeck_action.results.folder import Claims, suite_folders
from holodeck_action.results.record import Record
from holodeck_action.results.result_files import Beside
from holodeck_action.runner.journal import JOURNAL_FILE, Journal, set_aside
from holodeck_action.runner.schedule import Stop, Trials
from holodeck_action.runner.signals import stopping
from holodeck_action.runner.stored import StoredTrials
from holodeck_action.runner.suite_run import RunPlan, resumable, run_suite
from holodeck_action.runner.trial import Clock, Deadlines, TrialRunner
from holodeck_action.scoring.evaluations import with_custom_summary
from holodeck_action.scoring.scoring import TurnScorer
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.targets.factory import describe
from holodeck_action.tools.searching import PlannedCalls
from holodeck_action.tracing.traces import FlushTime, traced_run
from holodeck_action.workers.pool import WorkerPool

SYSTEM_CLOCK = Clock(now=lambda: datetime.now(UTC), monotonic=time.monotonic)


@dataclass(frozen=True, slots=True)
class _Evaluated:
    record: Record
    interrupted: bool


def evaluate(prepared: Sequence[Prepared], request: Request, output: Output, claims: Claims, job: Job) -> Done:
    """Run suites one after the other and report each, or only say what that would ask.

    With several suites each has its own folder below the output folder, beside one combined verdict. `--run-timeout`
    and the budget of flags hold for all of them together. Journals stay until all suites are done, so that `--resume`
    repeats nothing.

    Args:
        prepared: the suites.
        request: what is asked for.
        output: where a run writes.
        claims: of the output folders.
        job: says what results are compared with, and gets them.

    Raises:
        ConfigurationError: a target or a base cannot be used, the output folder cannot be written, or a journal cannot
            be resumed; nothing has run then.
        FolderError: another run writes into the folder.
    """
    flags, resume = request.flags, request.resume
    if request.dry_run:
        plan = _planned(prepared, flags)
        output.stdout.write(plan)
        output.stdout.flush()
        return Done(ExitCode.PASSED, plan=plan)
    folders = suite_folders([(item.shown, item.suite.file) for item in prepared], output.folder)
    bases = find_bases(prepared, job)
    history = open_history(request.history, job, output.disk)
    for notice in () if history is None else history.lines.notices:
        output.note(notice)
    for folder in (output.folder, *folders):
        if folder is not None:
            writable_folder(folder)
            claims.clear(folder)
    shared = budget_of(flags.max_cost_usd, flags.max_tokens)
    suites = open_all(prepared, folders, shared, resume=resume)
    try:
        journals = [_start_journal(ready, output) for ready in suites]
    except ConfigurationError:
        asyncio.run(close_all(suites))
        raise
    _announce(suites, flags, output)
    deadline = None if flags.run_timeout_s is None else SYSTEM_CLOCK.monotonic() + flags.run_timeout_s
    flush = FlushTime()
    finished: list[SuiteDone] = []
    kept: list[Conclusion] = []
    complete = True
    for ready, journal, base in zip(suites, journals, bases, strict=True):
        item = ready.item
        try:
            with traced_run(item.suite, item.environ, ready.redactor, output.stderr, flush, output.note):
                done = asyncio.run(_evaluate(ready, journal, flags, output, deadline))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        finally:
            if journal is not None:
                journal.close()
        if journal is not None and journal.error is not None:
            output.stderr.write(f"note: {journal.error}\n")
        record, results = compared(done.record, item, base)
        terms = Terms(base=None if results is None else results.results.record)
        earlier = () if history is None else history.earlier(record)
        concluded = conclude(record, terms, folder=item.shown, earlier=earlier)
        beside = Beside(results, earlier)
        reported = report_suite(concluded, ready.folder, output, beside, journaled=journal is not None)
        finished.append(reported)
        if reported.written:
            kept.append(concluded)
        complete = complete and reported.written and done.record.stopped is None
        if done.interrupted or (shared is not None and shared.refusal is not None):
            break
    left = len(finished)
    asyncio.run(close_all(suites[left:]))
    for journal in journals[left:]:
        if journal is not None:
            journal.close()
    not_run = tuple(item.place for item in prepared[left:])
    code = report_together([item.verdict for item in finished], not_run, output)
    if history is not None:
        history.add(kept, output.note)
    if complete and left == len(prepared):
        for ready, journal in zip(suites, journals, strict=True):
            # Trials of cases that this run did not choose are still to be continued.
            journaled = ready.resumed.trials
            if journal is not None and len(resumable(ready.item.cases, journaled, ready.redactor)) == len(journaled):
                journal.remove()
    return Done(code, tuple(finished), not_run)


def _planned(prepared: Sequence[Prepared], flags: Flags) -> str:
    """Return what a run would ask and what it may cost; nothing is asked and nothing else is written.

    Raises:
        ConfigurationError: a target cannot be used.
    """
    shared = budget_of(flags.max_cost_usd, flags.max_tokens)
    suites = open_all(prepared, [None] * len(prepared), shared, resume=False)
    try:
        return _plan(suites, flags)
    finally:
        asyncio.run(close_all(suites))


def _announce(suites: Sequence[Opened], flags: Flags, output: Output) -> None:
    """Say what will be asked and what it may cost, where a model is asked over the network."""
    if any(ready.wire is not None and ready.item.settings.calls.mode != "replay" for ready in suites):
        output.stderr.write(_plan(suites, flags))
        output.stderr.flush()
    for ready in suites:
        if ready.budgets and ready.own is None and ready.item.stored is None:
            target = ready.redactor.text(describe(ready.item.target))
            limited = "calls of a suite's own model" if ready.wire is None else "the calls of judges"
            output.note(f"{ready.item.place}: the budget does not limit {target}, only {limited}")


def _plan(suites: Sequence[Opened], flags: Flags) -> str:
    from holodeck_action.prepare.plan import plan_lines

    def searching(at: int) -> Sequence[PlannedCalls]:
        own = suites[at].own
        return () if own is None or not own.searches else asyncio.run(own.planned())

    return "".join(f"{line}\n" for line in plan_lines([ready.item for ready in suites], flags, searching))


def _start_journal(ready: Opened, output: Output) -> Journal | None:
    """Start the journal of a suite; None where it has no folder.

    Raises:
        ConfigurationError: a file stands in the way.
    """
    folder, resumed = ready.folder, ready.resumed
    if folder is None:
        return None
    path = folder.path / JOURNAL_FILE
    try:
        for notice in resumed.notices if resumed.keep_bytes else (*resumed.notices, *set_aside(path)):
            output.note(notice)
        return Journal(path, ready.identity, resumed.keep_bytes, output.disk)
    except OSError as error:
        place = folder.below(error.filename)
        raise ConfigurationError(
            [f"{place}: cannot be replaced: {error.strerror}; remove it or give another --output-dir"]
        ) from error


async def _evaluate(
    ready: Opened, journal: Journal | None, flags: Flags, output: Output, deadline: float | None
) -> _Evaluated:
    item, suite, settings = ready.item, ready.item.suite, ready.item.settings
    pool = WorkerPool(
        suite.folder,
        environ=item.environ,
        cwd=suite.checkout.cwd,
        size=settings.workers,
        imported=ready.imported,
    )
    if journal is not None:
        ready.imported.tell(journal.append_code)
    stop = Stop()
    notices = ready.notices
    for notice in notices:
        output.note(ready.redactor.text(notice))
    scorer = TurnScorer(
        suite,
        pool=pool,
        clock=SYSTEM_CLOCK.now,
        new_id=lambda: str(uuid.uuid4()),
        judges=ready.judges,
        reuse=ready.reuse,
    )
    trials = _trials(ready, scorer)
    stored = item.stored
    resumed = resumable(item.cases, ready.resumed.trials, ready.redactor)
    plan = RunPlan(
        cases=item.cases,
        target=describe(item.target) if stored is None else stored.record.provenance.target,
        gates=settings.gates,
        concurrency=settings.concurrency,
        run_timeout_s=settings.run_timeout_s,
        stop_when_decided=settings.stop_when_decided,
        filters=filters_of(flags) if stored is None else stored.record.provenance.filters,
        commit=evaluated_commit(item),
        folder=place_of(item).folder,
    )
    if stored is not None:
        plan = replace(
            plan,
            available=stored.trials.keys(),
            rejudged=stored.digest,
            stopped=stored.stopped,
            notices=stored.notices,
        )
    showing = progress(output.stderr, len(item.cases), stop_when_decided=settings.stop_when_decided)
    with ExitStack() as scope:
        left = None if deadline is None else deadline - SYSTEM_CLOCK.monotonic()
        scope.enter_context(
            stopping(stop, left, f"the run deadline of {flags.run_timeout_s or 0:g} s was reached", output.signals)
        )
        for budget in ready.budgets:
            scope.enter_context(budget.telling(stop.drain))
        try:
            with showing as on_case:
                record = await run_suite(
                    suite, plan, trials, stop=stop, journal=journal, resumed=resumed, on_case=on_case
                )
            record = await with_custom_summary(record, pool, ready.redactor)
        finally:
            await ready.close()
            await pool.close()
    for notice in ready.notices:
        if notice not in notices:
            output.note(ready.redactor.text(notice))
    return _Evaluated(ready.completed(record), stop.requested)


def _trials(ready: Opened, scorer: TurnScorer) -> Trials:
    """Return what runs the trials of a suite, or grades those of an earlier run."""
    item = ready.item
    if item.stored is not None:
        return StoredTrials(item.stored, scorer, SYSTEM_CLOCK, ready.redactor)
    assert ready.agent is not None
    return TrialRunner(
        ready.agent,
        scorer,
        Deadlines(item.settings.turn_timeout_s, item.settings.case_timeout_s),
        SYSTEM_CLOCK,
        ready.redactor,
        item.suite.name,
        ready.files,
        gives_files=ready.own is not None,
        # With kept verdicts there may be nothing to judge.
        on_turn=(lambda: None) if ready.judges is None or ready.reuse is not None else ready.judges.prepare,
    )
