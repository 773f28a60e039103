"""The manifest of the extension `report_formats`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Format, Option

_HERE = "holodeck_action.extensions.report_formats"

EXTENSION = Extension(
    name="report_formats",
    help="Reports for other programs: SARIF, and GitLab's code quality.",
    formats=(
        Format(
            name="codequality",
            help="GitLab's code quality report",
            render=f"{_HERE}.code_quality:code_quality",
            file="report.codequality.json",
        ),
        Format(name="sarif", help="SARIF for code scanning", render=f"{_HERE}.sarif:sarif", file="report.sarif"),
    ),
    options=(
        Option("codequality", "Write report.codequality.json, too: GitLab's code quality report.", flag=True),
        Option("sarif", "Write report.sarif, too: SARIF for code scanning.", flag=True),
    ),
)
