"""Finds the pull requests to publish to, and checks the conditions for evaluating and publishing them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

from holodeck_action.github.event import Destination, LookupByCommit, LookupByHead, LookupByNumber, NoLookup, is_fork
from holodeck_action.github.rest.api import Api, every, reading
from holodeck_action.github.rest.objects import ApiError, Pull
from holodeck_action.github.rest.payload import is_hash, is_number
from holodeck_action.workers.permission import CodeAllowed

if TYPE_CHECKING:
    from github.PullRequest import PullRequest


class FoundPulls(Struct, frozen=True):
    """The result of a search for the pull requests of a destination.

    Attributes:
        sha: the commit of the check run; None if it is unknown.
        pulls: the pull requests to write to, sorted by number.
        reason: why there are no pull requests, in one sentence; empty if there are some.
    """

    sha: str | None
    pulls: tuple[Pull, ...]
    reason: str


def find_pulls(destination: Destination, api: Api) -> FoundPulls:
    """Return the pull requests of a destination; GitHub is called at most once, and not if the event suffices.

    Pull requests whose head is another commit are omitted, since a newer head has its own run.

    Raises:
        ApiError: GitHub gave no answer.
    """
    if isinstance(destination.lookup, NoLookup):
        return FoundPulls(destination.sha, (), destination.lookup.reason)
    if not destination.comments:
        return FoundPulls(destination.sha, (), _QUEUED)
    if destination.pull is not None:
        return FoundPulls(destination.pull.head_sha, (destination.pull,), "")
    match destination.lookup:
        case LookupByNumber(number):
            pull = read_pull(api.repository.get_pull(number))
            return _pulls_at_head((pull,), destination.sha or pull.head_sha)
        case LookupByCommit(sha):
            return _pulls_at_head(_open_pulls(api.repository.get_commit(sha).get_pulls(), destination.repository), sha)
        case LookupByHead(owner, branch, sha):
            listed = api.repository.get_pulls(state="open", head=f"{owner}:{branch}")
            return _pulls_at_head(_open_pulls(listed, destination.repository), sha)


@reading
def read_pull(pull: PullRequest) -> Pull:
    """Return the pull request that PyGithub has read, or reads now.

    Raises:
        ApiError: GitHub gave no answer, or not the documented one.
    """
    head, merged = pull.head, pull.merge_commit_sha
    if not is_number(pull.number) or not is_hash(head.sha) or not (merged is None or is_hash(merged)):
        raise ValueError
    # A deleted fork has no repository.
    repository = None if head.repo is None else head.repo.full_name
    return Pull(pull.number, pull.state, head.sha, repository, pull.base.repo.full_name, merged)


def evaluation_permission(
    destination: Destination,
    fetch: Callable[[], FoundPulls] | None,
    find_doubt: Callable[[Callable[[str], bool]], str | None],
    *,
    accepted: bool,
) -> CodeAllowed:
    """Return the permission to evaluate the code that is checked out in a workflow run.

    An agent.yaml is code: its tools run, and its prompts can make a model reveal keys. Publishing a record evaluates
    nothing and needs no permission.

    Args:
        destination: the destination for the event.
        fetch: returns the pull requests of the destination from GitHub; None if GitHub cannot be called.
        find_doubt: takes a function that returns whether a commit is known to be the repository's own, and returns a
            clause with the reason why the checkout is not known to be its own; None if it is.
        accepted: whether the workflow's author accepts the risk (option `allow-unsafe-forks`).

    Raises:
        CodeRefusedError: the code must not be evaluated here.
    """
    origin = destination.origin
    if accepted or not origin.privileged or origin.fork:
        return CodeAllowed(origin, accepted)

    @cache
    def named_pulls() -> Sequence[Pull]:
        return _pulls_to_judge(destination, fetch)

    def is_known(commit: str) -> bool:
        if commit in destination.own_commits:
            return True
        own = (pull for pull in named_pulls() if not is_fork(pull))
        return any(commit in (pull.head_sha, pull.merge_sha) for pull in own)

    doubt = find_doubt(is_known)
    if doubt is None:
        return CodeAllowed(origin._replace(fork=False))
    return CodeAllowed(origin._replace(fork=any(map(is_fork, named_pulls())) or None), doubt=doubt)


def _pulls_to_judge(destination: Destination, fetch: Callable[[], FoundPulls] | None) -> Sequence[Pull]:
    """Return the pull requests whose code the event is about, as far as they are known."""
    if fetch is None or isinstance(destination.lookup, NoLookup):
        return ()
    try:
        return fetch().pulls
    except ApiError:
        return ()


def check_evaluated(destination: Destination, pulls: FoundPulls, commit: str | None) -> str | None:
    """Check that a run evaluated the commit for which its results are published.

    Without this check, a workflow that evaluates the default branch instead of the pull request would let the pull
    request pass. `commit` is the evaluated commit in the record; None if it is unknown.

    Returns:
        None if the run evaluated this commit or its test merge commit, or if a workflow checks out the commit by
        default. Otherwise one sentence with the reason and the needed input of actions/checkout.
    """
    if destination.checks_out_head:
        return None
    merged = {pull.merge_sha for pull in pulls.pulls} - {None}
    if pulls.sha is not None and commit is not None and commit in {pulls.sha, *merged, *destination.equivalent_commits}:
        return None
    evaluated = f"commit {commit[:12]} was evaluated" if commit else "the evaluated commit is unknown"
    numbers = ", ".join(f"#{pull.number}" for pull in pulls.pulls)
    head = f"commit {pulls.sha[:12]}" if pulls.sha else "an unknown commit"
    expected = f"the pull request {numbers} is at {head}" if numbers else f"the event is about {head}"
    remedy = _CHECKOUT.get(destination.event, _CHECKOUT_SHA)
    return f"{evaluated}, but {expected}, so nothing is published for it: {remedy}"


def _open_pulls(pulls: Iterable[PullRequest], repository: str) -> tuple[Pull, ...]:
    """Return the open pull requests to a repository, sorted by number; GitHub also lists those to forks."""
    here = repository.casefold()
    read_pulls = map(read_pull, every(pulls, "number"))
    known = {
        pull.number: pull for pull in read_pulls if pull.state == "open" and pull.base_repository.casefold() == here
    }
    return tuple(known[number] for number in sorted(known))


def _pulls_at_head(pulls: tuple[Pull, ...], sha: str) -> FoundPulls:
    current = tuple(pull for pull in pulls if pull.head_sha == sha)
    if current:
        return FoundPulls(sha, current, "")
    if pulls:
        numbers = ", ".join(f"#{pull.number}" for pull in pulls)
        return FoundPulls(sha, (), f"the pull request {numbers} has a newer head; the run of that head will report")
    return FoundPulls(sha, (), f"no open pull request has commit {sha[:12]} as its head")


_QUEUED = "a merge queue checks its own commit, and the comment of the pull request stays as it is"

_CHECKOUT_SHA = "give actions/checkout the `ref:` of the commit to evaluate"
_CHECKOUT = {
    "": "evaluate the head, or vouch for the record with --sha",
    "pull_request": "give actions/checkout `ref: ${{ github.event.pull_request.head.sha }}`",
    "pull_request_target": "give actions/checkout `ref: ${{ github.event.pull_request.head.sha }}`",
    "workflow_run": (
        "give actions/checkout of the workflow that evaluates `ref: ${{ github.event.pull_request.head.sha }}`, or "
        "`ref: ${{ github.event.workflow_run.head_sha }}` if it is this one"
    ),
    "issue_comment": "give actions/checkout `ref: refs/pull/${{ github.event.issue.number }}/head`",
    "workflow_dispatch": "give actions/checkout `ref: refs/pull/${{ inputs.pr-number }}/head`",
}
