"""The outcome of a run, and its outputs: reports on the streams, files in a folder, and the combined verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.exit_codes import ExitCode, worst_exit_code
from holodeck_action.decide.verdict import CombinedVerdict, SuiteVerdict, Verdict
from holodeck_action.decide.written_results import RelatedFiles, write_combined, write_results, write_verdict
from holodeck_action.record.folder import Claims, suite_folders
from holodeck_action.record.result_files import RESULTS_FILE, VERDICT_FILE
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.reports.headline import verdict_line
from holodeck_action.reports.terminal.console import print_report
from holodeck_action.run.loading import display_folder
from holodeck_action.run.ui import Ui
from holodeck_action.seam import registry
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line
from holodeck_action.text.terminal import terminal_of

if TYPE_CHECKING:
    from holodeck_action.decide.compare.comparison_report import ComparisonReport
    from holodeck_action.run.step_report import StepReport
    from holodeck_action.suite.configuration_errors import LocatedProblem

Writer = Callable[[], Iterable[bytes]]


class Outcome(Struct, frozen=True):
    """How a command or step ended: its exit code, and what it did.

    Attributes:
        exit_code: the exit code.
        suites: the suites that ran.
        not_run: the paths of the suites that did not run.
        plan: the text of the plan if only a plan was requested, and else empty.
        problems: the problems that prevented a run.
        located: those of them that have a place.
        log_text: the text of the problems, for the log.
        compared: the comparison of two runs; None if none was requested.
        extended: the result of a command of an extension; None if none ran.
    """

    exit_code: int
    suites: tuple[Conclusion, ...] = ()
    not_run: tuple[str, ...] = ()
    plan: str = ""
    problems: tuple[str, ...] = ()
    located: tuple[LocatedProblem, ...] = ()
    log_text: str = ""
    compared: ComparisonReport | None = None
    extended: StepReport | None = None

    @property
    def evaluated(self) -> bool:
        """Whether suites were to run, and not only to be planned."""
        return bool(self.suites or self.not_run)


def clear_suite_folders(claims: Claims, output_root: GivenPath | None, suites: Sequence[Path], cwd: Path) -> None:
    """Move an earlier run's files away from the suites' output folders, before anything is loaded.

    Raises:
        FolderError: another run is writing to one of the folders.
    """
    for folder in suite_folders([(display_folder(path.parent, cwd), path.name) for path in suites], output_root):
        claims.clear(folder)


def report_suite(concluded: Conclusion, ui: Ui, related_files: RelatedFiles, *, journaled: bool) -> Conclusion:
    """Print the report of a suite, and write its files into its folder.

    Args:
        concluded: the suite's record, verdict and report.
        ui: the outputs of the run.
        related_files: further data to write to the folder with the results.
        journaled: whether a journal exists from which the run can be resumed.

    Returns:
        The conclusion, with whether the files could be written.
    """
    report, folder = concluded.report, concluded.folder
    ui.on_conclusion(concluded)
    if ui.flags.verbose:
        from holodeck_action.reports.terminal.every_case import every_case_lines

        lines = every_case_lines(concluded.record, concluded.verdict, report.folder)
        ui.stdout.writelines(f"{line}\n" for line in lines)
    if ui.flags.quiet and report.exit_code == ExitCode.PASSED:
        ui.stdout.write(f"{verdict_line(report)}\n")
    else:
        print_report(report, ui.stdout, terminal_of(ui.stdout, ui.caller.environ))
    with ui.progress.phase("writing results"):
        if folder is None:
            return concluded
        results = _write_results(folder, concluded, ui, related_files, journaled=journaled)
        if results is not None and ui.reports:
            from holodeck_action.reports.formats import write_reports

            write_reports(folder, _report_writers(concluded, results, ui), ui.note, ui.disk)
    return replace(concluded, written=results is not None)


def _page(suites: Sequence[Conclusion], code: int, results: GivenPath, ui: Ui) -> tuple[str, Writer]:
    """Return the name of the viewer's page, and the function that writes it."""
    from holodeck_action.github.job import page_links
    from holodeck_action.reports.page.viewer import PAGE_FILE, PageView, render_page

    links = page_links(ui.caller.environ)
    return PAGE_FILE, lambda: render_page(PageView(suites, code, results=str(results), links=links))


