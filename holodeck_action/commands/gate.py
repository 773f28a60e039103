"""`gate`: decides stored results, by their run's gates or new ones, without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from holodeck_action.commands.last_run import results_or_last
from holodeck_action.commands.output import Outcome, report_suite, report_together
from holodeck_action.decide.decision import Terms
from holodeck_action.decide.exit_codes import worst_exit_code
from holodeck_action.decide.survey import RecordTotals
from holodeck_action.decide.written_results import write_verdict
from holodeck_action.record.base_results import read_base
from holodeck_action.record.disk import DISK
from holodeck_action.record.folder import Claims
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import VERDICT_FILE, read_results
from holodeck_action.reports.conclusion import conclude
from holodeck_action.reports.terminal.console import print_report
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import ensure_writable, load_policy_file
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.run.options.request import template_of
from holodeck_action.run.options.settings import baseline_problem, merge_baseline
from holodeck_action.run.past import stored_earlier_runs
from holodeck_action.run.ui import Ui
from holodeck_action.seam import registry
from holodeck_action.suite.checks import wrong_bounds
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.policy import Baseline, GatedCases, Gates, Policy, fails_on_loss, why_no_gate_fails
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.terminal import terminal_of

OF_OTHERS = ("baseline", "on_missing_baseline", "on_changed_code", "history", "template")
"""Settings that apply only to results of other programs, as those of this one are compared already."""


def gate_results(paths: Sequence[GivenPath], flags: Flags, caller: Caller) -> int:
    """Decide stored results, of this program or of others.

    Args:
        paths: results files, or globs of those of other programs, which are decided as one run; none to use the last
            run's.
        flags: the options.
        caller: the report goes to its standard output.

    Returns:
        The exit code, adjusted by `fail_on`.

    Raises:
        ConfigurationError: a file or an option cannot be used.
    """
    with Claims(caller.disk or DISK) as claims:
        ui = Ui(caller, flags, claims, caller.progress_display(), flags.output_dir, template_of(flags.template))
        others = gate_others(paths, ui)
    if others is not None:
        return flags.process_exit_code(others.exit_code)
    useless = [name for name in OF_OTHERS if getattr(flags, name) is not None] + [*flags.extra]
    if useless:
        option = f"--{useless[0].replace('_', '-')}"
        raise ConfigurationError([f"{option}: is only for results of other programs; leave it out, or use compare"])
    codes = [decide_again(path, flags, caller) for path in paths or (None,)]
    return flags.process_exit_code(worst_exit_code(codes))


def gate_others(paths: Sequence[GivenPath], ui: Ui) -> Outcome | None:
    """Decide and report results of other programs; return None if the results are this program's.

    Raises:
        ConfigurationError: a file or an option cannot be used.
        FolderError: another run is writing to the output folder.
    """
    judge = registry.results()
    if not judge or not paths:
        return None
    judged = registry.resolve(judge)(paths, ui)
    if judged is None:
        return None
    concluded, related, keep = judged
    if ui.folder is not None:
        ensure_writable(ui.folder)
        ui.claims.clear(ui.folder)
    done = report_suite(concluded, ui, related, journaled=False)
    if done.written:
        keep(done)
    return Outcome(report_together([done], (), ui), (done,))


def gate_in_step(patterns: Sequence[str], ui: Ui) -> Outcome:
    """Decide and report results of other programs in a step; see `gate_others`."""
    ui.claims.clear(ui.folder)
    done = gate_others([GivenPath(Path(pattern), ui.caller.cwd) for pattern in patterns], ui)
    if done is None:
        raise ConfigurationError(["results: these are results of this program; give them to the input publish"])
    return done


def decide_again(path: GivenPath | None, flags: Flags, caller: Caller) -> int:
    """Decide the verdict of a record again, and print the report.

    Args:
        path: path of a results.json; None to use the last run's.
        flags: the options: gates, a policy file whose gates apply, and the folder for verdict.json.
        caller: the report goes to its standard output.

    Returns:
        The verdict's exit code.

    Raises:
        ConfigurationError: the file is not a record, a gate names a metric that the record lacks, or the folder cannot
            be written.
        FolderError: another run is writing to the folder.
    """
    results, folder = results_or_last(path, caller), flags.output_dir
    given = None if flags.policy is None else load_policy_file(flags.policy, caller.suite_context())
    stored = read_results(results)
    record = stored.record
    gates = flags.override("gates", given.gates if given is not None else record.gates)
    base = read_base(results, record)
    terms = replace(Terms.against(base), gates=gates, baseline=_baseline_settings(record, given, flags, results))
    surveyed = RecordTotals(record, stored.record_digest)
    _check_metric_gates(surveyed, gates, record.gates, results)
    _check_gates(surveyed, terms, gates, results)
    with Claims() as claims:
        if folder is not None:
            ensure_writable(folder)
            claims.claim(folder)
        concluded = conclude(
            record, terms, results_digest=stored.digest, survey=surveyed, earlier_runs=stored_earlier_runs(results)
        )
        print_report(concluded.report, caller.stdout, terminal_of(caller.stdout, caller.environ))
        if folder is not None:
            try:
                write_verdict(folder.path / VERDICT_FILE, concluded.verdict)
            except OSError as error:
                raise ConfigurationError([f"{folder / VERDICT_FILE}: cannot be written: {error.strerror}"]) from error
    return concluded.verdict.exit_code


def _baseline_settings(record: Record, policy: Policy | None, flags: Flags, results: GivenPath) -> Baseline | None:
    """Return the `baseline` settings; None if the record has no base to compare with.

    Raises:
        ConfigurationError: a setting would have no effect.
    """
    before = None if record.baseline is None else record.baseline.settings
    settings = merge_baseline(policy.baseline if policy is not None else before or Baseline(), flags)
    if before is None:
        settings = settings.model_copy(update={"source": None})
    elif settings.source is None:
        settings = settings.model_copy(update={"source": before.source})
    gates = flags.override("gates", policy.gates if policy is not None else Gates())
    problem = baseline_problem(settings, gates, compared=before is not None)
    if problem is not None:
        reason = problem[1] if before is not None else "needs results that are compared with a base; use `compare`"
        raise ConfigurationError([f"{results}: {problem[0]} {reason}"])
    return None if before is None else settings


def _check_gates(survey: RecordTotals, terms: Terms, gates: Gates, results: GivenPath) -> None:
    """Raise ConfigurationError if no gate can fail with the cases of the record."""
    cases = len(survey.verdicts)
    found = GatedCases(
        cases,
        survey.asserting,
        survey.repeated,
        compared=terms.base is not None and terms.baseline is not None and fails_on_loss(terms.baseline),
    )
    reason = why_no_gate_fails(gates, found) if cases else None
    if reason is not None:
        raise ConfigurationError([f"{results}: {reason}"])


def _check_metric_gates(survey: RecordTotals, gates: Gates, run_gates: Gates, results: GivenPath) -> None:
    """Raise ConfigurationError if a gate's metric is not in the record, or if no score can violate a gate's bound.

    Metrics of the run's own gates may be missing, because the run may have ended before a case with these metrics.
    """
    known, minimized = survey.names, survey.inputs.minimized
    named = _gated_metrics(gates)
    wrong = [
        f"{results}: gates.metrics.{name}.{key}: {problem}"
        for name, bounds in sorted(gates.metrics.items())
        if name in known
        for key, problem in wrong_bounds(name, bounds, low_is_good=name in minimized)
    ]
    if wrong:
        raise ConfigurationError(wrong)
    unknown = sorted(named - known - _gated_metrics(run_gates))
    if unknown and known:
        raise ConfigurationError(
            [f"{results}: there is no metric {name!r} (there are: {', '.join(sorted(known))})" for name in unknown]
        )


def _gated_metrics(gates: Gates) -> set[str]:
    return {*gates.metrics, *((gates.summary.weights if gates.summary else None) or {})}
