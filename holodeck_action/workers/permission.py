"""The permission to start code of the checkout, which depends on the GitHub event of the job.

A process that runs such code cannot be started without the permission. This module uses only the standard library of
Python 3.9 or newer, because `runner/start.py` imports it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

FORKS = "docs/github.md#pull-requests-from-forks"
_ACCEPT_RISK = (
    "or read docs/security.md and accept the risk with the option `--allow-unsafe-forks` (in a workflow step: a line "
    "of the input `args`)"
)

SAFE_EVENTS: Mapping[str, str] = MappingProxyType(
    {
        "push": "only who may write can push; the secrets are theirs to read",
        "schedule": "runs on the default branch",
        "pull_request": "GitHub withholds the secrets from forks and Dependabot",
        "merge_group": "only who may write can queue a pull request",
        "release": "only who may write can publish a release",
    }
)
"""The events on which any checkout may run, and why. On all others the checkout must be the repository's own.

Source: GitHub's documentation, "Events that trigger workflows"."""
CHECKOUT_EVIDENCE: Sequence[str] = (
    "it is `GITHUB_SHA`, and `GITHUB_REF` is a branch or tag of the repository; for reviews, also a test merge",
    "it is the head or the test merge of the pull request that the event or `pr-number` names, from a branch of the "
    "repository",
    "it is the head of a branch of `GITHUB_REPOSITORY`, as GitHub says",
    "it is in the history of the default branch of `GITHUB_REPOSITORY`, as GitHub says",
)
"""What shows that the commit of a checkout is the repository's own; each suffices."""


class Origin(NamedTuple):
    """The GitHub event of a job, and whether the code that the job evaluates may be untrusted.

    Attributes:
        event: name of the GitHub event; empty outside of GitHub Actions.
        privileged: whether the job can have secrets and a token that can write, although the code may be untrusted.
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
        doubt: a clause that says why the checkout is not known to be the repository's own.
        accepted: whether the workflow's author has accepted the risk (option `allow-unsafe-forks`).

    Raises:
        CodeRefusedError: the code may be from a fork, the job has secrets, and the risk is not accepted.
    """

    origin: Origin
    accepted: bool = False
    doubt: str = "only the program can tell, before it reads any of it"

    def __post_init__(self) -> None:
        if self.accepted or not self.origin.privileged or self.origin.fork is False:
            return
        event = self.origin.event
        if self.origin.fork is None:
            raise CodeRefusedError(
                f"{event} can have the secrets and a token that can write, and the checkout is not known to be this "
                f"repository's own: {self.doubt}; so nothing was evaluated: check out a commit of this repository and "
                f"change no file, {_ACCEPT_RISK}"
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


_HEAD_AND_BASE: Mapping[str, tuple[str, str]] = {
    "pull_request": ("pull_request.head.repo", "pull_request.base.repo.full_name"),
    "pull_request_target": ("pull_request.head.repo", "pull_request.base.repo.full_name"),
    "workflow_run": ("workflow_run.head_repository", "repository.full_name"),
}
"""Where payloads name the repository of the head, and that of the base."""


def origin_of(event: str, payload: Mapping[str, Any] | None) -> Origin:
    """Return the origin of the code that a GitHub event evaluates.

    Args:
        event: the value of `GITHUB_EVENT_NAME`; empty outside of GitHub Actions.
        payload: the event's payload; None if it cannot be read.
    """
    is_privileged = event not in ("", *SAFE_EVENTS)
    head, base = _HEAD_AND_BASE.get(event, ("", ""))
    if payload is None or not head:
        return Origin(event, is_privileged, None if is_privileged or payload is None else False)
    is_complete = isinstance(_get(payload, head.rpartition(".")[0]), Mapping)
    fork = _is_head_in_other_repository(_get(payload, head), _get(payload, base)) if is_complete else None
    # A payload can only tell that code is a fork's: what is checked out is up to the workflow.
    return Origin(event, is_privileged, None if is_privileged and fork is False else fork)


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


def _get(payload: Mapping[str, Any], path: str) -> Any:
    value: Any = payload
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
