"""Glue: settings in, exit code out; report first, fail last (DESIGN §1, §2)."""

from __future__ import annotations

import asyncio
import hashlib
import signal
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from holodeck_action import __version__
from holodeck_action.agents.base import Agent, TargetError
from holodeck_action.agents.registry import build_agent, describe
from holodeck_action.evaluators.scoring import TurnScorer
from holodeck_action.preflight import ConfigurationError, Prepared, writable_folder
from holodeck_action.reports.console import console_report
from holodeck_action.reports.progress import progress_for
from holodeck_action.results.decide import decide
from holodeck_action.results.files import RESULTS_FILE, VERDICT_FILE, write_combined, write_record, write_verdict
from holodeck_action.results.record import SCHEMA_VERSION, Record, TrialRecord
from holodeck_action.results.redaction import Redactor, environment_secrets
from holodeck_action.results.report import build_report
from holodeck_action.results.verdict import (
    EXIT_INCOMPLETE,
    EXIT_PASSED,
    EXIT_STOPPED,
    EXIT_VIOLATED,
    CombinedVerdict,
    SuiteVerdict,
    Verdict,
)
from holodeck_action.runner.commit import head_commit
from holodeck_action.runner.journal import JOURNAL_FILE, Journal, JournalError, read_journal
from holodeck_action.runner.run import RunPlan, resumable, run_suite
from holodeck_action.runner.schedule import Stop, TrialKey
from holodeck_action.runner.trial import Clock, Deadlines, TrialRunner
from holodeck_action.settings import Flags, filters_of
from holodeck_action.usercode.pool import WorkerPool

SYSTEM_CLOCK = Clock(now=lambda: datetime.now(UTC), monotonic=time.monotonic)


@dataclass(frozen=True, slots=True)
class Output:
    """Where a run writes: reports to `stdout`, progress and problems to `stderr`, files to `folder` (None: none)."""

    stdout: TextIO
    stderr: TextIO
    folder: Path | None


def run_suites(prepared: Sequence[Prepared], flags: Flags, output: Output, *, resume: bool) -> int:
    """Run suites one after the other and report each.

    With several suites each has its own folder below the output folder, beside one combined verdict.

    Returns:
        The exit code of DESIGN §4.

    Raises:
        ConfigurationError: a target cannot be used, the output folder cannot be written, or a journal cannot be
            resumed; nothing has run then.
    """
    folders = _folders(prepared, output.folder)
    for folder in (output.folder, *folders):
        if folder is not None:
            writable_folder(folder)
    verdicts: list[SuiteVerdict] = []
    for item, folder in zip(prepared, folders, strict=True):
        verdict, stopped = _run_one(item, folder, flags, output, resume=resume)
        verdicts.append(verdict)
        if stopped:
            break
    if len(prepared) == 1:
        return verdicts[0].exit_code
    not_run = [item.shown or item.suite.file for item in prepared[len(verdicts) :]]
    code = combined_exit_code([verdict.exit_code for verdict in verdicts] + ([EXIT_STOPPED] if not_run else []))
    for verdict in verdicts:
        output.stdout.write(f"{verdict.outcome}: {verdict.suite} ({verdict.reason})\n")
    if not_run:
        output.stdout.write(f"not run: {', '.join(not_run)}\n")
    if output.folder is not None:
        write_combined(output.folder / VERDICT_FILE, CombinedVerdict(code, tuple(verdicts), tuple(not_run)))
    return code


def combined_exit_code(codes: Sequence[int]) -> int:
    """Return the one exit code for several: a violation before a stop before incompleteness (DESIGN §4)."""
    return next((code for code in (EXIT_VIOLATED, EXIT_STOPPED, EXIT_INCOMPLETE) if code in codes), EXIT_PASSED)


def _run_one(
    item: Prepared, folder: Path | None, flags: Flags, output: Output, *, resume: bool
) -> tuple[SuiteVerdict, bool]:
    """Run one suite; also tell whether the user interrupted it."""
    done = asyncio.run(_evaluate(item, folder, flags, output, resume=resume))
    verdict = decide(done.record)
    code = verdict.exit_code
    if done.journal is not None and done.journal.error is not None:
        output.stderr.write(f"note: {done.journal.error}\n")
    output.stdout.write(console_report(build_report(done.record, verdict), item.shown))
    output.stdout.flush()
    if folder is not None and not _write_results(folder, done.record, verdict, done.journal, output):
        # Results nobody can read are infrastructure trouble: never a pass.
        code = combined_exit_code([code, EXIT_INCOMPLETE])
    suite_verdict = SuiteVerdict(
        suite=item.suite.name,
        folder=None if folder is None or folder == output.folder else folder.name,
        outcome=verdict.outcome,
        exit_code=code,
        reason=verdict.reason,
    )
    return suite_verdict, done.interrupted


@dataclass(frozen=True, slots=True)
class _Evaluated:
    record: Record
    journal: Journal | None
    interrupted: bool


