"""Workflow commands: lines of a step's log that the runner obeys (runner source, `ActionCommand.cs`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from holodeck_action.github.annotations import Annotation, Level

MESSAGE_LIMIT = 4096
"""Characters of an annotation that the runner keeps (`ExecutionContext._maxIssueMessageLength`)."""
PER_LEVEL = 10
"""Annotations of each level that the runner keeps of a step (`ExecutionContext._maxCountPerIssueType`)."""

_NAMES: dict[Level, str] = {"failure": "error", "warning": "warning", "notice": "notice"}


def error_command(title: str, message: str) -> str:
    """Return the command that shows one error on the run's page."""
    return f"::error title={_property(title)}::{_data(message[:MESSAGE_LIMIT])}"


def annotation_commands(annotations: Sequence[Annotation], *, reserved: int) -> tuple[str, ...]:
    """Return the commands that annotate lines, where no check run can: at most `PER_LEVEL` of each level.

    Args:
        annotations: what to show, worst first; of more than fit the last command says how many are hidden.
        reserved: how many errors the step still needs for itself.
    """
    commands: list[str] = []
    for level, name in _NAMES.items():
        wanted = [annotation for annotation in annotations if annotation.level == level]
        room = max(0, PER_LEVEL - reserved) if level == "failure" else PER_LEVEL
        shown = wanted if len(wanted) <= room else wanted[: max(0, room - 1)]
        commands += [_annotation_command(name, annotation) for annotation in shown]
        hidden = len(wanted) - len(shown)
        if hidden and room:
            text = f"{hidden:,} more {'is' if hidden == 1 else 'are'} not shown here: see the job summary"
            commands.append(f"::{name} title={_property(f'{hidden:,} more')}::{_data(text)}")
    return tuple(commands)


def _annotation_command(name: str, annotation: Annotation) -> str:
    properties = {"file": annotation.path, "line": str(annotation.line)}
    if annotation.column is not None:
        properties["col"] = str(annotation.column)
    properties["title"] = annotation.title
    written = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{name} {written}::{_data(_kept(annotation.message))}"


def _kept(text: str) -> str:
    """Cut a message as the runner does, which counts UTF-16 code units, but never within a character."""
    return text.encode("utf-16-le", "replace")[: 2 * MESSAGE_LIMIT].decode("utf-16-le", "ignore")


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
