"""The step of a workflow: inputs in; log, outputs, job summary and exit code out; report first, fail last."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from holodeck_action.failures import EXIT_INTERNAL, explained
from holodeck_action.github.commands import commands_stopped, error_command, mask_commands
from holodeck_action.github.files import ChannelError, append_outputs, append_summary, summary_room
from holodeck_action.github.inputs import InputError, read_action_inputs
from holodeck_action.github.outputs import SuiteResult, step_outputs
from holodeck_action.pipeline import Done, Output, run_suites
from holodeck_action.preflight import (
    ConfigurationError,
    Loaded,
    Surroundings,
    find_suites,
    load_all,
    prepare,
    template_of,
)
from holodeck_action.reports.budget import Budget
from holodeck_action.reports.custom import CustomTemplate
from holodeck_action.reports.files import REPORT_FILE, readable
from holodeck_action.reports.plain import one_line
from holodeck_action.reports.streams import lasting_streams
from holodeck_action.reports.untrusted import fence
from holodeck_action.request import Request, request_from
from holodeck_action.results.files import RESULTS_FILE, VERDICT_FILE
from holodeck_action.results.redaction import SHORTEST, environment_secrets
from holodeck_action.usercode.environment import job_environment

TITLE = "holodeck-action"
_PROBLEMS_SHOWN = 50_000
"""Characters of configuration errors in the job summary, which take at most four bytes each."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the inputs ask for, valid, and the suites they name, loaded."""

    request: Request
    template: CustomTemplate | None
    summary: bool
    around: Surroundings
    loaded: tuple[Loaded, ...]


@dataclass(frozen=True, slots=True)
class _Ended:
    """How the step ended: with suites that ran, or with the problems that kept them from running."""

    exit_code: int
    done: Done | None = None
    problems: tuple[str, ...] = ()


def main() -> None:
    """Run the step and exit with its code."""
    log, _ = lasting_streams()
    # The runner reads two streams in no fixed order; in one, "stop commands" comes before what it is meant for.
    os.dup2(1, 2)
    log.reconfigure(encoding="utf-8", line_buffering=True)
    sys.stderr = log
    code = run_step(dict(os.environ), log)
    log.flush()
    # A verdict that nobody can read is never a pass.
    sys.exit(code or (EXIT_INTERNAL if log.failure is not None else 0))


def run_step(environ: Mapping[str, str], log: TextIO) -> int:
    """Evaluate what the inputs ask for, and publish it.

    No text of a suite or an answer becomes a workflow command: commands are stopped from before the first line of the
    run until after the last.

    Args:
        environ: the environment of the step.
        log: the only stream the step writes to.

    Returns:
        The exit code of the process: the run's (DESIGN §4), as the input `fail-on` wants it.
    """
    asked = _ask(environ, log)
    with commands_stopped(log, secrets.token_hex(16)):
        ended = _evaluate(asked, log) if isinstance(asked, _Asked) else asked
        for problem in ended.problems:
            log.write(f"error: {problem}\n")
        _publish(asked if isinstance(asked, _Asked) else None, ended, environ, log)
    code = ended.exit_code
    if isinstance(asked, _Asked) and ended.done is not None:
        code = asked.request.process_exit_code(code)
    if code:
        log.write(error_command(TITLE, _why(ended)) + "\n")
    return code


def _ask(environ: Mapping[str, str], log: TextIO) -> _Asked | _Ended:
    """Read the inputs and load the suites; what is secret is hidden in the log before anything else is in it."""
    try:
        # The runner hides the job's own tokens itself.
        _hide(environment_secrets(job_environment(environ)), log)
        inputs = _inputs(environ)
        _hide([inputs.get("github_token", "")], log)
        workspace = _enter(environ.get("GITHUB_WORKSPACE") or ".")
        request = request_from(inputs)
        _check_inside(request.output_dir, workspace)
        template = template_of(request.template)
        around = Surroundings(environ, _home(environ), workspace, request.env_file)
        loaded = load_all(find_suites(request.suites, workspace), around, allow_empty=request.allow_empty)
        _hide({secret for item in loaded for secret in item.suite.secrets}, log)
        return _Asked(request, template, inputs["summary"], around, loaded)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last resort: one sentence, no traceback
        code, problems = explained(error)
        return _Ended(code, problems=problems)


