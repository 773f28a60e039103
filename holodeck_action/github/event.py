"""Determines where the results of a workflow run are published, from its event: commit and pull request, and the
permissions of the token.

GitHub is not called here (`holodeck_action.github.lookup` does that). Sources: GitHub's documentation, "Events that
trigger workflows"; for tokens of forks and Dependabot, "Automatic token authentication" and "Dependabot on GitHub
Actions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.github.rest.objects import Pull
from holodeck_action.github.rest.payload import (
    EventError,
    Payload,
    is_branch,
    is_hash,
    is_login,
    is_number,
    is_repository,
    read_event,
)
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import one_line
from holodeck_action.workers.permission import FORKS, Origin, is_other_repository, origin_of

_DEPENDABOT = "dependabot[bot]"
_DEPENDABOT_READ_ONLY = frozenset(
    {"create", "deployment", "deployment_status", "pull_request", "pull_request_review", "pull_request_review_comment"}
    | {"push"}
)
"""Events for which the token is read-only if Dependabot triggered them."""

_QUEUE = lazy_pattern(r"refs/heads/gh-readonly-queue/.+/pr-([0-9]{1,18})-[0-9a-f]{40,64}", re.DOTALL)
_NUMBER = lazy_pattern(r"[0-9]{1,18}", re.ASCII)


class LookupByNumber(Struct, frozen=True):
    """Look up the pull request that the event names, by number."""

    number: int


class LookupByCommit(Struct, frozen=True):
    """Look up the open pull requests of this repository whose head is the commit; there may be none or several."""

    sha: str


class LookupByHead(Struct, frozen=True):
    """Look up the open pull requests from a branch, perhaps of a fork, whose head is the commit."""

    owner: str
    branch: str
    sha: str


class NoLookup(Struct, frozen=True):
    """There is no pull request to look up; `reason` is one sentence."""

    reason: str


Lookup = LookupByNumber | LookupByCommit | LookupByHead | NoLookup


class Destination(Struct, frozen=True):
    """The commit and the pull requests to publish to. The defaults suit a checked-out commit of this repository.

    Attributes:
        event: name of the event.
        repository: `owner/name` of the workflow's repository; empty if it is unknown.
        sha: the commit of the check run; None if it must be read from the pull request.
        lookup: the way to find the pull requests.
        comments: whether to write the comment; false for a merge queue, whose run must not change the pull request's
            comment.
        equivalent_commits: commits other than `sha` whose evaluation counts for `sha`, such as the test merge commit.
        checks_out_head: whether a workflow checks out `sha` by default. If not, the evaluated commit must be compared
            with `sha` before results are published for the pull request.
        read_only_reason: one sentence on why the token probably cannot write, with a remedy; empty if it probably can.
            Writing is attempted anyway.
        fork: whether the code at `sha` is a fork's; None if this must be read from the pull request.
        privileged: whether the job has secrets and a token that can write, although `sha` may be untrusted code.
        pull: the pull request in the event; None if GitHub must be called.
        own_commits: commits that the runner's variables show to be the repository's own.
    """

    event: str
    repository: str
    sha: str | None
    lookup: Lookup
    comments: bool = True
    equivalent_commits: frozenset[str] = frozenset()
    checks_out_head: bool = True
    read_only_reason: str = ""
    fork: bool | None = False
    privileged: bool = False
    pull: Pull | None = None
    own_commits: frozenset[str] = frozenset()

    @property
    def origin(self) -> Origin:
        """The origin of the code at `sha`."""
        return Origin(self.event, self.privileged, self.fork)


def event_destination(environ: Mapping[str, str]) -> Destination:
    """Return the destination for the event of the current step. If the event cannot be read, the code of the checkout
    counts as untrusted."""
    try:
        return resolve_event(*read_event(environ), environ)
    except EventError as error:
        origin = origin_of(environ.get("GITHUB_EVENT_NAME", "").strip(), None)
        return Destination(
            origin.event,
            environ.get("GITHUB_REPOSITORY", ""),
            None,
            NoLookup(str(error)),
            comments=False,
            checks_out_head=not origin.privileged,
            fork=origin.fork,
            privileged=origin.privileged,
            own_commits=_own_commits(origin.event, environ),
        )


def named_destination(repository: str, pull: int | None, sha: str | None) -> Destination:
    """Return the destination that command-line arguments name; the event is not used.

    Args:
        repository: `owner/name`.
        pull: number of the pull request; None to find it by the commit.
        sha: the evaluated commit; None for the pull request's head, which must then be the commit in the record.
    """
    lookup: Lookup = NoLookup("neither a pull request nor a commit was given")
    if pull is not None:
        lookup = LookupByNumber(pull)
    elif sha is not None:
        lookup = LookupByCommit(sha)
    # A caller who names the commit vouches for it.
    return Destination("", repository, sha, lookup, checks_out_head=sha is not None)


def resolve_event(event_name: str, payload: Mapping[str, Any], environ: Mapping[str, str]) -> Destination:
    """Return the destination for an event.

    A reusable workflow (`workflow_call`) gets its caller's event and payload.

    Args:
        event_name: the value of `GITHUB_EVENT_NAME`; empty outside of GitHub Actions.
        payload: the event's payload.
        environ: variables of the runner: `GITHUB_SHA`, `GITHUB_REF`, `GITHUB_REPOSITORY`, `GITHUB_ACTOR`.

    Raises:
        EventError: the payload does not fit the event, or the input `pr-number` is not a number.
    """
    destination = _RESOLVERS.get(event_name, _commit_destination)(
        _Event(event_name, Payload(event_name, payload), environ)
    )
    origin = origin_of(event_name, payload)
    own = _own_commits(event_name, environ)
    return replace(destination, fork=origin.fork, privileged=origin.privileged, own_commits=own)


def _own_commits(event_name: str, environ: Mapping[str, str]) -> frozenset[str]:
    """Return `GITHUB_SHA` if it is a commit of the repository, whoever caused the event.

    A deployment can be of any commit; it then has no branch or tag. A review of a fork's pull request has no secrets.
    """
    sha, ref = environ.get("GITHUB_SHA", ""), environ.get("GITHUB_REF", "")
    named = ref.startswith(("refs/heads/", "refs/tags/"))
    reviewed = ref.startswith("refs/pull/") and event_name.startswith("pull_request_review")
    return frozenset({sha} if is_hash(sha) and (named or reviewed) else ())


def is_fork(pull: Pull) -> bool:
    """Return whether a pull request's code is from another repository; true if that repository was deleted."""
    return is_other_repository(pull.head_repository, pull.base_repository)


