"""Evaluates prepared suites in turn, decides their verdicts and reports them, for `run`, `rejudge` and the step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holodeck_action.commands.blessing import bless, check_blessing
from holodeck_action.commands.output import Outcome, report_suite, report_together
from holodeck_action.decide.decision import Terms
from holodeck_action.decide.exit_codes import ExitCode, worst_exit_code
from holodeck_action.decide.written_results import RelatedFiles
from holodeck_action.record.folder import suite_folders
from holodeck_action.record.result_files import BASE_FOLDER
from holodeck_action.reports.conclusion import Conclusion, conclude
from holodeck_action.reports.history import NO_RUNS
from holodeck_action.run.bases.base_suites import load_base_suites
from holodeck_action.run.bases.baselines import attach_base, find_bases
from holodeck_action.run.certain_end import case_order
from holodeck_action.run.judge_probes import seen_passes
from holodeck_action.run.loading import ensure_writable
from holodeck_action.run.model_calls import make_budget
from holodeck_action.run.open_suites import closing, open_suites, start_journals
from holodeck_action.run.past import KeptRuns, histories_of
from holodeck_action.run.run import MissingBase, Run
from holodeck_action.run.schedule import Stop
from holodeck_action.run.shards import choose_part, durations_of
from holodeck_action.run.sides import run_sides
from holodeck_action.run.signals import raise_on_signals, run_to_end
from holodeck_action.run.stages import (
    Counters,
    Executor,
    Stages,
    UserOutput,
    enter_all,
    executor_of,
    stages_of,
)
from holodeck_action.run.trials import SYSTEM_CLOCK
from holodeck_action.run.ui import Ui
from holodeck_action.suite.model.base_sources import MERGE_BASE
from holodeck_action.targets.factory import describe_target

if TYPE_CHECKING:
    from holodeck_action.github.job import Job


def evaluate(suites: Sequence[Run], ui: Ui) -> Outcome:
    """Run suites one after the other and report each; with `--dry-run`, only print the plan.

    If there are several suites, the output folder has a subfolder for each, and a combined verdict. `--run-timeout` and
    the budget of the command line apply to all suites together. Journals are kept until all suites are done, so that
    `--resume` repeats nothing.

    Args:
        suites: the suites.
        ui: the options and outputs of the run.

    Raises:
        ConfigurationError: a target or a base cannot be used, the output folder cannot be written, or a journal cannot
            be resumed; nothing has run then.
        FolderError: another run is writing to the folder.
    """
    flags = ui.flags
    if flags.bless is not None and not flags.dry_run:
        check_blessing(flags.bless, suites)
    sharded = flags.shard is not None
    with ExitStack() as scope:
        job = scope.enter_context(ui.caller.job())
        suites = _with_bases(suites, job, ui, scope)
        if flags.dry_run:
            return _show_plan(suites, ui)
        folders = suite_folders([(item.display_folder, item.suite.file) for item in suites], ui.folder)
        suites = [replace(item, folder=folder) for item, folder in zip(suites, folders, strict=True)]
        with ui.progress.phase("looking for the base and the history"):
            suites = [_balance_shard(item) for item in find_bases(suites, job)]
            histories = histories_of(flags.history, job, ui.disk, ui.note)
            earlier = [None if sharded or histories is None else histories.of(item) for item in suites]
        _make_folders(suites, ui)
        shared = make_budget(flags.max_cost_usd, flags.max_tokens, suites[0].shards)
        with ui.progress.phase("preparing targets and judges"):
            opened = open_suites(suites, shared)
        scope.enter_context(closing(opened))
        stages = stages_of([item.suite for item in suites], flags)
        _clear_and_start_journals(opened, ui)
        _announce_costs(opened, ui)
        all_opened = tuple(opened)
        deadline = None if flags.run_timeout_s is None else SYSTEM_CLOCK.monotonic() + flags.run_timeout_s
        finished: list[Conclusion] = []
        kept: list[tuple[Run, Conclusion]] = []
        complete = blessed = True
        for ready, past in zip(all_opened, earlier, strict=True):
            order = _order(ready, past, job, ui)
            executor = _executor_of(ready, stages, ui)
            stop = Stop()
            with _running(opened.pop(0), stages, ui):
                done = run_to_end(run_sides(ready, ui, stop, deadline, executor, order))
            record, results = attach_base(done)
            terms = Terms.against(None if results is None else results.results)
            concluded = conclude(record, terms, folder=ready.display_folder, earlier_runs=past or NO_RUNS)
            related = RelatedFiles(results, () if past is None else past.saved_lines)
            concluded = replace(concluded, folder=ready.folder)
            reported = report_suite(concluded, ui, related, journaled=ready.journal is not None)
            finished.append(reported)
            if reported.written and not sharded:
                kept.append((ready, concluded))
            if flags.bless is not None:
                blessed = bless(flags.bless, concluded, results, ui)
            complete = complete and reported.written and record.ended_early is None
            if stop.is_requested or (shared is not None and shared.refusal is not None):
                break
        not_run = tuple(ready.place for ready in opened)
        code = report_together(finished, not_run, ui)
        if sharded and complete and not not_run:
            # Only all shards together have a verdict.
            code = ExitCode.PASSED
            ui.note("this shard is done; holodeck-action merge judges all shards together")
        code = code if blessed else worst_exit_code([code, ExitCode.INCOMPLETE])
        if histories is not None:
            histories.add(kept)
        if complete and not not_run:
            for side in (side for ready in all_opened for side in ready.sides):
                _finish_journal(side)
        return Outcome(code, tuple(finished), not_run)


def _with_bases(suites: Sequence[Run], job: Job, ui: Ui, scope: ExitStack) -> Sequence[Run]:
    """Return the suites, each with the base that runs with it; temporary files are removed when `scope` ends.

    Raises:
        ConfigurationError: a base cannot be run.
    """
    if any(item.settings.baseline.source == MERGE_BASE for item in suites):
        from holodeck_action.run.bases.commit_trees import CommitTrees
        from holodeck_action.run.bases.merge_base_suites import suites_at_merge_base

        # From here on there are temporary files to remove.
        scope.enter_context(raise_on_signals(ui.caller.signals))
        trees = scope.enter_context(CommitTrees(job))
        with ui.progress.phase("loading the merge base"):
            return suites_at_merge_base(suites, job, trees)
    return suites if ui.flags.compared_with is None else load_base_suites(suites)


def _balance_shard(suite: Run) -> Run:
    """Return the suite with its shard chosen by the durations of the base's cases; unchanged without shard or base."""
    base = suite.base_record
    if suite.part is None or base is None:
        return suite
    shard = suite.part.shard
    part = choose_part(suite.cases, shard.number, shard.count, durations_of(base))
    return replace(suite, part=part)


