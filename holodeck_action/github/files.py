"""The files by which a step talks to the runner: outputs and the job summary (`FileCommandManager.cs`)."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

SUMMARY_LIMIT = 1024 * 1024
"""Bytes of a step's summary (`CreateStepSummaryCommand.AttachmentSizeLimit`): a larger one is not shown at all."""


class ChannelError(Exception):
    """Something could not be published; the message is one sentence."""


def append_outputs(file: str | None, outputs: Mapping[str, str]) -> None:
    """Set the outputs of the step.

    Args:
        file: the value of `GITHUB_OUTPUT`.
        outputs: value by name.

    Raises:
        ChannelError: there is no such file, or it cannot be written.
    """
    if not file:
        raise ChannelError("GITHUB_OUTPUT is not set: the step has no outputs")
    # Nobody can put the end of a value into a value: the delimiter is made after them.
    text = "".join(_heredoc(name, value, f"ghadelimiter_{secrets.token_hex(16)}") for name, value in outputs.items())
    _append(Path(file), text.encode(errors="replace"), "the step has no outputs")


def summary_room(file: str | None) -> int:
    """Return how many bytes the job summary still takes.

    Args:
        file: the value of `GITHUB_STEP_SUMMARY`.
    """
    try:
        return max(0, SUMMARY_LIMIT - os.stat(file).st_size) if file else 0
    except OSError:
        return SUMMARY_LIMIT


def append_summary(file: str | None, text: str) -> None:
    """Add to the job summary.

    Args:
        file: the value of `GITHUB_STEP_SUMMARY`.
        text: Markdown of at most `summary_room` bytes.

    Raises:
        ChannelError: there is no such file, it cannot be written, or the runner would refuse it for its size.
    """
    if not file:
        raise ChannelError("GITHUB_STEP_SUMMARY is not set: there is no job summary")
    data = text.encode(errors="replace")
    if len(data) > summary_room(file):
        raise ChannelError(f"the job summary of {len(data):,} bytes is larger than GitHub shows: it was left out")
    _append(Path(file), data, "there is no job summary")


def _append(path: Path, data: bytes, consequence: str) -> None:
    try:
        with path.open("ab") as file:
            file.write(data)
    except OSError as error:
        raise ChannelError(f"{path.name}: cannot be written: {error.strerror}: {consequence}") from error


def _heredoc(name: str, value: str, delimiter: str) -> str:
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"
