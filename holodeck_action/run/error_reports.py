"""Errors that end a command early, as sentences, never tracebacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from holodeck_action import __version__
from holodeck_action.decide.exit_codes import ExitCode

if TYPE_CHECKING:
    from holodeck_action.suite.configuration_errors import Located
    from holodeck_action.text.terminal import Terminal


@dataclass(frozen=True, slots=True)
class Explained:
    """Why a command ended early: its exit code, and the problems, without the job's secrets."""

    code: int
    problems: tuple[str | Located, ...]

    def shown(self, terminal: Terminal) -> str:
        """Return the problems as text, with the lines of files that they are about."""
        from holodeck_action.reports.terminal.excerpts import error_lines

        return "".join(f"{line}\n" for line in error_lines(self.problems, terminal))


def explained(error: BaseException, environ: Mapping[str, str]) -> Explained:
    """Return why a command ends with an error."""
    from holodeck_action.suite.configuration_errors import through
    from holodeck_action.text.redaction import Redactor
    from holodeck_action.text.secrets import environment_secrets

    code, problems = _problems(error)
    redactor = Redactor(environment_secrets(environ))
    return Explained(code, tuple(through(problem, redactor.text) for problem in problems))


def _problems(error: BaseException) -> tuple[int, tuple[str | Located, ...]]:
    from holodeck_action.suite.configuration_errors import ConfigurationError

    if isinstance(error, ConfigurationError):
        return ExitCode.CONFIGURATION, error.problems
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.STOPPED, ("interrupted",)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
    sentence = f"holodeck-action {__version__} has a defect{place}: {type(error).__name__}: {error}; please report it"
    return ExitCode.INCOMPLETE, (sentence,)


def report_error(error: BaseException, environ: Mapping[str, str], stderr: TextIO) -> int:
    """Write what ended a command early, and return its exit code.

    A step of a workflow may run the program itself: then the lines that a configuration error is about are annotated.
    """
    from holodeck_action.suite.configuration_errors import ConfigurationError
    from holodeck_action.text.terminal import terminal_of

    explanation = explained(error, environ)
    stderr.write(explanation.shown(terminal_of(stderr, environ)))
    if environ.get("GITHUB_ACTIONS") == "true" and isinstance(error, ConfigurationError):
        from holodeck_action.github.annotations import annotate_problems
        from holodeck_action.github.runner import annotation_commands

        for command in annotation_commands(annotate_problems(error.located, environ), reserved=0):
            stderr.write(f"{command}\n")
    return explanation.code
