"""The outputs of a run: reports on the streams, files in a folder, and the combined verdict of several suites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.exit_codes import ExitCode, worst_exit_code
from holodeck_action.decide.verdict import CombinedVerdict, SuiteVerdict, Verdict
from holodeck_action.decide.written_results import RelatedFiles, write_combined, write_results, write_verdict
from holodeck_action.record.disk import DISK, Disk
from holodeck_action.record.folder import Claims, suite_folders
from holodeck_action.record.result_files import RESULTS_FILE, VERDICT_FILE
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.reports.headline import verdict_line
from holodeck_action.reports.terminal.console import print_report
from holodeck_action.reports.terminal.progress import ProgressDisplay
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import display_folder
from holodeck_action.run.options.settings import Flags
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line
from holodeck_action.text.terminal import Terminal, terminal_of

if TYPE_CHECKING:
    from holodeck_action.reports.custom import CustomTemplate
    from holodeck_action.reports.page.viewer_index import PageLinks, ViewedSuite
    from holodeck_action.reports.report_views import Report


class Output(Struct, frozen=True):
    """The outputs of a run: reports go to `stdout`, progress and problems to `stderr`, files to `folder` (if not None).

    `flags` has the options. `template` renders report.md; None to use the built-in template. `reports` is whether
    reports are written in addition to the results. `disk` writes the files. `signals` stop the run in an orderly way.
    `progress` shows the progress, `terminal` describes the capabilities of `stdout`. `environ` has the environment
    variables. `on_conclusion` is called with the conclusion of each suite.
    """

    stdout: TextIO
    progress: ProgressDisplay
    terminal: Terminal
    flags: Flags
    folder: GivenPath | None
    environ: Mapping[str, str]
    template: CustomTemplate | None = None
    reports: bool = True
    disk: Disk = DISK
    signals: Sequence[Signals] = ()
    on_conclusion: Callable[[Conclusion], None] = lambda concluded: None

    @classmethod
    def for_caller(
        cls, caller: Caller, flags: Flags, template: CustomTemplate | None, progress: ProgressDisplay
    ) -> Output:
        """Create the outputs of a run that the caller started."""
        return cls(
            caller.stdout,
            progress,
            terminal_of(caller.stdout, caller.environ),
            flags,
            flags.output_dir,
            caller.environ,
            template,
            disk=caller.disk or DISK,
            signals=caller.signals,
        )

    @property
    def writes_page(self) -> bool:
        """Whether the viewer's page is written to the output folder."""
        return self.reports and self.flags.html

    @property
    def stderr(self) -> TextIO:
        """The stream for progress, notes and problems."""
        return self.progress.stream

    @property
    def links(self) -> PageLinks:
        """The URLs that the page links to."""
        from holodeck_action.github.job import page_links

        return page_links(self.environ)

    def note(self, sentence: str) -> None:
        """Write a note of one sentence to standard error."""
        self.stderr.write(f"note: {one_line(sentence, 1000)}\n")


class FinishedSuite(Struct, frozen=True):
    """A suite that has run: its report, and its line in the combined verdict.

    `folder` contains its files (None if no files were requested), `written` is whether they could be written. `viewed`
    is its part of the viewer's page for several suites; None if no page is written.
    """

    report: Report
    verdict: SuiteVerdict
    folder: GivenPath | None
    written: bool
    viewed: ViewedSuite | None = None


class FinishedRun(Struct, frozen=True):
    """A run that has ended: its exit code, the suites that ran, and the paths of the suites that did not run.

    `plan` is the text of the plan if only a plan was requested, and else empty.
    """

    exit_code: int
    suites: tuple[FinishedSuite, ...] = ()
    not_run: tuple[str, ...] = ()
    plan: str = ""


def clear_suite_folders(claims: Claims, output_root: GivenPath | None, suites: Sequence[Path], cwd: Path) -> None:
    """Move an earlier run's files away from the suites' output folders, before anything is loaded.

    Raises:
        FolderError: another run is writing to one of the folders.
    """
    for folder in suite_folders([(display_folder(path.parent, cwd), path.name) for path in suites], output_root):
        claims.clear(folder)


def report_suite(
    conclusion: Conclusion,
    folder: GivenPath | None,
    output: Output,
    related_files: RelatedFiles,
    *,
    journaled: bool,
) -> FinishedSuite:
    """Print the report of a suite, and write its files.

    Args:
        conclusion: the suite's record, verdict and report.
        folder: the folder for the suite's files; None to write no files.
        output: the outputs of the run.
        related_files: further data to write to the folder with the results.
        journaled: whether a journal exists from which the run can be resumed.
    """
    report = conclusion.report
    output.on_conclusion(conclusion)
    if output.flags.verbose:
        from holodeck_action.reports.terminal.every_case import every_case_lines

        lines = every_case_lines(conclusion.record, conclusion.verdict, report.folder)
        output.stdout.writelines(f"{line}\n" for line in lines)
    print_report(report, output.stdout, output.terminal)
    with output.progress.phase("writing results"):
        return _write_suite(conclusion, folder, output, related_files, journaled=journaled)


