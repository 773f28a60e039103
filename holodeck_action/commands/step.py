"""The step of a workflow: reads inputs, runs or compares, publishes results, and returns the exit code."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TextIO, TypeVar

from msgspec import Struct, structs

from holodeck_action.commands.compare import compare_runs, runs_of_step
from holodeck_action.commands.gate import gate_in_step
from holodeck_action.commands.installing import RestartError, RunnerExtras
from holodeck_action.commands.merge import merge_folders
from holodeck_action.commands.output import Outcome, clear_suite_folders
from holodeck_action.commands.publish import read_runs
from holodeck_action.commands.step_end import (
    TITLE,
    comparison_path,
    extended_paths,
    failure_reasons,
    job_summary,
    outputs,
    path_if_written,
)
from holodeck_action.commands.step_inputs import read_step_inputs
from holodeck_action.commands.suites import evaluate
from holodeck_action.github.annotations import annotate_problems, unannotated_reasons
from holodeck_action.github.channel_options import ChannelOptions, channel_options_from
from holodeck_action.github.channels import channel_lines
from holodeck_action.github.job import page_links
from holodeck_action.github.opening import empty_publication, open_publisher
from holodeck_action.github.publisher import CHECK_RUN_VARIABLE, Findings, Publication, Publisher
from holodeck_action.github.runner import (
    ChannelError,
    annotation_commands,
    append_outputs,
    append_summary,
    error_command,
    mask_commands,
    stop_commands,
    summary_room,
)
from holodeck_action.record.folder import Claims
from holodeck_action.reports.custom import CustomTemplate
from holodeck_action.reports.page.viewer import PAGE_FILE
from holodeck_action.run.caller import Caller
from holodeck_action.run.environments.extras import needed_extras
from holodeck_action.run.error_reports import explain_error
from holodeck_action.run.loading import LoadedSuite, load_suites, require_permission
from holodeck_action.run.options.action_inputs import COMMAND, Flags
from holodeck_action.run.options.input_values import anchor_paths, github_token, output_dir_of
from holodeck_action.run.options.request import flags_from, template_of
from holodeck_action.run.preflight import prepare_suites
from holodeck_action.run.step_report import StepReport
from holodeck_action.run.ui import Ui
from holodeck_action.seam import registry
from holodeck_action.seam.manifest import StepCommand
from holodeck_action.suite.checkout import head_commit
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secret_parts import SHORTEST
from holodeck_action.text.secrets import environment_secrets
from holodeck_action.text.terminal import terminal_of
from holodeck_action.workers.environment import job_environment

T = TypeVar("T")


class _StepSettings(Struct, frozen=True):
    """The validated settings of the step, from its inputs."""

    flags: Flags
    template: CustomTemplate | None
    channel_options: ChannelOptions
    workspace: Path
    compared: tuple[GivenPath, GivenPath | None] | None
    command: StepCommand | None
    arguments: tuple[str, ...]

    @property
    def publishes(self) -> bool:
        """Whether the step's command publishes on GitHub."""
        return self.compared is None and (self.command is None or self.command.comment)


def run_step(caller: Caller) -> int:
    """Evaluate the suites that the inputs name, and publish the results; or compare two runs.

    No text of a suite or an answer can act as a workflow command: the runner's command processing is stopped before the
    first line of the run and resumed after the last.

    Args:
        caller: its standard output is the log.

    Returns:
        The exit code of the run, adjusted by `fail-on` and `require-publish`.
    """
    with Claims() as claims:
        return _Step(caller, claims).run()


