"""The Markdown report: job summary, comment, report.md."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from holodeck_action.reports.budget import JOB_SUMMARY, Budget, Detail, fit
from holodeck_action.reports.templating import markdown_environment, wrap
from holodeck_action.results.views import Report

if TYPE_CHECKING:
    from jinja2 import Template

IN_THE_RECORD = "the whole record is in results.json"


def markdown(report: Report, budget: Budget = JOB_SUMMARY, *, rest: str = IN_THE_RECORD) -> str:
    """Render a report as GitHub Flavored Markdown.

    Args:
        report: what to show.
        budget: what the text may hold; what is left out first is said in `holodeck_action.reports.budget`.
        rest: trusted Markdown that says where the rest of a cut report is.
    """
    data = wrap(report)

    def render(detail: Detail) -> Iterator[str]:
        return _template().generate(report=data, detail=detail)

    return fit(render, budget, rest)


@cache
def _template() -> Template:
    return markdown_environment().get_template("summary.md.j2")
