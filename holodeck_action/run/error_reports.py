"""Explains errors that end a command early: in sentences, never as tracebacks."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holodeck_action import __version__
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.text.plain import cut

if TYPE_CHECKING:
    from holodeck_action.suite.configuration_errors import LocatedProblem
    from holodeck_action.text.terminal import Terminal

_NO_PATH = (errno.ENAMETOOLONG, errno.ELOOP)
"""Errors of paths that any system call may raise, because the path itself is wrong."""
_SHOWN = 200
"""Maximum characters of a path in a message."""


class EarlyEnd(NamedTuple):
    """The exit code of a command that an error ended early, and the problems to report, with secrets masked."""

    code: int
    problems: tuple[str | LocatedProblem, ...]

    def to_text(self, terminal: Terminal) -> str:
        """Return the problems as text, each with the line of the file that it concerns, if any."""
        from holodeck_action.reports.terminal.excerpts import error_lines

        return "".join(f"{line}\n" for line in error_lines(self.problems, terminal))


def explain_error(error: BaseException, environ: Mapping[str, str]) -> EarlyEnd:
    """Return the exit code and the problems for an error that ends a command."""
    from holodeck_action.suite.configuration_errors import map_texts
    from holodeck_action.text.redaction import Redactor
    from holodeck_action.text.secrets import environment_secrets

    code, problems = _problems(error)
    redactor = Redactor(environment_secrets(environ))
    return EarlyEnd(code, tuple(map_texts(problem, redactor.text) for problem in problems))


def _problems(error: BaseException) -> tuple[int, tuple[str | LocatedProblem, ...]]:
    from holodeck_action.suite.configuration_errors import ConfigurationError
    from holodeck_action.workers.code_errors import UserCodeError

    if isinstance(error, ConfigurationError):
        return ExitCode.CONFIGURATION, error.problems
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.STOPPED, ("interrupted",)
    # A group of tasks wraps the error of one of them.
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, UserCodeError):
        return ExitCode.INCOMPLETE, (error.message,)
    if isinstance(error, OSError) and error.errno in _NO_PATH and error.filename is not None:
        return ExitCode.CONFIGURATION, (f"{cut(str(error.filename), _SHOWN)}: it cannot be a path: {error.strerror}",)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
    sentence = f"holodeck-action {__version__} has a defect{place}: {type(error).__name__}: {error}; please report it"
    return ExitCode.INCOMPLETE, (sentence,)
