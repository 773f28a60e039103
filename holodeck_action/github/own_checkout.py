"""Shows that a checkout is the repository's own: GitHub knows its commit, and Git finds no other files in it.

The checkout's remotes, index and settings are not asked: whoever can change its files can write these, too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from holodeck_action.github.bases.branches import default_branch, merge_base
from holodeck_action.github.bases.local_git import SideRepository
from holodeck_action.github.rest.api import Api
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.record.folder import OUTPUT_PATTERNS
from holodeck_action.suite.checkout import head_commit, repository_root
from holodeck_action.text.plain import one_line

_SHOWN = 3
_MISSING = " D"
"""Status of a file that is not there, as in a sparse checkout: less code than the commit has is no other code."""


def find_doubt(
    folders: Sequence[Path], is_known: Callable[[str], bool], api: Callable[[Path], Api], environ: Mapping[str, str]
) -> str | None:
    """Return a clause that says why a checkout may have code of others; None if all are shown to be the repository's.

    Args:
        folders: folders with suites.
        is_known: returns whether a commit is known to be the repository's; if not, GitHub is asked.
        api: returns the client for the repository of the workflow; may raise ApiError.
        environ: variables of the job; Git gets only PATH and HOME.
    """
    roots = dict.fromkeys(repository_root(folder) or folder for folder in folders)
    reasons = (_doubt_about(root, is_known, api, environ) for root in roots)
    return next((reason for reason in reasons if reason is not None), None)


def _doubt_about(
    root: Path, is_known: Callable[[str], bool], api: Callable[[Path], Api], environ: Mapping[str, str]
) -> str | None:
    commit = head_commit(root)
    if commit is None:
        return f"{root.name} is not a checkout of a known commit"
    short = f"commit {commit[:12]}"
    try:
        if not is_known(commit) and not _is_own(api(root), commit):
            return f"{short} is neither the head of a branch of this repository nor in its default branch's history"
    except ApiError as error:
        return f"it is unknown whose {short} is: {error.with_remedy('contents: read')}"
    changed = _changed_files(root, commit, environ)
    if changed is None:
        return f"Git cannot compare the files of the checkout with {short}"
    if changed:
        names = ", ".join(one_line(name, 60) for name in changed[:_SHOWN]) + (", …" if len(changed) > _SHOWN else "")
        return f"the checkout has files that are not in {short} and that .gitignore does not name: {names}"
    return None


def _is_own(api: Api, commit: str) -> bool:
    """Return whether a commit is the head of a branch, or in the history of the default branch.

    GitHub finds commits of forks by their hash in the repository, too, so that a commit is there proves nothing.

    Raises:
        ApiError: GitHub gave no answer.
    """
    try:
        repository = api.repository
        return bool(repository.get_commit(commit).get_branches_where_head()) or (
            merge_base(api, default_branch(api), commit) == commit
        )
    except ApiError as error:
        if error.kind in ("not_found", "invalid"):
            return False
        raise


def _changed_files(root: Path, commit: str, environ: Mapping[str, str]) -> list[str] | None:
    """Return the files that differ from a commit or are not in it; None if Git cannot tell.

    Ignored files, and files that runs write, are left out. The index and the settings are those of a new repository,
    which has only the objects from the checkout.
    """
    with tempfile.TemporaryDirectory(prefix="holodeck-action-") as name:
        own = SideRepository.of(Path(name, "git"), root, commit, environ)
        if own is None or own.run(root, "update-ref", "--no-deref", "HEAD", commit) is None:
            return None
        if own.run(root, "read-tree", commit) is None:
            return None
        excluded = (f":(exclude,glob)**/{pattern}" for pattern in OUTPUT_PATTERNS)
        options = ("--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=dirty")
        found = own.run(root, "status", *options, "--", ".", *excluded)
    return None if found is None else [*_names(found)]


def _names(status: str) -> Iterator[str]:
    for entry in filter(None, status.split("\0")):
        if not entry.startswith(_MISSING):
            yield entry[3:]