def _evaluate(asked: _Asked, log: TextIO) -> _Ended:
    request = asked.request
    try:
        prepared = prepare(asked.loaded, request.flags, asked.around)
        output = Output(log, log, request.output_dir, asked.template)
        done = run_suites(prepared, request.flags, output, resume=request.resume)
        return _Ended(done.exit_code, done)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - as above
        code, problems = explained(error)
        return _Ended(code, problems=problems)


def _inputs(environ: Mapping[str, str]) -> dict[str, Any]:
    try:
        return read_action_inputs(environ)
    except InputError as error:
        raise ConfigurationError(error.lines) from error


def _hide(values: Iterable[str], log: TextIO) -> None:
    for command in mask_commands(values, SHORTEST):
        log.write(command + "\n")
    log.flush()


def _enter(workspace: str) -> Path:
    """Make the workspace the current directory: what paths in inputs, suites and outputs are relative to."""
    try:
        os.chdir(workspace)
    except OSError as error:
        raise ConfigurationError([f"GITHUB_WORKSPACE {workspace!r} cannot be entered: {error.strerror}"]) from error
    return Path.cwd()


def _home(environ: Mapping[str, str]) -> Path | None:
    return Path(environ["HOME"]) if environ.get("HOME") else None


def _check_inside(folder: Path | None, workspace: Path) -> None:
    """Refuse a folder that is gone when the container ends."""
    if folder is not None and not (workspace / folder).resolve().is_relative_to(workspace):
        raise ConfigurationError(
            [f"input output-dir: {str(folder)!r} is outside the workspace, where later steps cannot read it"]
        )


def _publish(asked: _Asked | None, ended: _Ended, environ: Mapping[str, str], log: TextIO) -> None:
    """Write outputs and job summary; one that cannot be written is a note and changes no verdict."""
    file = environ.get("GITHUB_STEP_SUMMARY")
    channels: list[Callable[[], None]] = [lambda: append_outputs(environ.get("GITHUB_OUTPUT"), _outputs(asked, ended))]
    if asked is None or asked.summary:
        channels.append(lambda: append_summary(file, _summary(asked, ended, summary_room(file))))
    for publish in channels:
        try:
            publish()
        except ChannelError as error:
            log.write(f"note: {error}\n")
        except Exception as error:  # noqa: BLE001 - no channel hides the verdict
            log.write("".join(f"note: {sentence}\n" for sentence in explained(error)[1]))


def _outputs(asked: _Asked | None, ended: _Ended) -> dict[str, str]:
    folder = asked.request.output_dir if asked is not None else None
    done = ended.done.suites if ended.done is not None else ()
    suites = [
        SuiteResult(
            counts=suite.report.counts,
            pass_rate=suite.report.pass_rate,
            cost_usd=suite.report.spend.cost_usd,
            results=_written(suite.folder, RESULTS_FILE),
            report=_written(suite.folder, REPORT_FILE),
        )
        for suite in done
    ]
    return step_outputs(ended.exit_code, suites, _written(folder, VERDICT_FILE) if suites else None)


def _written(folder: Path | None, name: str) -> str | None:
    """Return the path of a file of this run as the workflow sees it; None when it was not written."""
    path = None if folder is None else Path.cwd() / folder / name
    return os.path.relpath(path) if path is not None and path.is_file() else None


def _summary(asked: _Asked | None, ended: _Ended, room: int) -> str:
    """Return the job summary of at most `room` bytes: every suite's report, or why there is none."""
    if asked is None or ended.done is None:
        return f"### {TITLE}: nothing was evaluated{fence(chr(10).join(ended.problems), _PROBLEMS_SHOWN)}"
    texts: list[str] = []
    for left, suite in zip(range(len(ended.done.suites), 0, -1), ended.done.suites, strict=True):
        share = room // left - 1
        # What is wrong with the template is in the log since report.md was made.
        text = readable(suite.report, asked.template, lambda _: None, Budget(share, share))
        texts.append(text + "\n")
        room -= len(texts[-1].encode())
    return "".join(texts)


def _why(ended: _Ended) -> str:
    """Say in plain lines why the step fails."""
    verdicts = [suite.verdict for suite in ended.done.suites] if ended.done is not None else []
    reasons = [
        f"{one_line(verdict.suite, 100)}: {verdict.outcome}: {one_line(verdict.reason, 1000)}"
        for verdict in verdicts
        if verdict.exit_code
    ]
    return "\n".join((*(one_line(problem, 1000) for problem in ended.problems), *reasons)) or "see the log"
