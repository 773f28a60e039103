"""The step of a workflow: it reads inputs, runs, writes log, outputs and job summary, and only then fails."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO, TypeVar

from msgspec import Struct, structs

from holodeck_action.commands.merge import merge_folders
from holodeck_action.commands.output import FinishedRun, Output, clear_suite_folders
from holodeck_action.commands.publish import read_runs
from holodeck_action.commands.suites import evaluate
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.github.annotations import annotate_problems, unannotated_reasons
from holodeck_action.github.channels import Channel, channel_lines, channel_table
from holodeck_action.github.job import page_links
from holodeck_action.github.publisher import Findings, Publication, Publisher, empty_publication, open_publisher
from holodeck_action.github.runner import (
    ChannelError,
    SuiteResult,
    annotation_commands,
    append_outputs,
    append_summary,
    error_command,
    mask_commands,
    step_outputs,
    stop_commands,
    summary_room,
)
from holodeck_action.github.surfaces import Surfaces, surfaces_from
from holodeck_action.record.folder import Claims
from holodeck_action.record.result_files import VERDICT_FILE, results_path
from holodeck_action.reports.comment.size_limit import SizeLimit
from holodeck_action.reports.custom import CustomTemplate
from holodeck_action.reports.first_lines import first_notices
from holodeck_action.reports.formats import REPORT_FILE, markdown_report
from holodeck_action.reports.page.viewer import PAGE_FILE
from holodeck_action.run.caller import Caller
from holodeck_action.run.error_reports import explain_error
from holodeck_action.run.loading import LoadedSuite, Surroundings, load_suites, require_permission
from holodeck_action.run.options.action_inputs import anchor_paths, output_dir_of, read_action_inputs
from holodeck_action.run.options.request import Request, request_from, template_of
from holodeck_action.run.preflight import prepare_suites
from holodeck_action.suite.checkout import head_commit
from holodeck_action.suite.configuration_errors import ConfigurationError, Located
from holodeck_action.text.code_spans import cell, fence
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secret_parts import SHORTEST
from holodeck_action.text.secrets import environment_secrets
from holodeck_action.text.terminal import terminal_of
from holodeck_action.workers.environment import job_environment
from holodeck_action.workers.permission import CodeAllowed

TITLE = "holodeck-action"
_PROBLEMS_SHOWN = 50_000
"""Characters of configuration errors in the job summary, which take at most four bytes each."""
_NOT_RUN_BYTES = 8000
"""Room in the job summary for 1,000 escaped characters that name suites."""


class StepEnd(Struct, frozen=True):
    """The result of the step: the suites that ran, the problems that prevented a run, or only the plan.

    `shown` is the text of the problems, for the log.
    """

    exit_code: int
    done: FinishedRun | None = None
    problems: tuple[str, ...] = ()
    located: tuple[Located, ...] = ()
    shown: str = ""
    plan: str = ""


def outputs(
    ended: StepEnd, folder: GivenPath | None, channels: Sequence[Channel], *, reports_made: bool, judged: bool
) -> dict[str, str]:
    """Return every output of the step.

    Args:
        ended: the result of the step.
        folder: the folder with verdict.json; None if there is no such folder.
        channels: results of publishing, one for each channel.
        reports_made: whether this step made the reports; reports in another run's artifact are not trusted.
        judged: whether the run has a verdict; a shard has no verdict.
    """
    done = ended.done.suites if ended.done is not None else ()
    suites = [
        SuiteResult(
            counts=suite.report.counts,
            pass_rate=suite.report.pass_rate,
            cost_usd=None if suite.report.spend.unpriced else suite.report.spend.cost_usd,
            results=_results_path(suite.folder),
            report=_path_if_written(suite.folder, REPORT_FILE) if reports_made else None,
            html=_path_if_written(suite.folder, PAGE_FILE) if reports_made else None,
        )
        for suite in done
    ]
    together = _path_if_written(folder, PAGE_FILE) if len(suites) > 1 else None
    verdict = _path_if_written(folder, VERDICT_FILE) if suites else None
    outputs = step_outputs(ended.exit_code, suites, verdict, channels, together)
    without = ended.plan or (ended.exit_code == ExitCode.PASSED and not judged)
    return {**outputs, "verdict": ""} if without else outputs


def _results_path(folder: GivenPath | None) -> str | None:
    """Return the path of this run's record as the workflow sees it; None if it was not written."""
    found = folder if folder is None else results_path(folder)
    return None if found is None or found == folder else os.path.relpath(found, found.start)


