"""`report`: a record shown in any format, without running anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.commands.last_run import results_or_last
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.github.job import links_of
from holodeck_action.reports.formats import readable, render
from holodeck_action.reports.page.viewer import View, page_of
from holodeck_action.reports.report_views import Report, canonical_report, in_suite_order
from holodeck_action.reports.terminal.console import show
from holodeck_action.reports.written import write_pieces, write_text
from holodeck_action.run.caller import Caller
from holodeck_action.run.case_choice import matching
from holodeck_action.run.request import template_of
from holodeck_action.run.viewed import read_viewed
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.terminal import terminal_of


class Showing(Struct, frozen=True):
    """What is asked for.

    Attributes:
        results: a results.json; None for that of the last run.
        format: of the report.
        canonical: whether what differs between runs is left out.
        file: where the report goes; None for standard output.
        template: what Markdown is made with; None for the built-in template.
        case_globs: what id or name of the cases of a page match; empty for all.
    """

    results: GivenPath | None
    format: str
    canonical: bool
    file: GivenPath | None
    template: GivenPath | None
    case_globs: tuple[str, ...] = ()


def show_record(showing: Showing, caller: Caller) -> int:
    """Show a record.

    Args:
        showing: what is asked for.
        caller: whose standard output takes the report, and standard error notes about a template.

    Raises:
        ConfigurationError: the file is no record, a template is given for something else than Markdown or cannot be
            read, cases are named for something else than a page or there are none, or the report cannot be written.
    """
    stdout = caller.stdout

    def note(sentence: str) -> None:
        caller.stderr.write(f"note: {sentence}\n")

    if showing.template is not None and showing.format != "markdown":
        raise ConfigurationError([f"--template makes Markdown: it does not go with --format {showing.format}"])
    if showing.case_globs and showing.format != "html":
        raise ConfigurationError([f"--case chooses cases of a page: it does not go with --format {showing.format}"])
    template = template_of(showing.template)
    results = results_or_last(showing.results, caller)
    viewed = read_viewed(results)
    concluded = viewed.concluded
    report = concluded.report
    if showing.canonical:
        report = canonical_report(report)
    if showing.format == "console" and showing.file is None:
        show(report, stdout, terminal_of(stdout, caller.environ))
        return ExitCode.PASSED
    if showing.format == "html":
        view = View(
            [replace(viewed, concluded=replace(concluded, report=report))],
            report.exit_code,
            results=str(results),
            links=links_of(caller.environ),
            chosen=_chosen(showing.case_globs, report),
            canonical=showing.canonical,
        )
        write_pieces(page_of(view), showing.file, stdout)
        return ExitCode.PASSED
    if showing.format == "markdown":
        write_text(readable(report, template, note), showing.file, stdout)
    else:
        write_pieces(render(report, showing.format), showing.file, stdout)
    if showing.format == "csv":
        # A table has no place for it.
        note(f"the table holds outcomes, scores and reasons; what was asked and answered is in {results}")
    return ExitCode.PASSED


def _chosen(globs: Sequence[str], report: Report) -> Callable[[str, str], bool] | None:
    """Return what tells by id and title whether a case is in the page; None for all of them.

    Raises:
        ConfigurationError: a pattern matches no case.
    """
    if not globs:
        return None
    names = [{case.id, case.title} for case in in_suite_order(report)]
    wrong = [f"--case {glob!r} matches no case" for glob in globs if not any(matching(each, glob) for each in names)]
    if wrong:
        raise ConfigurationError(wrong)
    return lambda case, title: any(matching({case, title}, glob) for glob in globs)