async def _evaluate(item: Prepared, folder: Path | None, flags: Flags, output: Output, *, resume: bool) -> _Evaluated:
    suite, settings = item.suite, item.settings
    pool = WorkerPool(suite.folder, environ=item.environ, size=settings.workers)
    # A turn's deadline runs while it waits for a process: there is one for every conversation.
    target_pool = WorkerPool(suite.folder, environ=item.environ, size=settings.concurrency)
    redactor = Redactor(suite.secrets | environment_secrets(item.environ))
    agent: Agent | None = None
    journal: Journal | None = None
    stop = Stop()
    try:
        agent = build_agent(
            suite,
            item.target,
            folder=item.target_folder,
            environ=item.environ,
            max_bytes=settings.max_response_bytes,
            pool=target_pool,
        )
        journal, journaled, notices = _open_journal(folder, redactor.value(_identity(item)), resume=resume)
        for notice in (*notices, *agent.notices):
            output.stderr.write(f"note: {redactor.text(notice)}\n")
        scorer = TurnScorer(suite, pool=pool, clock=SYSTEM_CLOCK.now, new_id=lambda: str(uuid.uuid4()))
        deadlines = Deadlines(settings.turn_timeout_s, settings.case_timeout_s)
        trials = TrialRunner(agent, scorer, deadlines, SYSTEM_CLOCK, redactor)
        plan = RunPlan(
            cases=item.cases,
            target=describe(item.target),
            gates=settings.gates,
            concurrency=settings.concurrency,
            run_timeout_s=settings.run_timeout_s,
            stop_when_decided=settings.stop_when_decided,
            filters=filters_of(flags),
            commit=head_commit(suite.folder),
        )
        progress = progress_for(output.stderr, len(item.cases), stop_when_decided=settings.stop_when_decided)
        with _stopping_on_signals(stop), progress:
            record = await run_suite(
                suite,
                plan,
                trials,
                stop=stop,
                journal=journal,
                resumed=resumable(item.cases, journaled, redactor),
                on_case=progress.case,
            )
        return _Evaluated(record, journal, stop.reason is not None)
    except TargetError as error:
        place = f"{item.shown}/{suite.file}" if item.shown else suite.file
        raise ConfigurationError([redactor.text(f"{place}: target: {error}")]) from error
    finally:
        if agent is not None:
            await agent.close()
        await target_pool.close()
        await pool.close()
        if journal is not None:
            journal.close()


def _identity(item: Prepared) -> dict[str, Any]:
    """Say what is run: a journal of anything else is not continued."""
    # The described target leaves out options and queries, which may be secret: the digest tells them apart.
    target = hashlib.sha256(f"{item.target_folder} {item.target.model_dump_json()}".encode()).hexdigest()
    return {
        "digest": item.suite.digest,
        "suite": item.suite.name,
        "target": describe(item.target),
        "target_digest": target,
        "tool": __version__,
        "version": SCHEMA_VERSION,
    }


@contextmanager
def _stopping_on_signals(stop: Stop) -> Iterator[None]:
    """Turn the first SIGINT or SIGTERM into an orderly stop; a second one ends the process as usual."""
    loop = asyncio.get_running_loop()

    def request(number: signal.Signals) -> None:
        stop.request(f"{number.name} was received")
        loop.remove_signal_handler(number)

    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, request, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _open_journal(
    folder: Path | None, identity: Mapping[str, Any], *, resume: bool
) -> tuple[Journal | None, Mapping[TrialKey, TrialRecord], list[str]]:
    """Open the journal of a run and read what an interrupted one has finished."""
    if folder is None:
        return None, {}, []
    path = folder / JOURNAL_FILE
    notices: list[str] = []
    trials: Mapping[TrialKey, TrialRecord] = {}
    keep = 0
    try:
        if resume and path.is_file():
            found = read_journal(path, identity)
            trials, keep = found.trials, found.sound_bytes
            if found.broken_lines:
                notices.append(f"{found.broken_lines} broken line(s) of {path.name} are run again")
        elif resume:
            notices.append(f"there is no {path.name} to resume; everything is run")
        elif path.is_file() and path.stat().st_size:
            kept = path.with_name("journal.previous.jsonl")
            path.replace(kept)
            notices.append(
                f"the journal of an interrupted run was kept as {kept.name}; --resume would have continued it"
            )
        return Journal(path, identity, keep), trials, notices
    except JournalError as error:
        raise ConfigurationError([str(error)]) from error
    except OSError as error:
        raise ConfigurationError([f"{path}: the journal cannot be used: {error.strerror}"]) from error


def _write_results(folder: Path, record: Record, verdict: Verdict, journal: Journal | None, output: Output) -> bool:
    try:
        write_record(folder / RESULTS_FILE, record)
        write_verdict(folder / VERDICT_FILE, verdict)
    except OSError as error:
        output.stderr.write(
            f"error: {folder}: results could not be written: {error.strerror}; the verdict above stands"
            + (" and the journal is kept for --resume\n" if journal is not None and journal.error is None else "\n")
        )
        return False
    if journal is not None and record.stopped is None:
        journal.remove()
    return True


def _folders(prepared: Sequence[Prepared], root: Path | None) -> list[Path | None]:
    """Give each suite its folder: the root itself for one suite, a folder named after its place for several."""
    if root is None or len(prepared) == 1:
        return [root for _ in prepared]
    taken: set[str] = set()
    folders: list[Path | None] = []
    for item in prepared:
        base = name = (item.shown.strip("./").replace("/", "-") or item.suite.file.removesuffix(".yaml")) or "suite"
        number = 2
        while name in taken:
            name, number = f"{base}-{number}", number + 1
        taken.add(name)
        folders.append(root / name)
    return folders
