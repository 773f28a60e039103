"""Decides the stored results of other programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import structs

from holodeck_action.decide.decision import Terms
from holodeck_action.decide.survey import RecordTotals
from holodeck_action.decide.written_results import RelatedFiles
from holodeck_action.extensions.results.evidence import format_names, read_evidence
from holodeck_action.extensions.results.options import read_cases
from holodeck_action.extensions.results.positions import with_positions
from holodeck_action.extensions.results.records import Origin, described_target, record_of, with_missing_cases
from holodeck_action.extensions.results.stored import StoredResults
from holodeck_action.record.record import Record
from holodeck_action.reports.conclusion import Conclusion, conclude
from holodeck_action.reports.history import NO_RUNS
from holodeck_action.run.bases.baselines import attach_base, find_bases
from holodeck_action.run.loading import load_policy_file, require_permission
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.run.options.settings import baseline_problem, merge
from holodeck_action.run.past import histories_of
from holodeck_action.run.run import Run
from holodeck_action.run.ui import Ui
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.agent import AgentConfig, ProjectConfig
from holodeck_action.suite.model.policy import GatedCases, Policy, fails_on_loss, why_no_gate_fails
from holodeck_action.suite.model.targets import ConversationsTarget
from holodeck_action.suite.values import Suite
from holodeck_action.text.given_paths import GivenPath

WAY_OUT = "give --cases N, a base, or a file that says it"


class Judged(NamedTuple):
    """Decided results.

    Attributes:
        concluded: record, verdict and report.
        related: the base's results and the earlier runs.
        keep: adds the run to its history.
    """

    concluded: Conclusion
    related: RelatedFiles
    keep: Callable[[Conclusion], None]


def judge_stored(paths: Sequence[GivenPath], ui: Ui) -> Judged | None:
    """Decide the results files of other programs as one run.

    Args:
        paths: results files, or globs of them.
        ui: the options and outputs.

    Returns:
        The decided results; None if none of the files is of another program.

    Raises:
        ConfigurationError: a file cannot be used, or no gate can fail.
    """
    files = _read(paths, ui)
    if files is None:
        return None
    run = _run_of(files, ui)
    with ui.caller.job() as job, ui.progress.phase("looking for the base and the history"):
        (run,) = find_bases([run], job)
        histories = histories_of(ui.flags.history, job, ui.disk, ui.note)
        past = None if histories is None else histories.of(run)
    record, results = attach_base(run)
    wanted = _wanted_cases(files, ui.flags, run.base_record)
    record = with_missing_cases(record, wanted, WAY_OUT, str(paths[0]))
    _check_gates(record, run, paths)
    terms = Terms.against(None if results is None else results.results)
    concluded = conclude(record, terms, earlier_runs=past or NO_RUNS)

    def keep(done: Conclusion) -> None:
        if histories is not None:
            histories.add([(run, done)])

    related = RelatedFiles(results, () if past is None else past.saved_lines)
    return Judged(structs.replace(concluded, folder=ui.folder), related, keep)


def _run_of(files: Sequence[StoredResults], ui: Ui) -> Run:
    """Return a run that has ended with these results; its suite has no cases itself."""
    flags, context = ui.flags, ui.caller.suite_context(ui.flags)
    policy = Policy() if flags.policy is None else load_policy_file(flags.policy, context)
    program, _, target = described_target(files).partition(":")
    suite = Suite(
        name=program,
        folder=context.cwd,
        file=program,
        digest="",
        agent=AgentConfig.model_construct(name=program),
        policy=policy,
        project=ProjectConfig(),
        cases=(),
        checkout=Checkout.of(context.cwd, context.cwd),
    )
    run = Run(
        suite,
        context,
        "",
        context.environ,
        require_permission(context.permission, (context.cwd,)),
        settings=merge(suite, flags, context.environ),
        cases=(),
        target=ConversationsTarget.model_construct(name=program, path=target, digest="", transcript=None),
        target_files=suite.checkout,
        folder=ui.folder,
    )
    origin = Origin(context.environ, run.commit, run.repository_folder, run.redactor)
    return structs.replace(run, ended=record_of(files, policy, run.settings.gates, origin))


def _read(paths: Sequence[GivenPath], ui: Ui) -> Sequence[StoredResults] | None:
    """Return the contents of the files; None if none of them is of another program."""
    found = read_evidence(paths, ui.flags.extra, ui.caller.cwd, ui.caller.environ)
    if not found.files and not found.problems:
        return None
    clause = f"is of no format of the others (known: {format_names()}); give it in another call"
    problems = [*found.problems, *(f"{path}: {clause}" for path in found.unknown)]
    if problems:
        raise ConfigurationError([ui.caller.redact(problem) for problem in problems])
    checkout = Checkout.of(ui.caller.cwd, ui.caller.cwd)
    return [with_positions(each, checkout) for each in found.files]


def _wanted_cases(files: Sequence[StoredResults], flags: Flags, base: Record | None) -> int | None:
    """Return how many cases there should be; None if nothing says it."""
    if "cases" in flags.extra:
        return read_cases(str(flags.extra["cases"]))
    if all(file.planned is not None for file in files):
        return sum(file.planned or 0 for file in files)
    return None if base is None else len(base.cases)


def _check_gates(record: Record, run: Run, paths: Sequence[GivenPath]) -> None:
    """Raise ConfigurationError if no gate can fail with these results, or a setting has no effect."""
    settings, gates, survey = run.settings, run.settings.gates, RecordTotals(record)
    problem = baseline_problem(settings.baseline, gates, compared=settings.compared)
    found = GatedCases(
        len(record.cases),
        survey.asserting,
        survey.repeated,
        compared=settings.compared and fails_on_loss(settings.baseline),
    )
    reason = " ".join(problem) if problem is not None else why_no_gate_fails(gates, found)
    if reason is not None:
        raise ConfigurationError([f"{', '.join(map(str, paths))}: {reason}"])
