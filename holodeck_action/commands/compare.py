"""`compare`: two runs side by side, without running anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.commands.last_run import results_or_last
from holodeck_action.decide.compare.comparing import NO_DIGESTS, Digests, compare
from holodeck_action.decide.compare.comparison_report import ComparisonReport, report_comparison
from holodeck_action.decide.survey import judge_cases
from holodeck_action.github.job import links_of
from holodeck_action.record.base_results import results_in
from holodeck_action.record.canonical import record_digest
from holodeck_action.record.disk import DISK
from holodeck_action.record.record import BaseRun, Record
from holodeck_action.record.result_files import Results, read_results
from holodeck_action.reports.comparison_page import render_comparison
from holodeck_action.reports.conclusion import conclude
from holodeck_action.reports.page.viewer import View, page_of
from holodeck_action.reports.page.viewer_index import ViewedSuite
from holodeck_action.reports.written import write_pieces
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import policy_of
from holodeck_action.run.options.action_inputs import policy_values
from holodeck_action.run.options.flags import LAST_RESULTS
from holodeck_action.run.past import open_history
from holodeck_action.run.settings import Flags, baseline_problem, merge_baseline
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.policy import Baseline
from holodeck_action.text.given_paths import GivenPath


class Comparing(Struct, frozen=True):
    """What is asked for.

    Attributes:
        base: a results.json, or a folder with one; else a run of the history.
        head: likewise: the run that is judged; None for the last run.
        history: folder of the history that other runs are in; None for none.
        policy: the policy file whose settings count; None for those that the head was run with.
        flags: settings of the command line, which win.
        format: one of `COMPARISON_FORMATS`, or `html`.
        file: where the report is written; None for standard output.
    """

    base: GivenPath
    head: GivenPath | None
    history: GivenPath | None
    policy: GivenPath | None
    flags: Flags
    format: str
    file: GivenPath | None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Comparing:
        """Return what the command line asks for: value by setting."""
        own = ("base", "head", "history", "policy", "format", "file")
        return cls(flags=Flags(policy=policy_values(given)), **{name: given[name] for name in own})


def compare_runs(asked: Comparing, caller: Caller) -> int:
    """Compare two runs.

    Args:
        asked: what is asked for.
        caller: whose standard output takes the report.

    Returns:
        The exit code: 0, 1 where a loss fails, or 3 where nothing can be compared.

    Raises:
        ConfigurationError: a file is no record, the history has no such run, settings contradict each other, or the
            report cannot be written.
    """
    before, after = _both(asked, caller)
    base, head = before.record, after.record
    recorded = None if head.baseline is None else head.baseline.settings
    baseline, gates = recorded or Baseline(), head.gates
    if asked.policy is not None:
        policy = policy_of(asked.policy, caller.surroundings(None))
        baseline, gates = policy.baseline, policy.gates
    settings, gates = merge_baseline(baseline, asked.flags), asked.flags.over("gates", gates)
    problem = baseline_problem(settings, gates, compared=True)
    if problem is not None:
        raise ConfigurationError([" ".join(problem)])
    against = BaseRun(str(asked.base), base.provenance.commit)
    # Of all formats only JSON shows them.
    digests = Digests(_digest(before), _digest(after)) if asked.format == "json" else NO_DIGESTS
    comparison = compare(base, head, settings, against=against, judged=judge_cases(head), digests=digests, gates=gates)
    report = report_comparison(
        comparison,
        settings,
        gates.max_regressions,
        suite=head.suite.name,
        folder=head.provenance.folder or "",
    )
    if asked.format == "html":
        write_pieces(page_of(_view(base, head, report, asked, caller)), asked.file, caller.stdout)
    else:
        pieces = (piece.encode("utf-8", "replace") for piece in render_comparison(report, asked.format))
        write_pieces(pieces, asked.file, caller.stdout)
    return report.exit_code


def _view(base: Record, head: Record, compared: ComparisonReport, asked: Comparing, caller: Caller) -> View:
    """Return the page of the head, judged by what changed alone."""
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
    suite = ViewedSuite(replace(concluded, report=report), base)
    results = str(asked.head or LAST_RESULTS)
    return View([suite], compared.exit_code, results=results, links=links_of(caller.environ))


def _digest(results: Results) -> str:
    return results.record_digest or record_digest(results.record)


def _both(asked: Comparing, caller: Caller) -> tuple[Results, Results]:
    """Read both runs; a run of the history is of the suite that the other one is of."""
    found: dict[GivenPath, Results] = {}
    head = asked.head or results_or_last(None, caller)
    named = [path for path in (asked.base, head) if asked.history is not None and not path.path.exists()]
    for path in (asked.base, head):
        if path not in named:
            found[path] = read_results(path)
    if named and asked.history is not None:
        history = open_history(asked.history, caller.pause, caller.disk or DISK)
        caller.note(*history.notices)
        for path in named:
            other = next((results.record for results in found.values()), None)
            found[path] = results_in(history.results(str(path), other), f"{asked.history}: {path}").results
    return found[asked.base], found[head]
