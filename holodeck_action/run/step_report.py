"""The result of a command that an extension adds to the step of a workflow."""

from __future__ import annotations

from msgspec import Struct

from holodeck_action.github.channels import Channel
from holodeck_action.text.given_paths import GivenPath


class StepReport(Struct, frozen=True):
    """The result of a command of a step.

    Attributes:
        exit_code: its exit code.
        reason: the result in one sentence.
        markdown: the report for the job summary; empty if only a plan was printed.
        files: paths of files, by the output of the step that has the path, such as `report-path`.
        channels: results of publishing by the command itself, one for each channel.
    """

    exit_code: int
    reason: str
    markdown: str
    files: dict[str, GivenPath]
    channels: tuple[Channel, ...] = ()
