"""Glue: settings in, exit code out; report first, fail last."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from signal import Signals
from typing import TextIO

from holodeck_action.github.placement import placed
from holodeck_action.prepare.opening import Opened, budget_of, close_all, open_all
from holodeck_action.prepare.preflight import Prepared, shown_folder, writable_folder
from holodeck_action.prepare.settings import Flags, filters_of
from holodeck_action.reports.console import show
from holodeck_action.reports.custom import CustomTemplate
from holodeck_action.reports.formats import write_reports
from holodeck_action.reports.progress import progress
from holodeck_action.results.decision import decide
from holodeck_action.results.disk import DISK, Disk
from holodeck_action.results.folder import Claims, suite_folders
from holodeck_action.results.record import Record
from holodeck_action.results.report_building import build_report
from holodeck_action.results.report_views import Report
from holodeck_action.results.result_files import (
    RESULTS_FILE,
    VERDICT_FILE,
    write_combined,
    write_results,
    write_verdict,
)
from holodeck_action.results.verdict import (
    EXIT_INCOMPLETE,
    EXIT_PASSED,
    EXIT_STOPPED,
    CombinedVerdict,
    SuiteVerdict,
    Verdict,
    worst_exit_code,
)
from holodeck_action.runner.journal import JOURNAL_FILE, Journal, set_aside
from holodeck_action.runner.run import RunPlan, resumable, run_suite
from holodeck_action.runner.schedule import Stop, Trials
from holodeck_action.runner.signals import stopping
from holodeck_action.runner.stored import StoredTrials
from holodeck_action.runner.trial import Clock, Deadlines, TrialRunner
from holodeck_action.scoring.custom_summary import with_custom_summary
from holodeck_action.scoring.scoring import TurnScorer
from holodeck_action.suite.checkout import head_commit
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.targets.factory import describe
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line
from holodeck_action.tools.searching import PlannedCalls
from holodeck_action.tracing.traces import FlushTime, traced_run
from holodeck_action.workers.pool import WorkerPool

SYSTEM_CLOCK = Clock(now=lambda: datetime.now(UTC), monotonic=time.monotonic)


@dataclass(frozen=True, slots=True)
class Output:
    """Where a run writes: reports to `stdout`, progress and problems to `stderr`, files to `folder` (None: none).

    `template` is what report.md is made with; None for the built-in template. Files are written with `disk`. `signals`
    stop it in an orderly way.
    """

    stdout: TextIO
    stderr: TextIO
    folder: GivenPath | None
    template: CustomTemplate | None = None
    disk: Disk = DISK
    signals: Sequence[Signals] = ()


@dataclass(frozen=True, slots=True)
class SuiteDone:
    """A suite that has run: what to show of it, and its line in the verdict of several.

    `folder` is where its files are (None: none were asked for), `written` whether they could be written.
    """

    report: Report
    verdict: SuiteVerdict
    folder: GivenPath | None
    written: bool


@dataclass(frozen=True, slots=True)
class Done:
    """A run that has ended: its exit code, the suites that ran, and the places of those left out."""

    exit_code: int
    suites: tuple[SuiteDone, ...]
    not_run: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Evaluated:
    record: Record
    interrupted: bool


def run_suites(prepared: Sequence[Prepared], flags: Flags, output: Output, claims: Claims, *, resume: bool) -> Done:
    """Run suites one after the other and report each.

    With several suites each has its own folder below the output folder, beside one combined verdict. `--run-timeout`
    and the budget of flags hold for all of them together. Journals stay until all suites are done, so that `--resume`
    repeats nothing.

    Raises:
        ConfigurationError: a target cannot be used, the output folder cannot be written, or a journal cannot be
            resumed; nothing has run then.
        FolderError: another run writes into the folder.
    """
    folders = suite_folders([(item.shown, item.suite.file) for item in prepared], output.folder)
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
    flush, tell = FlushTime(), partial(_note, output=output)
    finished: list[SuiteDone] = []
    complete = True
    for ready, journal in zip(suites, journals, strict=True):
        item = ready.item
        try:
            with traced_run(item.suite, item.environ, ready.redactor, output.stderr, flush, tell):
                done = asyncio.run(_evaluate(ready, journal, flags, output, deadline))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        finally:
            if journal is not None:
                journal.close()
        concluded = _conclude(ready, journal, done.record, output)
        finished.append(concluded)
        complete = complete and concluded.written and done.record.stopped is None
        if done.interrupted or (shared is not None and shared.refusal is not None):
            break
    left = len(finished)
    asyncio.run(close_all(suites[left:]))
    for journal in journals[left:]:
        if journal is not None:
            journal.close()
    not_run = tuple(item.place for item in prepared[left:])
    code = _combine([item.verdict for item in finished], not_run, output)
    if complete and left == len(prepared):
        for ready, journal in zip(suites, journals, strict=True):
            # Trials of cases that this run did not choose are still to be continued.
            journaled = ready.resumed.trials
            if journal is not None and len(resumable(ready.item.cases, journaled, ready.redactor)) == len(journaled):
                journal.remove()
    return Done(code, tuple(finished), not_run)


def plan_suites(prepared: Sequence[Prepared], flags: Flags, stream: TextIO) -> None:
    """Write what a run would ask and what it may cost; nothing is asked and nothing else is written.

    Raises:
        ConfigurationError: a target cannot be used.
    """
    shared = budget_of(flags.max_cost_usd, flags.max_tokens)
    suites = open_all(prepared, [None] * len(prepared), shared, resume=False)
    try:
        _plan(suites, flags, stream)
    finally:
        asyncio.run(close_all(suites))


def _announce(suites: Sequence[Opened], flags: Flags, output: Output) -> None:
    """Say what will be asked and what it may cost, where a model is asked over the network."""
    if any(ready.wire is not None and ready.item.settings.calls.mode != "replay" for ready in suites):
        _plan(suites, flags, output.stderr)
    for ready in suites:
        if ready.budgets and ready.own is None and ready.item.stored is None:
            target = ready.redactor.text(describe(ready.item.target))
            limited = "calls of a suite's own model" if ready.wire is None else "the calls of judges"
            _note(f"{ready.item.place}: the budget does not limit {target}, only {limited}", output)


def _plan(suites: Sequence[Opened], flags: Flags, stream: TextIO) -> None:
    from holodeck_action.prepare.estimate import plan_lines

    def searching(at: int) -> Sequence[PlannedCalls]:
        own = suites[at].own
        return () if own is None or not own.searches else asyncio.run(own.planned())

    stream.writelines(f"{line}\n" for line in plan_lines([ready.item for ready in suites], flags, searching))
    stream.flush()


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
            output.stderr.write(f"note: {one_line(notice, 1000)}\n")
        return Journal(path, ready.identity, resumed.keep_bytes, output.disk)
    except OSError as error:
        place = folder.below(error.filename)
        raise ConfigurationError(
            [f"{place}: cannot be replaced: {error.strerror}; remove it or give another --output-dir"]
        ) from error


def _conclude(ready: Opened, journal: Journal | None, record: Record, output: Output) -> SuiteDone:
    """Report a suite that has run."""
    item, folder = ready.item, ready.folder
    verdict = decide(record)
    code = verdict.exit_code
    if journal is not None and journal.error is not None:
        output.stderr.write(f"note: {journal.error}\n")
    report = build_report(record, verdict, item.shown)
    show(report, output.stdout)
    written = folder is None or _write_results(folder, record, verdict, journal, output)
    if folder is not None and written:
        write_reports(folder, report, output.template, lambda sentence: _note(sentence, output), output.disk)
    if not written:
        # Results nobody can read are infrastructure trouble: never a pass.
        code = worst_exit_code([code, EXIT_INCOMPLETE])
    suite_verdict = SuiteVerdict(
        suite=record.suite.name,
        folder=None if folder is None or folder == output.folder else folder.name,
        outcome=verdict.outcome,
        exit_code=code,
        reason=verdict.reason,
    )
    return SuiteDone(report, suite_verdict, folder, written)


def _combine(verdicts: Sequence[SuiteVerdict], not_run: Sequence[str], output: Output) -> int:
    """Report several suites together; return the exit code of all."""
    if len(verdicts) + len(not_run) == 1:
        return verdicts[0].exit_code
    code = worst_exit_code([verdict.exit_code for verdict in verdicts] + ([EXIT_STOPPED] if not_run else []))
    for verdict in verdicts:
        output.stdout.write(f"{verdict.outcome}: {one_line(verdict.suite)} ({one_line(verdict.reason, 1000)})\n")
    if not_run:
        output.stdout.write(f"not run: {one_line(', '.join(not_run), 1000)}\n")
    output.stdout.flush()
    if output.folder is not None:
        try:
            write_combined(
                output.folder.path / VERDICT_FILE, CombinedVerdict(code, tuple(verdicts), tuple(not_run)), output.disk
            )
        except OSError as error:
            output.stderr.write(f"error: {output.folder / VERDICT_FILE}: could not be written: {error.strerror}\n")
            return worst_exit_code([code, EXIT_INCOMPLETE])
    return code


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
    told = ready.notices
    for notice in told:
        _note(ready.redactor.text(notice), output)
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
        commit=head_commit(suite.folder) if stored is None else stored.record.provenance.commit,
        folder=placed(suite.folder, item.environ).folder,
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
            if ready.agent is not None:
                await ready.agent.close()
            if ready.wire is not None:
                await ready.wire.close()
            if ready.files is not None:
                await ready.files.close()
            await ready.target_pool.close()
            await pool.close()
    for notice in ready.notices:
        if notice not in told:
            _note(ready.redactor.text(notice), output)
    return _Evaluated(ready.completed(record), stop.requested)


def _nothing() -> None:
    pass


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
        on_turn=_nothing if ready.judges is None or ready.reuse is not None else ready.judges.prepare,
    )


def _write_results(
    folder: GivenPath, record: Record, verdict: Verdict, journal: Journal | None, output: Output
) -> bool:
    try:
        write_results(folder.path, record, verdict, output.disk)
    except OSError as error:
        kept = " and the journal is kept for --resume" if journal is not None else ""
        output.stderr.write(
            f"error: {folder}: results could not be written: {error.strerror}; the verdict above stands{kept}\n"
        )
        _write_without_results(folder, verdict, output)
        return False
    return True


def _write_without_results(folder: GivenPath, verdict: Verdict, output: Output) -> None:
    """Leave at least the verdict, which without results is never a pass."""
    if verdict.exit_code == EXIT_PASSED:
        reason = f"{RESULTS_FILE} could not be written"
        verdict = replace(verdict, outcome="incomplete", exit_code=EXIT_INCOMPLETE, reason=reason)
    try:
        write_verdict(folder.path / VERDICT_FILE, verdict, output.disk)
    except OSError as error:
        _note(f"{folder / VERDICT_FILE}: could not be written: {error.strerror}", output)


def _note(sentence: str, output: Output) -> None:
    output.stderr.write(f"note: {one_line(sentence, 1000)}\n")


def set_aside_earlier(claims: Claims, root: GivenPath | None, suites: Sequence[Path], cwd: Path) -> None:
    """Move what an earlier run left in the folders of suites out of the way, before anything is loaded.

    Raises:
        FolderError: another run writes into one of them.
    """
    for folder in suite_folders([(shown_folder(path.parent, cwd), path.name) for path in suites], root):
        claims.clear(folder)