class _Step:
    """One execution of the step; it reports results even if a part fails."""

    def __init__(self, caller: Caller, claims: Claims) -> None:
        self._caller, self._claims = caller, claims
        self._environ, self._log = caller.environ, caller.stdout
        self._runner = RunnerExtras(caller.environ, caller.stdout)
        # A comparison, or a command of an extension, publishes and clears nothing, even if an input cannot be read.
        self._compares = COMMAND.text_in(caller.environ) not in ("", "run")
        self._settings: _StepSettings | None = None
        self._flags = Flags()
        self._publisher: Publisher | None = None
        self._loaded: tuple[LoadedSuite, ...] | None = None

    def run(self) -> int:
        failed = self._attempt(self._prepare)
        if self._settings is None and not self._compares and not self._environ.get("INPUT_PUBLISH", "").strip():
            self._attempt(self._clear_output)
        with stop_commands(self._log, lambda: secrets.token_hex(16)) as stopped:
            self._caller = replace(self._caller, group=stopped.fold_lines)
            ended: Outcome = self._attempt(self._conclude) if failed is None else failed
            self._log.write(ended.log_text)
            with _ignore_signals(self._caller.signals):
                published = self._publish(ended)
                self._write_outputs(ended, published)
        code = ended.exit_code
        if self._settings is not None:
            judged = ended.evaluated or ended.compared is not None or ended.extended is not None
            code = self._flags.process_exit_code(code) if judged else code
            code = self._settings.channel_options.process_exit_code(code, published.channels)
        for command in annotation_commands(published.annotations, reserved=1 if code else 0):
            self._log.write(command + "\n")
        if code:
            self._log.write(error_command(TITLE, failure_reasons(ended, published.channels)) + "\n")
        return code

    def _attempt(self, call: Callable[[], T]) -> T | Outcome:
        """Return the result of a call; if the call fails, return the step's result with the error."""
        try:
            return call()
        except RestartError:
            raise
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last resort: one sentence, no traceback
            found = explain_error(error, self._environ)
            located = error.located if isinstance(error, ConfigurationError) else ()
            shown = found.to_text(terminal_of(self._log, self._environ))
            return Outcome(found.code, problems=tuple(map(str, found.problems)), located=located, log_text=shown)

    def _prepare(self) -> Outcome | None:
        """Read the inputs, and load the suites; return the outcome of a step that only publishes finished runs, or None
        if something is to be done."""
        settings = self._settings = self._read_inputs()
        self._flags = settings.flags
        if not settings.publishes:
            self._loaded = ()
            return None
        publisher = self._publisher = open_publisher(
            settings.channel_options, self._environ, self._caller.pause, evaluates=not self._flags.publish
        )
        if settings.command is not None:
            # The command loads its suite itself.
            publisher.begin([head_commit(settings.workspace / suite) for suite in self._flags.suites])
            self._loaded = ()
            return None
        if self._flags.publish:
            publisher.begin(None)
            redactor = Redactor(environment_secrets(self._environ) | {settings.channel_options.token})
            return read_runs(self._flags.publish, settings.workspace, redactor)
        if self._flags.merge or self._flags.results:
            # They are read later, after the runner's command processing has been stopped.
            publisher.begin([head_commit(settings.workspace)] if self._flags.results else None)
            self._loaded = ()
            return None
        self._loaded = self._load_suites(settings, publisher)
        return None

    def _read_inputs(self) -> _StepSettings:
        """Read and validate the inputs; secrets are masked before anything else is written to the log."""
        # The runner hides the job's own tokens itself.
        _mask(environment_secrets(job_environment(self._environ)), self._log)
        known = environment_secrets(self._environ) | {github_token(self._environ)}
        read = read_step_inputs(self._environ, Redactor(known))
        inputs = read.settings
        _mask([inputs.get("github_token", "")], self._log)
        workspace = _workspace(self._caller)
        flags = flags_from(anchor_paths(inputs, workspace))
        _check_inside(flags.output_dir, "output-dir", workspace)
        _check_inside(flags.history if isinstance(flags.history, GivenPath) else None, "history", workspace)
        channel_options = channel_options_from(inputs, flags.publish or flags.suites, self._environ)
        if flags.dry_run or flags.shard is not None:
            # Nothing or a part is evaluated: a check run or a comment would say more than is known.
            channel_options = structs.replace(channel_options, comment="off", check=False, review="off")
        compared = runs_of_step(read, flags, workspace) if read.command == "compare" else None
        command = registry.steps().get(read.command)
        if command is not None:
            channel_options = channel_options.for_command(command.name, comment=command.comment)
        template = template_of(flags.template)
        return _StepSettings(flags, template, channel_options, workspace, compared, command, read.arguments)

    def _clear_output(self) -> None:
        self._claims.clear(output_dir_of(self._environ, _workspace(self._caller), default=True))

    def _load_suites(self, settings: _StepSettings, publisher: Publisher) -> tuple[LoadedSuite, ...]:
        """Load the suites, and show on GitHub that the step is in progress."""
        flags = settings.flags
        if not flags.dry_run:
            self._claims.clear(flags.output_dir)
        suites = (settings.workspace / suite for suite in flags.suites)
        named = (suite if suite.is_dir() else suite.parent for suite in suites)
        permission = cache(publisher.permission)
        require_permission(permission, tuple(filter(Path.is_dir, named)) or (settings.workspace,))
        there: list[Path] = []
        begun = False

        def begin_publishing() -> None:
            nonlocal begun
            if begun:
                return
            begun = True
            # A required check that never appears would hold up the merge without a reason.
            publisher.begin([head_commit(suite.parent) for suite in there] or [head_commit(settings.workspace)])
            self._runner.variables[CHECK_RUN_VARIABLE] = publisher.external_id
            if not flags.dry_run:
                clear_suite_folders(self._claims, flags.output_dir, there, settings.workspace)

        def note_suites(suites: Sequence[Path]) -> None:
            there.extend(suites)
            if not self._runner.installs:
                begin_publishing()

        try:
            context = replace(self._caller, cwd=settings.workspace).suite_context(flags, permission)
            context = structs.replace(context, install=self._runner.install).with_conversations()
            loaded = load_suites(flags.suites, context, on_found=note_suites, grades=True)
            # Before the check run begins: the program starts again with what it installs.
            self._runner.install([need for item in loaded for need in needed_extras(item.suite, item.environ, flags)])
        except ConfigurationError:
            begin_publishing()
            raise
        begin_publishing()
        _mask({secret for item in loaded for secret in item.suite.secrets}, self._log)
        return loaded

    def _conclude(self) -> Outcome:
        """Compare, run the command of an extension, merge or evaluate."""
        assert self._settings is not None
        settings, flags = self._settings, self._flags
        caller = replace(self._caller, cwd=settings.workspace)
        if settings.compared is not None:
            compared = compare_runs(*settings.compared, flags, caller)
            return Outcome(compared.exit_code, compared=compared)
        if settings.command is not None:
            run: Callable[..., StepReport] = registry.resolve(settings.command.run)
            extended = run(caller, settings.arguments, self._runner.install)
            return Outcome(extended.exit_code, extended=extended)
        ui = Ui(caller, flags, self._claims, caller.progress_display(), flags.output_dir, settings.template)
        if flags.results:
            return gate_in_step(flags.results, ui)
        return merge_folders(flags.merge, ui) if flags.merge else evaluate(prepare_suites(self._loaded or ()), ui)

    def _publish(self, outcome: Outcome) -> Publication:
        """Publish the results; a failed channel is reported in the log and the summary and changes no verdict."""
        environ, publisher, settings, extended = self._environ, self._publisher, self._settings, outcome.extended
        if publisher is None or settings is None:
            if not self._compares:
                return empty_publication(environ)
            return Publication(extended.channels if extended else (), ())
        if extended is not None and not extended.markdown:
            publisher.close()
            return Publication(extended.channels, ())
        redact = Redactor(environment_secrets(environ) | {settings.channel_options.token}).text
        if self._loaded is None:
            folders = [problem.folder for problem in outcome.located]
        else:
            folders = [item.suite.folder for item in self._loaded]
        findings = Findings(
            exit_code=outcome.exit_code,
            reports=tuple(suite.report for suite in outcome.suites),
            problems=outcome.problems,
            template=settings.template,
            note=self._caller.note,
            annotations=annotate_problems(outcome.located, environ),
            unannotated=unannotated_reasons(folders, environ),
            pages=self._flags.html and any(suite.folder and suite.written for suite in outcome.suites),
            markdown="" if extended is None else redact(extended.markdown),
            reason="" if extended is None else redact(extended.reason),
        )
        published = publisher.finish(findings)
        self._log.write("".join(f"{line}\n" for line in channel_lines(published.channels)))
        return published

    def _write_outputs(self, outcome: Outcome, published: Publication) -> None:
        """Write the outputs and the summary of the step; what cannot be written is reported in the log."""
        environ, flags, note = self._environ, self._flags, self._caller.note
        publishes, sharded = bool(flags.publish), flags.shard is not None
        # A run that is only published has no verdict.json of this step.
        folder = None if publishes else flags.output_dir
        writers: list[Callable[[], None]] = [
            lambda: append_outputs(
                environ.get("GITHUB_OUTPUT"),
                outputs(outcome, folder, published.channels, reports_made=not publishes, judged=not sharded)
                | comparison_path(flags, outcome)
                | extended_paths(outcome),
            )
        ]
        if flags.summary:
            # The page of a run that is only published is in another run's artifact.
            suites = () if publishes else outcome.suites
            run = page_links(environ).run if any(path_if_written(suite.folder, PAGE_FILE) for suite in suites) else None
            template = None if self._settings is None else self._settings.template
            file = environ.get("GITHUB_STEP_SUMMARY")
            writers.append(
                lambda: append_summary(file, job_summary(outcome, template, published, summary_room(file), run))
            )
        for write in writers:
            try:
                write()
            except ChannelError as error:
                note(str(error))
            except Exception as error:  # noqa: BLE001 - no channel hides the verdict
                for sentence in map(str, explain_error(error, environ).problems):
                    note(sentence)


def _mask(values: Iterable[str], log: TextIO) -> None:
    for command in mask_commands(values, SHORTEST):
        log.write(command + "\n")
    log.flush()


def _workspace(caller: Caller) -> Path:
    """Return the folder that paths are relative to, without links; raise ConfigurationError if it cannot be entered."""
    given = caller.environ.get("GITHUB_WORKSPACE") or "."
    try:
        # `.` exists only in a folder that can be entered.
        os.stat(os.path.join(caller.cwd, given, "."))
    except OSError as error:
        raise ConfigurationError([f"GITHUB_WORKSPACE {given!r} cannot be entered: {error.strerror}"]) from error
    return Path(os.path.realpath(caller.cwd / given))


def _check_inside(folder: GivenPath | None, name: str, workspace: Path) -> None:
    """Raise ConfigurationError if a folder is outside the workspace: it would be lost when the container ends."""
    if folder is not None and not folder.real.is_relative_to(workspace):
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
