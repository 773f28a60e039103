"""Evaluates prepared suites in turn, decides their verdicts and reports them, for `run`, `rejudge` and the step."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holodeck_action.commands.blessing import bless, check_blessing
from holodeck_action.commands.output import FinishedRun, FinishedSuite, Output, report_suite, report_together
from holodeck_action.commands.running import RunResult, run_sides
from holodeck_action.decide.decision import Terms
from holodeck_action.decide.exit_codes import ExitCode, worst_exit_code
from holodeck_action.decide.written_results import RelatedFiles
from holodeck_action.record.folder import Claims, suite_folders
from holodeck_action.record.result_files import BASE_FOLDER
from holodeck_action.reports.conclusion import Conclusion, conclude
from holodeck_action.reports.history import NO_RUNS
from holodeck_action.run.bases.base_suites import BaseSuite, load_base_suites
from holodeck_action.run.bases.baselines import Base, FoundBase, MissingBase, attach_base, find_bases
from holodeck_action.run.certain_end import case_order
from holodeck_action.run.confirmation import base_of
from holodeck_action.run.journal import JOURNAL_FILE, Journal, set_aside_journal
from holodeck_action.run.judge_probes import seen_passes
from holodeck_action.run.loading import SuiteContext, ensure_writable
from holodeck_action.run.model_calls import make_budget
from holodeck_action.run.open_suites import BaseToRun, OpenSuite, close_all, open_all
from holodeck_action.run.options.settings import Flags
from holodeck_action.run.past import KeptRuns, histories_of
from holodeck_action.run.preflight import PreparedSuite
from holodeck_action.run.shards import choose_part, durations_of
from holodeck_action.run.signals import raise_on_signals
from holodeck_action.run.stages import Stages, UserOutput, enter_all, executor_of, stages_of
from holodeck_action.run.suite_run import Side
from holodeck_action.run.trials import SYSTEM_CLOCK
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.base_sources import MERGE_BASE
from holodeck_action.targets.factory import describe_target
from holodeck_action.text.given_paths import GivenPath

if TYPE_CHECKING:
    from holodeck_action.github.job import Job
    from holodeck_action.run.estimates import ModelEstimate
    from holodeck_action.targets.own_model.toolbox import PlannedCalls


def evaluate(
    suites: Sequence[PreparedSuite], flags: Flags, output: Output, claims: Claims, context: SuiteContext, job: Job
) -> FinishedRun:
    """Run suites one after the other and report each; with `--dry-run`, only print the plan.

    If there are several suites, the output folder has a subfolder for each, and a combined verdict. `--run-timeout` and
    the budget of the command line apply to all suites together. Journals are kept until all suites are done, so that
    `--resume` repeats nothing.

    Args:
        suites: the suites.
        flags: the options of the command.
        output: the outputs of the run.
        claims: claims on output folders, which keep other runs from writing to them.
        context: environment, folders and permissions of suites.
        job: finds and downloads the results to compare with.

    Raises:
        ConfigurationError: a target or a base cannot be used, the output folder cannot be written, or a journal cannot
            be resumed; nothing has run then.
        FolderError: another run is writing to the folder.
    """
    check_blessing(suites, flags)
    with ExitStack() as scope:
        bases_to_run: Sequence[BaseToRun] = load_base_suites(suites, flags, context)
        if any(item.settings.baseline.source == MERGE_BASE for item in suites):
            from holodeck_action.run.bases.commit_trees import CommitTrees
            from holodeck_action.run.bases.merge_base_suites import suites_at_merge_base

            # From here on there are temporary files to remove.
            scope.enter_context(raise_on_signals(output.signals))
            trees = scope.enter_context(CommitTrees(job))
            with output.progress.phase("loading the merge base"):
                bases_to_run = suites_at_merge_base(suites, flags, context, job, trees)
        return _run_all(suites, bases_to_run, flags, output, claims, job)


def _run_all(
    prepared_suites: Sequence[PreparedSuite],
    bases_to_run: Sequence[BaseToRun],
    flags: Flags,
    output: Output,
    claims: Claims,
    job: Job,
) -> FinishedRun:
    if flags.dry_run:
        return _print_plan(prepared_suites, bases_to_run, flags, output)
    folders = suite_folders([(item.display_folder, item.suite.file) for item in prepared_suites], output.folder)
    with output.progress.phase("looking for the base and the history"):
        bases = find_bases(prepared_suites, job)
        prepared_suites = [_balance_shard(item, base) for item, base in zip(prepared_suites, bases, strict=True)]
        sharded = flags.shard is not None
        histories = histories_of(flags.history, job, output.disk, output.note)
        earlier = [None if sharded or histories is None else histories.of(item) for item in prepared_suites]
    _make_folders(folders, bases_to_run, output)
    shared = make_budget(flags.max_cost_usd, flags.max_tokens, prepared_suites[0].shards)
    with output.progress.phase("preparing targets and judges"):
        suites = open_all(prepared_suites, folders, shared, resume=flags.resume, bases_to_run=bases_to_run)
    stages = stages_of([item.suite for item in prepared_suites], flags)
    started = _start_journals(suites, folders, output, claims)
    _announce_costs(suites, bases, flags, output)
    deadline = None if flags.run_timeout_s is None else SYSTEM_CLOCK.monotonic() + flags.run_timeout_s
    finished: list[FinishedSuite] = []
    kept: list[tuple[PreparedSuite, Conclusion]] = []
    complete = blessed = True
    for sides, base, past in zip(started, bases, earlier, strict=True):
        head = sides[0]
        order = _order(head.open_suite.prepared, base, past, job, output)
        done = _run(sides, flags, output, deadline, stages, base, order)
        record, results = attach_base(done.record, head.open_suite.prepared, base_of(head.open_suite, done.base, base))
        terms = Terms.against(None if results is None else results.results)
        concluded = conclude(
            record, terms, folder=head.open_suite.prepared.display_folder, earlier_runs=past or NO_RUNS
        )
        related = RelatedFiles(results, () if past is None else past.saved_lines)
        reported = report_suite(concluded, head.open_suite.folder, output, related, journaled=head.journal is not None)
        finished.append(reported)
        if reported.written and not sharded:
            kept.append((head.open_suite.prepared, concluded))
        if flags.bless is not None:
            blessed = bless(flags.bless, concluded, results, output)
        complete = complete and reported.written and done.record.ended_early is None
        if done.interrupted or (shared is not None and shared.refusal is not None):
            break
    left = len(finished)
    asyncio.run(close_all(suites[left:]))
    for sides in started[left:]:
        _close_journals(sides)
    not_run = tuple(item.place for item in prepared_suites[left:])
    code = report_together(finished, not_run, output)
    if sharded and complete and not not_run:
        # Only all shards together have a verdict.
        code = ExitCode.PASSED
        output.note("this shard is done; holodeck-action merge judges all shards together")
    code = code if blessed else worst_exit_code([code, ExitCode.INCOMPLETE])
    if histories is not None:
        histories.add(kept)
    if complete and left == len(prepared_suites):
        for side in (side for sides in started for side in sides):
            _finish_journal(side)
    return FinishedRun(code, tuple(finished), not_run)


def _balance_shard(suite: PreparedSuite, base: Base | None) -> PreparedSuite:
    """Return the suite with its shard chosen by the durations of the base's cases; unchanged without shard or base."""
    if suite.part is None or not isinstance(base, FoundBase):
        return suite
    shard = suite.part.shard
    part = choose_part(suite.cases, shard.number, shard.count, durations_of(base.results.results.record))
    return replace(suite, part=part)


