"""From an event to what it is about: the commit, the pull request, and what can be expected of the token.

Nothing is asked of GitHub here (`holodeck_action.github.lookup` does). The table is that of GitHub's documentation,
"Events that trigger workflows"; what a fork's and Dependabot's tokens may do is in "Automatic token authentication" and
"Dependabot on GitHub Actions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.github.rest.objects import Pull
from holodeck_action.github.rest.payload import EventError, Payload, is_hash, is_number, is_repository, read_event
from holodeck_action.text.plain import one_line
from holodeck_action.workers.permission import FORKS, Origin, is_foreign, origin_of

_DEPENDABOT = "dependabot[bot]"
_DEPENDABOT_READS = frozenset(
    {"create", "deployment", "deployment_status", "pull_request", "pull_request_review", "pull_request_review_comment"}
    | {"push"}
)
"""Events whose token can only read when Dependabot caused them."""

_QUEUE = re.compile(r"refs/heads/gh-readonly-queue/.+/pr-([0-9]{1,18})-[0-9a-f]{40,64}", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


class ByNumber(Struct, frozen=True):
    """The event names the pull request."""

    number: int


class ByCommit(Struct, frozen=True):
    """Open pull requests of this repository whose head is the commit; there may be none or several."""

    sha: str


class ByHead(Struct, frozen=True):
    """Open pull requests from a branch, perhaps of a fork, whose head is the commit."""

    owner: str
    branch: str
    sha: str


class NoPull(Struct, frozen=True):
    """There is none; `reason` is one sentence."""

    reason: str


Lookup = ByNumber | ByCommit | ByHead | NoPull


class Target(Struct, frozen=True):
    """What an event is about; what is not given is as for a commit of this repository that is simply checked out.

    Attributes:
        event: its name.
        repository: `owner/name` of the repository that the workflow runs in; empty when it is not known.
        sha: the commit that the check run belongs to; None where only the pull request tells it.
        lookup: how the pull requests are found.
        comments: whether the comment is to be written: a merge queue leaves the pull request's own comment alone.
        standing_for: commits other than `sha` whose checkout is an evaluation of it, such as the test merge commit.
        checks_out_head: whether the checkout that a workflow makes without further ado is that of `sha`. Where it is
            not, a run of the default branch must not be published as one of the pull request.
        why: one sentence on why the token cannot write, where that is to be expected, with the way out; else empty.
            It is tried all the same.
        fork: whether the code at `sha` is a fork's; None where only the pull request tells it.
        privileged: whether secrets and a token that can write are at hand although `sha` may be anybody's code.
        pull: the pull request as the event describes it; None where GitHub has to be asked.
    """

    event: str
    repository: str
    sha: str | None
    lookup: Lookup
    comments: bool = True
    standing_for: frozenset[str] = frozenset()
    checks_out_head: bool = True
    why: str = ""
    fork: bool | None = False
    privileged: bool = False
    pull: Pull | None = None

    @property
    def origin(self) -> Origin:
        """Whose code it is about."""
        return Origin(self.event, self.privileged, self.fork)


def event_target(environ: Mapping[str, str]) -> Target:
    """Return what the event of a step is about; of one that cannot be read nothing is known, and nothing is trusted."""
    try:
        return resolve(*read_event(environ), environ)
    except EventError as error:
        origin = origin_of(environ.get("GITHUB_EVENT_NAME", "").strip(), None)
        return Target(
            origin.event,
            environ.get("GITHUB_REPOSITORY", ""),
            None,
            NoPull(str(error)),
            comments=False,
            checks_out_head=not origin.privileged,
            fork=origin.fork,
            privileged=origin.privileged,
        )


def given_target(repository: str, pull: int | None, sha: str | None) -> Target:
    """Return a target that somebody names, instead of an event.

    Args:
        repository: `owner/name`.
        pull: number of the pull request; None where the commit finds it.
        sha: the commit that was evaluated; None for the head of the pull request, which the record is then held to.
    """
    lookup: Lookup = NoPull("no pull request and no commit was given")
    if pull is not None:
        lookup = ByNumber(pull)
    elif sha is not None:
        lookup = ByCommit(sha)
    # Who names the commit, vouches for it.
    return Target("", repository, sha, lookup, checks_out_head=sha is not None)


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
    target = _RESOLVERS.get(event_name, _of_commit)(_Event(event_name, Payload(event_name, payload), environ))
    origin = origin_of(event_name, payload)
    return replace(target, fork=origin.fork, privileged=origin.privileged)


def is_fork(pull: Pull) -> bool:
    """Tell whether a pull request's code is another repository's; that of a deleted fork is."""
    return is_foreign(pull.head_repository, pull.base_repository)


class _Event(Struct, frozen=True):
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
            f"as for forks ({FORKS})"
        )

    def target(self, sha: str | None, lookup: Lookup, why: str = "") -> Target:
        return Target(self.name, self.repository, sha, lookup, why=why)


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
    target_event = event.name == "pull_request_target"
    why = event.reads_only
    if is_fork(pull) and not target_event:
        why = f"the token of a {event.name} run for a fork can only read: publish from a second workflow ({FORKS})"
    return replace(
        event.target(sha, ByNumber(number), why),
        standing_for=frozenset({merge_sha} if merge_sha is not None and merge_sha != sha else ()),
        # A run for a merged pull request checks out the base branch, which may have moved on.
        checks_out_head=not target_event and not merged,
        pull=pull,
    )


def _of_push(event: _Event) -> Target:
    payload = event.payload
    ref = payload.get("ref")
    shown = one_line(ref, 100) if isinstance(ref, str) else "a reference"
    why = event.reads_only
    if payload.get("deleted") is True:
        # The run is one of the default branch then.
        return event.target(event.sha, NoPull(f"the push deleted {shown}: there is no pull request of it"), why)
    # The commit that an annotated tag names is not `after`, which is the tag itself.
    sha = event.sha or (payload.hash("head_commit.id") if payload.optional("head_commit") else payload.hash("after"))
    if isinstance(ref, str) and ref.startswith("refs/tags/"):
        return event.target(sha, NoPull(f"{shown} is a tag, which belongs to no pull request"), why)
    return event.target(sha, ByCommit(sha), why)


def _of_merge_group(event: _Event) -> Target:
    ref = event.payload.get("merge_group.head_ref")
    found = _QUEUE.fullmatch(ref) if isinstance(ref, str) else None
    lookup: Lookup = (
        ByNumber(int(found[1]))
        if found is not None and int(found[1]) > 0
        else NoPull("the merge queue's branch names no pull request")
    )
    return replace(event.target(event.payload.hash("merge_group.head_sha"), lookup), comments=False)


def _of_workflow_run(event: _Event) -> Target:
    payload = event.payload
    sha = payload.hash("workflow_run.head_sha")
    payload.repository("repository.full_name")
    if payload.optional("workflow_run.head_repository") is None:
        # The fork is deleted: its pull requests are still found by the commit.
        return _of_another_run(event, sha, ByCommit(sha))
    payload.repository("workflow_run.head_repository.full_name")
    numbers = _listed_pulls(payload, sha)
    lookup: Lookup
    if len(numbers) == 1:
        lookup = ByNumber(numbers[0])
    elif payload.get("workflow_run.head_branch") is None:
        lookup = ByCommit(sha)
    else:
        owner = payload.login("workflow_run.head_repository.owner.login")
        lookup = ByHead(owner, payload.branch("workflow_run.head_branch"), sha)
    return _of_another_run(event, sha, lookup)


def _of_another_run(event: _Event, sha: str | None, lookup: Lookup) -> Target:
    return replace(event.target(sha, lookup), checks_out_head=False)


def _listed_pulls(payload: Payload, sha: str) -> tuple[int, ...]:
    """Return the pull requests that GitHub lists for a run: none for a fork's, and perhaps some of other repositories.

    An entry that cannot be used is omitted: what is left is found by the branch.
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
    return _of_another_run(event, None, ByNumber(number))


def _of_commit(event: _Event) -> Target:
    reason = f"{one_line(event.name, 60)} belongs to no pull request" if event.name else "this is no workflow run"
    return event.target(event.sha, NoPull(reason), event.reads_only)


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
