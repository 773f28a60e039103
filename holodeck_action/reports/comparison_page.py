"""A comparison on its own, as text."""

from __future__ import annotations

from collections.abc import Iterator

from holodeck_action.reports.comparison import comparison_lines
from holodeck_action.reports.phrases import VERDICTS, gate_line
from holodeck_action.reports.templating import shipped_template
from holodeck_action.reports.untrusted import wrap
from holodeck_action.results.canonical import adapter
from holodeck_action.results.comparison_report import ComparisonReport
from holodeck_action.text.plain import one_line

COMPARISON_FORMATS = ("console", "markdown", "json")
"""Those made of a comparison alone; `html` is the viewer's page, which shows both records."""


def render_comparison(report: ComparisonReport, name: str) -> str:
    """Render a comparison in one of `COMPARISON_FORMATS`."""
    match name:
        case "markdown":
            return shipped_template("comparison_report.md.j2").render(report=wrap(report))
        case "json":
            return adapter(ComparisonReport).dump_json(report, indent=1).decode() + "\n"
        case _:
            return "\n".join(_lines(report)) + "\n"


def _lines(report: ComparisonReport) -> Iterator[str]:
    yield from comparison_lines(report.comparison, report.folder)
    yield ""
    yield from map(gate_line, report.gates)
    for warning in report.warnings:
        yield f"warning: {one_line(warning, 500)}"
    yield f"{VERDICTS[report.outcome]}: {one_line(report.reason, 1000)}"
