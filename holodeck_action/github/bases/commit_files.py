"""Finds single files of a commit: in the objects of the checkout or, if it lacks them, through GitHub."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path

from holodeck_action.github.bases.branches import LINK, SUBMODULE, TreeEntry, blob, entries_of, tree_of
from holodeck_action.github.bases.local_git import run_git
from holodeck_action.github.job import Job
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.text.foreign import Foreign

REMEDY = "give actions/checkout `fetch-depth: 0`, and no `filter`"
_MOST_LINKS = 40
_LONGEST_LINK = 4096


class CommitFilesError(Exception):
    """The files of a commit cannot be read or written; the message is one sentence with the reason and a remedy."""


class CommitFiles:
    """Finds and reads files of one commit. GitHub is called only for objects that the checkout lacks."""

    def __init__(self, job: Job, root: Path, commit: str) -> None:
        """Create the object without reading anything yet.

        Args:
            job: the CI job.
            root: the checkout.
            commit: hash of the commit.
        """
        self._job, self._root, self._commit = job, root, commit
        self._downloaded: Mapping[str, TreeEntry] | None = None

    def find(self, path: str) -> TreeEntry | None:
        """Return the entry at a path; None if the commit has none.

        Links in the path are followed. If a link leads out of the repository, or a folder of the path is a submodule,
        the entry of the link or submodule is returned.

        Args:
            path: path from the root of the repository, with `/` and without `.` and `..`.

        Raises:
            CommitFilesError: the files cannot be read.
        """
        entry = None
        for _ in range(_MOST_LINKS):
            parts = path.split("/")
            above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
            entries = self._entries(above)
            entry = next((entries[name] for name in above if _is_end(entries.get(name))), entries.get(path))
            if entry is None or entry.mode != LINK:
                return entry
            target = self.read(entry, _LONGEST_LINK)
            if target is None:
                return entry
            rest = path[len(entry.path) + 1 :]
            path = posixpath.normpath(posixpath.join(posixpath.dirname(entry.path), target.lossy_text(), rest))
            if path.startswith(("/", "../")) or path in (".", ".."):
                return entry
        return entry

    def read(self, entry: TreeEntry, max_bytes: int) -> Foreign | None:
        """Return the content of a file, without line ends at its end; None if it has more than `max_bytes` bytes.

        Raises:
            CommitFilesError: the file cannot be read.
        """
        if entry.size > max_bytes:
            return None
        content = self._run_git("cat-file", "blob", entry.sha)
        if content is not None:
            return Foreign.of_text(content)
        try:
            downloaded = blob(self._job.api(self._root), entry.sha)
        except ApiError as error:
            raise unreadable_error(self._commit, error) from error
        return Foreign(downloaded) if len(downloaded) <= max_bytes else None

    def _entries(self, paths: Sequence[str]) -> Mapping[str, TreeEntry]:
        """Return the entries at paths, each a folder of the next, by path."""
        if self._downloaded is not None:
            return self._downloaded
        listed = self._run_git("ls-tree", "-t", "-l", "-z", "--full-tree", self._commit, "--", *paths)
        if listed is not None:
            return {entry.path: entry for entry in map(_parse_entry, filter(None, listed.split("\0")))}
        try:
            tree = tree_of(self._job.api(self._root), self._commit)
            self._downloaded = {entry.path: entry for entry in entries_of(tree)}
        except ApiError as error:
            raise unreadable_error(self._commit, error) from error
        return self._downloaded

    def _run_git(self, *arguments: str) -> str | None:
        return run_git(self._root, self._job.environ, *arguments)


def unreadable_error(commit: str, error: Exception) -> CommitFilesError:
    """Return the error for files of a commit that neither the checkout nor GitHub has."""
    return CommitFilesError(
        f"the checkout does not have the files of commit {commit[:12]}, and they cannot be downloaded ({error}): "
        f"{REMEDY}"
    )


def _is_end(entry: TreeEntry | None) -> bool:
    """Return whether a path cannot be followed below an entry within the commit."""
    return entry is not None and entry.mode in (LINK, SUBMODULE)


def _parse_entry(line: str) -> TreeEntry:
    """Parse a line of `git ls-tree -l`: mode, type, hash, size, a tab, and the path."""
    described, _, path = line.partition("\t")
    mode, kind, name, size = described.split()
    # A folder has no size, and of a file that the checkout lacks it is unknown.
    return TreeEntry(path, mode, kind, name, int(size) if size.isdecimal() else 0)