def _report_writers(concluded: Conclusion, results: GivenPath, ui: Ui) -> dict[str, Writer]:
    """Return the functions that write the reports of a suite, by file name."""
    from holodeck_action.reports.formats import JUNIT_FILE, REPORT_FILE, markdown_report, render

    report = concluded.report
    made: dict[str, Writer] = {
        REPORT_FILE: lambda: [markdown_report(report, ui.template, ui.note).encode("utf-8", "replace")],
        JUNIT_FILE: lambda: render(report, "junit"),
    }
    added = [form for form in registry.formats().values() if form.file and ui.flags.extra.get(form.name)]
    made |= {form.file: partial(registry.resolve(form.render), concluded, results) for form in added}
    return made | dict([_page([concluded], report.exit_code, results, ui)] if ui.flags.html else [])


def suite_code(concluded: Conclusion) -> int:
    """Return the exit code of a suite. Results that cannot be read are infrastructure trouble: never a pass."""
    code = concluded.verdict.exit_code
    return code if concluded.written else worst_exit_code([code, ExitCode.INCOMPLETE])


def report_together(finished: Sequence[Conclusion], not_run_names: Sequence[str], ui: Ui) -> int:
    """Return the exit code of the whole run; if it has several suites, also print and write their combined verdict."""
    codes = [suite_code(item) for item in finished]
    if len(codes) + len(not_run_names) == 1:
        return codes[0]
    code = worst_exit_code(codes + ([ExitCode.STOPPED] if not_run_names else []))
    for item in () if ui.flags.quiet else finished:
        ui.stdout.write(f"{verdict_line(item.report)}\n")
    if not_run_names:
        ui.stdout.write(f"not run: {one_line(', '.join(not_run_names), 1000)}\n")
    ui.stdout.flush()
    if ui.folder is not None:
        lines = tuple(_combined_line(item, ui.folder) for item in finished)
        try:
            write_combined(ui.folder.path / VERDICT_FILE, CombinedVerdict(code, lines, tuple(not_run_names)), ui.disk)
        except OSError as error:
            ui.stderr.write(f"error: {ui.folder / VERDICT_FILE}: could not be written: {error.strerror}\n")
            return worst_exit_code([code, ExitCode.INCOMPLETE])
        shown = [item for item in finished if item.written]
        if ui.reports and ui.flags.html and len(shown) > 1:
            from holodeck_action.reports.formats import write_reports

            page = dict([_page(shown, code, ui.folder / "SUITE" / RESULTS_FILE, ui)])
            write_reports(ui.folder, page, ui.note, ui.disk)
    return code


def _combined_line(concluded: Conclusion, root: GivenPath) -> SuiteVerdict:
    """Return the suite's line in the combined verdict in the folder `root`."""
    verdict, folder = concluded.verdict, concluded.folder
    return SuiteVerdict(
        suite=concluded.record.suite.name,
        folder=None if folder is None or folder == root else folder.name,
        outcome=verdict.outcome,
        exit_code=suite_code(concluded),
        reason=verdict.reason,
    )


def _write_results(
    folder: GivenPath, concluded: Conclusion, ui: Ui, related_files: RelatedFiles, *, journaled: bool
) -> GivenPath | None:
    """Write a suite's results; return the path of the record, or None if the results cannot be written."""
    verdict = concluded.verdict
    try:
        written = write_results(folder.path, concluded.record, verdict, ui.disk, related_files)
    except OSError as error:
        kept = " and the journal is kept for --resume" if journaled else ""
        ui.stderr.write(
            f"error: {folder}: results could not be written: {error.strerror}; the verdict above stands{kept}\n"
        )
        _write_verdict_only(folder, verdict, ui)
        return None
    return folder / written.name


def _write_verdict_only(folder: GivenPath, verdict: Verdict, ui: Ui) -> None:
    """Write the verdict of a run whose results cannot be written; a pass becomes incomplete."""
    if verdict.exit_code == ExitCode.PASSED:
        reason = f"{RESULTS_FILE} could not be written"
        verdict = replace(verdict, outcome="incomplete", exit_code=ExitCode.INCOMPLETE, reason=reason)
    try:
        write_verdict(folder.path / VERDICT_FILE, verdict, ui.disk)
    except OSError as error:
        ui.note(f"{folder / VERDICT_FILE}: could not be written: {error.strerror}")