def _order(
    suite: PreparedSuite, base: Base | None, kept_runs: KeptRuns | None, job: Job, output: Output
) -> Sequence[int] | None:
    """Return the order, as positions, in which cases run until the exit code is certain; None to run all cases."""
    if not suite.settings.stop_when_certain or suite.stored is not None:
        return None
    if job.base.on_default_branch:
        output.note(f"{suite.place}: stop: certain has no effect on the default branch, whose results are later bases")
        return None
    stored = base.results.results.record if isinstance(base, FoundBase) else None
    return case_order(suite, stored, frozenset() if kept_runs is None else kept_runs.flaky_ids)


def _print_plan(
    suites: Sequence[PreparedSuite], bases_to_run: Sequence[BaseToRun], flags: Flags, output: Output
) -> FinishedRun:
    for missing in bases_to_run:
        if isinstance(missing, MissingBase):
            output.note(missing.reason)
    # Without the base's record, which is fetched when the run begins.
    plan = _plan_run(suites, bases_to_run, flags)
    output.stdout.write(plan)
    output.stdout.flush()
    return FinishedRun(ExitCode.PASSED, plan=plan)


def _start_journals(
    suites: Sequence[OpenSuite], folders: Sequence[GivenPath | None], output: Output, claims: Claims
) -> list[list[Side]]:
    """Remove earlier results from the folders, and start the journals of suites and bases.

    Raises:
        ConfigurationError: an existing journal cannot be replaced.
        FolderError: another run is writing to a folder.
    """
    try:
        for folder in (output.folder, *folders):
            claims.clear(folder)
        return [[Side(ready, _start_journal(ready, output)) for ready in suite.sides] for suite in suites]
    except ConfigurationError:
        asyncio.run(close_all(suites))
        raise


def _make_folders(folders: Sequence[GivenPath | None], bases_to_run: Sequence[BaseToRun], output: Output) -> None:
    """Create the folders of suites and bases.

    Raises:
        ConfigurationError: a folder cannot be written.
    """
    for folder in (output.folder, *folders):
        if folder is not None:
            ensure_writable(folder)
    for folder, other in zip(folders, bases_to_run, strict=True):
        if folder is not None and isinstance(other, BaseSuite):
            ensure_writable(folder / BASE_FOLDER)


