"""Reports a comparison of nights: as text, and as an issue on GitHub."""

from __future__ import annotations

from collections.abc import Sequence

from holodeck_action.decide.exit_codes import ExitCode, worst_exit_code
from holodeck_action.extensions.traces.drift import Comparison, compare_nights
from holodeck_action.github.channels import channel_lines
from holodeck_action.github.job import page_links
from holodeck_action.github.marked_issue import IssueRequest, post_issue
from holodeck_action.reports.comment.size_limit import COMMENT, SizeLimit
from holodeck_action.reports.conclusion import conclude
from holodeck_action.reports.formats import render_markdown
from holodeck_action.reports.headline import verdict_line
from holodeck_action.reports.report_views import Report
from holodeck_action.run.caller import Caller
from holodeck_action.run.step_report import StepReport
from holodeck_action.text.code_spans import inline_code
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line
from holodeck_action.text.prose import prose

_RESERVE = 15_000
"""Bytes of the issue that are reserved for everything except the reports of the latest runs."""


def report_drift(
    later_results: GivenPath, earlier_results: Sequence[GivenPath], format_name: str, caller: Caller, *, issue: bool
) -> StepReport:
    """Print the changes between earlier conversations and the latest ones.

    Args:
        later_results: results of the latest conversations: a file, or a folder to search.
        earlier_results: results of earlier conversations: files, or folders to search.
        format_name: `console`, `markdown` or `json`.
        caller: receives the comparison on standard output.
        issue: whether to open, update or close an issue. If so, the verdicts of the latest runs count, too.

    Returns:
        The report. Its exit code is 1 if a number is worse, 3 if there are too few conversations for all numbers,
        otherwise 0; with `issue`, the worst of this code and the exit codes of the latest runs.

    Raises:
        ConfigurationError: results are missing or invalid, or belong to another suite.
    """
    comparison = compare_nights(later_results, earlier_results)
    caller.stdout.write(comparison.text(format_name))
    caller.stdout.flush()
    reports = [conclude(record).report for record in comparison.latest] if issue else []
    code = worst_exit_code([comparison.exit_code, *(report.exit_code for report in reports)])
    reason = "; ".join([_drift_reason(comparison), *(verdict_line(report) for report in reports if report.exit_code)])
    if not issue:
        return StepReport(code, reason, comparison.text("markdown"), {})
    if code not in (ExitCode.PASSED, ExitCode.VIOLATED):
        # It is unknown whether something is wrong, so the issue can be neither opened nor closed.
        caller.note(f"no issue is opened, updated or closed: {reason}")
        return StepReport(code, reason, comparison.text("markdown"), {})
    wanted = _issue(comparison, [report for report in reports if report.exit_code], code, caller)
    with caller.job() as job:
        channels = (post_issue(job, caller.cwd, wanted),)
    caller.stderr.writelines(f"{line}\n" for line in channel_lines(channels))
    caller.stderr.flush()
    return StepReport(code, reason, comparison.text("markdown"), {}, channels)


def _drift_reason(comparison: Comparison) -> str:
    if comparison.exit_code == ExitCode.INCOMPLETE:
        return "too few conversations, or other judges, so that no number can be compared"
    return (
        f"worse than before: {one_line(', '.join(comparison.worse), 500)}" if comparison.worse else "nothing is worse"
    )


def _issue(comparison: Comparison, failed: Sequence[Report], code: ExitCode, caller: Caller) -> IssueRequest:
    """Return the issue to write. Names of suites and metrics, and texts of conversations, are untrusted."""
    name, wrong = comparison.latest[0].suite.name, code == ExitCode.VIOLATED
    facts = [f"worse than before: {prose(', '.join(comparison.worse), 300)}"] if comparison.worse else []
    facts += ["the verdict is not passed"] if failed else []
    run = page_links(caller.environ).run
    where = f"[The last run]({run}) compared" if run else "Compared"
    ends = "It is rewritten by each run, and closed when nothing is worse and the verdict is passed."
    lines = [
        f"### {'❌' if wrong else '✅'} {prose(name, 80)} · {'; '.join(facts) or 'nothing is worse'}",
        f"{where} the latest conversations with earlier ones. {ends if wrong else ''}".rstrip(),
        comparison.text("markdown"),
    ]
    room = (COMMENT.bytes - _RESERVE) // max(1, len(failed))
    lines += [render_markdown(report, SizeLimit(room, room)) for report in failed]
    job = [caller.environ.get("GITHUB_WORKFLOW", ""), caller.environ.get("GITHUB_JOB", "")]
    return IssueRequest(
        id="/".join(filter(None, [*job, name])),
        title=f"{inline_code(name, 80)}: conversations of production need attention",
        text="\n\n".join(lines) + "\n",
        wrong=wrong,
    )
