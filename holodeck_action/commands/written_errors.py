"""Writes the errors that end a command early to standard error."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.run.error_reports import explain_error

if TYPE_CHECKING:
    from click import ClickException


def report_error(error: BaseException, environ: Mapping[str, str], stderr: TextIO) -> int:
    """Write an error that ends a command early, and return the exit code.

    In a GitHub workflow, also annotate the lines that a configuration error concerns.
    """
    from holodeck_action.suite.configuration_errors import ConfigurationError
    from holodeck_action.text.terminal import terminal_of

    explanation = explain_error(error, environ)
    stderr.write(explanation.to_text(terminal_of(stderr, environ)))
    if environ.get("GITHUB_ACTIONS") == "true" and isinstance(error, ConfigurationError):
        from holodeck_action.github.annotations import annotate_problems
        from holodeck_action.github.runner import annotation_commands

        for command in annotation_commands(annotate_problems(error.located, environ), reserved=0):
            stderr.write(f"{command}\n")
    return explanation.code


def report_usage_error(error: ClickException, environ: Mapping[str, str], stderr: TextIO) -> int:
    """Write an error of the command line, which may quote a secret that was given as a value; return the exit code."""
    from holodeck_action.text.redaction import Redactor
    from holodeck_action.text.secrets import environment_secrets

    shown = StringIO()
    error.show(shown)
    stderr.write(Redactor(environment_secrets(environ)).text(shown.getvalue()))
    return ExitCode.CONFIGURATION
