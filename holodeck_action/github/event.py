"""From an event to what it is about: the commit, the pull request, and what can be expected of the token.

Nothing is asked of GitHub here (`holodeck_action.github.lookup` does). The table is that of GitHub's documentation,
"Events that trigger workflows"; what a fork's and Dependabot's tokens may do is in "Automatic token authentication" and
"Dependabot on GitHub Actions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holodeck_action.github.payload import EventError, Payload, is_hash, is_number, is_repository, read_event
from holodeck_action.github.remote import Pull
from holodeck_action.github.target import ByCommit, ByHead, ByNumber, Lookup, NoPull, Target
from holodeck_action.text.plain import one_line

__all__ = ["EventError", "is_fork", "read_event", "refusal", "refusal_of_fork", "resolve"]

_FORKS = "docs/github.md#pull-requests-from-forks"
_DEPENDABOT = "dependabot[bot]"
_DEPENDABOT_READS = frozenset(
    {"create", "deployment", "deployment_status", "pull_request", "pull_request_review", "pull_request_review_comment"}
    | {"push"}
)
"""Events whose token can only read when Dependabot caused them."""

_QUEUE = re.compile(r"refs/heads/gh-readonly-queue/.+/pr-([0-9]{1,18})-[0-9a-f]{40,64}", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


def resolve(event_name: str, payload: Mapping[str, Any], environ: Mapping[str, str]) -> Target:
    """Tell what an event is about.

    A reusable workflow (`workflow_call`) sees its caller's event and payload.

    Args:
        event_name: the value of `GITHUB_EVENT_NAME`; empty outside of GitHub Actions.
        payload: what GitHub sent of the event.
        environ: the runner's variables: `GITHUB_SHA`, `GITHUB_REF`, `GITHUB_REPOSITORY`, `GITHUB_ACTOR`.

    Raises:
        EventError: the payload is not what GitHub sends for such an event, or the input `pr-number` is no number.
    """
    event = _Event(event_name, Payload(event_name, payload), environ)
    return _RESOLVERS.get(event_name, _of_commit)(event)


def refusal(target: Target, *, allowed: bool) -> str | None:
    """Tell why a fork's code must not be evaluated here, as far as the event tells; None where it may be.

    An agent.yaml is code: its tools run, and its prompts can lead a model to give keys away. `lookup.refusal` tells the
    same once the pull request is known. Publishing a record evaluates nothing and asks neither.

    Args:
        target: what the event is about.
        allowed: whether the workflow's author has taken the responsibility (input `allow-unsafe-forks`).
    """
    return refusal_of_fork(target) if target.privileged and target.fork and not allowed else None


def refusal_of_fork(target: Target) -> str:
    """Return the sentence that refuses to evaluate a fork's code, with the two ways out."""
    return (
        f"{target.event} would give a fork's code the secrets and a token that can write, so nothing was evaluated: "
        f"evaluate on pull_request and publish in a second workflow ({_FORKS}), or read docs/security.md and set the "
        "input `allow-unsafe-forks: true`"
    )


def is_fork(pull: Pull) -> bool:
    """Tell whether a pull request's code is another repository's; that of a deleted fork is."""
    return pull.head_repository is None or pull.head_repository.casefold() != pull.base_repository.casefold()


