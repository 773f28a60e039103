"""The step of a workflow: inputs in; log, outputs, job summary and exit code out; report first, fail last."""

from __future__ import annotations

import io
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO, TypeVar

from holodeck_action.commands.caller import Caller
from holodeck_action.commands.failures import EXIT_INTERNAL, explained
from holodeck_action.commands.process import collect_rarely, current_folder, hide_tokens, leave
from holodeck_action.commands.publish import read_runs
from holodeck_action.commands.run import Done, Output, plan_suites, run_suites, set_aside_earlier
from holodeck_action.github.action_inputs import InputError, anchored, output_dir_of, read_action_inputs
from holodeck_action.github.annotations import annotate_problems
from holodeck_action.github.channels import Channel, lines, table
from holodeck_action.github.placement import unplaced
from holodeck_action.github.publisher import Findings, Publication, Publisher, open_publisher
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
from holodeck_action.prepare.preflight import Loaded, Surroundings, find_suites, load_all, prepare, template_of
from holodeck_action.prepare.request import Request, request_from
from holodeck_action.reports.custom import CustomTemplate
from holodeck_action.reports.formats import REPORT_FILE, readable
from holodeck_action.reports.size_limit import SizeLimit
from holodeck_action.results.folder import Claims
from holodeck_action.results.result_files import RESULTS_FILE, VERDICT_FILE
from holodeck_action.results.verdict import EXIT_PASSED
from holodeck_action.suite.checkout import head_commit
from holodeck_action.suite.configuration_errors import ConfigurationError, Located
from holodeck_action.text.code_spans import cell, fence
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import SHORTEST, environment_secrets
from holodeck_action.text.streams import lasting_streams
from holodeck_action.workers.environment import job_environment

T = TypeVar("T")

TITLE = "holodeck-action"
_PROBLEMS_SHOWN = 50_000
"""Characters of configuration errors in the job summary, which take at most four bytes each."""
_NOT_RUN_BYTES = 8000
"""Room in the job summary for 1,000 escaped characters that name suites."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the inputs ask for, valid."""

    request: Request
    template: CustomTemplate | None
    surfaces: Surfaces
    publish: tuple[str, ...]
    summary: bool
    workspace: Path


@dataclass(frozen=True, slots=True)
class _Ready:
    """The suites that the inputs name, loaded."""

    around: Surroundings
    loaded: tuple[Loaded, ...]


@dataclass(frozen=True, slots=True)
class _Ended:
    """How the step ended: with suites that ran, the problems that kept them from running, or the plan alone."""

    exit_code: int
    done: Done | None = None
    problems: tuple[str, ...] = ()
    located: tuple[Located, ...] = ()
    plan: str = ""


def start() -> None:
    """Run the step as this process, and exit with its code."""
    # However the step was started, a cancellation ends it in order.
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        signal.signal(number, signal.default_int_handler)
    collect_rarely()
    log, _ = lasting_streams()
    # The runner reads two streams in no fixed order; in one, "stop commands" comes before what it is meant for.
    os.dup2(1, 2)
    log.reconfigure(encoding="utf-8", line_buffering=True)
    sys.stderr = log
    if (told := hide_tokens()) is not None:
        log.write(f"note: {told}\n")
    code = main((), dict(os.environ), current_folder(), sys.stdin, log, log, signals=signals)
    log.flush()
    # A verdict that nobody can read is never a pass.
    leave(code or (EXIT_INTERNAL if log.failure is not None else 0))


def main(
    argv: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path,
    stdin: TextIO,
    stdout: TextIO,
    stderr: TextIO,
    *,
    pause: Callable[[float], None] = time.sleep,
    signals: Sequence[signal.Signals] = (),
) -> int:
    """Evaluate what the inputs ask for, and publish it.

    No text of a suite or an answer becomes a workflow command: commands are stopped from before the first line of the
    run until after the last.

    Args:
        argv: none are read: a step has inputs.
        environ: the environment of the step.
        cwd: an absolute folder; the workspace, unless the runner names another one.
        stdin: what is typed or piped in.
        stdout: takes the log.
        stderr: not written to: the runner reads two streams in no fixed order.
        pause: waits so many seconds, between calls to GitHub.
        signals: those that end a run in an orderly way, and do not disturb publishing.

    Returns:
        The exit code of the process: the run's, as the inputs `fail-on` and `require-publish` want it.
    """
    caller = Caller(environ, cwd, stdin, stdout, stderr, pause=pause, signals=signals)
    with Claims() as claims:
        return _run_step(caller, claims)