class _Event(Struct, frozen=True):
    name: str
    payload: Payload
    environ: Mapping[str, str]

    @property
    def sha(self) -> str | None:
        """`GITHUB_SHA`, the commit that is checked out by default."""
        value = self.environ.get("GITHUB_SHA", "")
        return value if is_hash(value) else None

    @property
    def repository(self) -> str:
        for value in (self.environ.get("GITHUB_REPOSITORY"), self.payload.get("repository.full_name")):
            if is_repository(value):
                return value
        return ""

    @property
    def read_only_reason(self) -> str:
        """One sentence if the token is read-only because Dependabot started the run; else an empty string."""
        actor = self.environ.get("GITHUB_ACTOR") or self.payload.get("sender.login")
        if actor != _DEPENDABOT or self.name not in _DEPENDABOT_READ_ONLY:
            return ""
        return (
            f"the token of a {self.name} run that Dependabot caused is read-only: publish from a second workflow, "
            f"as for forks ({FORKS})"
        )

    def destination(self, sha: str | None, lookup: Lookup, *, checks_out_head: bool = True) -> Destination:
        return Destination(
            self.name,
            self.repository,
            sha,
            lookup,
            checks_out_head=checks_out_head,
            read_only_reason=self.read_only_reason,
        )


def _pull_request_destination(event: _Event) -> Destination:
    payload = event.payload
    sha = payload.need("pull_request.head.sha", is_hash)
    number = payload.need("pull_request.number", is_number)
    base = payload.need("pull_request.base.repo.full_name", is_repository)
    # GitHub omits the repository of a deleted fork.
    known = payload.optional("pull_request.head.repo") is not None
    head = payload.need("pull_request.head.repo.full_name", is_repository) if known else None
    merged = payload.get("pull_request.merged") is True
    # The payload of an open pull request often has the test merge commit of the previous push (actions/checkout#518);
    # GITHUB_SHA has the current one. After the merge, both are commits of the base branch.
    final = payload.get("pull_request.merge_commit_sha") if merged else None
    tested = event.sha if event.environ.get("GITHUB_REF") == f"refs/pull/{number}/merge" else None
    merge_sha = final if is_hash(final) else tested
    state = "open" if payload.get("pull_request.state") == "open" else "closed"
    pull = Pull(number, state, sha, head, base, merge_sha)
    is_target_event = event.name == "pull_request_target"
    read_only_reason = event.read_only_reason
    if is_fork(pull) and not is_target_event:
        read_only_reason = (
            f"the token of a {event.name} run for a fork is read-only: publish from a second workflow ({FORKS})"
        )
    return replace(
        # A run for a merged pull request checks out the base branch, which may have newer commits.
        event.destination(sha, LookupByNumber(number), checks_out_head=not is_target_event and not merged),
        equivalent_commits=frozenset({merge_sha} if merge_sha is not None and merge_sha != sha else ()),
        read_only_reason=read_only_reason,
        pull=pull,
    )


