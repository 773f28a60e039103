"""The options of the channels on GitHub: inputs of the step or flags of `publish` (docs/action.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.github.channels import Channel, any_unpublished
from holodeck_action.github.sticky_comment import Mode
from holodeck_action.text.plain import one_line

NAME = "holodeck-action"
_NAME_LIMIT = 100


class ChannelOptions(Struct, frozen=True):
    """The options of the channels on GitHub (comment, check run, review), with defaults applied.

    Attributes:
        comment: when the comment is written.
        comment_id: distinguishes the comment from this action's other comments on the same pull request.
        subject: the `comment-id` from the user, which the comment shows; empty if the user gave none.
        kind: kind of text in the comment, see `sticky_comment.marker`.
        check: whether to write a check run.
        check_name: name of the check run.
        check_fail_on: the verdicts that make the check run fail.
        review: whether failing cases get review comments.
        required: whether the step fails if a channel could not be published.
        allow_unsafe_forks: whether code of a fork may run although the job has secrets.
        token: token of the job or of a user; empty if there is no token.
    """

    comment: Mode
    comment_id: str
    subject: str
    kind: str
    check: bool
    check_name: str
    check_fail_on: Literal["violation", "never"]
    review: Literal["off", "failures"]
    required: bool
    allow_unsafe_forks: bool
    token: str

    @property
    def calls_github(self) -> bool:
        """Whether any channel needs to call GitHub."""
        return any(map(self.is_requested, ("check", "comment", "review")))

    def is_requested(self, channel: str) -> bool:
        """Return whether a channel is requested."""
        return {"check": self.check, "comment": self.comment != "off", "review": self.review != "off"}[channel]

    def for_command(self, name: str, *, comment: bool) -> ChannelOptions:
        """Return the options for an extension's command, which publishes at most a comment of the kind `name`."""
        return replace(self, kind=name, comment=self.comment if comment else "off", check=False, review="off")

    def process_exit_code(self, code: int, channels: Sequence[Channel]) -> int:
        """Return the exit code of the process: the verdict's, or `UNPUBLISHED` if publishing was required but
        failed."""
        return ExitCode.UNPUBLISHED if code == ExitCode.PASSED and self.required and any_unpublished(channels) else code


def channel_options_from(
    values: Mapping[str, Any], suite_names: Sequence[str], environ: Mapping[str, str]
) -> ChannelOptions:
    """Return the options for given settings, with defaults for missing ones.

    The default `comment-id` contains the workflow, the job and the suites, so that two suites of a matrix never
    overwrite each other's comment; the default `check-name` contains the suites.
    """
    named = ", ".join(suite_names)
    job = [environ.get("GITHUB_WORKFLOW", ""), environ.get("GITHUB_JOB", ""), named]
    return ChannelOptions(
        comment=values.get("comment", "always"),
        comment_id=values.get("comment_id") or "/".join(part for part in job if part),
        subject=values.get("comment_id") or "",
        kind="report",
        check=values.get("check", True),
        check_name=one_line(values.get("check_name") or f"{NAME}: {named}", _NAME_LIMIT),
        check_fail_on=values.get("check_fail_on", "violation"),
        review=values.get("review", "off"),
        required=values.get("require_publish", False),
        allow_unsafe_forks=values.get("allow_unsafe_forks", False),
        token=values.get("github_token", ""),
    )
