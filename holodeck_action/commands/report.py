"""`report`: shows a record in any format, without running anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
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
from holodeck_action.run.options.request import template_of
from holodeck_action.run.viewed import read_conclusion
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.terminal import terminal_of


class ReportOptions(Struct, frozen=True):
    """The options of the command `report`.

    Attributes:
        results: paths of results.json files, several for the columns of an HTML page; empty to use the last run's.
        format: format of the report.
        canonical: whether to omit values that differ between runs.
        file: path of the report; None to write to standard output.
        template: template of the Markdown report; None to use the built-in template.
        case_globs: globs that select the cases on the page by id or name; empty to show all cases.
    """

    results: tuple[GivenPath, ...]
    format: str
    canonical: bool
    file: GivenPath | None
    template: GivenPath | None
    case_globs: tuple[str, ...] = ()


def show_record(options: ReportOptions, caller: Caller) -> int:
    """Write a record in the requested format.

    Args:
        options: the options.
        caller: gets the report on standard output, and notes about a template on standard error.

    Raises:
        ConfigurationError: a file is not a record, the template cannot be read, an option does not apply to the format,
            a glob matches no case, the runs cannot share a page, or the report cannot be written.
    """
    stdout = caller.stdout

    def note(sentence: str) -> None:
        caller.stderr.write(f"note: {sentence}\n")

    if options.template is not None and options.format != "markdown":
        raise ConfigurationError([f"--template renders Markdown and cannot be combined with --format {options.format}"])
    if options.case_globs and options.format != "html":
        raise ConfigurationError(
            [f"--case selects the cases of an HTML page and cannot be combined with --format {options.format}"]
        )
    if len(options.results) > 1 and options.format != "html":
        raise ConfigurationError(
            ["several RESULTS can be shown only as an HTML page: add --format html, or give a single RESULTS"]
        )
    template = template_of(options.template)
    results, *others = [results_or_last(given, caller) for given in options.results or (None,)]
    concluded = read_conclusion(results)
    report = concluded.report
    if options.canonical:
        report = canonical_report(report)
    if options.format == "console" and options.file is None:
        print_report(report, stdout, terminal_of(stdout, caller.environ))
        return ExitCode.PASSED
    if options.format == "html":
        view = PageView(
            [replace(concluded, report=report)],
            report.exit_code,
            results=str(results),
            links=page_links(caller.environ),
            chosen=_case_filter(options.case_globs, report),
            canonical=options.canonical,
            runs=_run_columns(results, concluded, others),
        )
        write_pieces(render_page(view), options.file, stdout)
        return ExitCode.PASSED
    if options.format == "markdown":
        write_text(markdown_report(report, template, note), options.file, stdout)
    else:
        write_pieces(render(report, options.format), options.file, stdout)
    if options.format == "csv":
        # A table has no columns for them.
        note(f"the table holds outcomes, scores and reasons; inputs and answers are in {results}")
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