def _order(suite: Run, kept_runs: KeptRuns | None, job: Job, ui: Ui) -> Sequence[int] | None:
    """Return the order, as positions, in which cases run until the exit code is certain; None to run all cases."""
    if not suite.settings.stop_when_certain or suite.stored is not None:
        return None
    if job.base.on_default_branch:
        ui.note(f"{suite.place}: stop: certain has no effect on the default branch, whose results are later bases")
        return None
    return case_order(suite, suite.base_record, frozenset() if kept_runs is None else kept_runs.flaky_ids)


def _show_plan(suites: Sequence[Run], ui: Ui) -> Outcome:
    """Print the plan, without calling a model or writing a file.

    Raises:
        ConfigurationError: a target cannot be used.
    """
    for item in suites:
        if isinstance(item.base, MissingBase):
            ui.note(item.base.reason)
    opened = open_suites(suites)
    with closing(opened):
        # Without the base's record, which is fetched when the run begins.
        plan = _plan_text(opened)
    ui.stdout.write(plan)
    ui.stdout.flush()
    return Outcome(ExitCode.PASSED, plan=plan)


def _clear_and_start_journals(opened: list[Run], ui: Ui) -> None:
    """Remove earlier results from the folders, and start the journals of suites and bases.

    Raises:
        ConfigurationError: an existing journal cannot be replaced.
        FolderError: another run is writing to a folder.
    """
    for folder in (ui.folder, *(ready.folder for ready in opened)):
        ui.claims.clear(folder)
    for at, ready in enumerate(opened):
        opened[at] = start_journals(ready, ui.disk, ui.note)


def _make_folders(suites: Sequence[Run], ui: Ui) -> None:
    """Create the folders of suites and bases.

    Raises:
        ConfigurationError: a folder cannot be written.
    """
    for folder in (ui.folder, *(item.folder for item in suites)):
        if folder is not None:
            ensure_writable(folder)
    for item in suites:
        if item.folder is not None and isinstance(item.base, Run):
            ensure_writable(item.folder / BASE_FOLDER)


def _executor_of(ready: Run, stages: Sequence[Stages], ui: Ui) -> Executor | None:
    """Return the executor of a suite's trials; None to run them in this process.

    Raises:
        ConfigurationError: an extension cannot run the trials.
    """
    own = [folder.path for folder in (ui.folder, ready.folder) if folder is not None]
    counters = Counters(ready.resources.used, ready.resources.budgets, ready.resources.wire)
    return executor_of(stages, ready.staged, counters, ui.flags, own, UserOutput(ui.note, ui.stderr))


@contextmanager
def _running(ready: Run, stages: Sequence[Stages], ui: Ui) -> Iterator[None]:
    """Enter the stages of a suite's run; afterwards close its journals, and print why they could not be written."""
    try:
        with enter_all(stages, ready.staged, UserOutput(ui.note, ui.stderr)):
            yield
    finally:
        ready.close_journals()
        for side in ready.sides:
            if side.journal is not None and side.journal.error is not None:
                ui.stderr.write(f"note: {side.journal.error}\n")


def _finish_journal(side: Run) -> None:
    """Put away the journal of a complete run; leave it if it has trials of cases outside of this run's selection."""
    if side.journal is not None and len(side.resumed_keys(side.cases)) == len(side.resumed.trials):
        side.journal.finish()


def _announce_costs(suites: Sequence[Run], ui: Ui) -> None:
    """Print the plan if models are called over the network, and notes on calls that the budget does not limit."""
    if any(ready.resources.wire is not None and ready.settings.calls.mode != "replay" for ready in suites):
        ui.stderr.write(_plan_text(suites))
        ui.stderr.flush()
    for ready in (side for suite in suites for side in suite.sides):
        if ready.resources.budgets and ready.resources.own is None and ready.stored is None:
            target = ready.redactor.text(describe_target(ready.target))
            if ready.resources.charges is not None:
                ui.note(f"{ready.place}: the budget counts the usage that {target} reports after each answer")
                continue
            limited = "calls of a suite's own model" if ready.resources.wire is None else "the calls of judges"
            ui.note(f"{ready.place}: the budget does not limit {target}, only {limited}")


def _plan_text(suites: Sequence[Run]) -> str:
    from holodeck_action.run.plan import plan_lines

    # The head's probes hold for its base, too.
    seen = [seen_passes(suite) for suite in suites]
    return "".join(f"{line}\n" for line in plan_lines([suite.sides for suite in suites], seen))