def _run(
    sides: Sequence[Side],
    flags: Flags,
    output: Output,
    deadline: float | None,
    stages: Sequence[Stages],
    stored_base: Base,
    positions: Sequence[int] | None,
) -> RunResult:
    """Run a suite and its base, and close their journals."""
    ready = sides[0].open_suite
    own = [folder.path for folder in (output.folder, ready.folder) if folder is not None]
    user_output = UserOutput(output.note, output.stderr)
    try:
        try:
            executor = executor_of(stages, ready, flags, own, user_output)
        except ConfigurationError:
            asyncio.run(ready.close())
            raise
        with enter_all(stages, ready, user_output):
            return asyncio.run(run_sides(sides, flags, output, deadline, executor, stored_base, positions))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        _close_journals(sides)
        for side in sides:
            if side.journal is not None and side.journal.error is not None:
                output.stderr.write(f"note: {side.journal.error}\n")


def _close_journals(sides: Sequence[Side]) -> None:
    for side in sides:
        if side.journal is not None:
            side.journal.close()


def _finish_journal(side: Side) -> None:
    """Put away the journal of a complete run; leave it if it has trials of cases outside of this run's selection."""
    ready = side.open_suite
    if side.journal is not None and len(side.resumed(ready.prepared.cases)) == len(ready.resumed.trials):
        side.journal.finish()


def _plan_run(prepared_suites: Sequence[PreparedSuite], bases_to_run: Sequence[BaseToRun], flags: Flags) -> str:
    """Return the plan of a run as text, without calling a model or writing a file.

    Raises:
        ConfigurationError: a target cannot be used.
    """
    shared = make_budget(flags.max_cost_usd, flags.max_tokens, prepared_suites[0].shards)
    suites = open_all(prepared_suites, [None] * len(prepared_suites), shared, resume=False, bases_to_run=bases_to_run)
    try:
        return _plan_text(suites, [None] * len(suites), flags)
    finally:
        asyncio.run(close_all(suites))


def _announce_costs(suites: Sequence[OpenSuite], bases: Sequence[Base], flags: Flags, output: Output) -> None:
    """Print the plan if models are called over the network, and notes on calls that the budget does not limit."""
    if any(ready.wire is not None and ready.prepared.settings.calls.mode != "replay" for ready in suites):
        output.stderr.write(_plan_text(suites, bases, flags))
        output.stderr.flush()
    for ready in (side for suite in suites for side in suite.sides):
        if ready.budgets and ready.own is None and ready.prepared.stored is None:
            target = ready.redactor.text(describe_target(ready.prepared.target))
            if ready.charges is not None:
                output.note(
                    f"{ready.prepared.place}: the budget counts the usage that {target} reports after each answer"
                )
                continue
            limited = "calls of a suite's own model" if ready.wire is None else "the calls of judges"
            output.note(f"{ready.prepared.place}: the budget does not limit {target}, only {limited}")


def _plan_text(suites: Sequence[OpenSuite], bases: Sequence[Base], flags: Flags) -> str:
    from holodeck_action.run.plan import plan_lines
    from holodeck_action.run.probe_estimates import estimate_probes

    sides = [side for suite in suites for side in suite.sides]
    heads = {id(suite): seen_passes(suite.prepared, base) for suite, base in zip(suites, bases, strict=True)}

    def plan_probes(index: int) -> Sequence[ModelEstimate]:
        # The head's probes hold for its base, too.
        seen = heads.get(id(sides[index]))
        return () if seen is None else estimate_probes(sides[index], seen)

    def plan_searches(index: int) -> Sequence[PlannedCalls]:
        own = sides[index].own
        return () if own is None or not own.calls_models else asyncio.run(own.plan_calls())

    lines = plan_lines([side.prepared for side in sides], flags, plan_searches, plan_probes)
    return "".join(f"{line}\n" for line in lines)


def _start_journal(open_suite: OpenSuite, output: Output) -> Journal | None:
    """Start the journal of a suite; None if it has no folder.

    Raises:
        ConfigurationError: an existing journal cannot be replaced.
    """
    folder, resumed = open_suite.folder, open_suite.resumed
    if folder is None:
        return None
    path = folder.path / JOURNAL_FILE
    try:
        for notice in resumed.notices if resumed.keep_bytes else (*resumed.notices, *set_aside_journal(path)):
            output.note(notice)
        return Journal(path, open_suite.identity, resumed.keep_bytes, output.disk, len(open_suite.prepared.cases))
    except OSError as error:
        if error.filename is None:
            reason = (
                f"{folder / JOURNAL_FILE}: the journal cannot be written: {error.strerror}; nothing was run: make room"
            )
            raise ConfigurationError([f"{reason}, or give another --output-dir"]) from error
        place = folder.written_path(error.filename)
        raise ConfigurationError(
            [f"{place}: cannot be replaced: {error.strerror}; remove it or give another --output-dir"]
        ) from error
