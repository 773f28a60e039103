"""Prepared suites evaluated one after the other, decided and reported: what `run`, `rejudge` and the step share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holodeck_action.commands.blessing import bless, check_blessing
from holodeck_action.commands.output import Done, Output, SuiteDone, report_suite, report_together
from holodeck_action.commands.running import Ran, Side, run_sides
from holodeck_action.decide.decision import Terms
from holodeck_action.decide.exit_codes import ExitCode, worst_exit_code
from holodeck_action.decide.written_results import Beside
from holodeck_action.record.base_results import results_of
from holodeck_action.record.folder import Claims, suite_folders
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import BASE_FOLDER
from holodeck_action.reports.conclusion import Conclusion, conclude
from holodeck_action.reports.history import NO_RUNS
from holodeck_action.run.bases.base_suites import BaseSuite, suites_against
from holodeck_action.run.bases.baselines import Base, FoundBase, MissingBase, compared, find_bases
from holodeck_action.run.journal import JOURNAL_FILE, Journal, set_aside
from holodeck_action.run.loading import Surroundings, writable_folder
from holodeck_action.run.model_calls import budget_of
from holodeck_action.run.open_suites import BaseToRun, Opened, close_all, open_all
from holodeck_action.run.past import histories_of
from holodeck_action.run.preflight import Prepared
from holodeck_action.run.request import Request
from holodeck_action.run.settings import Flags
from holodeck_action.run.shards import durations_of, part_of
from holodeck_action.run.signals import interrupting
from holodeck_action.run.stages import Stages, Voice, around_all, executor_of, stages_of
from holodeck_action.run.suite_run import resumable
from holodeck_action.run.trials import SYSTEM_CLOCK
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.base_sources import MERGE_BASE
from holodeck_action.targets.factory import describe
from holodeck_action.text.given_paths import GivenPath

if TYPE_CHECKING:
    from holodeck_action.github.job import Job
    from holodeck_action.targets.own_model.toolbox import PlannedCalls


def evaluate(
    prepared: Sequence[Prepared], request: Request, output: Output, claims: Claims, around: Surroundings, job: Job
) -> Done:
    """Run suites one after the other and report each, or only say what that would ask.

    With several suites each has its own folder below the output folder, beside one combined verdict. `--run-timeout`
    and the budget of flags hold for all of them together. Journals stay until all suites are done, so that `--resume`
    repeats nothing.

    Args:
        prepared: the suites.
        request: what is asked for.
        output: where a run writes.
        claims: of the output folders.
        around: the outside world.
        job: says what results are compared with, and gets them.

    Raises:
        ConfigurationError: a target or a base cannot be used, the output folder cannot be written, or a journal cannot
            be resumed; nothing has run then.
        FolderError: another run writes into the folder.
    """
    check_blessing(prepared, request)
    with ExitStack() as scope:
        besides: Sequence[BaseToRun] = suites_against(prepared, request.flags, around)
        if any(item.settings.baseline.source == MERGE_BASE for item in prepared):
            from holodeck_action.run.bases.commit_trees import CommitTrees
            from holodeck_action.run.bases.merge_base_suites import suites_at_merge_base

            # From here on there are files that must not stay.
            scope.enter_context(interrupting(output.signals))
            trees = scope.enter_context(CommitTrees(job))
            with output.progress.phase("loading the merge base"):
                besides = suites_at_merge_base(prepared, request.flags, around, job, trees)
        return _evaluate(prepared, besides, request, output, claims, job)


def _evaluate(
    prepared: Sequence[Prepared],
    besides: Sequence[BaseToRun],
    request: Request,
    output: Output,
    claims: Claims,
    job: Job,
) -> Done:
    flags = request.flags
    if request.dry_run:
        return _only_planned(prepared, besides, flags, output)
    folders = suite_folders([(item.shown, item.suite.file) for item in prepared], output.folder)
    with output.progress.phase("looking for the base and the history"):
        bases = find_bases(prepared, job)
        prepared = [_balanced(item, base) for item, base in zip(prepared, bases, strict=True)]
        sharded = flags.shard is not None
        histories = histories_of(request.history, job, output.disk, output.note)
        earlier = [None if sharded or histories is None else histories.of(item) for item in prepared]
    _make_folders(folders, besides, output)
    shared = budget_of(flags.max_cost_usd, flags.max_tokens, prepared[0].shards)
    with output.progress.phase("preparing targets and judges"):
        suites = open_all(prepared, folders, shared, resume=request.resume, besides=besides)
    stages = stages_of([item.suite for item in prepared], flags)
    for ready in suites if not any(stage.ELSEWHERE for stage in stages) else ():
        # First of all: it imports on another core.
        ready.begin_judging()
    started = _start_journals(suites, folders, output, claims)
    _announce(suites, flags, output)
    deadline = None if flags.run_timeout_s is None else SYSTEM_CLOCK.monotonic() + flags.run_timeout_s
    finished: list[SuiteDone] = []
    kept: list[tuple[Prepared, Conclusion]] = []
    complete = blessed = True
    for sides, base, past in zip(started, bases, earlier, strict=True):
        head = sides[0]
        done = _run(sides, request, output, deadline, stages)
        record, results = compared(done.record, head.ready.item, _ran_beside(head.ready, done.base) or base)
        terms = Terms.against(None if results is None else results.results)
        concluded = conclude(record, terms, folder=head.ready.item.shown, earlier=past or NO_RUNS)
        beside = Beside(results, () if past is None else past.kept)
        reported = report_suite(concluded, head.ready.folder, output, beside, journaled=head.journal is not None)
        finished.append(reported)
        if reported.written and not sharded:
            kept.append((head.ready.item, concluded))
        if request.bless is not None:
            blessed = bless(request.bless, concluded, results, output)
        complete = complete and reported.written and done.record.ended_early is None
        if done.interrupted or (shared is not None and shared.refusal is not None):
            break
    left = len(finished)
    asyncio.run(close_all(suites[left:]))
    for sides in started[left:]:
        _close_journals(sides)
    not_run = tuple(item.place for item in prepared[left:])
    code = report_together(finished, not_run, output)
    if sharded and complete and not not_run:
        # What the answers are worth, only all shards together tell.
        code = ExitCode.PASSED
        output.note("this shard is done; holodeck-action merge judges all shards together")
    code = code if blessed else worst_exit_code([code, ExitCode.INCOMPLETE])
    if histories is not None:
        histories.add(kept)
    if complete and left == len(prepared):
        for side in (side for sides in started for side in sides):
            _remove_journal(side)
    return Done(code, tuple(finished), not_run)


def _balanced(item: Prepared, base: Base | None) -> Prepared:
    """Return a suite whose shard is cut by how long the cases of its base took, where that is known."""
    if item.part is None or not isinstance(base, FoundBase):
        return item
    shard = item.part.shard
    part = part_of(item.cases, shard.number, shard.count, durations_of(base.results.results.record))
    return replace(item, part=part)


def _only_planned(prepared: Sequence[Prepared], besides: Sequence[BaseToRun], flags: Flags, output: Output) -> Done:
    for missing in besides:
        if isinstance(missing, MissingBase):
            output.note(missing.reason)
    plan = _planned(prepared, besides, flags)
    output.stdout.write(plan)
    output.stdout.flush()
    return Done(ExitCode.PASSED, plan=plan)


def _start_journals(
    suites: Sequence[Opened], folders: Sequence[GivenPath | None], output: Output, claims: Claims
) -> list[list[Side]]:
    """Clear the folders of results, and start the journals of all that runs.

    Raises:
        ConfigurationError: a file stands in the way.
        FolderError: another run writes into a folder.
    """
    try:
        for folder in (output.folder, *folders):
            claims.clear(folder)
        return [[Side(ready, _start_journal(ready, output)) for ready in suite.sides] for suite in suites]
    except ConfigurationError:
        asyncio.run(close_all(suites))
        raise


def _make_folders(folders: Sequence[GivenPath | None], besides: Sequence[BaseToRun], output: Output) -> None:
    """Make the folders of all that runs.

    Raises:
        ConfigurationError: one cannot be written.
    """
    for folder in (output.folder, *folders):
        if folder is not None:
            writable_folder(folder)
    for folder, other in zip(folders, besides, strict=True):
        if folder is not None and isinstance(other, BaseSuite):
            writable_folder(folder / BASE_FOLDER)


def _run(
    sides: Sequence[Side], request: Request, output: Output, deadline: float | None, stages: Sequence[Stages]
) -> Ran:
    """Run a suite and what it is compared with, and close their journals."""
    ready = sides[0].ready
    own = [folder.path for folder in (output.folder, ready.folder) if folder is not None]
    voice = Voice(output.note, output.stderr)
    try:
        try:
            executor = executor_of(stages, ready, request, own, voice)
        except ConfigurationError:
            asyncio.run(ready.close())
            raise
        with around_all(stages, ready, voice):
            return asyncio.run(run_sides(sides, request.flags, output, deadline, executor))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        _close_journals(sides)
        for side in sides:
            if side.journal is not None and side.journal.error is not None:
                output.stderr.write(f"note: {side.journal.error}\n")


def _ran_beside(ready: Opened, record: Record | None) -> Base:
    """Return the results of what ran beside a suite, or why nothing did; None where nothing was to."""
    if not isinstance(ready.base, Opened):
        return ready.base
    assert record is not None
    assert ready.base.beside is not None
    return FoundBase(results_of(record), ready.base.beside.run)


def _close_journals(sides: Sequence[Side]) -> None:
    for side in sides:
        if side.journal is not None:
            side.journal.close()


def _remove_journal(side: Side) -> None:
    """Delete the journal of a run that is complete; trials that it did not choose are still to be continued."""
    ready, journaled = side.ready, side.ready.resumed.trials
    if side.journal is not None and len(resumable(ready.item.cases, journaled, ready.redactor)) == len(journaled):
        side.journal.remove()


def _planned(prepared: Sequence[Prepared], besides: Sequence[BaseToRun], flags: Flags) -> str:
    """Return what a run would ask and what it may cost; nothing is asked and nothing else is written.

    Raises:
        ConfigurationError: a target cannot be used.
    """
    shared = budget_of(flags.max_cost_usd, flags.max_tokens, prepared[0].shards)
    suites = open_all(prepared, [None] * len(prepared), shared, resume=False, besides=besides)
    try:
        return _plan(suites, flags)
    finally:
        asyncio.run(close_all(suites))


def _announce(suites: Sequence[Opened], flags: Flags, output: Output) -> None:
    """Say what will be asked and what it may cost, where a model is asked over the network."""
    if any(ready.wire is not None and ready.item.settings.calls.mode != "replay" for ready in suites):
        output.stderr.write(_plan(suites, flags))
        output.stderr.flush()
    for ready in (side for suite in suites for side in suite.sides):
        if ready.budgets and ready.own is None and ready.item.stored is None:
            target = ready.redactor.text(describe(ready.item.target))
            if ready.charges is not None:
                output.note(f"{ready.item.place}: the budget counts what {target} says of each answer, afterwards")
                continue
            limited = "calls of a suite's own model" if ready.wire is None else "the calls of judges"
            output.note(f"{ready.item.place}: the budget does not limit {target}, only {limited}")


def _plan(suites: Sequence[Opened], flags: Flags) -> str:
    from holodeck_action.run.plan import plan_lines

    sides = [side for suite in suites for side in suite.sides]

    def searching(at: int) -> Sequence[PlannedCalls]:
        own = sides[at].own
        return () if own is None or not own.plans_calls else asyncio.run(own.planned())

    return "".join(f"{line}\n" for line in plan_lines([side.item for side in sides], flags, searching))


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
        return Journal(path, ready.identity, resumed.keep_bytes, output.disk, len(ready.item.cases))
    except OSError as error:
        place = folder.below(error.filename)
        raise ConfigurationError(
            [f"{place}: cannot be replaced: {error.strerror}; remove it or give another --output-dir"]
        ) from error