def _push_destination(event: _Event) -> Destination:
    payload = event.payload
    ref = payload.get("ref")
    shown = one_line(ref, 100) if isinstance(ref, str) else "a reference"
    if payload.get("deleted") is True:
        # The run then belongs to the default branch.
        return event.destination(event.sha, NoLookup(f"the push deleted {shown}: it belongs to no pull request"))
    # For an annotated tag, `after` is the tag object, not its commit.
    sha = event.sha or payload.need("head_commit.id" if payload.optional("head_commit") else "after", is_hash)
    if isinstance(ref, str) and ref.startswith("refs/tags/"):
        return event.destination(sha, NoLookup(f"{shown} is a tag, which belongs to no pull request"))
    return event.destination(sha, LookupByCommit(sha))


def _merge_group_destination(event: _Event) -> Destination:
    ref = event.payload.get("merge_group.head_ref")
    found = _QUEUE.fullmatch(ref) if isinstance(ref, str) else None
    lookup: Lookup = (
        LookupByNumber(int(found[1]))
        if found is not None and int(found[1]) > 0
        else NoLookup("the merge queue's branch names no pull request")
    )
    return replace(event.destination(event.payload.need("merge_group.head_sha", is_hash), lookup), comments=False)


def _workflow_run_destination(event: _Event) -> Destination:
    payload = event.payload
    sha = payload.need("workflow_run.head_sha", is_hash)
    payload.need("repository.full_name", is_repository)
    if payload.optional("workflow_run.head_repository") is None:
        # The fork is deleted; its pull requests can still be found by the commit.
        return event.destination(sha, LookupByCommit(sha), checks_out_head=False)
    payload.need("workflow_run.head_repository.full_name", is_repository)
    numbers = _listed_pulls(payload, sha)
    lookup: Lookup
    if len(numbers) == 1:
        lookup = LookupByNumber(numbers[0])
    elif payload.get("workflow_run.head_branch") is None:
        lookup = LookupByCommit(sha)
    else:
        owner = payload.need("workflow_run.head_repository.owner.login", is_login)
        lookup = LookupByHead(owner, payload.need("workflow_run.head_branch", is_branch), sha)
    return event.destination(sha, lookup, checks_out_head=False)


def _listed_pulls(payload: Payload, sha: str) -> tuple[int, ...]:
    """Return the numbers of this repository's pull requests that a `workflow_run` event lists; none for a fork's run.

    Unusable entries are omitted, since pull requests can also be found by their branch.
    """
    entries = payload.get("workflow_run.pull_requests")
    here = payload.get("repository.id")
    numbers = []
    for data in entries if isinstance(entries, list) and is_number(here) else ():
        entry = Payload(payload.event, data if isinstance(data, Mapping) else {})
        number = entry.get("number")
        if entry.get("base.repo.id") == here and entry.get("head.sha") == sha and is_number(number):
            numbers.append(number)
    return tuple(dict.fromkeys(numbers))


def _issue_comment_destination(event: _Event) -> Destination:
    number = event.payload.need("issue.number", is_number)
    if event.payload.optional("issue.pull_request") is None:
        return event.destination(event.sha, NoLookup(f"the comment is on issue #{number}, which is not a pull request"))
    return _named_pull_destination(event, number)


def _dispatch_destination(event: _Event) -> Destination:
    inputs = event.payload.optional("inputs") or {}
    given = {
        _parse_number(value) for name in ("pr-number", "pr_number") if (value := inputs.get(name)) not in (None, "")
    }
    if not given:
        return event.destination(event.sha, NoLookup("workflow_dispatch was given no input `pr-number`"))
    number = given.pop()
    if given or number is None:
        raise EventError(
            "workflow_dispatch: the input `pr-number` is not the number of a pull request: give one such as `7`, "
            "or leave it empty if the run belongs to none"
        )
    return _named_pull_destination(event, number)


def _parse_number(value: object) -> int | None:
    """Parse an input, which is a string, or a number if the workflow declares this type; None if it is invalid."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = int(value)
    return value if is_number(value) else None


def _named_pull_destination(event: _Event, number: int) -> Destination:
    """Return the destination for a pull request that the user named; such a run checks out the default branch."""
    return event.destination(None, LookupByNumber(number), checks_out_head=False)


def _commit_destination(event: _Event) -> Destination:
    reason = f"{one_line(event.name, 60)} belongs to no pull request" if event.name else "this is not a workflow run"
    return event.destination(event.sha, NoLookup(reason))


_RESOLVERS: Mapping[str, Callable[[_Event], Destination]] = {
    "pull_request": _pull_request_destination,
    "pull_request_review": _pull_request_destination,
    "pull_request_review_comment": _pull_request_destination,
    "pull_request_target": _pull_request_destination,
    "push": _push_destination,
    "merge_group": _merge_group_destination,
    "workflow_run": _workflow_run_destination,
    "issue_comment": _issue_comment_destination,
    "workflow_dispatch": _dispatch_destination,
}
