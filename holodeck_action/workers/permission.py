"""Whether code of the checkout may be started: the event decides, and every process of such code needs the decision.

With nothing but the standard library of any Python from 3.9 on: `runner/start.py` decides before it starts anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FORKS = "docs/github.md#pull-requests-from-forks"

PRIVILEGED = frozenset(("pull_request_target", "workflow_run", "issue_comment", "workflow_dispatch"))
"""Events that have secrets and a token that can write although they may be about anybody's code.

Source: GitHub's documentation, "Events that trigger workflows"."""


@dataclass(frozen=True)
class Origin:
    """Whose code an event is about.

    Attributes:
        event: its name; empty outside of GitHub Actions.
        privileged: whether secrets and a token that can write are at hand although the code may be anybody's.
        fork: whether the code is a fork's; None if the event does not tell.
    """

    event: str
    privileged: bool
    fork: bool | None


class CodeRefusedError(Exception):
    """Code of the checkout must not be started; the message is one sentence with the way out."""


@dataclass(frozen=True)
class CodeAllowed:
    """The permission to start code of the checkout, which does not exist where the event forbids it.

    Attributes:
        origin: whose code it is.
        accepted: whether the workflow's author has taken the responsibility (input `allow-unsafe-forks`).

    Raises:
        CodeRefusedError: the code may be a fork's, and secrets are at hand.
    """

    origin: Origin
    accepted: bool = False

    def __post_init__(self) -> None:
        if self.accepted or not self.origin.privileged or self.origin.fork is False:
            return
        event = self.origin.event
        if self.origin.fork is None:
            raise CodeRefusedError(
                f"{event} has the secrets and a token that can write, and it cannot be told whether the pull request "
                "is a fork's, so nothing was evaluated: run it again with `permissions: pull-requests: read`, or read "
                "docs/security.md and set the input `allow-unsafe-forks: true`"
            )
        raise CodeRefusedError(
            f"{event} would give a fork's code the secrets and a token that can write, so nothing was evaluated: "
            f"evaluate on pull_request and publish in a second workflow ({FORKS}), or read docs/security.md and set "
            "the input `allow-unsafe-forks: true`"
        )


@dataclass(frozen=True)
class Starter:
    """Something that starts code of the checkout; docs/security.md has the table.

    Attributes:
        what: it, with the keys and flags that name it.
        starts: what is started, and when.
    """

    what: str
    starts: str


STARTERS = (
    Starter("Python targets: `python:MODULE:CALLABLE`", "a worker, at the check before a run and for conversations"),
    Starter("agents of frameworks: `langgraph:MODULE:AGENT`, …", "a worker, as for Python targets"),
    Starter("command targets: `command:CMD`", "the program, for each conversation"),
    Starter("warm-ups: `warm_up`", "nothing further: what answers is asked once more"),
    Starter("code graders: `grader`", "a worker, when the suite is loaded and for each turn"),
    Starter("custom summaries: `gates.summary.function`", "a worker, when the suite is loaded and for the verdict"),
    Starter("cases of a function: `test_cases_file: python:…`", "a worker, when the suite is loaded"),
    Starter("function tools: `type: function`", "a worker, at the check before a run and for each conversation"),
    Starter("MCP servers: `type: mcp`, `transport: stdio`", "the program, for the run"),
    Starter(
        "the Python of the code: `environment.interpreter`", "it, to learn its version, and as the Python of workers"
    ),
    Starter("packages: `environment`, `--requirements`", "uv, which runs what a package is built with"),
    Starter("the suite beside: `against`, `merge-base`", "all of the above, of another suite or another commit"),
    Starter("proofs: `import --prove`", "promptfoo, as installed, and the graders that are imported"),
)
"""Everything that starts code of the checkout. Each needs the permission: what is not listed here does not get one."""

OUTSIDE = Origin("", privileged=False, fork=False)
"""No event: a person runs the program."""


@dataclass(frozen=True)
class NoCode:
    """The permission for a process in which nothing of the checkout runs: our own modules over data."""


NO_CODE = NoCode()


def origin_of(event: str, payload: Mapping[str, Any] | None) -> Origin:
    """Return whose code an event is about, as far as it tells.

    Args:
        event: the value of `GITHUB_EVENT_NAME`; empty outside of GitHub Actions.
        payload: what GitHub sent of the event; None if it cannot be read.
    """
    if payload is None:
        return Origin(event, event in PRIVILEGED, None)
    if event in ("pull_request", "pull_request_review", "pull_request_review_comment", "pull_request_target"):
        base = _get(payload, "pull_request.base.repo.full_name")
        return Origin(event, event in PRIVILEGED, _foreign(_get(payload, "pull_request.head.repo"), base))
    if event == "workflow_run":
        run = _get(payload, "workflow_run")
        here = _get(payload, "repository.full_name")
        fork = _foreign(run.get("head_repository"), here) if isinstance(run, Mapping) else None
        return Origin(event, True, fork)
    if event in ("issue_comment", "workflow_dispatch"):
        about = _names_pull(event, payload)
        return Origin(event, about, None if about else False)
    return Origin(event, event in PRIVILEGED, None if event in PRIVILEGED else False)


def is_foreign(head: str | None, base: str) -> bool:
    """Tell whether code is another repository's than `base`, each `owner/name`; that of a deleted one (None) is."""
    return head is None or head.casefold() != base.casefold()


def _foreign(head: object, base: object) -> bool | None:
    """Tell it of a repository as an event describes it; None if it does not."""
    name = head.get("full_name") if isinstance(head, Mapping) else None
    if not isinstance(base, str) or not (head is None or isinstance(name, str)):
        return None
    return is_foreign(name, base)


def _names_pull(event: str, payload: Mapping[str, Any]) -> bool:
    """Tell whether an event of the default branch is about a pull request that somebody named; if unclear, it is."""
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