def _path_if_written(folder: GivenPath | None, name: str) -> str | None:
    """Return the path of a file of this run as the workflow sees it; None if it was not written."""
    path = None if folder is None else folder / name
    return os.path.relpath(path, path.start) if path is not None and path.path.is_file() else None


def job_summary(
    ended: StepEnd, template: CustomTemplate | None, published: Publication, room: int, run: str | None
) -> str:
    """Return the job summary, at most `room` bytes: each suite's report, or why it is missing, and the channels.

    It begins with notices about outdated comments and, if there are several suites, about gates less strict than their
    bases'. `run` is the URL of the run whose artifacts may contain the viewer's page; None if no page was written.
    """
    pages = f"\n[All cases]({run}#artifacts): `{PAGE_FILE}`, where the output folder is uploaded\n" if run else ""
    where = pages + channel_table(published.channels)
    room -= len((published.first + where).encode())
    if ended.done is None:
        problems = fence("\n".join(ended.problems) or ended.plan, _PROBLEMS_SHOWN)
        return f"{published.first}### {TITLE}: nothing was evaluated{problems}{where}"
    if ended.done.not_run:
        where = f"\n⏹️ Not run: {cell(', '.join(ended.done.not_run), 1000)}\n{where}"
        room -= _NOT_RUN_BYTES
    reports = [suite.report for suite in ended.done.suites]
    # The report of a single suite begins with them itself.
    texts = [f"{notice}\n\n" for notice in first_notices(reports)] if len(reports) > 1 else []
    room -= len("".join(texts).encode())
    for left, suite in zip(range(len(ended.done.suites), 0, -1), ended.done.suites, strict=True):
        share = room // left - 1
        # Problems of the template are in the log already, from rendering report.md.
        text = markdown_report(suite.report, template, lambda _: None, SizeLimit(share, share))
        texts.append(text + "\n")
        room -= len(texts[-1].encode())
    return "".join([published.first, *texts, where])


def failure_reasons(ended: StepEnd, channels: Sequence[Channel]) -> str:
    """Return the reasons why the step fails, as lines of plain text."""
    verdicts = [suite.verdict for suite in ended.done.suites] if ended.done is not None else []
    reasons = [
        f"{one_line(verdict.suite, 100)}: {verdict.outcome}: {one_line(verdict.reason, 1000)}"
        for verdict in verdicts
        if verdict.exit_code
    ]
    if ended.done is not None and ended.done.not_run:
        reasons.append(f"not run: {one_line(', '.join(ended.done.not_run), 1000)}")
    said = (*(one_line(problem, 1000) for problem in ended.problems), *reasons)
    # Only `require-publish` fails a step that passed.
    return "\n".join(said or channel_lines(channels)) or "see the log"


T = TypeVar("T")


class _StepRequest(Struct, frozen=True):
    """The settings of the step, read from its inputs and validated."""

    request: Request
    template: CustomTemplate | None
    surfaces: Surfaces
    publish: tuple[str, ...]
    merge: tuple[GivenPath, ...]
    summary: bool
    workspace: Path

    def in_workspace(self, caller: Caller) -> Caller:
        """Return the caller with the workspace as its current folder."""
        return replace(caller, cwd=self.workspace)


def run_step(caller: Caller) -> int:
    """Evaluate the suites that the inputs name, and publish the results.

    No text of a suite or an answer can act as a workflow command: the runner's command processing is stopped before the
    first line of the run and resumed after the last.

    Args:
        caller: its standard output is the log.

    Returns:
        The exit code of the run, adjusted by the inputs `fail-on` and `require-publish`.
    """
    with Claims() as claims:
        return _Step(caller, claims).run()


