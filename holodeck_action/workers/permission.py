"""The permission to start code of the checkout, which depends on the GitHub event of the job.

A process that runs such code cannot be started without the permission. This module uses only the standard library of
Python 3.9 or newer, because `runner/start.py` imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

FORKS = "docs/github.md#pull-requests-from-forks"
_ACCEPT_RISK = (
    "or read docs/security.md and accept the risk with the option `--allow-unsafe-forks` (in a workflow step: a line "
    "of the input `args`)"
)

PRIVILEGED = frozenset(("pull_request_target", "workflow_run", "issue_comment", "workflow_dispatch"))
"""GitHub events whose jobs have secrets and a token that can write, although the evaluated code may be untrusted.

Source: GitHub's documentation, "Events that trigger workflows"."""


class Origin(NamedTuple):
    """The GitHub event of a job, and whether the code that the job evaluates may be untrusted.

    Attributes:
        event: name of the GitHub event; empty outside of GitHub Actions.
        privileged: whether the job has secrets and a token that can write, although the code may be untrusted.
        fork: whether the code is from a fork; None if that is unknown.
    """

    event: str
    privileged: bool
    fork: bool | None


class CodeRefusedError(Exception):
    """Code of the checkout must not be started. The message is one sentence with the reason and a remedy."""


@dataclass(frozen=True)
class CodeAllowed:
    """The permission to start code of the checkout. Creating one raises an error if the event forbids such code.

    Attributes:
        origin: the origin of the code.
        accepted: whether the workflow's author has accepted the risk (option `allow-unsafe-forks`).

    Raises:
        CodeRefusedError: the code may be from a fork, the job has secrets, and the risk is not accepted.
    """

    origin: Origin
    accepted: bool = False

    def __post_init__(self) -> None:
        if self.accepted or not self.origin.privileged or self.origin.fork is False:
            return
        event = self.origin.event
        if self.origin.fork is None:
            raise CodeRefusedError(
                f"{event} has the secrets and a token that can write, and it is unknown whether the pull request "
                "comes from a fork, so nothing was evaluated: give the job `permissions: pull-requests: read`, so that "
                f"the pull request can be looked up, {_ACCEPT_RISK}"
            )
        raise CodeRefusedError(
            f"{event} would give a fork's code the secrets and a token that can write, so nothing was evaluated: "
            f"evaluate on pull_request and publish in a second workflow ({FORKS}), {_ACCEPT_RISK}"
        )


LOCAL_ORIGIN = Origin("", privileged=False, fork=False)
"""The origin of code outside of GitHub Actions."""


class NoCode:
    """The permission to start a process that runs no code of the checkout, only modules of this package."""


NO_CODE = NoCode()


def origin_of(event: str, payload: Mapping[str, Any] | None) -> Origin:
    """Return the origin of the code that a GitHub event evaluates.

    Args:
        event: the value of `GITHUB_EVENT_NAME`; empty outside of GitHub Actions.
        payload: the event's payload; None if it cannot be read.
    """
    if payload is None:
        return Origin(event, event in PRIVILEGED, None)
    if event in ("pull_request", "pull_request_review", "pull_request_review_comment", "pull_request_target"):
        base = _get(payload, "pull_request.base.repo.full_name")
        return Origin(
            event, event in PRIVILEGED, _is_head_in_other_repository(_get(payload, "pull_request.head.repo"), base)
        )
    if event == "workflow_run":
        run = _get(payload, "workflow_run")
        here = _get(payload, "repository.full_name")
        fork = _is_head_in_other_repository(run.get("head_repository"), here) if isinstance(run, Mapping) else None
        return Origin(event, True, fork)
    if event in ("issue_comment", "workflow_dispatch"):
        about = _concerns_pull_request(event, payload)
        return Origin(event, about, None if about else False)
    return Origin(event, event in PRIVILEGED, None if event in PRIVILEGED else False)


def is_other_repository(head: str | None, base: str) -> bool:
    """Return whether a head repository differs from the base repository, both as `owner/name`.

    A head repository that was deleted (None) counts as different.
    """
    return head is None or head.casefold() != base.casefold()


def _is_head_in_other_repository(head: object, base: object) -> bool | None:
    """Return whether an event's head repository differs from its base repository; None if that is unknown."""
    name = head.get("full_name") if isinstance(head, Mapping) else None
    if not isinstance(base, str) or not (head is None or isinstance(name, str)):
        return None
    return is_other_repository(name, base)


def _concerns_pull_request(event: str, payload: Mapping[str, Any]) -> bool:
    """Return whether an `issue_comment` or `workflow_dispatch` event is about a pull request; True if unclear."""
    if event == "issue_comment":
        issue = payload.get("issue")
        return not isinstance(issue, Mapping) or issue.get("pull_request") is not None
    inputs = payload.get("inputs")
    if inputs is None:
        return False
    return not isinstance(inputs, Mapping) or any(
        inputs.get(name) not in (None, "") for name in ("pr-number", "pr_number")
    )


def _get(payload: Mapping[str, Any], path: str) -> Any:
    value: Any = payload
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
