"""What is asked for on GitHub: inputs of the step or flags of `publish` (docs/action.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.github.channels import Channel, missing
from holodeck_action.github.sticky_comment import Mode
from holodeck_action.text.plain import one_line

NAME = "holodeck-action"
_NAME_LIMIT = 100


class Surfaces(Struct, frozen=True):
    """What is asked for.

    Attributes:
        comment: when the comment is written.
        comment_id: tells the comment from others of ours on the same pull request.
        check: whether there is a check run.
        check_name: what it is called.
        check_fail_on: which verdicts make it fail.
        review: whether failing cases get review comments.
        required: whether something that could not be published fails the step.
        allow_unsafe_forks: whether code of a fork may run where secrets are at hand.
        token: of the job, or a person's; empty for none.
    """

    comment: Mode
    comment_id: str
    check: bool
    check_name: str
    check_fail_on: Literal["violation", "never"]
    review: Literal["off", "failures"]
    required: bool
    allow_unsafe_forks: bool
    token: str

    @property
    def anything(self) -> bool:
        """Whether GitHub has to be called for something."""
        return any(map(self.asks, ("check", "comment", "review")))

    def asks(self, channel: str) -> bool:
        """Tell whether a channel is asked for."""
        return {"check": self.check, "comment": self.comment != "off", "review": self.review != "off"}[channel]

    def process_exit_code(self, code: int, channels: Sequence[Channel]) -> int:
        """Return the exit code of the process for the one that the verdict gives it."""
        return ExitCode.UNPUBLISHED if code == ExitCode.PASSED and self.required and missing(channels) else code


def surfaces_from(given: Mapping[str, Any], subjects: Sequence[str], environ: Mapping[str, str]) -> Surfaces:
    """Make sense of settings.

    Without a `comment-id` the workflow, the job and the suites tell comments apart, so that two suites of a matrix
    never write over each other; without a `check-name` the suites name the check run.
    """
    named = ", ".join(subjects)
    job = [environ.get("GITHUB_WORKFLOW", ""), environ.get("GITHUB_JOB", ""), named]
    return Surfaces(
        comment=given.get("comment", "always"),
        comment_id=given.get("comment_id") or "/".join(part for part in job if part),
        check=given.get("check", True),
        check_name=one_line(given.get("check_name") or f"{NAME}: {named}", _NAME_LIMIT),
        check_fail_on=given.get("check_fail_on", "violation"),
        review=given.get("review", "off"),
        required=given.get("require_publish", False),
        allow_unsafe_forks=given.get("allow_unsafe_forks", False),
        token=given.get("github_token", ""),
    )
