"""Downloads the Git objects of a commit that a checkout lacks; Git writes them, and checks each against its hash.

Objects contain exactly the committed content, unlike an archive of a commit, which file attributes (`export-subst`,
`export-ignore`) change. Git then writes the files from the objects, as in a checkout.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holodeck_action.github.bases.branches import FOLDER, SUBMODULE, TreeEntry, blob, entries_of, tree_of
from holodeck_action.github.bases.local_git import SideRepository
from holodeck_action.github.rest.api import Api


class ObjectLimits(Struct, frozen=True):
    """Limits of downloaded objects.

    Attributes:
        files: maximum number of missing files. Each file takes one request, and GitHub allows 1,000 requests per hour.
        size: maximum bytes of the missing files.
        written: maximum bytes of all files of the commit.
    """

    files: int = 300
    size: int = 200_000_000
    written: int = 2_000_000_000


LIMITS = ObjectLimits()


class ObjectsError(Exception):
    """A commit's objects cannot be used; the message is one sentence."""


def fetch_objects(api: Api, commit: str, repository: SideRepository, limits: ObjectLimits = LIMITS) -> str:
    """Write the objects of a commit's tree that a repository lacks into it; return the hash of the tree.

    Args:
        api: API of the commit's repository.
        commit: hash of the commit.
        repository: the repository. Its index lists the files of the commit afterwards.
        limits: limits of the download.

    Raises:
        ApiError: GitHub did not return the objects.
        ObjectsError: the objects are too many or too large, or do not match their hashes.
    """
    found = tree_of(api, commit)
    files = [entry for entry in entries_of(found) if entry.mode != FOLDER]
    listed = "".join(f"{entry.mode} {entry.sha}\t{entry.path}\0" for entry in files).encode(errors="replace")
    repository.run(repository.git, "read-tree", "--empty")
    # Git computes the hashes of all folders again: a list with other entries has another tree.
    taken = repository.run(repository.git, "update-index", "-z", "--index-info", stdin=listed)
    if taken is None or repository.run(repository.git, "write-tree", "--missing-ok") != found.sha:
        raise ObjectsError(
            f"the list of files that GitHub gave for commit {commit[:12]} does not match its tree, or contains a name "
            "that is not UTF-8"
        )
    size = 0
    for name in _missing_files(files, commit, repository, limits):
        content = blob(api, name)
        size += len(content)
        if size > limits.size:
            raise ObjectsError(_too_large(commit, limits.size))
        if repository.run(repository.git, "hash-object", "-w", "--stdin", stdin=content) != name:
            raise ObjectsError(f"GitHub returned another file instead of a file of commit {commit[:12]}")
    return found.sha


def _missing_files(
    entries: Sequence[TreeEntry], commit: str, repository: SideRepository, limits: ObjectLimits
) -> tuple[str, ...]:
    """Return the hashes of the missing files. Raises: `ObjectsError` if they exceed a limit."""
    files = [entry for entry in entries if entry.mode != SUBMODULE]
    if sum(entry.size for entry in files) > limits.written:
        raise ObjectsError(f"the files of commit {commit[:12]} are larger than {limits.written:,} bytes")
    sizes = {entry.sha: entry.size for entry in files}
    # Without an answer of Git, all count as missing.
    hashes = "\n".join(sizes).encode()
    checked = repository.run(repository.git, "cat-file", "--batch-check=%(objectname)", "--buffer", stdin=hashes) or ""
    for name in checked.splitlines():
        sizes.pop(name, None)
    if len(sizes) > limits.files:
        raise ObjectsError(
            f"the checkout lacks {len(sizes):,} files of commit {commit[:12]}, of at most {limits.files:,}"
        )
    if sum(sizes.values()) > limits.size:
        raise ObjectsError(_too_large(commit, limits.size))
    return tuple(sizes)


def _too_large(commit: str, max_bytes: int) -> str:
    return f"the files of commit {commit[:12]} that the checkout lacks are larger than {max_bytes:,} bytes"