@dataclass(frozen=True, slots=True)
class _Event:
    name: str
    payload: Payload
    environ: Mapping[str, str]

    @property
    def sha(self) -> str | None:
        """`GITHUB_SHA`: the commit that is checked out by default."""
        value = self.environ.get("GITHUB_SHA", "")
        return value if is_hash(value) else None

    @property
    def repository(self) -> str:
        for value in (self.environ.get("GITHUB_REPOSITORY"), self.payload.get("repository.full_name")):
            if is_repository(value):
                assert isinstance(value, str)
                return value
        return ""

    @property
    def reads_only(self) -> str:
        """Why Dependabot's token can only read; empty where it can write or somebody else caused the event."""
        actor = self.environ.get("GITHUB_ACTOR") or self.payload.get("sender.login")
        if actor != _DEPENDABOT or self.name not in _DEPENDABOT_READS:
            return ""
        return (
            f"the token of a {self.name} run that Dependabot caused can only read: publish from a second workflow, "
            f"as for forks ({_FORKS})"
        )

    def target(
        self,
        sha: str | None,
        lookup: Lookup,
        *,
        comments: bool = True,
        standing_for: tuple[str | None, ...] = (),
        checks_out_head: bool = True,
        why: str = "",
        fork: bool | None = False,
        privileged: bool = False,
        pull: Pull | None = None,
    ) -> Target:
        """Return a target; what is not given is as for a commit of this repository that is simply checked out."""
        return Target(
            event=self.name,
            repository=self.repository,
            sha=sha,
            lookup=lookup,
            comments=comments,
            standing_for=frozenset(commit for commit in standing_for if commit is not None and commit != sha),
            checks_out_head=checks_out_head,
            write=not why,
            why=why,
            fork=fork,
            privileged=privileged,
            pull=pull,
        )


def _of_pull_request(event: _Event) -> Target:
    payload = event.payload
    sha = payload.hash("pull_request.head.sha")
    number = payload.number("pull_request.number")
    base = payload.repository("pull_request.base.repo.full_name")
    # GitHub leaves the repository out when the fork was deleted.
    known = payload.optional("pull_request.head.repo") is not None
    head = payload.repository("pull_request.head.repo.full_name") if known else None
    merged = payload.get("pull_request.merged") is True
    # Of a pull request that is open, the payload often has the test merge commit of the push before
    # (actions/checkout#518); GITHUB_SHA is that of this one. Once merged, both are commits of the base branch.
    final = payload.get("pull_request.merge_commit_sha") if merged else None
    tested = event.sha if event.environ.get("GITHUB_REF") == f"refs/pull/{number}/merge" else None
    merge_sha = final if is_hash(final) else tested
    state = "open" if payload.get("pull_request.state") == "open" else "closed"
    pull = Pull(number, state, sha, head, base, merge_sha)
    fork = is_fork(pull)
    target_event = event.name == "pull_request_target"
    why = event.reads_only
    if fork and not target_event:
        why = f"the token of a {event.name} run for a fork can only read: publish from a second workflow ({_FORKS})"
    return event.target(
        sha,
        ByNumber(number),
        standing_for=(merge_sha,),
        # A run for a merged pull request checks out the base branch, which may have moved on.
        checks_out_head=not target_event and not merged,
        why=why,
        fork=fork,
        privileged=target_event,
        pull=pull,
    )


def _of_push(event: _Event) -> Target:
    payload = event.payload
    ref = payload.get("ref")
    shown = one_line(ref, 100) if isinstance(ref, str) else "a reference"
    why = event.reads_only
    if payload.get("deleted") is True:
        # The run is one of the default branch then.
        return event.target(event.sha, NoPull(f"the push deleted {shown}: there is no pull request of it"), why=why)
    # The commit that an annotated tag names is not `after`, which is the tag itself.
    sha = event.sha or (payload.hash("head_commit.id") if payload.optional("head_commit") else payload.hash("after"))
    if isinstance(ref, str) and ref.startswith("refs/tags/"):
        return event.target(sha, NoPull(f"{shown} is a tag, which belongs to no pull request"), why=why)
    return event.target(sha, ByCommit(sha), why=why)


def _of_merge_group(event: _Event) -> Target:
    ref = event.payload.get("merge_group.head_ref")
    found = _QUEUE.fullmatch(ref) if isinstance(ref, str) else None
    lookup: Lookup = (
        ByNumber(int(found[1]))
        if found is not None and int(found[1]) > 0
        else NoPull("the merge queue's branch names no pull request")
    )
    return event.target(event.payload.hash("merge_group.head_sha"), lookup, comments=False)


