"""From a target to its pull requests, and what must hold before something is evaluated or published for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from msgspec import Struct

from holodeck_action.github.event import ByCommit, ByHead, ByNumber, NoPull, Target, is_fork
from holodeck_action.github.rest.api import Api
from holodeck_action.github.rest.objects import ApiError, Pull
from holodeck_action.workers.permission import CodeAllowed


class Found(Struct, frozen=True):
    """What a target turned out to be.

    Attributes:
        sha: the commit that the check run belongs to; None where there is none.
        pulls: the pull requests to write to, by number.
        reason: one sentence that says why there are none; empty where there are.
    """

    sha: str | None
    pulls: tuple[Pull, ...]
    reason: str


def find(target: Target, api: Api) -> Found:
    """Find the pull requests of a target, with one call at most and none where the event tells it all.

    Only those whose head is the commit that was evaluated are written to: one with a newer head has a run of its own.

    Raises:
        ApiError: GitHub could not be asked.
    """
    if isinstance(target.lookup, NoPull):
        return Found(target.sha, (), target.lookup.reason)
    if not target.comments:
        return Found(target.sha, (), _QUEUED)
    if target.pull is not None:
        return Found(target.pull.head_sha, (target.pull,), "")
    match target.lookup:
        case ByNumber(number):
            pull = api.pull(number)
            return _at_head((pull,), target.sha or pull.head_sha)
        case ByCommit(sha):
            return _at_head(_open(api.pulls_of_commit(sha), target.repository), sha)
        case ByHead(owner, branch, sha):
            return _at_head(_open(api.pulls_of_head(owner, branch), target.repository), sha)


def permission(target: Target, look: Callable[[], Found] | None, *, accepted: bool) -> CodeAllowed:
    """Return the permission to evaluate a pull request's code.

    An agent.yaml is code: its tools run, and its prompts can lead a model to give keys away. Publishing a record
    evaluates nothing and does not ask.

    Args:
        target: what the event is about.
        look: asks GitHub for its pull requests; None when that cannot be done, and refused where it could be a fork's.
        accepted: whether the workflow's author has taken the responsibility (input `allow-unsafe-forks`).

    Raises:
        CodeRefusedError: it must not be evaluated here.
    """
    origin = target.origin
    if look is not None and origin.privileged and origin.fork is None:
        try:
            pulls = look().pulls
        except ApiError:
            pulls = ()
        if pulls:
            origin = replace(origin, fork=any(map(is_fork, pulls)))
    return CodeAllowed(origin, accepted)


def check_evaluated(target: Target, found: Found, commit: str | None) -> str | None:
    """Tell why a run says nothing about the target's commit; None where it does.

    Without this, a workflow of the default branch that forgets to check the pull request out would turn it green.

    `commit` is what was evaluated, as the record has it; None when it is not known.

    Returns:
        One sentence with what to give actions/checkout, for a target whose head is not checked out by itself and a
        commit that is neither its head nor the test merge commit of it.
    """
    if target.checks_out_head:
        return None
    merged = {pull.merge_sha for pull in found.pulls} - {None}
    if found.sha is not None and commit is not None and commit in {found.sha, *merged, *target.standing_for}:
        return None
    evaluated = f"commit {commit[:12]} was evaluated" if commit else "it is not known which commit was evaluated"
    numbers = ", ".join(f"#{pull.number}" for pull in found.pulls)
    head = f"commit {found.sha[:12]}" if found.sha else "one that is not known"
    expected = f"the pull request {numbers} is at {head}" if numbers else f"the event is about {head}"
    return f"{evaluated}, but {expected}, so nothing is published for it: {_CHECKOUT.get(target.event, _CHECKOUT_SHA)}"


def _open(pulls: Iterable[Pull], repository: str) -> tuple[Pull, ...]:
    """Return those that are open in a repository, by number; GitHub lists those of forks' own repositories, too."""
    here = repository.casefold()
    known = {pull.number: pull for pull in pulls if pull.state == "open" and pull.base_repository.casefold() == here}
    return tuple(known[number] for number in sorted(known))


def _at_head(pulls: tuple[Pull, ...], sha: str) -> Found:
    current = tuple(pull for pull in pulls if pull.head_sha == sha)
    if current:
        return Found(sha, current, "")
    if pulls:
        numbers = ", ".join(f"#{pull.number}" for pull in pulls)
        return Found(sha, (), f"the pull request {numbers} has a newer head, its own run will report")
    return Found(sha, (), f"no open pull request has commit {sha[:12]} as its head")


_QUEUED = "a merge queue checks a commit of its own, and the pull request keeps the comment of its own run"

_CHECKOUT_SHA = "give actions/checkout the `ref:` of the commit to evaluate"
_CHECKOUT = {
    "": "evaluate the head, or vouch for the record with --sha",
    "pull_request": "give actions/checkout `ref: ${{ github.event.pull_request.head.sha }}`",
    "pull_request_target": "give actions/checkout `ref: ${{ github.event.pull_request.head.sha }}`",
    "workflow_run": (
        "give actions/checkout of the workflow that evaluates `ref: ${{ github.event.pull_request.head.sha }}`, or "
        "`ref: ${{ github.event.workflow_run.head_sha }}` where it is this one"
    ),
    "issue_comment": "give actions/checkout `ref: refs/pull/${{ github.event.issue.number }}/head`",
    "workflow_dispatch": "give actions/checkout `ref: refs/pull/${{ inputs.pr-number }}/head`",
}
