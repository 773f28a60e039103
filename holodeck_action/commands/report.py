"""A record shown again, in any format, without running anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TextIO

from holodeck_action.prepare.preflight import template_of
from holodeck_action.reports.console import show
from holodeck_action.reports.formats import readable, render
from holodeck_action.results.decision import decide
from holodeck_action.results.disk import write_atomically
from holodeck_action.results.report_building import build_report
from holodeck_action.results.report_views import canonical_report
from holodeck_action.results.result_files import RecordError, read_record
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath


@dataclass(frozen=True, slots=True)
class Showing:
    """How a record is to be shown: `file` is where the report goes (None: standard output)."""

    format: str
    canonical: bool
    file: GivenPath | None
    template: GivenPath | None


def rerender(results: GivenPath, showing: Showing, stdout: TextIO, stderr: TextIO) -> int:
    """Show a results file.

    Raises:
        ConfigurationError: the file is no record, a template is given for something else than Markdown or cannot be
            read, or the report cannot be written.
    """
    if showing.template is not None and showing.format != "markdown":
        raise ConfigurationError([f"--template makes Markdown: it does not go with --format {showing.format}"])
    template = template_of(showing.template)
    try:
        record = read_record(results)
    except RecordError as error:
        raise ConfigurationError([str(error)]) from error
    report = build_report(record, decide(record))
    if showing.canonical:
        report = canonical_report(report)
    if showing.format == "console" and showing.file is None:
        show(report, stdout)
        return 0
    if showing.format == "markdown":
        text = readable(report, template, lambda sentence: _note(sentence, stderr))
    else:
        text = render(report, showing.format)
    if showing.file is None:
        stdout.write(text)
        return 0
    content = text.encode("utf-8", "replace")
    try:
        path = showing.file.path
        if path.exists() and not path.is_file():
            # A device or a pipe: written to, not replaced.
            path.write_bytes(content)
        else:
            write_atomically(path, [content])
    except OSError as error:
        raise ConfigurationError([f"{showing.file}: cannot be written: {error.strerror}"]) from error
    return 0


def _note(sentence: str, stderr: TextIO) -> None:
    stderr.write(f"note: {sentence}\n")