def _run_step(caller: Caller, claims: Claims) -> int:
    environ, log = caller.environ, caller.stdout
    asked = _attempt(lambda: _ask(caller), environ)
    if isinstance(asked, _Ended) and not environ.get("INPUT_PUBLISH", "").strip():
        _attempt(lambda: claims.clear(output_dir_of(environ, _workspace(caller), default=True)), environ)
    publisher: Publisher | None = None
    ready: _Ready | Done | _Ended
    if isinstance(asked, _Ended):
        ready = asked
    else:
        opened = _attempt(
            lambda: open_publisher(asked.surfaces, environ, caller.pause, evaluates=not asked.publish), environ
        )
        if isinstance(opened, _Ended):
            ready = opened
        else:
            publisher = opened
            ready = _attempt(lambda: _load(asked, opened, caller, claims), environ)
    with commands_stopped(log, secrets.token_hex(16)):
        ended = _concluded(asked, ready, caller, claims)
        for problem in ended.problems:
            log.write(f"error: {problem}\n")
        with _undisturbed(caller.signals):
            published = _publish(asked, ended, publisher, _folders(ready, ended), environ, log)
    code = ended.exit_code
    if isinstance(asked, _Asked):
        code = asked.request.process_exit_code(code) if ended.done is not None else code
        code = asked.surfaces.process_exit_code(code, published.channels)
    for command in annotation_commands(published.annotations, reserved=1 if code else 0):
        log.write(command + "\n")
    if code:
        log.write(error_command(TITLE, _why(ended, published)) + "\n")
    return code


def _attempt(call: Callable[[], T], environ: Mapping[str, str]) -> T | _Ended:
    """Return what a call returns, or how the step ends when it cannot."""
    try:
        return call()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last resort: one sentence, no traceback
        code, problems = explained(error, environ)
        located = error.located if isinstance(error, ConfigurationError) else ()
        return _Ended(code, problems=problems, located=located)


def _ask(caller: Caller) -> _Asked:
    """Read the inputs; what is secret is hidden in the log before anything else is in it."""
    environ, log = caller.environ, caller.stdout
    # The runner hides the job's own tokens itself.
    _hide(environment_secrets(job_environment(environ)), log)
    inputs = _inputs(environ)
    _hide([inputs.get("github_token", "")], log)
    workspace = _workspace(caller)
    request = request_from(anchored(inputs, workspace))
    _check_inside(request.output_dir, workspace)
    paths = inputs.get("publish", ())
    surfaces = surfaces_from(inputs, paths or request.suites, environ)
    if request.dry_run:
        # Nothing is evaluated: a check run or a comment would say more than is known.
        surfaces = replace(surfaces, comment="off", check=False, review="off")
    return _Asked(
        request=request,
        template=template_of(request.template),
        surfaces=surfaces,
        publish=paths,
        summary=inputs["summary"],
        workspace=workspace,
    )


def _load(asked: _Asked, publisher: Publisher, caller: Caller, claims: Claims) -> _Ready | Done:
    """Load the suites, or read the runs that are only to be published, and say on GitHub that this is under way."""
    if asked.publish:
        publisher.begin(None)
        redactor = Redactor(environment_secrets(caller.environ) | {asked.surfaces.token})
        return read_runs(asked.publish, asked.workspace, redactor)
    if not asked.request.dry_run:
        claims.clear(asked.request.output_dir)
    refused = publisher.refusal()
    if refused is not None:
        raise ConfigurationError([refused])
    try:
        suites = find_suites(asked.request.suites, asked.workspace, asked.request.allowed)
    except ConfigurationError:
        # A required check that never appears would hold up the merge without a reason.
        publisher.begin([head_commit(asked.workspace)])
        raise
    publisher.begin([head_commit(suite.parent) for suite in suites])
    if not asked.request.dry_run:
        set_aside_earlier(claims, asked.request.output_dir, suites, asked.workspace)
    around = replace(caller, cwd=asked.workspace).surroundings(asked.request.env_file, asked.request.allowed)
    loaded = load_all(suites, around, allow_empty=asked.request.allow_empty)
    _hide({secret for item in loaded for secret in item.suite.secrets}, caller.stdout)
    return _Ready(around, loaded)


def _concluded(asked: _Asked | _Ended, ready: _Ready | Done | _Ended, caller: Caller, claims: Claims) -> _Ended:
    if isinstance(asked, _Ended):
        return asked
    if isinstance(ready, _Ready):
        return _attempt(lambda: _evaluate(asked, ready, caller, claims), ready.around.environ)
    return _Ended(ready.exit_code, ready) if isinstance(ready, Done) else ready


def _evaluate(asked: _Asked, ready: _Ready, caller: Caller, claims: Claims) -> _Ended:
    log = caller.stdout
    prepared = prepare(ready.loaded, asked.request.flags, ready.around)
    if asked.request.dry_run:
        plan = io.StringIO()
        plan_suites(prepared, asked.request.flags, plan)
        log.write(plan.getvalue())
        return _Ended(EXIT_PASSED, plan=plan.getvalue())
    output = Output(log, log, asked.request.output_dir, asked.template, signals=caller.signals)
    done = run_suites(prepared, asked.request.flags, output, claims, resume=asked.request.resume)
    return _Ended(done.exit_code, done)


def _inputs(environ: Mapping[str, str]) -> dict[str, Any]:
    try:
        return read_action_inputs(environ)
    except InputError as error:
        raise ConfigurationError(error.lines) from error


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


