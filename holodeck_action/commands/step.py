"""The step of a workflow: inputs in; log, outputs, job summary and exit code out; report first, fail last."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO, TypeVar

from holodeck_action.commands.caller import Caller
from holodeck_action.commands.output import Done, Output, set_aside_earlier
from holodeck_action.commands.program import explained
from holodeck_action.commands.publish import read_runs
from holodeck_action.commands.step_texts import TITLE, Ended, outputs, summary, why
from holodeck_action.commands.suites import evaluate
from holodeck_action.github.action_inputs import anchored, output_dir_of, read_action_inputs
from holodeck_action.github.annotations import annotate_problems, unplaced
from holodeck_action.github.channels import lines
from holodeck_action.github.publisher import Findings, Publication, Publisher, open_publisher
from holodeck_action.github.runner import (
    ChannelError,
    annotation_commands,
    append_outputs,
    append_summary,
    commands_stopped,
    error_command,
    mask_commands,
    summary_room,
)
from holodeck_action.github.surfaces import Surfaces, surfaces_from
from holodeck_action.prepare.loading import Loaded, load_suites
from holodeck_action.prepare.preflight import prepare
from holodeck_action.prepare.request import Request, request_from, template_of
from holodeck_action.reports.custom import CustomTemplate
from holodeck_action.results.exit_codes import ExitCode
from holodeck_action.results.folder import Claims
from holodeck_action.suite.checkout import head_commit
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import SHORTEST, environment_secrets
from holodeck_action.workers.environment import job_environment

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the inputs ask for, valid."""

    request: Request
    template: CustomTemplate | None
    surfaces: Surfaces
    publish: tuple[str, ...]
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
        with commands_stopped(self._log, secrets.token_hex(16)):
            ended = self._conclude(asked, ready)
            for problem in ended.problems:
                self._log.write(f"error: {problem}\n")
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
            code, problems = explained(error, self._environ)
            located = error.located if isinstance(error, ConfigurationError) else ()
            return Ended(code, problems=problems, located=located)

    def _ask(self) -> _Asked:
        """Read the inputs; what is secret is hidden in the log before anything else is in it."""
        # The runner hides the job's own tokens itself.
        _hide(environment_secrets(job_environment(self._environ)), self._log)
        inputs = read_action_inputs(self._environ)
        _hide([inputs.get("github_token", "")], self._log)
        workspace = _workspace(self._caller)
        request = request_from(anchored(inputs, workspace))
        _check_inside(request.output_dir, workspace)
        paths = inputs.get("publish", ())
        surfaces = surfaces_from(inputs, paths or request.suites, self._environ)
        if request.dry_run:
            # Nothing is evaluated: a check run or a comment would say more than is known.
            surfaces = replace(surfaces, comment="off", check=False, review="off")
        return _Asked(request, template_of(request.template), surfaces, paths, inputs["summary"], workspace)

    def _clear(self) -> None:
        self._claims.clear(output_dir_of(self._environ, _workspace(self._caller), default=True))

    def _open(self, asked: _Asked) -> Publisher:
        return open_publisher(asked.surfaces, self._environ, self._caller.pause, evaluates=not asked.publish)

    def _load(self, asked: _Asked, publisher: Publisher) -> tuple[Loaded, ...] | Done:
        """Load the suites, or read the runs that are only to be published, and say on GitHub that this is under way."""
        request = asked.request
        if asked.publish:
            publisher.begin(None)
            redactor = Redactor(environment_secrets(self._environ) | {asked.surfaces.token})
            return read_runs(asked.publish, asked.workspace, redactor)
        if not request.dry_run:
            self._claims.clear(request.output_dir)
        refused = publisher.refusal()
        if refused is not None:
            raise ConfigurationError([refused])
        there: list[Path] = []

        def found(suites: Sequence[Path]) -> None:
            there.extend(suites)
            publisher.begin([head_commit(suite.parent) for suite in suites])
            if not request.dry_run:
                set_aside_earlier(self._claims, request.output_dir, suites, asked.workspace)

        around = asked.caller(self._caller).surroundings(request.env_file, request.allowed)
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

    def _evaluate(self, asked: _Asked, loaded: tuple[Loaded, ...]) -> Done:
        caller, request = asked.caller(self._caller), asked.request
        around = caller.surroundings(request.env_file, request.allowed)
        prepared = prepare(loaded, request.flags, around)
        return evaluate(prepared, request, Output.of(caller, request, asked.template), self._claims)

    def _publish(
        self, asked: _Asked | Ended, ended: Ended, publisher: Publisher | None, folders: Sequence[Path]
    ) -> Publication:
        """Publish what was found; a channel that fails is named in the log and the summary and changes no verdict."""
        environ, log = self._environ, self._log

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
        file, channels = environ.get("GITHUB_STEP_SUMMARY"), published.channels
        publishes = isinstance(asked, _Asked) and bool(asked.publish)
        # What was only published has no verdict.json of this step.
        folder = asked.request.output_dir if isinstance(asked, _Asked) and not publishes else None
        template = asked.template if isinstance(asked, _Asked) else None
        writers: list[Callable[[], None]] = [
            lambda: append_outputs(
                environ.get("GITHUB_OUTPUT"), outputs(ended, folder, channels, reports_made=not publishes)
            )
        ]
        if isinstance(asked, Ended) or asked.summary:
            writers.append(lambda: append_summary(file, summary(ended, template, channels, summary_room(file))))
        for write in writers:
            try:
                write()
            except ChannelError as error:
                note(str(error))
            except Exception as error:  # noqa: BLE001 - no channel hides the verdict
                for sentence in explained(error, environ)[1]:
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


def _check_inside(folder: GivenPath | None, workspace: Path) -> None:
    """Refuse a folder that is gone when the container ends."""
    if folder is not None and not folder.path.resolve().is_relative_to(workspace):
        raise ConfigurationError(
            [f"input output-dir: {str(folder)!r} is outside the workspace, where later steps cannot read it"]
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
