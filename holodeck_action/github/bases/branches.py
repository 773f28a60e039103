"""Branches, commits and trees of a repository, read and written through GitHub."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from holodeck_action.github.rest.api import Api, reading
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.github.rest.payload import is_hash

if TYPE_CHECKING:
    from github.GitRef import GitRef
    from github.GitTree import GitTree

FOLDER, LINK, SUBMODULE = "040000", "120000", "160000"
"""Modes of entries that are not files."""


class TreeEntry(Struct, frozen=True):
    """An entry of a tree: `mode` as in Git, `type` is `blob`, `tree` or `commit`, `size` the bytes of a blob, or 0."""

    path: str
    mode: str
    type: str
    sha: str
    size: int


@reading
def default_branch(api: Api) -> str:
    """Return the name of the default branch. Raises: `ApiError` if GitHub gave no answer."""
    return _text(api.repository.default_branch)


@reading
def merge_base(api: Api, base: str, head: str) -> str:
    """Return the hash of the merge base of two commits, each given as a hash or a branch.

    Raises:
        ApiError: GitHub gave no answer.
    """
    # The commits between them are of no interest.
    compared = api.repository.compare(base, head, comparison_commits_per_page=1)
    return _hash(compared.merge_base_commit.sha)


@reading
def head_of(api: Api, name: str) -> GitRef | None:
    """Return the reference of a branch, whose `object` is its newest commit; None if there is no such branch.

    Raises:
        ApiError: GitHub gave no answer.
    """
    reference = api.repository.get_git_ref(f"heads/{name}")
    try:
        _hash(reference.object.sha)
    except ApiError as error:
        if error.kind == "not_found":
            return None
        raise
    return reference


@reading
def tree_of(api: Api, commit: str) -> GitTree:
    """Return the tree of a commit with the entries of its subfolders.

    Raises:
        ApiError: GitHub gave no answer, or the tree is too large for one answer.
    """
    sha = _hash(api.repository.get_git_commit(commit).tree.sha)
    found = api.repository.get_git_tree(sha, recursive=True)
    if found.truncated:
        raise ApiError("GitHub's answer cannot be used: the list of files is truncated", "unavailable", None)
    return found


@reading
def entries_of(tree: GitTree) -> tuple[TreeEntry, ...]:
    """Return the entries of a tree. Raises: `ApiError` if they are not as documented."""
    return tuple(
        TreeEntry(_text(item.path), _text(item.mode), _text(item.type), _hash(item.sha), item.size or 0)
        for item in tree.tree
    )


def branch_entries(api: Api, name: str) -> Sequence[TreeEntry] | None:
    """Return the entries of a branch's tree; None if there is no such branch.

    Raises:
        ApiError: GitHub gave no answer, or the tree is too large for one answer.
    """
    head = head_of(api, name)
    return None if head is None else entries_of(tree_of(api, head.object.sha))


@reading
def blob(api: Api, sha: str) -> bytes:
    """Return the content of a file. Raises: `ApiError` if GitHub gave no answer."""
    found = api.repository.get_git_blob(sha)
    if found.encoding != "base64":
        raise ValueError
    return base64.b64decode(found.content)


def head_hash(head: GitRef | None) -> str | None:
    """Return the hash of a branch's newest commit; None if there is no such branch."""
    return None if head is None else head.object.sha


@reading
def commit_files(
    api: Api, name: str, head: GitRef | None, tree: GitTree | None, changes: Mapping[str, str | None], message: str
) -> None:
    """Commit changed files to a branch, which is created if `head` is None.

    Args:
        api: API of the repository.
        name: name of the branch.
        head: reference of the branch.
        tree: tree of the branch's newest commit.
        changes: hash of each changed file's blob by path; None removes the file.
        message: message of the commit.

    Raises:
        ApiError: a request failed; its kind is `invalid` if the branch has advanced or exists already.
    """
    from github.GitCommit import GitCommit
    from github.InputGitTreeElement import InputGitTreeElement

    repository = api.repository
    elements = [InputGitTreeElement(path, "100644", "blob", sha=sha) for path, sha in changes.items()]
    based = {} if tree is None else {"base_tree": tree}
    parents = [] if head is None else [GitCommit(repository.requester, attributes={"sha": head.object.sha})]
    commit = repository.create_git_commit(message, repository.create_git_tree(elements, **based), parents)
    if head is None:
        repository.create_git_ref(f"refs/heads/{name}", commit.sha)
    else:
        head.edit(commit.sha, force=False)


@reading
def create_blob(api: Api, content: bytes) -> str:
    """Create a blob with a file's content; return its hash. Raises: `ApiError` if the request failed."""
    return api.repository.create_git_blob(base64.b64encode(content).decode(), "base64").sha


def _text(value: str) -> str:
    # PyGithub returns None for what is missing.
    if not isinstance(value, str):
        raise TypeError
    return value


def _hash(value: str) -> str:
    if not is_hash(value):
        raise ValueError
    return value
