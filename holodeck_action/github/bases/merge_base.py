"""Finds the commit that a run is compared with: the merge base with the base branch, or the commit before a push."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from holodeck_action.github.bases.branches import default_branch, merge_base
from holodeck_action.github.bases.local_git import run_git
from holodeck_action.github.rest.api import Api, reading
from holodeck_action.github.rest.objects import PER_PAGE, ApiError
from holodeck_action.github.rest.payload import EventError, Payload, is_hash, read_event
from holodeck_action.text.plain import one_line

MOST_ANCESTORS = 100
"""Maximum number of first-parent ancestors to search for results."""
_MOST_PAGES = 5
_FETCH_REMEDY = "give actions/checkout `fetch-depth: 0`"
_BRANCH_PREFIX = "refs/heads/"


class BaseBranch(Struct, frozen=True):
    """The base branch of an event.

    Attributes:
        name: the base branch of the pull request or merge group, else the default branch; empty if the event does not
            name it.
        before: the default branch's commit before a push to it; None for other events.
        on_default_branch: whether the run is for the default branch itself, by `push`, `schedule` or
            `workflow_dispatch`.
        commit: the commit of the base branch in the event; None if the event does not name it.
    """

    name: str = ""
    before: str | None = None
    on_default_branch: bool = False
    commit: str | None = None


class WantedCommit(Struct, frozen=True):
    """The commit to compare a run with, and its branch; the branch is empty if it is unknown."""

    commit: str
    branch: str


class NoCommit(Struct, frozen=True):
    """The result if the commit to compare with is unknown; `sentence` gives the reason and a remedy."""

    sentence: str


def base_branch(environ: Mapping[str, str]) -> BaseBranch:
    """Return the base branch of a step's event; `BaseBranch()` outside of a workflow or if the event is invalid."""
    try:
        name, content = read_event(environ)
        return _base_of_event(name, Payload(name, content), environ)
    except EventError:
        return BaseBranch()


def _base_of_event(name: str, payload: Payload, environ: Mapping[str, str]) -> BaseBranch:
    default = _branch(payload.get("repository.default_branch"))
    if payload.optional("pull_request") is not None:
        tip = _commit(payload.get("pull_request.base.sha"))
        return BaseBranch(_branch(payload.get("pull_request.base.ref")) or default, commit=tip)
    if name == "merge_group":
        tip = _commit(payload.get("merge_group.base_sha"))
        named = _branch(payload.get("merge_group.base_ref")).removeprefix(_BRANCH_PREFIX)
        return BaseBranch(named or default, commit=tip)
    own = bool(default) and environ.get("GITHUB_REF", "") == f"{_BRANCH_PREFIX}{default}"
    if name == "push":
        before = payload.get("before")
        own = own and payload.get("deleted") is not True
        return BaseBranch(default, before if own and is_hash(before) else None, own)
    tip = _commit(environ.get("GITHUB_SHA")) if own else None
    return BaseBranch(default, None, own and name in ("schedule", "workflow_dispatch"), tip)


def wanted_commit(
    evaluated: str | None, base: BaseBranch, api: Api | None, folder: Path, environ: Mapping[str, str]
) -> WantedCommit | NoCommit:
    """Return the commit to compare with; `NoCommit` if it is unknown.

    The commit is the merge base of the base branch and the evaluated commit. For the test merge commit of a pull
    request, this is the base commit with which the head was merged, so that only changes of the pull request count. For
    a push to the default branch it is the commit before the push. For another run of the default branch it is the
    evaluated commit itself, for which an earlier run may have results.

    In a workflow, the checkout's branches are not used, since an earlier step can move them. If GitHub gives no answer,
    the commit of the base branch is that of the event.

    Args:
        evaluated: the commit that is checked out; None if it is unknown.
        base: the base branch of the event.
        api: API of the repository; None if there is no token or no repository.
        folder: a folder in the checkout.
        environ: environment variables for Git.
    """
    if evaluated is None or not is_hash(evaluated):
        return NoCommit("the evaluated commit is unknown: evaluate in a checkout of the repository")
    if base.before is not None:
        return WantedCommit(base.before, base.name)
    problem = ""
    if api is not None:
        try:
            branch = base.name or default_branch(api)
            return WantedCommit(merge_base(api, branch, evaluated), branch)
        except ApiError as error:
            problem = _explain_error(error)
    in_workflow = bool(environ.get("GITHUB_EVENT_NAME", "").strip())
    found = _local_merge_base(evaluated, base if in_workflow else None, folder, environ)
    if found is not None:
        return found
    if problem:
        return NoCommit(f"the merge base of commit {evaluated[:12]} cannot be looked up: {problem}")
    if in_workflow and base.commit is None:
        return NoCommit(
            f"the event names no commit of the base branch, so the merge base of commit {evaluated[:12]} is unknown: "
            "leave github-token to its default, so that GitHub is asked"
        )
    return NoCommit(
        f"the checkout does not have the merge base of commit {evaluated[:12]}: fetch the history of the base branch "
        f"(in a workflow, {_FETCH_REMEDY}, or leave github-token to its default)"
    )


@reading
def first_parents(api: Api, start: str) -> tuple[str, ...]:
    """Return a commit followed by its first-parent ancestors, at most `MOST_ANCESTORS` of them, nearest first.

    Raises:
        ApiError: GitHub gave no answer.
    """
    parents: dict[str, tuple[str, ...]] = {}
    line = [start]
    listed = api.repository.get_commits(sha=start)
    for page in range(_MOST_PAGES):
        commits = listed.get_page(page)
        parents |= {commit.sha: tuple(parent.sha for parent in commit.parents) for commit in commits}
        while len(line) <= MOST_ANCESTORS and (before := parents.get(line[-1], ())):
            line.append(before[0])
        if len(line) > MOST_ANCESTORS or line[-1] in parents or len(commits) < PER_PAGE:
            break
    return tuple(line)


def _local_merge_base(
    evaluated: str, base: BaseBranch | None, folder: Path, environ: Mapping[str, str]
) -> WantedCommit | None:
    """Return the merge base from the checkout; None if Git is missing or the history is not deep enough.

    `base` is the base branch of the event; None outside of a workflow, for the default branch of the checkout.
    """
    tips = _default_branches(folder, environ) if base is None else [(base.commit, base.name)]
    for tip, branch in tips:
        found = None if tip is None else run_git(folder, environ, "merge-base", tip, evaluated)
        if found is not None and is_hash(found):
            return WantedCommit(found, branch)
    return None


def _default_branches(folder: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (reference, name) of the branches of a checkout that may be the default branch, the likeliest first."""
    head = run_git(folder, environ, "symbolic-ref", "--quiet", "refs/remotes/origin/HEAD") or ""
    name = head.removeprefix("refs/remotes/origin/")
    for branch in (name,) if name else ("main", "master"):
        yield f"refs/remotes/origin/{branch}", branch
        yield f"{_BRANCH_PREFIX}{branch}", branch


def _explain_error(error: ApiError) -> str:
    if error.kind == "not_found":
        return f"GitHub does not know the commit or the branch, or the token may not read them; {_FETCH_REMEDY}"
    return error.with_remedy("contents: read")


def _commit(value: Any) -> str | None:
    return value if is_hash(value) else None


def _branch(value: Any) -> str:
    """Return a branch's name; an empty string if the value is not a valid name."""
    if not isinstance(value, str) or not 0 < len(value) <= 1024 or one_line(value, 1024) != value:
        return ""
    return value