def _write_suite(
    conclusion: Conclusion, folder: GivenPath | None, output: Output, related_files: RelatedFiles, *, journaled: bool
) -> FinishedSuite:
    record, verdict, report = conclusion.record, conclusion.verdict, conclusion.report
    code = verdict.exit_code
    results = None if folder is None else _write_results(folder, conclusion, output, related_files, journaled=journaled)
    written = folder is None or results is not None
    base = None if related_files.base is None else related_files.base.results.record
    viewed: ViewedSuite | None = None
    if folder is not None and written and output.writes_page:
        from holodeck_action.reports.page.viewer_index import ViewedSuite

        viewed = ViewedSuite(conclusion, base)
    if folder is not None and results is not None and output.reports:
        from holodeck_action.reports.formats import write_reports

        write_reports(folder, _report_writers(report, viewed, results, output), output.note, output.disk)
    if not written:
        # Unreadable results are infrastructure trouble: never a pass.
        code = worst_exit_code([code, ExitCode.INCOMPLETE])
    suite_verdict = SuiteVerdict(
        suite=record.suite.name,
        folder=None if folder is None or folder == output.folder else folder.name,
        outcome=verdict.outcome,
        exit_code=code,
        reason=verdict.reason,
    )
    return FinishedSuite(report, suite_verdict, folder, written, viewed)


def _report_writers(
    report: Report, viewed_suite: ViewedSuite | None, results: GivenPath, output: Output
) -> dict[str, Callable[[], Iterable[bytes]]]:
    """Return the functions that write the reports of a suite, by file name."""
    from holodeck_action.reports.formats import JUNIT_FILE, REPORT_FILE, markdown_report, render

    made: dict[str, Callable[[], Iterable[bytes]]] = {
        REPORT_FILE: lambda: [markdown_report(report, output.template, output.note).encode("utf-8", "replace")],
        JUNIT_FILE: lambda: render(report, "junit"),
    }
    if viewed_suite is not None:
        from holodeck_action.reports.page.viewer import PAGE_FILE, PageView, render_page

        view = PageView([viewed_suite], report.exit_code, results=str(results), links=output.links)
        made[PAGE_FILE] = lambda: render_page(view)
    return made


def report_together(finished: Sequence[FinishedSuite], not_run_names: Sequence[str], output: Output) -> int:
    """Return the exit code of the whole run; if it has several suites, also print and write their combined verdict."""
    verdicts = [item.verdict for item in finished]
    if len(verdicts) + len(not_run_names) == 1:
        return verdicts[0].exit_code
    code = worst_exit_code([verdict.exit_code for verdict in verdicts] + ([ExitCode.STOPPED] if not_run_names else []))
    for item in finished:
        output.stdout.write(f"{verdict_line(item.report)}\n")
    if not_run_names:
        output.stdout.write(f"not run: {one_line(', '.join(not_run_names), 1000)}\n")
    output.stdout.flush()
    if output.folder is not None:
        try:
            write_combined(
                output.folder.path / VERDICT_FILE,
                CombinedVerdict(code, tuple(verdicts), tuple(not_run_names)),
                output.disk,
            )
        except OSError as error:
            output.stderr.write(f"error: {output.folder / VERDICT_FILE}: could not be written: {error.strerror}\n")
            return worst_exit_code([code, ExitCode.INCOMPLETE])
        viewed = [item.viewed for item in finished if item.viewed is not None]
        if len(viewed) > 1:
            from holodeck_action.reports.formats import write_reports
            from holodeck_action.reports.page.viewer import PAGE_FILE, PageView, render_page

            view = PageView(viewed, code, results=str(output.folder / "SUITE" / RESULTS_FILE), links=output.links)
            write_reports(output.folder, {PAGE_FILE: lambda: render_page(view)}, output.note, output.disk)
    return code


def _write_results(
    folder: GivenPath, conclusion: Conclusion, output: Output, related_files: RelatedFiles, *, journaled: bool
) -> GivenPath | None:
    """Write a suite's results; return the path of the record, or None if the results cannot be written."""
    verdict = conclusion.verdict
    try:
        written = write_results(folder.path, conclusion.record, verdict, output.disk, related_files)
    except OSError as error:
        kept = " and the journal is kept for --resume" if journaled else ""
        output.stderr.write(
            f"error: {folder}: results could not be written: {error.strerror}; the verdict above stands{kept}\n"
        )
        _write_verdict_only(folder, verdict, output)
        return None
    return folder / written.name


def _write_verdict_only(folder: GivenPath, verdict: Verdict, output: Output) -> None:
    """Write the verdict of a run whose results cannot be written; a pass becomes incomplete."""
    if verdict.exit_code == ExitCode.PASSED:
        reason = f"{RESULTS_FILE} could not be written"
        verdict = replace(verdict, outcome="incomplete", exit_code=ExitCode.INCOMPLETE, reason=reason)
    try:
        write_verdict(folder.path / VERDICT_FILE, verdict, output.disk)
    except OSError as error:
        output.note(f"{folder / VERDICT_FILE}: could not be written: {error.strerror}")