class _Step:
    """One execution of the step, which reports and ends properly even if parts of it fail."""

    def __init__(self, caller: Caller, claims: Claims) -> None:
        self._caller, self._claims = caller, claims
        self._environ, self._log = caller.environ, caller.stdout
        self._permission: Callable[[], CodeAllowed] | None = None

    def run(self) -> int:
        asked = self._attempt(self._read_inputs)
        if isinstance(asked, StepEnd) and not self._environ.get("INPUT_PUBLISH", "").strip():
            self._attempt(self._clear_output)
        publisher: Publisher | None = None
        ready: tuple[LoadedSuite, ...] | FinishedRun | StepEnd
        if isinstance(asked, StepEnd):
            ready = asked
        else:
            opened = self._attempt(lambda: self._open_publisher(asked))
            if isinstance(opened, StepEnd):
                ready = opened
            else:
                publisher = opened
                ready = self._attempt(lambda: self._load_suites(asked, opened))
        with stop_commands(self._log, lambda: secrets.token_hex(16)) as stopped:
            self._caller = replace(self._caller, group=stopped.fold_lines)
            ended = self._conclude(asked, ready)
            self._log.write(ended.shown)
            folders = (
                tuple(item.suite.folder for item in ready)
                if isinstance(ready, tuple)
                else tuple(problem.folder for problem in ended.located)
            )
            with _ignore_signals(self._caller.signals):
                published = self._publish(asked, ended, publisher, folders)
        code = ended.exit_code
        if isinstance(asked, _StepRequest):
            code = asked.request.process_exit_code(code) if ended.done is not None else code
            code = asked.surfaces.process_exit_code(code, published.channels)
        for command in annotation_commands(published.annotations, reserved=1 if code else 0):
            self._log.write(command + "\n")
        if code:
            self._log.write(error_command(TITLE, failure_reasons(ended, published.channels)) + "\n")
        return code

    def _attempt(self, call: Callable[[], T]) -> T | StepEnd:
        """Return the result of a call, or the step's end if the call fails."""
        try:
            return call()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last resort: one sentence, no traceback
            found = explain_error(error, self._environ)
            located = error.located if isinstance(error, ConfigurationError) else ()
            shown = found.to_text(terminal_of(self._log, self._environ))
            return StepEnd(found.code, problems=tuple(map(str, found.problems)), located=located, shown=shown)

    def _read_inputs(self) -> _StepRequest:
        """Read the inputs; secrets are masked before anything else is written to the log."""
        # The runner hides the job's own tokens itself.
        _mask(environment_secrets(job_environment(self._environ)), self._log)
        inputs = read_action_inputs(self._environ)
        _mask([inputs.get("github_token", "")], self._log)
        workspace = _workspace(self._caller)
        request = request_from(anchor_paths(inputs, workspace))
        _check_inside(request.output_dir, "output-dir", workspace)
        _check_inside(request.history if isinstance(request.history, GivenPath) else None, "history", workspace)
        paths = inputs.get("publish", ())
        surfaces = surfaces_from(inputs, paths or request.suites, self._environ)
        if request.dry_run or request.flags.shard is not None:
            # Nothing or a part is evaluated: a check run or a comment would say more than is known.
            surfaces = structs.replace(surfaces, comment="off", check=False, review="off")
        merge = anchor_paths({"merge": inputs.get("merge", ())}, workspace)["merge"]
        return _StepRequest(
            request, template_of(request.template), surfaces, paths, merge, inputs["summary"], workspace
        )

    def _clear_output(self) -> None:
        self._claims.clear(output_dir_of(self._environ, _workspace(self._caller), default=True))

    def _open_publisher(self, asked: _StepRequest) -> Publisher:
        return open_publisher(asked.surfaces, self._environ, self._caller.pause, evaluates=not asked.publish)

    def _load_suites(self, asked: _StepRequest, publisher: Publisher) -> tuple[LoadedSuite, ...] | FinishedRun:
        """Load the suites, or read the runs to publish, and show on GitHub that the step is in progress.

        Shards to merge are read later, after the runner's command processing has been stopped.
        """
        request = asked.request
        if asked.publish:
            publisher.begin(None)
            redactor = Redactor(environment_secrets(self._environ) | {asked.surfaces.token})
            return read_runs(asked.publish, asked.workspace, redactor)
        if asked.merge:
            publisher.begin(None)
            return ()
        if not request.dry_run:
            self._claims.clear(request.output_dir)
        code = require_permission(publisher.permission)
        self._permission = lambda: code
        there: list[Path] = []

        def begin_publishing(suites: Sequence[Path]) -> None:
            there.extend(suites)
            publisher.begin([head_commit(suite.parent) for suite in suites])
            if not request.dry_run:
                clear_suite_folders(self._claims, request.output_dir, suites, asked.workspace)

        around = self._surroundings(asked)
        try:
            loaded = load_suites(request.suites, around, allow_empty=request.allow_empty, on_found=begin_publishing)
        except ConfigurationError:
            if not there:
                # A required check that never appears would hold up the merge without a reason.
                publisher.begin([head_commit(asked.workspace)])
            raise
        _mask({secret for item in loaded for secret in item.suite.secrets}, self._log)
        return loaded

    def _conclude(
        self, asked: _StepRequest | StepEnd, ready: tuple[LoadedSuite, ...] | FinishedRun | StepEnd
    ) -> StepEnd:
        if isinstance(asked, StepEnd):
            return asked
        if isinstance(ready, StepEnd):
            return ready
        done = ready if isinstance(ready, FinishedRun) else self._attempt(lambda: self._evaluate(asked, ready))
        if isinstance(done, StepEnd):
            return done
        return StepEnd(ExitCode.PASSED, plan=done.plan) if done.plan else StepEnd(done.exit_code, done)

    def _surroundings(self, asked: _StepRequest) -> Surroundings:
        """Return the surroundings of the suites."""
        request = asked.request
        caller = asked.in_workspace(self._caller)
        return caller.surroundings(request.env_file, request.allowed, request.requirements, permission=self._permission)

    def _evaluate(self, asked: _StepRequest, loaded: tuple[LoadedSuite, ...]) -> FinishedRun:
        caller, request = asked.in_workspace(self._caller), asked.request
        output = Output.for_caller(caller, request, asked.template, caller.progress_display())
        if asked.merge:
            return merge_folders(asked.merge, output, self._claims)
        around = self._surroundings(asked)
        prepared = prepare_suites(loaded, request.flags, around)
        with caller.job() as job:
            return evaluate(prepared, request, output, self._claims, around, job)

    def _publish(
        self, asked: _StepRequest | StepEnd, ended: StepEnd, publisher: Publisher | None, folders: Sequence[Path]
    ) -> Publication:
        """Publish the results; a failed channel is reported in the log and the summary and changes no verdict."""
        environ, log = self._environ, self._log

        def note(sentence: str) -> None:
            log.write(f"note: {one_line(sentence, 1000)}\n")

        published = empty_publication(environ) if publisher is None else Publication((), ())
        if isinstance(asked, _StepRequest) and publisher is not None:
            reports = tuple(suite.report for suite in ended.done.suites) if ended.done is not None else ()
            findings = Findings(
                exit_code=ended.exit_code,
                reports=reports,
                problems=ended.problems,
                template=asked.template,
                note=note,
                marks=annotate_problems(ended.located, environ),
                unplaced=unannotated_reasons(folders, environ),
                pages=ended.done is not None and any(suite.viewed is not None for suite in ended.done.suites),
            )
            published = publisher.finish(findings)
            log.write("".join(f"{line}\n" for line in channel_lines(published.channels)))
        file, channels = environ.get("GITHUB_STEP_SUMMARY"), published.channels
        publishes = isinstance(asked, _StepRequest) and bool(asked.publish)
        sharded = isinstance(asked, _StepRequest) and asked.request.flags.shard is not None
        # A run that is only published has no verdict.json of this step.
        folder = asked.request.output_dir if isinstance(asked, _StepRequest) and not publishes else None
        template = asked.template if isinstance(asked, _StepRequest) else None
        writers: list[Callable[[], None]] = [
            lambda: append_outputs(
                environ.get("GITHUB_OUTPUT"),
                outputs(ended, folder, channels, reports_made=not publishes, judged=not sharded),
            )
        ]
        if isinstance(asked, StepEnd) or asked.summary:
            # The page of a run that is only published is in another run's artifact.
            suites = () if ended.done is None or publishes else ended.done.suites
            run = (
                page_links(environ).run if any(_path_if_written(suite.folder, PAGE_FILE) for suite in suites) else None
            )
            writers.append(
                lambda: append_summary(file, job_summary(ended, template, published, summary_room(file), run))
            )
        for write in writers:
            try:
                write()
            except ChannelError as error:
                note(str(error))
            except Exception as error:  # noqa: BLE001 - no channel hides the verdict
                for sentence in map(str, explain_error(error, environ).problems):
                    note(sentence)
        return published


