"""What a step tells: its outputs, the job summary, and why it fails."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from holodeck_action.commands.output import Done
from holodeck_action.github.channels import Channel, lines, table
from holodeck_action.github.runner import SuiteResult, step_outputs
from holodeck_action.reports.custom import CustomTemplate
from holodeck_action.reports.formats import REPORT_FILE, readable
from holodeck_action.reports.size_limit import SizeLimit
from holodeck_action.results.result_files import RESULTS_FILE, VERDICT_FILE
from holodeck_action.suite.configuration_errors import Located
from holodeck_action.text.code_spans import cell, fence
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line

TITLE = "holodeck-action"
_PROBLEMS_SHOWN = 50_000
"""Characters of configuration errors in the job summary, which take at most four bytes each."""
_NOT_RUN_BYTES = 8000
"""Room in the job summary for 1,000 escaped characters that name suites."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the step ended: with suites that ran, the problems that kept them from running, or the plan alone."""

    exit_code: int
    done: Done | None = None
    problems: tuple[str, ...] = ()
    located: tuple[Located, ...] = ()
    plan: str = ""


def outputs(
    ended: Ended, folder: GivenPath | None, channels: Sequence[Channel], *, reports_made: bool
) -> dict[str, str]:
    """Return every output of the step.

    Args:
        ended: how it ended.
        folder: where verdict.json is; None for nowhere.
        channels: where it was published.
        reports_made: whether reports are this step's own: one that another run's artifact brings may be anything.
    """
    done = ended.done.suites if ended.done is not None else ()
    suites = [
        SuiteResult(
            counts=suite.report.counts,
            pass_rate=suite.report.pass_rate,
            cost_usd=suite.report.spend.cost_usd,
            results=_written(suite.folder, RESULTS_FILE),
            report=_written(suite.folder, REPORT_FILE) if reports_made else None,
        )
        for suite in done
    ]
    outputs = step_outputs(ended.exit_code, suites, _written(folder, VERDICT_FILE) if suites else None, channels)
    return {**outputs, "verdict": ""} if ended.plan else outputs


def _written(folder: GivenPath | None, name: str) -> str | None:
    """Return the path of a file of this run as the workflow sees it; None when it was not written."""
    path = None if folder is None else folder / name
    return os.path.relpath(path, path.start) if path is not None and path.path.is_file() else None


def summary(ended: Ended, template: CustomTemplate | None, channels: Sequence[Channel], room: int) -> str:
    """Return the job summary of at most `room` bytes: every suite's report, or why there is none, and the channels."""
    where = table(channels)
    room -= len(where.encode())
    if ended.done is None:
        problems = fence("\n".join(ended.problems) or ended.plan, _PROBLEMS_SHOWN)
        return f"### {TITLE}: nothing was evaluated{problems}{where}"
    if ended.done.not_run:
        where = f"\n⏹️ Not run: {cell(', '.join(ended.done.not_run), 1000)}\n{where}"
        room -= _NOT_RUN_BYTES
    texts: list[str] = []
    for left, suite in zip(range(len(ended.done.suites), 0, -1), ended.done.suites, strict=True):
        share = room // left - 1
        # What is wrong with the template is in the log since report.md was made.
        text = readable(suite.report, template, lambda _: None, SizeLimit(share, share))
        texts.append(text + "\n")
        room -= len(texts[-1].encode())
    return "".join(texts) + where


def why(ended: Ended, channels: Sequence[Channel]) -> str:
    """Say in plain lines why the step fails."""
    verdicts = [suite.verdict for suite in ended.done.suites] if ended.done is not None else []
    reasons = [
        f"{one_line(verdict.suite, 100)}: {verdict.outcome}: {one_line(verdict.reason, 1000)}"
        for verdict in verdicts
        if verdict.exit_code
    ]
    if ended.done is not None and ended.done.not_run:
        reasons.append(f"not run: {one_line(', '.join(ended.done.not_run), 1000)}")
    said = (*(one_line(problem, 1000) for problem in ended.problems), *reasons)
    # Only `require-publish` fails a step that passed.
    return "\n".join(said or lines(channels)) or "see the log"
