"""Where a run writes: reports on its streams, files in its folder, and one verdict of several suites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.exit_codes import ExitCode, worst_exit_code
from holodeck_action.decide.verdict import CombinedVerdict, SuiteVerdict, Verdict
from holodeck_action.decide.written_results import Beside, write_combined, write_results, write_verdict
from holodeck_action.record.disk import DISK, Disk
from holodeck_action.record.folder import Claims, suite_folders
from holodeck_action.record.result_files import RESULTS_FILE, VERDICT_FILE
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.reports.terminal.console import show
from holodeck_action.reports.terminal.progress import Following
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import shown_folder
from holodeck_action.run.request import Request
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line
from holodeck_action.text.terminal import Terminal, terminal_of

if TYPE_CHECKING:
    from holodeck_action.reports.custom import CustomTemplate
    from holodeck_action.reports.page.viewer_index import Links, ViewedSuite
    from holodeck_action.reports.report_views import Report


class Output(Struct, frozen=True):
    """Where a run writes: reports to `stdout`, progress and problems to `stderr`, files to `folder` (None: none).

    `request` is what was asked for, options of reports among it. `template` is what report.md is made with; None for
    the built-in template. `reports` says whether reports stand beside the results. Files are written with `disk`.
    `signals` stop it in an orderly way. `progress` shows how far the run is, `terminal` is what `stdout` can show.
    `environ` are the environment variables.
    """

    stdout: TextIO
    progress: Following
    terminal: Terminal
    request: Request
    folder: GivenPath | None
    environ: Mapping[str, str]
    template: CustomTemplate | None = None
    reports: bool = True
    disk: Disk = DISK
    signals: Sequence[Signals] = ()

    @classmethod
    def of(cls, caller: Caller, request: Request, template: CustomTemplate | None, progress: Following) -> Output:
        """Return where a run of a caller writes."""
        return cls(
            caller.stdout,
            progress,
            terminal_of(caller.stdout, caller.environ),
            request,
            request.output_dir,
            caller.environ,
            template,
            disk=caller.disk or DISK,
            signals=caller.signals,
        )

    @property
    def html(self) -> bool:
        """Whether the viewer's page stands beside the results."""
        return self.reports and self.request.html

    @property
    def stderr(self) -> TextIO:
        """Where progress, notes and problems go."""
        return self.progress.stream

    @property
    def links(self) -> Links:
        """Where links of the page lead."""
        from holodeck_action.github.job import links_of

        return links_of(self.environ)

    def note(self, sentence: str) -> None:
        """Write something that the reader should know, and that changes no verdict."""
        self.stderr.write(f"note: {one_line(sentence, 1000)}\n")


class SuiteDone(Struct, frozen=True):
    """A suite that has run: what to show of it, and its line in the verdict of several.

    `folder` is where its files are (None: none were asked for), `written` whether they could be written. `viewed` is
    what the page of several suites shows of it; None where none is written.
    """

    report: Report
    verdict: SuiteVerdict
    folder: GivenPath | None
    written: bool
    viewed: ViewedSuite | None = None


class Done(Struct, frozen=True):
    """A run that has ended: its exit code, the suites that ran, and the places of those that did not.

    `plan` is what would be asked, where nothing but that was wanted.
    """

    exit_code: int
    suites: tuple[SuiteDone, ...] = ()
    not_run: tuple[str, ...] = ()
    plan: str = ""


def set_aside_earlier(claims: Claims, root: GivenPath | None, suites: Sequence[Path], cwd: Path) -> None:
    """Move what an earlier run left in the folders of suites out of the way, before anything is loaded.

    Raises:
        FolderError: another run writes into one of them.
    """
    for folder in suite_folders([(shown_folder(path.parent, cwd), path.name) for path in suites], root):
        claims.clear(folder)


def report_suite(
    concluded: Conclusion,
    folder: GivenPath | None,
    output: Output,
    beside: Beside,
    *,
    journaled: bool,
) -> SuiteDone:
    """Show what came of a suite, and write it.

    Args:
        concluded: its record, verdict and report.
        folder: where its files go; None for nowhere.
        output: where a run writes.
        beside: what stands beside its results.
        journaled: whether there is a journal to continue.
    """
    report = concluded.report
    show(report, output.stdout, output.terminal)
    with output.progress.phase("writing results"):
        return _written(concluded, folder, output, beside, journaled=journaled)


