"""`compare`: compares two stored runs, without running anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.commands.last_run import results_or_last
from holodeck_action.decide.compare.comparing import NO_DIGESTS, Digests, compare
from holodeck_action.decide.compare.comparison_report import ComparisonReport, report_comparison
from holodeck_action.decide.survey import judge_cases
from holodeck_action.github.job import page_links
from holodeck_action.record.base_results import NO_BASE, parse_base_results
from holodeck_action.record.canonical import record_digest
from holodeck_action.record.disk import DISK
from holodeck_action.record.record import BaseRun, Record
from holodeck_action.record.result_files import Results, read_results
from holodeck_action.record.stored_cases import RecordError
from holodeck_action.reports.comparison_page import render_comparison
from holodeck_action.reports.conclusion import conclude
from holodeck_action.reports.page.viewer import PageView, render_page
from holodeck_action.reports.written import write_pieces
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import load_policy_file
from holodeck_action.run.options.action_inputs import policy_values
from holodeck_action.run.options.flags import LAST_RESULTS
from holodeck_action.run.options.settings import Flags, baseline_problem, merge_baseline
from holodeck_action.run.options.step_inputs import StepInputs
from holodeck_action.run.past import open_history
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.policy import Baseline
from holodeck_action.text.given_paths import GivenPath


class CompareOptions(Struct, frozen=True):
    """The options of the command `compare`.

    Attributes:
        base: path of a results.json or of a folder with one; or a run in the history.
        head: the run to compare with `base`, given in the same form; None to use the last run.
        history: folder of the history in which to look up runs; None if no history is given.
        policy: the policy file whose settings apply; None to use the settings of the head's run.
        flags: settings of the command line, which take precedence.
        format: one of `COMPARISON_FORMATS`, or `html`.
        file: path of the report; None to write to standard output.
    """

    base: GivenPath
    head: GivenPath | None
    history: GivenPath | None
    policy: GivenPath | None
    flags: Flags
    format: str
    file: GivenPath | None

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> CompareOptions:
        """Create the options from the command line's values by setting name."""
        own = ("base", "head", "history", "policy", "file")
        kept: dict[str, Any] = {name: values.get(name) for name in own}
        return cls(flags=Flags(policy=policy_values(values)), format=values.get("format") or "console", **kept)


def options_of_step(inputs: StepInputs, settings: Mapping[str, Any], workspace: Path) -> CompareOptions:
    """Return the options of a step that compares BASE and HEAD, the records in the lines of `args`.

    Raises:
        ConfigurationError: BASE is missing, there are more than two records, the history is a branch, or an HTML page
            has no output file.
    """
    if not 1 <= len(inputs.records) <= 2:
        raise ConfigurationError(
            [
                f"args: command compare needs the line BASE, and optionally HEAD, each a results.json or its folder; "
                f"there are {len(inputs.records)} such lines"
            ]
        )
    if isinstance(settings.get("history"), str):
        raise ConfigurationError(["input history: command compare needs a folder, not a branch"])
    if settings["format"] == "html" and "file" not in settings:
        raise ConfigurationError(["args: --format html: the log shows no pages; add --output FILE"])
    base, *rest = (GivenPath(Path(record), workspace) for record in inputs.records)
    head = rest[0] if rest else settings["output_dir"]
    return CompareOptions.from_values({**settings, "base": base, "head": head})


def compare_runs(options: CompareOptions, caller: Caller) -> ComparisonReport:
    """Compare two runs.

    Args:
        options: the options.
        caller: the report goes to its standard output.

    Returns:
        The comparison. Its exit code is 0; 1 if a regression fails the comparison; 3 if nothing can be compared, or
        pairs of answers could not be judged.

    Raises:
        ConfigurationError: a file is not a record, the base stopped when its exit code was certain, the history lacks
            a run, settings contradict each other, or the report cannot be written.
    """
    return compare_results(*read_runs(options, caller), options, caller)


def compare_results(
    base_results: Results, head_results: Results, options: CompareOptions, caller: Caller
) -> ComparisonReport:
    """Compare the results of two runs, and write the report; see `compare_runs`."""
    base, head = base_results.record, head_results.record
    recorded = None if head.baseline is None else head.baseline.settings
    baseline, gates = recorded or Baseline(), head.gates
    if options.policy is not None:
        policy = load_policy_file(options.policy, caller.suite_context(None))
        baseline, gates = policy.baseline, policy.gates
    settings, gates = merge_baseline(baseline, options.flags), options.flags.override("gates", gates)
    problem = baseline_problem(settings, gates, compared=True)
    if problem is not None:
        raise ConfigurationError([" ".join(problem)])
    against = BaseRun(str(options.base), base.provenance.commit)
    # Of all formats only JSON shows them.
    digests = Digests(_digest_of(base_results), _digest_of(head_results)) if options.format == "json" else NO_DIGESTS
    comparison = compare(base, head, settings, base_run=against, judged=judge_cases(head), digests=digests, gates=gates)
    report = report_comparison(
        comparison,
        settings,
        gates,
        suite=head.suite.name,
        folder=head.provenance.folder or "",
    )
    if options.format == "html":
        write_pieces(render_page(_comparison_page(base, head, report, options, caller)), options.file, caller.stdout)
    else:
        pieces = (piece.encode("utf-8", "replace") for piece in render_comparison(report, options.format))
        write_pieces(pieces, options.file, caller.stdout)
    return report


def _comparison_page(
    base: Record, head: Record, compared: ComparisonReport, options: CompareOptions, caller: Caller
) -> PageView:
    """Return the viewer's page of the head, with the outcome of the comparison instead of the head's verdict."""
    concluded = conclude(head)
    report = replace(
        concluded.report,
        outcome=compared.outcome,
        exit_code=compared.exit_code,
        reason=compared.reason,
        gates=compared.gates,
        notices=(*concluded.report.notices, *compared.warnings),
        comparison=compared.comparison,
        base_missing=None,
    )
    suite = replace(concluded, report=report, base=base)
    results = str(options.head or LAST_RESULTS)
    return PageView([suite], compared.exit_code, results=results, links=page_links(caller.environ))


def _digest_of(results: Results) -> str:
    return results.record_digest or record_digest(results.record)


def read_runs(options: CompareOptions, caller: Caller) -> tuple[Results, Results]:
    """Read both runs; raise ConfigurationError if a file is not a record, or the history lacks a run of the suite."""
    found: dict[GivenPath, Results] = {}
    head = options.head or results_or_last(None, caller)
    named = [path for path in (options.base, head) if options.history is not None and not path.path.exists()]
    for path in (options.base, head):
        if path not in named:
            found[path] = read_results(path)
    if named and options.history is not None:
        history = open_history(options.history, caller.pause, caller.disk or DISK)
        caller.note(*history.notices)
        for path in named:
            other = next((results.record for results in found.values()), None)
            found[path] = parse_base_results(history.results(str(path), other), f"{options.history}: {path}").results
    if found[options.base].record.certain is not None:
        raise RecordError(f"{options.base}: {NO_BASE}; give the results.json of a run that asked all cases first")
    return found[options.base], found[head]
