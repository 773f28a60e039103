"""The manifest of the extension `report_formats`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Format, Option

_FORMATS = tuple(
    Format(name, text, render=f"holodeck_action.extensions.report_formats.{function}", file=file)
    for name, text, function, file in (
        ("codequality", "GitLab's code quality report", "code_quality:code_quality", "report.codequality.json"),
        ("intoto", "in-toto statement to sign", "statement:intoto", "report.intoto.json"),
        ("sarif", "SARIF for code scanning", "sarif:sarif", "report.sarif"),
    )
)

EXTENSION = Extension(
    name="report_formats",
    help="Reports for other programs: SARIF, GitLab's code quality, in-toto.",
    formats=_FORMATS,
    options=tuple(Option(made.name, f"Write {made.file}, too: {made.help}.", flag=True) for made in _FORMATS),
)