def _check_inside(folder: GivenPath | None, workspace: Path) -> None:
    """Refuse a folder that is gone when the container ends."""
    if folder is not None and not folder.path.resolve().is_relative_to(workspace):
        raise ConfigurationError(
            [f"input output-dir: {str(folder)!r} is outside the workspace, where later steps cannot read it"]
        )


def _folders(ready: _Ready | Done | _Ended, ended: _Ended) -> tuple[Path, ...]:
    """Return the folders of the suites that were evaluated, or that problems stand in."""
    if isinstance(ready, _Ready):
        return tuple(item.suite.folder for item in ready.loaded)
    return tuple(problem.folder for problem in ended.located)


def _publish(
    asked: _Asked | _Ended,
    ended: _Ended,
    publisher: Publisher | None,
    folders: Sequence[Path],
    environ: Mapping[str, str],
    log: TextIO,
) -> Publication:
    """Publish what was found; a channel that fails is told of in the log and the summary and changes no verdict."""

    def note(sentence: str) -> None:
        log.write(f"note: {one_line(sentence, 1000)}\n")

    published = Publication((), ())
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
        )
        published = publisher.finish(findings)
        log.write("".join(f"{line}\n" for line in lines(published.channels)))
    file = environ.get("GITHUB_STEP_SUMMARY")
    writers: list[Callable[[], None]] = [
        lambda: append_outputs(environ.get("GITHUB_OUTPUT"), _outputs(asked, ended, published.channels))
    ]
    if isinstance(asked, _Ended) or asked.summary:
        writers.append(lambda: append_summary(file, _summary(asked, ended, published.channels, summary_room(file))))
    for write in writers:
        try:
            write()
        except ChannelError as error:
            note(str(error))
        except Exception as error:  # noqa: BLE001 - no channel hides the verdict
            for sentence in explained(error, environ)[1]:
                note(sentence)
    return published


@contextmanager
def _undisturbed(signals: Sequence[signal.Signals]) -> Iterator[None]:
    """Publish to the end once the verdict stands: the runner cancels with SIGINT, then SIGTERM, then by killing."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _outputs(asked: _Asked | _Ended, ended: _Ended, channels: Sequence[Channel]) -> dict[str, str]:
    publishes = isinstance(asked, _Asked) and bool(asked.publish)
    # What was only published has no verdict.json of this step.
    folder = asked.request.output_dir if isinstance(asked, _Asked) and not publishes else None
    done = ended.done.suites if ended.done is not None else ()
    suites = [
        SuiteResult(
            counts=suite.report.counts,
            pass_rate=suite.report.pass_rate,
            cost_usd=suite.report.spend.cost_usd,
            results=_written(suite.folder, RESULTS_FILE),
            # A report that another run's artifact brings is not made here, and may be anything.
            report=None if publishes else _written(suite.folder, REPORT_FILE),
        )
        for suite in done
    ]
    outputs = step_outputs(ended.exit_code, suites, _written(folder, VERDICT_FILE) if suites else None, channels)
    return {**outputs, "verdict": ""} if ended.plan else outputs


def _written(folder: GivenPath | None, name: str) -> str | None:
    """Return the path of a file of this run as the workflow sees it; None when it was not written."""
    path = None if folder is None else folder / name
    return os.path.relpath(path, path.start) if path is not None and path.path.is_file() else None


def _summary(asked: _Asked | _Ended, ended: _Ended, channels: Sequence[Channel], room: int) -> str:
    """Return the job summary of at most `room` bytes: every suite's report, or why there is none, and the channels."""
    where = table(channels)
    room -= len(where.encode())
    if isinstance(asked, _Ended) or ended.done is None:
        problems = fence("\n".join(ended.problems) or ended.plan, _PROBLEMS_SHOWN)
        return f"### {TITLE}: nothing was evaluated{problems}{where}"
    if ended.done.not_run:
        where = f"\n⏹️ Not run: {cell(', '.join(ended.done.not_run), 1000)}\n{where}"
        room -= _NOT_RUN_BYTES
    texts: list[str] = []
    for left, suite in zip(range(len(ended.done.suites), 0, -1), ended.done.suites, strict=True):
        share = room // left - 1
        # What is wrong with the template is in the log since report.md was made.
        text = readable(suite.report, asked.template, lambda _: None, SizeLimit(share, share))
        texts.append(text + "\n")
        room -= len(texts[-1].encode())
    return "".join(texts) + where


def _why(ended: _Ended, published: Publication) -> str:
    """Say in plain lines why the step fails."""
    verdicts = [suite.verdict for suite in ended.done.suites] if ended.done is not None else []
    reasons = [
        f"{one_line(verdict.suite, 100)}: {verdict.outcome}: {one_line(verdict.reason, 1000)}"
        for verdict in verdicts
        if verdict.exit_code
    ]
    if ended.done is not None and ended.done.not_run:
        reasons.append(f"not run: {one_line(', '.join(ended.done.not_run), 1000)}")
    told = (*(one_line(problem, 1000) for problem in ended.problems), *reasons)
    # Only `require-publish` fails a step that passed.
    return "\n".join(told or lines(published.channels)) or "see the log"
