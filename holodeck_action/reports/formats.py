"""Every format a report can be written in."""

from __future__ import annotations

from holodeck_action.reports.console import console_report
from holodeck_action.reports.csv_rows import csv_report
from holodeck_action.reports.html import html_page
from holodeck_action.reports.junit import junit
from holodeck_action.reports.markdown import markdown
from holodeck_action.results.adapters import adapter
from holodeck_action.results.views import Report

FORMATS = ("markdown", "html", "junit", "json", "csv", "console")


def render(report: Report, name: str) -> str:
    """Render a report in one of `FORMATS`."""
    renderers = {
        "markdown": markdown,
        "html": html_page,
        "junit": junit,
        "json": json_report,
        "csv": csv_report,
        "console": console_report,
    }
    return renderers[name](report)


def json_report(report: Report) -> str:
    """Render a report as JSON; `##[` is escaped, as GitHub's runner would read a command there in a log."""
    content = adapter(Report).dump_json(report, indent=1).decode()
    return content.replace("##[", "\\u0023\\u0023[") + "\n"
