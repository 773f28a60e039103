"""The step of a workflow: inputs in; log, outputs, job summary and exit code out; report first, fail last."""

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
from holodeck_action.commands.output import Done, Output, set_aside_earlier
from holodeck_action.commands.publish import read_runs
from holodeck_action.commands.suites import evaluate
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.github.annotations import annotate_problems, unplaced
from holodeck_action.github.channels import Channel, lines, table
from holodeck_action.github.job import links_of
from holodeck_action.github.publisher import Findings, Publication, Publisher, nothing_published, open_publisher
from holodeck_action.github.runner import (
    ChannelError,
    SuiteResult,
    annotation_commands,
    append_outputs,
    append_summary,
    commands_stopped,
    error_command,
    mask_commands,
    step_outputs,
    summary_room,
)
from holodeck_action.github.surfaces import Surfaces, surfaces_from
from holodeck_action.record.folder import Claims
from holodeck_action.record.result_files import VERDICT_FILE, results_place
from holodeck_action.reports.comment.size_limit import SizeLimit
from holodeck_action.reports.custom import CustomTemplate
from holodeck_action.reports.first_lines import first_notices
from holodeck_action.reports.formats import REPORT_FILE, readable
from holodeck_action.reports.page.viewer import PAGE_FILE
from holodeck_action.run.caller import Caller
from holodeck_action.run.error_reports import explained
from holodeck_action.run.loading import Loaded, Surroundings, load_suites, permitted
from holodeck_action.run.options.action_inputs import anchored, output_dir_of, read_action_inputs
from holodeck_action.run.preflight import prepare
from holodeck_action.run.request import Request, request_from, template_of
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


class Ended(Struct, frozen=True):
    """How the step ended: with suites that ran, the problems that kept them from running, or the plan alone.

    `shown` is what the log says of the problems.
    """

    exit_code: int
    done: Done | None = None
    problems: tuple[str, ...] = ()
    located: tuple[Located, ...] = ()
    shown: str = ""
    plan: str = ""


def outputs(
    ended: Ended, folder: GivenPath | None, channels: Sequence[Channel], *, reports_made: bool, judged: bool
) -> dict[str, str]:
    """Return every output of the step.

    Args:
        ended: how it ended.
        folder: where verdict.json is; None for nowhere.
        channels: where it was published.
        reports_made: whether reports are this step's own: one that another run's artifact brings may be anything.
        judged: whether there is a verdict where something ran: a shard has none.
    """
    done = ended.done.suites if ended.done is not None else ()
    suites = [
        SuiteResult(
            counts=suite.report.counts,
            pass_rate=suite.report.pass_rate,
            cost_usd=None if suite.report.spend.unpriced else suite.report.spend.cost_usd,
            results=_results(suite.folder),
            report=_written(suite.folder, REPORT_FILE) if reports_made else None,
            html=_written(suite.folder, PAGE_FILE) if reports_made else None,
        )
        for suite in done
    ]
    together = _written(folder, PAGE_FILE) if len(suites) > 1 else None
    verdict = _written(folder, VERDICT_FILE) if suites else None
    outputs = step_outputs(ended.exit_code, suites, verdict, channels, together)
    without = ended.plan or (ended.exit_code == ExitCode.PASSED and not judged)
    return {**outputs, "verdict": ""} if without else outputs


def _results(folder: GivenPath | None) -> str | None:
    """Return the path of the record of this run as the workflow sees it; None when it was not written."""
    found = folder if folder is None else results_place(folder)
    return None if found is None or found == folder else os.path.relpath(found, found.start)


def _written(folder: GivenPath | None, name: str) -> str | None:
    """Return the path of a file of this run as the workflow sees it; None when it was not written."""
    path = None if folder is None else folder / name
    return os.path.relpath(path, path.start) if path is not None and path.path.is_file() else None