def _mask(values: Iterable[str], log: TextIO) -> None:
    for command in mask_commands(values, SHORTEST):
        log.write(command + "\n")
    log.flush()


def _workspace(caller: Caller) -> Path:
    """Return the workspace with links resolved; paths in inputs, suites and outputs are relative to it."""
    given = caller.environ.get("GITHUB_WORKSPACE") or "."
    try:
        # `.` exists only in a folder that can be entered.
        os.stat(os.path.join(caller.cwd, given, "."))
    except OSError as error:
        raise ConfigurationError([f"GITHUB_WORKSPACE {given!r} cannot be entered: {error.strerror}"]) from error
    return Path(os.path.realpath(caller.cwd / given))


def _check_inside(folder: GivenPath | None, name: str, workspace: Path) -> None:
    """Raise an error for a folder outside the workspace, which is lost when the container ends."""
    if folder is not None and not folder.path.resolve().is_relative_to(workspace):
        raise ConfigurationError(
            [f"input {name}: {str(folder)!r} is outside the workspace, where later steps cannot read it"]
        )


@contextmanager
def _ignore_signals(signals: Sequence[signal.Signals]) -> Iterator[None]:
    """Ignore signals within the block, so that publishing completes: a runner sends SIGINT, SIGTERM, then SIGKILL."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
