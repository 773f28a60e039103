"""The files of commits, written to temporary folders by the checkout's own Git.

Git runs in a repository of its own that only borrows the objects of the checkout: no setting, hook or filter of the
checkout or of its user applies, and nothing of the checkout changes. What it lacks of them comes from GitHub, so that
the files are the same wherever their objects come from.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from holodeck_action.github.bases.commit_objects import ObjectsError, fetch_objects
from holodeck_action.github.bases.local_git import ask_git
from holodeck_action.github.job import Job
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.record.disk import UNSYNCED_DISK, write_new
from holodeck_action.text.foreign import RefusedFileError, open_file

_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_LONGEST_POINTER = 1024
_SHA256 = 64
_FETCH = "give actions/checkout `fetch-depth: 0`, and no `filter`"


class TreeError(Exception):
    """The files of a commit cannot be had; the message is one sentence with the way out."""


class CommitTree(Struct, frozen=True):
    """The files of a commit: their folder, links resolved, and what the reader should know, each one sentence."""

    folder: Path
    notices: tuple[str, ...]


class CommitTrees:
    """Writes the files of commits, each once; they are gone when the context ends."""

    def __init__(self, job: Job) -> None:
        """Prepare; nothing is written.

        Args:
            job: downloads what the checkout lacks.
        """
        self._job = job
        self._scope = ExitStack()
        self._found: dict[tuple[Path, str], CommitTree | TreeError] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._scope.close()

    def tree(self, root: Path, commit: str) -> CommitTree:
        """Return the files of a commit.

        Args:
            root: the checkout.
            commit: its hash.

        Raises:
            TreeError: they cannot be had.
        """
        if (root, commit) not in self._found:
            try:
                self._found[root, commit] = self._write(root, commit)
            except TreeError as error:
                self._found[root, commit] = error
        found = self._found[root, commit]
        if isinstance(found, TreeError):
            raise found
        return found

    def _write(self, root: Path, commit: str) -> CommitTree:
        try:
            # What code of the commit leaves there must not keep the run from ending.
            temporary = tempfile.TemporaryDirectory(prefix="holodeck-base-", ignore_cleanup_errors=True)
            outer = Path(os.path.realpath(self._scope.enter_context(temporary)))
            own = _Repository(outer, root, commit, self._job.environ)
            tree = own.check_out(commit, "tree")
            if tree is None:
                tree = own.check_out(self._fetch(root, commit, own), "fetched")
            if tree is None:
                raise TreeError(f"Git refuses to write the files of commit {commit[:12]}: {_FETCH}")
            return CommitTree(tree, tuple(_notices(tree, commit)))
        except OSError as error:
            raise TreeError(f"the files of commit {commit[:12]} cannot be written: {error.strerror}") from error

    def _fetch(self, root: Path, commit: str, own: _Repository) -> str:
        """Return the tree of a commit, after what the checkout lacks of it was fetched."""
        try:
            return fetch_objects(self._job.api(root), commit, own.known(), own.objects)
        except (ApiError, ObjectsError) as error:
            raise TreeError(
                f"the checkout does not have the files of commit {commit[:12]}, and they cannot be downloaded "
                f"({error}): {_FETCH}"
            ) from error


class _Repository:
    """A repository in a folder, which borrows the objects of a checkout."""

    def __init__(self, outer: Path, root: Path, commit: str, environ: Mapping[str, str]) -> None:
        """Make it.

        Raises:
            TreeError: there is no Git that could.
        """
        self._outer, self._environ, self._git = outer, environ, outer / "git"
        kind = "sha256" if len(commit) == _SHA256 else "sha1"
        options = ("--quiet", "--bare", "--template=", f"--object-format={kind}")
        if ask_git(outer, environ, "init", *options, str(self._git)) is None:
            raise TreeError(f"the files of commit {commit[:12]} cannot be written: no Git can be run here")
        self.objects = self._git / "objects"
        borrowed = ask_git(root, environ, "rev-parse", "--git-path", "objects")
        if borrowed is not None:
            place = self.objects / "info"
            place.mkdir(parents=True, exist_ok=True)
            write_new(place / "alternates", [os.fsencode(f"{root / borrowed}\n")], UNSYNCED_DISK)

    def known(self) -> frozenset[str]:
        """Return the names of all objects that are there."""
        options = ("--batch-all-objects", "--unordered", "--batch-check=%(objectname)")
        return frozenset((self._ask(self._outer, "cat-file", *options) or "").split())

    def check_out(self, tree: str, name: str) -> Path | None:
        """Write the files of a commit or a tree to a new folder of this name; None where objects are lacking."""
        folder = self._outer / name
        folder.mkdir()
        written = self._ask(folder, "read-tree", tree) is not None
        written = written and self._ask(folder, "checkout-index", "--all", "--quiet") is not None
        return folder if written else None

    def _ask(self, folder: Path, *arguments: str) -> str | None:
        own = {
            "GIT_DIR": str(self._git),
            "GIT_WORK_TREE": str(folder),
            "GIT_INDEX_FILE": str(self._outer / f"{folder.name}.index"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        return ask_git(folder, self._environ, *arguments, more=own)


def _notices(tree: Path, commit: str) -> Iterator[str]:
    """Remove links that lead out of the files of a commit, and yield what is not as it is in a checkout.

    Raises:
        TreeError: something in it would be taken for data of Git.
    """
    pointers: list[str] = []
    for folder, folders, files in os.walk(tree):
        if any(name.lower() == ".git" for name in (*folders, *files)):
            raise TreeError(f"the files of commit {commit[:12]} are not used: one of them is called .git")
        for path in (Path(folder, name) for name in (*folders, *files)):
            if path.is_symlink():
                if not Path(os.path.realpath(path)).is_relative_to(tree):
                    path.unlink()
            elif path.is_file() and _is_pointer(path):
                pointers.append(path.relative_to(tree).as_posix())
    if pointers:
        yield (
            f"{len(pointers)} file(s) of commit {commit[:12]} are in Git LFS, such as {min(pointers)!r}: the base sees "
            "their pointers"
        )


def _is_pointer(path: Path) -> bool:
    try:
        with open_file(path, _LONGEST_POINTER, follow=False) as file:
            return file.read(len(_POINTER)) == _POINTER
    except RefusedFileError:
        return False