def summary(ended: Ended, template: CustomTemplate | None, published: Publication, room: int, run: str | None) -> str:
    """Return the job summary of at most `room` bytes: every suite's report, or why there is none, and the channels.

    It begins with the comments that are out of date, then with what several suites ask for less than their bases.
    `run` is the address of the run whose artifacts may hold the viewer's page; None where none was written.
    """
    pages = f"\n[All cases]({run}#artifacts): `{PAGE_FILE}`, where the output folder is uploaded\n" if run else ""
    where = pages + table(published.channels)
    room -= len((published.first + where).encode())
    if ended.done is None:
        problems = fence("\n".join(ended.problems) or ended.plan, _PROBLEMS_SHOWN)
        return f"{published.first}### {TITLE}: nothing was evaluated{problems}{where}"
    if ended.done.not_run:
        where = f"\n⏹️ Not run: {cell(', '.join(ended.done.not_run), 1000)}\n{where}"
        room -= _NOT_RUN_BYTES
    reports = [suite.report for suite in ended.done.suites]
    # Of one suite, its report begins with it.
    texts = [f"{notice}\n\n" for notice in first_notices(reports)] if len(reports) > 1 else []
    room -= len("".join(texts).encode())
    for left, suite in zip(range(len(ended.done.suites), 0, -1), ended.done.suites, strict=True):
        share = room // left - 1
        # What is wrong with the template is in the log since report.md was made.
        text = readable(suite.report, template, lambda _: None, SizeLimit(share, share))
        texts.append(text + "\n")
        room -= len(texts[-1].encode())
    return "".join([published.first, *texts, where])


def why(ended: Ended, channels: Sequence[Channel]) -> str:
    """Say in plain lines why the step fails."""
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
    return "\n".join(said or lines(channels)) or "see the log"


T = TypeVar("T")


class _Asked(Struct, frozen=True):
    """What the inputs ask for, valid."""

    request: Request
    template: CustomTemplate | None
    surfaces: Surfaces
    publish: tuple[str, ...]
    merge: tuple[GivenPath, ...]
    summary: bool
    workspace: Path

    def caller(self, caller: Caller) -> Caller:
        """Return a caller in the workspace."""
        return replace(caller, cwd=self.workspace)


def run_step(caller: Caller) -> int:
    """Evaluate what the inputs ask for, and publish it.

    No text of a suite or an answer becomes a workflow command: commands are stopped from before the first line of the
    run until after the last.

    Args:
        caller: whose standard output is the log.

    Returns:
        The exit code of the run, as the inputs `fail-on` and `require-publish` want it.
    """
    with Claims() as claims:
        return _Step(caller, claims).run()