def _written(
    concluded: Conclusion, folder: GivenPath | None, output: Output, beside: Beside, *, journaled: bool
) -> SuiteDone:
    record, verdict, report = concluded.record, concluded.verdict, concluded.report
    code = verdict.exit_code
    results = None if folder is None else _write_results(folder, concluded, output, beside, journaled=journaled)
    written = folder is None or results is not None
    base = None if beside.base is None else beside.base.results.record
    viewed: ViewedSuite | None = None
    if folder is not None and written and output.html:
        from holodeck_action.reports.page.viewer_index import ViewedSuite

        viewed = ViewedSuite(concluded, base)
    if folder is not None and results is not None and output.reports:
        from holodeck_action.reports.formats import write_reports

        write_reports(folder, _reports(report, viewed, results, output), output.note, output.disk)
    if not written:
        # Results nobody can read are infrastructure trouble: never a pass.
        code = worst_exit_code([code, ExitCode.INCOMPLETE])
    suite_verdict = SuiteVerdict(
        suite=record.suite.name,
        folder=None if folder is None or folder == output.folder else folder.name,
        outcome=verdict.outcome,
        exit_code=code,
        reason=verdict.reason,
    )
    return SuiteDone(report, suite_verdict, folder, written, viewed)


def _reports(
    report: Report, viewed: ViewedSuite | None, results: GivenPath, output: Output
) -> dict[str, Callable[[], Iterable[bytes]]]:
    """Return what makes each report of a suite, by the name of its file."""
    from holodeck_action.reports.formats import JUNIT_FILE, REPORT_FILE, readable, render

    made: dict[str, Callable[[], Iterable[bytes]]] = {
        REPORT_FILE: lambda: [readable(report, output.template, output.note).encode("utf-8", "replace")],
        JUNIT_FILE: lambda: render(report, "junit"),
    }
    if viewed is not None:
        from holodeck_action.reports.page.viewer import PAGE_FILE, View, page_of

        view = View([viewed], report.exit_code, results=str(results), links=output.links)
        made[PAGE_FILE] = lambda: page_of(view)
    return made


def report_together(done: Sequence[SuiteDone], not_run: Sequence[str], output: Output) -> int:
    """Report several suites together; return the exit code of all."""
    verdicts = [item.verdict for item in done]
    if len(verdicts) + len(not_run) == 1:
        return verdicts[0].exit_code
    code = worst_exit_code([verdict.exit_code for verdict in verdicts] + ([ExitCode.STOPPED] if not_run else []))
    for verdict in verdicts:
        output.stdout.write(f"{verdict.outcome}: {one_line(verdict.suite)} ({one_line(verdict.reason, 1000)})\n")
    if not_run:
        output.stdout.write(f"not run: {one_line(', '.join(not_run), 1000)}\n")
    output.stdout.flush()
    if output.folder is not None:
        try:
            write_combined(
                output.folder.path / VERDICT_FILE, CombinedVerdict(code, tuple(verdicts), tuple(not_run)), output.disk
            )
        except OSError as error:
            output.stderr.write(f"error: {output.folder / VERDICT_FILE}: could not be written: {error.strerror}\n")
            return worst_exit_code([code, ExitCode.INCOMPLETE])
        viewed = [item.viewed for item in done if item.viewed is not None]
        if len(viewed) > 1:
            from holodeck_action.reports.formats import write_reports
            from holodeck_action.reports.page.viewer import PAGE_FILE, View, page_of

            view = View(viewed, code, results=str(output.folder / "SUITE" / RESULTS_FILE), links=output.links)
            write_reports(output.folder, {PAGE_FILE: lambda: page_of(view)}, output.note, output.disk)
    return code


def _write_results(
    folder: GivenPath, concluded: Conclusion, output: Output, beside: Beside, *, journaled: bool
) -> GivenPath | None:
    """Write a suite's results; return where the record is, None where they cannot be written."""
    verdict = concluded.verdict
    try:
        written = write_results(folder.path, concluded.record, verdict, output.disk, beside)
    except OSError as error:
        kept = " and the journal is kept for --resume" if journaled else ""
        output.stderr.write(
            f"error: {folder}: results could not be written: {error.strerror}; the verdict above stands{kept}\n"
        )
        _write_without_results(folder, verdict, output)
        return None
    return folder / written.name


def _write_without_results(folder: GivenPath, verdict: Verdict, output: Output) -> None:
    """Leave at least the verdict, which without results is never a pass."""
    if verdict.exit_code == ExitCode.PASSED:
        reason = f"{RESULTS_FILE} could not be written"
        verdict = replace(verdict, outcome="incomplete", exit_code=ExitCode.INCOMPLETE, reason=reason)
    try:
        write_verdict(folder.path / VERDICT_FILE, verdict, output.disk)
    except OSError as error:
        output.note(f"{folder / VERDICT_FILE}: could not be written: {error.strerror}")
