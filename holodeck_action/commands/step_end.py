"""The result of a step, and its outputs, job summary and reason to fail."""

from __future__ import annotations

import os
from collections.abc import Sequence

from holodeck_action.commands.output import Outcome, suite_code
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.github.channels import Channel, channel_lines, channel_table
from holodeck_action.github.publisher import Publication
from holodeck_action.github.runner import step_outputs
from holodeck_action.record.result_files import VERDICT_FILE, results_path
from holodeck_action.reports.comment.size_limit import SizeLimit, cut
from holodeck_action.reports.comparison_page import render_comparison
from holodeck_action.reports.custom import CustomTemplate
from holodeck_action.reports.first_lines import first_notices
from holodeck_action.reports.formats import REPORT_FILE, markdown_report
from holodeck_action.reports.headline import verdict_line
from holodeck_action.reports.page.viewer import PAGE_FILE
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.text.code_spans import cell, fence
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line

TITLE = "holodeck-action"
_MAX_PROBLEM_CHARACTERS = 50_000
"""Maximum characters of configuration errors in the job summary; a character takes at most four bytes."""
_NOT_RUN_RESERVE = 8000
"""Bytes of the job summary reserved for the names of suites that did not run: 1,000 escaped characters."""


def outputs(
    outcome: Outcome, folder: GivenPath | None, channels: Sequence[Channel], *, reports_made: bool, judged: bool
) -> dict[str, str]:
    """Return every output of the step.

    Args:
        outcome: the result of the step.
        folder: the folder with verdict.json; None if there is no such folder.
        channels: results of publishing, one for each channel.
        reports_made: whether this step made the reports; reports in another run's artifact are not trusted.
        judged: whether the run has a verdict; a shard has none.
    """
    suites, made = outcome.suites, outcome.suites if reports_made else ()
    together = path_if_written(folder, PAGE_FILE) if len(suites) > 1 else None
    paths = {
        "results-path": [_results_path(suite.folder) for suite in suites],
        "report-path": [path_if_written(suite.folder, REPORT_FILE) for suite in made],
        "html-path": [together, *(path_if_written(suite.folder, PAGE_FILE) for suite in made)],
        "verdict-path": [path_if_written(folder, VERDICT_FILE) if suites else None],
    }
    found = step_outputs(outcome.exit_code, [suite.report for suite in suites], paths, channels)
    without = outcome.plan or (outcome.exit_code == ExitCode.PASSED and not judged)
    return {**found, "verdict": ""} if without else found


def _results_path(folder: GivenPath | None) -> str | None:
    """Return the path of this run's record relative to the workspace; None if the record was not written."""
    found = folder if folder is None else results_path(folder)
    return None if found is None or found == folder else os.path.relpath(found, found.start)


def path_if_written(folder: GivenPath | None, name: str) -> str | None:
    """Return the path of this run's file `name` relative to the workspace; None if the file was not written."""
    path = None if folder is None else folder / name
    return os.path.relpath(path, path.start) if path is not None and path.path.is_file() else None


def comparison_path(flags: Flags, outcome: Outcome) -> dict[str, str]:
    """Return the step's output with the path of the comparison's report; empty if no report was written."""
    if flags.file is None or outcome.compared is None:
        return {}
    name = "html-path" if flags.format == "html" else "report-path"
    return {name: os.path.relpath(flags.file, flags.file.start)}


def extended_paths(outcome: Outcome) -> dict[str, str]:
    """Return the step's outputs with paths of an extension's command; empty if no such command ran."""
    files = {} if outcome.extended is None else outcome.extended.files
    return {name: os.path.relpath(file, file.start) for name, file in files.items() if file.path.is_file()}


def job_summary(
    outcome: Outcome, template: CustomTemplate | None, published: Publication, max_bytes: int, run: str | None
) -> str:
    """Return the job summary, at most `max_bytes` bytes: each suite's report, or why it is missing, and the channels.
    Suites that passed come last.

    The summary begins with notices about outdated comments and, if there are several suites, about gates that are less
    strict than those of the base. `run` is the URL of the run whose artifacts may contain the viewer's page; None if no
    page was written.
    """
    pages = f"\n[All cases]({run}#artifacts): `{PAGE_FILE}`, where the output folder is uploaded\n" if run else ""
    where = pages + channel_table(published.channels)
    max_bytes -= len((published.stale_notice + where).encode())
    whole = None if outcome.extended is None else outcome.extended.markdown
    if outcome.compared is not None:
        whole = "".join(render_comparison(outcome.compared, "markdown"))
    if whole is not None:
        limit = SizeLimit(max_bytes, max_bytes)
        fits = limit.holds(len(whole), len(whole.encode()))
        shown = whole if fits else cut(whole, limit, "the whole report is in the log of the step")
        return f"{published.stale_notice}{shown}{where}"
    if not outcome.evaluated:
        problems = fence("\n".join(outcome.problems) or outcome.plan, _MAX_PROBLEM_CHARACTERS)
        return f"{published.stale_notice}### {TITLE}: nothing was evaluated{problems}{where}"
    if outcome.not_run:
        where = f"\n⏹️ Not run: {cell(', '.join(outcome.not_run), 1000)}\n{where}"
        max_bytes -= _NOT_RUN_RESERVE
    reports = sorted((suite.report for suite in outcome.suites), key=lambda report: report.outcome == "passed")
    # The report of a single suite begins with them itself.
    texts = [f"{notice}\n\n" for notice in first_notices(reports)] if len(reports) > 1 else []
    max_bytes -= len("".join(texts).encode())
    for left, report in zip(range(len(reports), 0, -1), reports, strict=True):
        share = max_bytes // left - 1
        # Problems of the template are in the log already, from rendering report.md.
        text = markdown_report(report, template, lambda _: None, SizeLimit(share, share))
        texts.append(text + "\n")
        max_bytes -= len(texts[-1].encode())
    return "".join([published.stale_notice, *texts, where])


def failure_reasons(outcome: Outcome, channels: Sequence[Channel]) -> str:
    """Return the reasons why the step fails, as lines of plain text."""
    reasons = [verdict_line(suite.report) for suite in outcome.suites if suite_code(suite)]
    if outcome.not_run:
        reasons.append(f"not run: {one_line(', '.join(outcome.not_run), 1000)}")
    if outcome.compared is not None and outcome.compared.exit_code:
        compared = outcome.compared
        reasons.append(f"{one_line(compared.suite, 100)}: {compared.outcome}: {one_line(compared.reason, 1000)}")
    if outcome.extended is not None and outcome.extended.exit_code:
        reasons.append(one_line(outcome.extended.reason, 1000))
    said = (*(one_line(problem, 1000) for problem in outcome.problems), *reasons)
    # Only `require-publish` fails a step that passed.
    return "\n".join(said or channel_lines(channels)) or "see the log"