class _Step:
    """One step, which ends in order whatever fails."""

    def __init__(self, caller: Caller, claims: Claims) -> None:
        self._caller, self._claims = caller, claims
        self._environ, self._log = caller.environ, caller.stdout
        self._permission: Callable[[], CodeAllowed] | None = None

    def run(self) -> int:
        asked = self._attempt(self._ask)
        if isinstance(asked, Ended) and not self._environ.get("INPUT_PUBLISH", "").strip():
            self._attempt(self._clear)
        publisher: Publisher | None = None
        ready: tuple[Loaded, ...] | Done | Ended
        if isinstance(asked, Ended):
            ready = asked
        else:
            opened = self._attempt(lambda: self._open(asked))
            if isinstance(opened, Ended):
                ready = opened
            else:
                publisher = opened
                ready = self._attempt(lambda: self._load(asked, opened))
        with commands_stopped(self._log, lambda: secrets.token_hex(16)) as stopped:
            self._caller = replace(self._caller, group=stopped.grouped)
            ended = self._conclude(asked, ready)
            self._log.write(ended.shown)
            folders = (
                tuple(item.suite.folder for item in ready)
                if isinstance(ready, tuple)
                else tuple(problem.folder for problem in ended.located)
            )
            with _undisturbed(self._caller.signals):
                published = self._publish(asked, ended, publisher, folders)
        code = ended.exit_code
        if isinstance(asked, _Asked):
            code = asked.request.process_exit_code(code) if ended.done is not None else code
            code = asked.surfaces.process_exit_code(code, published.channels)
        for command in annotation_commands(published.annotations, reserved=1 if code else 0):
            self._log.write(command + "\n")
        if code:
            self._log.write(error_command(TITLE, why(ended, published.channels)) + "\n")
        return code

    def _attempt(self, call: Callable[[], T]) -> T | Ended:
        """Return what a call returns, or how the step ends when it cannot."""
        try:
            return call()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last resort: one sentence, no traceback
            found = explained(error, self._environ)
            located = error.located if isinstance(error, ConfigurationError) else ()
            shown = found.shown(terminal_of(self._log, self._environ))
            return Ended(found.code, problems=tuple(map(str, found.problems)), located=located, shown=shown)

    def _ask(self) -> _Asked:
        """Read the inputs; what is secret is hidden in the log before anything else is in it."""
        # The runner hides the job's own tokens itself.
        _hide(environment_secrets(job_environment(self._environ)), self._log)
        inputs = read_action_inputs(self._environ)
        _hide([inputs.get("github_token", "")], self._log)
        workspace = _workspace(self._caller)
        request = request_from(anchored(inputs, workspace))
        _check_inside(request.output_dir, "output-dir", workspace)
        _check_inside(request.history if isinstance(request.history, GivenPath) else None, "history", workspace)
        paths = inputs.get("publish", ())
        surfaces = surfaces_from(inputs, paths or request.suites, self._environ)
        if request.dry_run or request.flags.shard is not None:
            # Nothing or a part is evaluated: a check run or a comment would say more than is known.
            surfaces = structs.replace(surfaces, comment="off", check=False, review="off")
        merge = anchored({"merge": inputs.get("merge", ())}, workspace)["merge"]
        return _Asked(request, template_of(request.template), surfaces, paths, merge, inputs["summary"], workspace)

    def _clear(self) -> None:
        self._claims.clear(output_dir_of(self._environ, _workspace(self._caller), default=True))

    def _open(self, asked: _Asked) -> Publisher:
        return open_publisher(asked.surfaces, self._environ, self._caller.pause, evaluates=not asked.publish)

    def _load(self, asked: _Asked, publisher: Publisher) -> tuple[Loaded, ...] | Done:
        """Load the suites, or read the runs that are only to be published, and say on GitHub that this is under way.

        Shards that are to be merged are read later, when nothing in the log can be a command any more.
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
        code = permitted(publisher.permission)
        self._permission = lambda: code
        there: list[Path] = []

        def found(suites: Sequence[Path]) -> None:
            there.extend(suites)
            publisher.begin([head_commit(suite.parent) for suite in suites])
            if not request.dry_run:
                set_aside_earlier(self._claims, request.output_dir, suites, asked.workspace)

        around = self._around(asked)
        try:
            loaded = load_suites(request.suites, around, allow_empty=request.allow_empty, found=found)
        except ConfigurationError:
            if not there:
                # A required check that never appears would hold up the merge without a reason.
                publisher.begin([head_commit(asked.workspace)])
            raise
        _hide({secret for item in loaded for secret in item.suite.secrets}, self._log)
        return loaded

    def _conclude(self, asked: _Asked | Ended, ready: tuple[Loaded, ...] | Done | Ended) -> Ended:
        if isinstance(asked, Ended):
            return asked
        if isinstance(ready, Ended):
            return ready
        done = ready if isinstance(ready, Done) else self._attempt(lambda: self._evaluate(asked, ready))
        if isinstance(done, Ended):
            return done
        return Ended(ExitCode.PASSED, plan=done.plan) if done.plan else Ended(done.exit_code, done)

    def _around(self, asked: _Asked) -> Surroundings:
        """Return what the outside world says to suites."""
        request = asked.request
        caller = asked.caller(self._caller)
        return caller.surroundings(request.env_file, request.allowed, request.requirements, permission=self._permission)

    def _evaluate(self, asked: _Asked, loaded: tuple[Loaded, ...]) -> Done:
        caller, request = asked.caller(self._caller), asked.request
        output = Output.of(caller, request, asked.template, caller.following())
        if asked.merge:
            return merge_folders(asked.merge, output, self._claims)
        around = self._around(asked)
        prepared = prepare(loaded, request.flags, around)
        with caller.job() as job:
            return evaluate(prepared, request, output, self._claims, around, job)

    def _publish(
        self, asked: _Asked | Ended, ended: Ended, publisher: Publisher | None, folders: Sequence[Path]
    ) -> Publication:
        """Publish what was found; a channel that fails is named in the log and the summary and changes no verdict."""
        environ, log = self._environ, self._log

        def note(sentence: str) -> None:
            log.write(f"note: {one_line(sentence, 1000)}\n")

        published = nothing_published(environ) if publisher is None else Publication((), ())
        if isinstance(asked, _Asked) and publisher is not None:
            reports = tuple(suite.report for suite in ended.done.suites) if ended.done is not None else ()
            findings = Findings(
                exit_code=ended.exit_code,
                reports=reports,
                problems=ended.problems,
                template=asked.template,
                note=note,
                marks=annotate_problems(ended.located, environ),
                unplaced=unplaced(folders, environ),
                pages=ended.done is not None and any(suite.viewed is not None for suite in ended.done.suites),
            )
            published = publisher.finish(findings)
            log.write("".join(f"{line}\n" for line in lines(published.channels)))
        file, channels = environ.get("GITHUB_STEP_SUMMARY"), published.channels
        publishes = isinstance(asked, _Asked) and bool(asked.publish)
        sharded = isinstance(asked, _Asked) and asked.request.flags.shard is not None
        # What was only published has no verdict.json of this step.
        folder = asked.request.output_dir if isinstance(asked, _Asked) and not publishes else None
        template = asked.template if isinstance(asked, _Asked) else None
        writers: list[Callable[[], None]] = [
            lambda: append_outputs(
                environ.get("GITHUB_OUTPUT"),
                outputs(ended, folder, channels, reports_made=not publishes, judged=not sharded),
            )
        ]
        if isinstance(asked, Ended) or asked.summary:
            # What is only published stands in another run's artifact.
            suites = () if ended.done is None or publishes else ended.done.suites
            run = links_of(environ).run if any(_written(suite.folder, PAGE_FILE) for suite in suites) else None
            writers.append(lambda: append_summary(file, summary(ended, template, published, summary_room(file), run)))
        for write in writers:
            try:
                write()
            except ChannelError as error:
                note(str(error))
            except Exception as error:  # noqa: BLE001 - no channel hides the verdict
                for sentence in map(str, explained(error, environ).problems):
                    note(sentence)
        return published


def _hide(values: Iterable[str], log: TextIO) -> None:
    for command in mask_commands(values, SHORTEST):
        log.write(command + "\n")
    log.flush()


def _workspace(caller: Caller) -> Path:
    """Return the workspace, links followed: what paths in inputs, suites and outputs are relative to."""
    given = caller.environ.get("GITHUB_WORKSPACE") or "."
    try:
        # Only what can be entered has an entry for itself.
        os.stat(os.path.join(caller.cwd, given, "."))
    except OSError as error:
        raise ConfigurationError([f"GITHUB_WORKSPACE {given!r} cannot be entered: {error.strerror}"]) from error
    return Path(os.path.realpath(caller.cwd / given))


def _check_inside(folder: GivenPath | None, name: str, workspace: Path) -> None:
    """Refuse a folder that is gone when the container ends."""
    if folder is not None and not folder.path.resolve().is_relative_to(workspace):
        raise ConfigurationError(
            [f"input {name}: {str(folder)!r} is outside the workspace, where later steps cannot read it"]
        )


@contextmanager
def _undisturbed(signals: Sequence[signal.Signals]) -> Iterator[None]:
    """Publish to the end once the verdict stands: the runner cancels with SIGINT, then SIGTERM, then by killing."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
