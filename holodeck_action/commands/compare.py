"""`compare`: compares two stored runs, without running anything."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.commands.last_run import results_or_last
from holodeck_action.commands.step_inputs import StepInputs
from holodeck_action.decide.compare.comparing import NO_DIGESTS, Digests, compare
from holodeck_action.decide.compare.comparison_report import ComparisonReport, report_comparison
from holodeck_action.decide.survey import judge_cases
from holodeck_action.github.job import page_links
from holodeck_action.record.base_results import NO_BASE, parse_base_results
from holodeck_action.record.canonical import record_digest
from holodeck_action.record.disk import DISK
from holodeck_action.record.parsed_record import RecordError
from holodeck_action.record.record import BaseRun, Record
from holodeck_action.record.result_files import Results, read_results
from holodeck_action.reports.comparison_page import render_comparison
from holodeck_action.reports.conclusion import conclude
from holodeck_action.reports.page.viewer import PageView, render_page
from holodeck_action.reports.page.viewer_index import PageLinks
from holodeck_action.reports.written import write_pieces, write_text
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import load_policy_file
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.run.options.settings import baseline_problem, merge_baseline
from holodeck_action.run.past import open_history
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.policy import Baseline
from holodeck_action.text.given_paths import GivenPath


def runs_of_step(inputs: StepInputs, flags: Flags, workspace: Path) -> tuple[GivenPath, GivenPath | None]:
    """Return BASE and HEAD of a step that compares them, the records in the lines of `args`.

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
    if isinstance(flags.history, str):
        raise ConfigurationError(["input history: command compare needs a folder, not a branch"])
    if flags.format == "html" and flags.file is None:
        raise ConfigurationError(["args: --format html: the log shows no pages; add --output FILE"])
    base, *rest = (GivenPath(Path(record), workspace) for record in inputs.records)
    return base, rest[0] if rest else flags.output_dir


class ComparedRun(Struct, frozen=True):
    """A run to compare: its results, and the path from which they were read, or its name in the history."""

    place: GivenPath
    results: Results

    @property
    def digest(self) -> str:
        """The digest of the record."""
        return self.results.record_digest or record_digest(self.results.record)


def compare_runs(base: GivenPath, head: GivenPath | None, flags: Flags, caller: Caller) -> ComparisonReport:
    """Compare two runs.

    Args:
        base: path of a results.json or of a folder with one; or a run in the history.
        head: the run to compare with `base`, given in the same form; None to use the last run.
        flags: the options: the folder of the history, a policy file whose settings apply instead of those of the head's
            run, settings that take precedence, and format and file of the report.
        caller: the report goes to its standard output if no file is given.

    Returns:
        The comparison. Its exit code is 0; 1 if a regression fails the comparison; 3 if nothing can be compared, or
        pairs of answers could not be judged.

    Raises:
        ConfigurationError: a file is not a record, the base stopped when its exit code was certain, the history lacks
            a run, settings contradict each other, or the report cannot be written.
    """
    return compare_results(*read_runs(base, head, flags, caller), flags, caller)


def compare_results(base_run: ComparedRun, head_run: ComparedRun, flags: Flags, caller: Caller) -> ComparisonReport:
    """Compare the results of two runs, and write the report; see `compare_runs`."""
    base, head = base_run.results.record, head_run.results.record
    recorded = None if head.baseline is None else head.baseline.settings
    baseline, gates = recorded or Baseline(), head.gates
    if flags.policy is not None:
        policy = load_policy_file(flags.policy, caller.suite_context())
        baseline, gates = policy.baseline, policy.gates
    settings, gates = merge_baseline(baseline, flags), flags.override("gates", gates)
    problem = baseline_problem(settings, gates, compared=True)
    if problem is not None:
        raise ConfigurationError([" ".join(problem)])
    against = BaseRun(str(base_run.place), base.provenance.commit)
    # Of all formats only JSON shows them.
    digests = Digests(base_run.digest, head_run.digest) if flags.format == "json" else NO_DIGESTS
    comparison = compare(base, head, settings, base_run=against, judged=judge_cases(head), digests=digests, gates=gates)
    report = report_comparison(
        comparison,
        settings,
        gates,
        suite=head.suite.name,
        folder=head.provenance.folder or "",
    )
    if flags.format == "html":
        view = _comparison_page(base, head_run, report, page_links(caller.environ))
        write_pieces(render_page(view), flags.file, caller.stdout)
    else:
        write_text("".join(render_comparison(report, flags.format)), flags.file, caller.stdout)
    return report


def _comparison_page(base: Record, head: ComparedRun, compared: ComparisonReport, links: PageLinks) -> PageView:
    """Return the viewer's page of the head, with the outcome of the comparison instead of the head's verdict."""
    concluded = conclude(head.results.record)
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
    return PageView([suite], compared.exit_code, results=str(head.place), links=links)


def read_runs(base: GivenPath, head: GivenPath | None, flags: Flags, caller: Caller) -> tuple[ComparedRun, ComparedRun]:
    """Read both runs; raise ConfigurationError if a file is not a record, or the history lacks a run of the suite."""
    places = (base, head or results_or_last(None, caller))
    folder = flags.history if isinstance(flags.history, GivenPath) else None
    named = [place for place in places if folder is not None and not place.path.exists()]
    found = {place: read_results(place) for place in places if place not in named}
    if named and folder is not None:
        history = open_history(folder, caller.pause, caller.disk or DISK)
        caller.note(*history.notices)
        for place in named:
            other = next((results.record for results in found.values()), None)
            found[place] = parse_base_results(history.results(str(place), other), f"{folder}: {place}").results
    if found[base].record.certain is not None:
        raise RecordError(f"{base}: {NO_BASE}; give the results.json of a run that asked all cases first")
    before, after = (ComparedRun(place, found[place]) for place in places)
    return before, after
