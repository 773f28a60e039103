"""Renders the report of `compare` for the console, as Markdown or as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from holodeck_action.decide.compare.comparison_report import ComparisonReport
from holodeck_action.record.serialization import to_json
from holodeck_action.reports.comparison import comparison_lines
from holodeck_action.reports.first_lines import first_sentences
from holodeck_action.reports.phrases import VERDICTS, gate_line
from holodeck_action.reports.templating import shipped_template
from holodeck_action.reports.terms import terms_lines
from holodeck_action.reports.untrusted import wrap
from holodeck_action.text.plain import one_line

COMPARISON_FORMATS = ("console", "markdown", "json")
"""Formats that need only the comparison; `html`, the viewer's page, also needs both records."""


def render_comparison(report: ComparisonReport, name: str) -> Iterator[str]:
    """Yield a comparison in one of `COMPARISON_FORMATS`, in pieces."""
    match name:
        case "markdown":
            yield shipped_template("comparison_report.md.j2").render(report=wrap(report))
        case "json":
            yield to_json(report, 1).decode() + "\n"
        case _:
            yield "\n".join(_console_lines(report)) + "\n"


def _console_lines(report: ComparisonReport) -> Iterator[str]:
    yield from (f"warning: {said}" for said in first_sentences(report.comparison))
    yield from (f"  {line}" for line in terms_lines(report.comparison))
    yield from comparison_lines(report.comparison, report.folder)
    yield ""
    yield from map(gate_line, report.gates)
    for warning in report.warnings:
        yield f"warning: {one_line(warning, 500)}"
    yield f"{VERDICTS[report.outcome]}: {one_line(report.reason, 1000)}"