def _of_workflow_run(event: _Event) -> Target:
    payload = event.payload
    sha = payload.hash("workflow_run.head_sha")
    here = payload.repository("repository.full_name")
    if payload.optional("workflow_run.head_repository") is None:
        # The fork is deleted: its pull requests are still found by the commit.
        return _of_another_run(event, sha, ByCommit(sha), fork=True)
    head = payload.repository("workflow_run.head_repository.full_name")
    numbers = _listed_pulls(payload, sha)
    lookup: Lookup
    if len(numbers) == 1:
        lookup = ByNumber(numbers[0])
    elif payload.get("workflow_run.head_branch") is None:
        lookup = ByCommit(sha)
    else:
        owner = payload.login("workflow_run.head_repository.owner.login")
        lookup = ByHead(owner, payload.branch("workflow_run.head_branch"), sha)
    return _of_another_run(event, sha, lookup, fork=head.casefold() != here.casefold())


def _of_another_run(event: _Event, sha: str, lookup: Lookup, *, fork: bool) -> Target:
    return event.target(sha, lookup, checks_out_head=False, fork=fork, privileged=True)


def _listed_pulls(payload: Payload, sha: str) -> tuple[int, ...]:
    """Return the pull requests that GitHub lists for a run: none for a fork's, and perhaps some of other repositories.

    An entry that cannot be used is left out: what is left is found by the branch.
    """
    entries = payload.get("workflow_run.pull_requests")
    here = payload.get("repository.id")
    numbers = []
    for data in entries if isinstance(entries, list) and is_number(here) else ():
        entry = Payload(payload.event, data if isinstance(data, Mapping) else {})
        if entry.get("base.repo.id") == here and entry.get("head.sha") == sha and is_number(entry.get("number")):
            numbers.append(entry.number("number"))
    return tuple(dict.fromkeys(numbers))


def _of_issue_comment(event: _Event) -> Target:
    number = event.payload.number("issue.number")
    if event.payload.optional("issue.pull_request") is None:
        return event.target(event.sha, NoPull(f"the comment is one of issue #{number}, which is no pull request"))
    return _of_chosen_pull(event, number)


def _of_dispatch(event: _Event) -> Target:
    inputs = event.payload.optional("inputs") or {}
    given = {_chosen(value) for name in ("pr-number", "pr_number") if (value := inputs.get(name)) not in (None, "")}
    if not given:
        return event.target(event.sha, NoPull("workflow_dispatch was given no input `pr-number`"))
    number = given.pop()
    if given or number is None:
        raise EventError(
            "workflow_dispatch: the input `pr-number` is no pull request's number: give one such as `7`, or leave it "
            "empty for a run that belongs to none"
        )
    return _of_chosen_pull(event, number)


def _chosen(value: object) -> int | None:
    """Return the number that an input gives; inputs are texts, and numbers where a workflow declares them so."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = int(value)
    return value if isinstance(value, int) and is_number(value) else None


def _of_chosen_pull(event: _Event, number: int) -> Target:
    """Return the target for a pull request that somebody named, in a run that belongs to the default branch."""
    return event.target(None, ByNumber(number), checks_out_head=False, fork=None, privileged=True)


def _of_commit(event: _Event) -> Target:
    reason = f"{one_line(event.name, 60)} belongs to no pull request" if event.name else "this is no workflow run"
    return event.target(event.sha, NoPull(reason), why=event.reads_only)


_RESOLVERS: Mapping[str, Callable[[_Event], Target]] = {
    "pull_request": _of_pull_request,
    "pull_request_review": _of_pull_request,
    "pull_request_review_comment": _of_pull_request,
    "pull_request_target": _of_pull_request,
    "push": _of_push,
    "merge_group": _of_merge_group,
    "workflow_run": _of_workflow_run,
    "issue_comment": _of_issue_comment,
    "workflow_dispatch": _of_dispatch,
}
