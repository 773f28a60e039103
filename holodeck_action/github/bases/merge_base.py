"""Which commit a run is compared with: where the evaluated commit left its base branch, or what it followed there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from holodeck_action.github.bases.local_git import ask_git
from holodeck_action.github.rest.api import PER_PAGE, Api
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.github.rest.payload import EventError, Payload, is_hash, read_event
from holodeck_action.text.plain import one_line

MOST_ANCESTORS = 100
"""First parents among which a record is looked for."""
_MOST_PAGES = 5
_FETCH = "give actions/checkout `fetch-depth: 0`"
_HEADS = "refs/heads/"


class BaseBranch(Struct, frozen=True):
    """What an event says about the base of its commit.

    Attributes:
        name: the base branch of the pull request or of the merge queue's entry, else the default branch; empty where
            the event does not tell.
        before: what a push to the default branch found there; None for everything else.
        own: whether the run itself is one of the default branch, by `push`, `schedule` or `workflow_dispatch`.
    """

    name: str = ""
    before: str | None = None
    own: bool = False


class Wanted(Struct, frozen=True):
    """The commit that a run is to be compared with, and the branch that it is on (empty: not known)."""

    commit: str
    branch: str


class NoCommit(Struct, frozen=True):
    """It is not known which commit; `sentence` says why, and the way out."""

    sentence: str


def base_branch(environ: Mapping[str, str]) -> BaseBranch:
    """Return what the event of a step says about the base; nothing outside of a workflow, or where it is unreadable."""
    try:
        name, content = read_event(environ)
        return _of_event(name, Payload(name, content), environ)
    except EventError:
        return BaseBranch()


def _of_event(name: str, payload: Payload, environ: Mapping[str, str]) -> BaseBranch:
    default = _branch(payload.get("repository.default_branch"))
    if payload.optional("pull_request") is not None:
        return BaseBranch(_branch(payload.get("pull_request.base.ref")) or default)
    if name == "merge_group":
        return BaseBranch(_branch(payload.get("merge_group.base_ref")).removeprefix(_HEADS) or default)
    own = bool(default) and environ.get("GITHUB_REF", "") == f"{_HEADS}{default}"
    if name == "push":
        before = payload.get("before")
        own = own and payload.get("deleted") is not True
        return BaseBranch(default, before if own and is_hash(before) else None, own)
    return BaseBranch(default, None, own and name in ("schedule", "workflow_dispatch"))


def wanted_commit(
    evaluated: str | None, base: BaseBranch, api: Api | None, folder: Path, environ: Mapping[str, str]
) -> Wanted | NoCommit:
    """Find the commit to compare with.

    It is the best common ancestor of the base branch and the evaluated commit. For the test merge commit of a pull
    request that is the commit it was merged with, so that only changes of the pull request are told apart. For a push
    to the default branch it is what was there before. For another run of the default branch it is the evaluated commit
    itself: of that, an earlier run may have a record.

    Args:
        evaluated: the commit that is checked out; None where it is not known.
        base: what the event says.
        api: GitHub; None where there is no token or no repository to ask about.
        folder: in the checkout.
        environ: for Git.
    """
    if evaluated is None or not is_hash(evaluated):
        return NoCommit("it is not known which commit was evaluated: evaluate in a checkout of the repository")
    if base.before is not None:
        return Wanted(base.before, base.name)
    problem = ""
    if api is not None:
        try:
            branch = base.name or api.default_branch()
            return Wanted(api.merge_base(branch, evaluated), branch)
        except ApiError as error:
            problem = _way_out(error)
    found = _merge_base_here(evaluated, base.name, folder, environ)
    if found is not None:
        return found
    if problem:
        return NoCommit(f"the merge base of commit {evaluated[:12]} cannot be looked up: {problem}")
    return NoCommit(
        f"the checkout does not have the merge base of commit {evaluated[:12]}: fetch the history of the base branch "
        f"(in a workflow, {_FETCH}, or leave github-token to its default)"
    )


def first_parents(api: Api, start: str) -> tuple[str, ...]:
    """Return a commit and those before it on its branch, following first parents: `MOST_ANCESTORS` besides it at most.

    Raises:
        ApiError: GitHub did not tell.
    """
    parents: dict[str, tuple[str, ...]] = {}
    line = [start]
    for page in range(1, _MOST_PAGES + 1):
        commits = api.commits(start, page)
        parents |= {commit.sha: commit.parents for commit in commits}
        while len(line) <= MOST_ANCESTORS and (before := parents.get(line[-1], ())):
            line.append(before[0])
        if len(line) > MOST_ANCESTORS or line[-1] in parents or len(commits) < PER_PAGE:
            break
    return tuple(line)


def _merge_base_here(evaluated: str, name: str, folder: Path, environ: Mapping[str, str]) -> Wanted | None:
    """Ask the checkout; None where it does not have enough of the history, or no Git."""

    def ask(*arguments: str) -> str | None:
        return ask_git(folder, environ, *arguments)

    if not name:
        head = ask("symbolic-ref", "--quiet", "refs/remotes/origin/HEAD") or ""
        name = head.removeprefix("refs/remotes/origin/")
    for branch in (name,) if name else ("main", "master"):
        for reference in (f"refs/remotes/origin/{branch}", f"{_HEADS}{branch}"):
            found = ask("merge-base", reference, evaluated)
            if found is not None and is_hash(found):
                return Wanted(found, branch)
    return None


def _way_out(error: ApiError) -> str:
    if error.kind == "not_found":
        return f"GitHub does not know the commit or the branch, or the token may not read them; {_FETCH}"
    return error.needing("contents: read")


def _branch(value: Any) -> str:
    """Return a branch's name; empty for what is none."""
    if not isinstance(value, str) or not 0 < len(value) <= 1024 or one_line(value, 1024) != value:
        return ""
    return value
