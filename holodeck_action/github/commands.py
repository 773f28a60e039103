"""Workflow commands: lines of a step's log that the runner obeys (runner source, `ActionCommand.cs`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

MESSAGE_LIMIT = 4096
"""Characters of an annotation that the runner keeps (`ExecutionContext._maxIssueMessageLength`)."""


def error_command(title: str, message: str) -> str:
    """Return the command that shows one error on the run's page."""
    return f"::error title={_property(title)}::{_data(message[:MESSAGE_LIMIT])}"


def mask_commands(secrets: Iterable[str], shortest: int) -> tuple[str, ...]:
    """Return the commands that hide secrets in the step's log: one per line of each, in a fixed order.

    Args:
        secrets: values to hide. A log shows a value of several lines line by line, so each line is one secret.
        shortest: characters below which a line stands in too much innocent text to be hidden.
    """
    lines = {line.strip() for secret in secrets for line in secret.splitlines()}
    return tuple(f"::add-mask::{_data(line)}" for line in sorted(lines) if len(line) >= shortest)


@contextmanager
def commands_stopped(stream: TextIO, token: str) -> Iterator[None]:
    """Write within which nothing is a command, whatever it says.

    Args:
        stream: where everything is written.
        token: resumes commands; nobody who writes in between may know it.
    """
    stream.write(f"::stop-commands::{token}\n")
    stream.flush()
    try:
        yield
    finally:
        # Text without a line end must not swallow the line that resumes commands.
        stream.write(f"\n::{token}::\n")
        stream.flush()


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
