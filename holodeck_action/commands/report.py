"""`report`: shows a record in any format, without running anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from holodeck_action.commands.last_run import results_or_last
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.github.job import page_links
from holodeck_action.record.result_files import RESULTS_FILE
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.reports.formats import markdown_report, render
from holodeck_action.reports.page.run_columns import RunColumn, check_columns, column_name
from holodeck_action.reports.page.viewer import PageView, render_page
from holodeck_action.reports.report_views import Report, canonical_report, cases_in_suite_order
from holodeck_action.reports.terminal.console import print_report
from holodeck_action.reports.written import write_pieces, write_text
from holodeck_action.run.caller import Caller
from holodeck_action.run.case_choice import matches_glob
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.run.options.request import template_of
from holodeck_action.run.viewed import read_conclusion
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.terminal import terminal_of


def show_record(results: Sequence[GivenPath], flags: Flags, caller: Caller, *, canonical: bool) -> int:
    """Write a record in the requested format.

    Args:
        results: paths of results.json files, several for the columns of an HTML page; empty to use the last run's.
        flags: the options: format and file of the report, its template, and the cases that the page shows.
        caller: gets the report on standard output, and notes about a template on standard error.
        canonical: whether to omit values that differ between runs.

    Raises:
        ConfigurationError: a file is not a record, the template cannot be read, an option does not apply to the format,
            a glob matches no case, the runs cannot share a page, or the report cannot be written.
    """
    stdout = caller.stdout
    if flags.template is not None and flags.format != "markdown":
        raise ConfigurationError([f"--template renders Markdown and cannot be combined with --format {flags.format}"])
    if flags.case_globs and flags.format != "html":
        raise ConfigurationError(
            [f"--case selects the cases of an HTML page and cannot be combined with --format {flags.format}"]
        )
    if len(results) > 1 and flags.format != "html":
        raise ConfigurationError(
            ["several RESULTS can be shown only as an HTML page: add --format html, or give a single RESULTS"]
        )
    template = template_of(flags.template)
    first, *others = [results_or_last(given, caller) for given in results or (None,)]
    concluded = read_conclusion(first)
    report = concluded.report
    if canonical:
        report = canonical_report(report)
    if flags.format == "console" and flags.file is None:
        print_report(report, stdout, terminal_of(stdout, caller.environ))
        return ExitCode.PASSED
    if flags.format == "html":
        view = PageView(
            [replace(concluded, report=report)],
            report.exit_code,
            results=str(first),
            links=page_links(caller.environ),
            chosen=_case_filter(flags.case_globs, report),
            canonical=canonical,
            runs=_run_columns(first, concluded, others),
        )
        write_pieces(render_page(view), flags.file, stdout)
        return ExitCode.PASSED
    if flags.format == "markdown":
        write_text(markdown_report(report, template, caller.note), flags.file, stdout)
    else:
        write_pieces(render(report, flags.format), flags.file, stdout)
    if flags.format == "csv":
        # A table has no columns for them.
        caller.note(f"the table holds outcomes, scores and reasons; inputs and answers are in {first}")
    return ExitCode.PASSED


def _run_columns(results: GivenPath, conclusion: Conclusion, other_runs: Sequence[GivenPath]) -> Sequence[RunColumn]:
    """Return the columns of a page with several runs; empty for one run.

    Raises:
        ConfigurationError: the runs cannot be columns of one page.
    """
    if not other_runs:
        return ()
    found = [(results, conclusion), *((path, read_conclusion(path)) for path in other_runs)]
    runs = [RunColumn(column_name(str(path), RESULTS_FILE), each) for path, each in found]
    check_columns(runs)
    return runs


def _case_filter(globs: Sequence[str], report: Report) -> Callable[[str, str], bool] | None:
    """Return a function that decides by id and title whether the page shows a case; None if it shows all cases.

    Raises:
        ConfigurationError: a glob matches no case.
    """
    if not globs:
        return None
    names = [{case.id, case.title} for case in cases_in_suite_order(report)]
    wrong = [
        f"--case {glob!r} matches no case" for glob in globs if not any(matches_glob(each, glob) for each in names)
    ]
    if wrong:
        raise ConfigurationError(wrong)
    return lambda case, title: any(matches_glob({case, title}, glob) for glob in globs)
