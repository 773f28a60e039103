"""`decide`: a record decided on again, by the gates it was made with or new ones, without running anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.commands.last_run import results_or_last
from holodeck_action.decide.decision import Terms
from holodeck_action.decide.survey import Survey
from holodeck_action.decide.written_results import write_verdict
from holodeck_action.record.base_results import read_base
from holodeck_action.record.folder import Claims
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import VERDICT_FILE, read_results
from holodeck_action.reports.conclusion import conclude
from holodeck_action.reports.terminal.console import show
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import policy_of, writable_folder
from holodeck_action.run.options.action_inputs import policy_values
from holodeck_action.run.past import earlier_beside
from holodeck_action.run.settings import Flags, baseline_problem, merge_baseline
from holodeck_action.suite.checks import wrong_bounds
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.policy import Baseline, GatedCases, Gates, Policy, fails_on_loss, unable_to_fail
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.terminal import terminal_of


class Redecision(Struct, frozen=True):
    """What is asked for.

    Attributes:
        results: a results.json; None for that of the last run.
        policy: the policy file whose gates are applied; None for the gates the run was made with.
        flags: gates of the command line, which win.
        output_dir: where verdict.json is written; None for nowhere.
    """

    results: GivenPath | None
    policy: GivenPath | None
    flags: Flags
    output_dir: GivenPath | None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Redecision:
        """Return what the command line asks for: value by setting."""
        own = ("results", "policy", "output_dir")
        return cls(flags=Flags(policy=policy_values(given)), **{name: given[name] for name in own})


def decide_again(asked: Redecision, caller: Caller) -> int:
    """Decide on a record again.

    Args:
        asked: what is asked for.
        caller: whose standard output takes the report.

    Returns:
        The verdict's exit code.

    Raises:
        ConfigurationError: the file is no record, a gate names a metric it does not have, or the folder cannot be
            written.
        FolderError: a run writes into the folder.
    """
    results, folder = results_or_last(asked.results, caller), asked.output_dir
    given = None if asked.policy is None else policy_of(asked.policy, caller.surroundings(None))
    stored = read_results(results)
    record = stored.record
    gates = asked.flags.over("gates", given.gates if given is not None else record.gates)
    base = read_base(results, record)
    terms = replace(Terms.against(base), gates=gates, baseline=_baseline(record, given, asked, results))
    surveyed = Survey(record, stored.record_digest)
    _check_names(surveyed, gates, results)
    _check_gates(surveyed, terms, gates, results)
    with Claims() as claims:
        if folder is not None:
            writable_folder(folder)
            claims.hold(folder)
        concluded = conclude(
            record, terms, results_digest=stored.digest, surveyed=surveyed, earlier=earlier_beside(results)
        )
        show(concluded.report, caller.stdout, terminal_of(caller.stdout, caller.environ))
        if folder is not None:
            try:
                write_verdict(folder.path / VERDICT_FILE, concluded.verdict)
            except OSError as error:
                raise ConfigurationError([f"{folder / VERDICT_FILE}: cannot be written: {error.strerror}"]) from error
    return concluded.verdict.exit_code


def _baseline(record: Record, given: Policy | None, asked: Redecision, results: GivenPath) -> Baseline | None:
    """Return what a loss does; None where the record is compared with nothing.

    Raises:
        ConfigurationError: settings that would have no effect.
    """
    before = None if record.baseline is None else record.baseline.settings
    settings = merge_baseline(given.baseline if given is not None else before or Baseline(), asked.flags)
    if before is None:
        settings = settings.model_copy(update={"source": None})
    elif settings.source is None:
        settings = settings.model_copy(update={"source": before.source})
    gates = asked.flags.over("gates", given.gates if given is not None else Gates())
    problem = baseline_problem(settings, gates, compared=before is not None)
    if problem is not None:
        reason = problem[1] if before is not None else "needs results that are compared with a base; use `compare`"
        raise ConfigurationError([f"{results}: {problem[0]} {reason}"])
    return None if before is None else settings


def _check_gates(surveyed: Survey, terms: Terms, gates: Gates, results: GivenPath) -> None:
    """Refuse gates of which none can fail in the cases of the record."""
    cases = len(surveyed.outcomes)
    found = GatedCases(
        cases,
        surveyed.asserting,
        surveyed.repeated,
        compared=terms.base is not None and terms.baseline is not None and fails_on_loss(terms.baseline),
    )
    reason = unable_to_fail(gates, found) if cases else None
    if reason is not None:
        raise ConfigurationError([f"{results}: {reason}"])


def _check_names(surveyed: Survey, gates: Gates, results: GivenPath) -> None:
    """Refuse gates on metrics that the record does not know: they could never be reached."""
    known, minimized = surveyed.names, surveyed.inputs.minimized
    asked = {*gates.metrics, *((gates.summary.weights if gates.summary else None) or {})}
    wrong = [
        f"{results}: gates.metrics.{name}.{key}: {problem}"
        for name, bounds in sorted(gates.metrics.items())
        if name in known
        for key, problem in wrong_bounds(name, bounds, low_is_good=name in minimized)
    ]
    if wrong:
        raise ConfigurationError(wrong)
    unknown = sorted(asked - known)
    if unknown and known:
        raise ConfigurationError(
            [f"{results}: no metric is called {name!r} (there are: {', '.join(sorted(known))})" for name in unknown]
        )
