"""Writes the files of commits to temporary folders with Git.

Git runs in a separate repository that reads the objects of the checkout: no setting, hook or filter of the checkout or
of its user applies, and the checkout does not change. Missing objects are downloaded from GitHub.
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
from holodeck_action.github.bases.local_git import run_git
from holodeck_action.github.job import Job
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.record.disk import UNSYNCED_DISK, write_new
from holodeck_action.text.foreign import PointerFileError, RefusedFileError, open_file

_SHA256_DIGITS = 64
_SUBMODULE = "160000 "
"""Begin of an entry of `git ls-files --stage` that is a submodule."""
_REMEDY = "give actions/checkout `fetch-depth: 0`, and no `filter`"


class TreeError(Exception):
    """The files of a commit cannot be written; the message is one sentence with the reason and a remedy."""


class CommitTree(Struct, frozen=True):
    """A folder with the files of a commit, as a path without symbolic links, and notices of one sentence each."""

    folder: Path
    notices: tuple[str, ...]


class CommitTrees:
    """Writes the files of each requested commit once; a context manager that removes them at its exit."""

    def __init__(self, job: Job) -> None:
        """Create the object without writing anything yet.

        Args:
            job: the CI job, used to download Git objects that the checkout lacks.
        """
        self._job = job
        self._scope = ExitStack()
        self._found: dict[tuple[Path, str], CommitTree | TreeError] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._scope.close()

    def tree(self, root: Path, commit: str) -> CommitTree:
        """Return the folder with the files of a commit; the files are written at the first call.

        Args:
            root: the checkout.
            commit: hash of the commit.

        Raises:
            TreeError: the files cannot be written.
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
            # Files that the commit's code leaves there must not keep the run from ending.
            temporary = tempfile.TemporaryDirectory(prefix="holodeck-base-", ignore_cleanup_errors=True)
            outer = Path(os.path.realpath(self._scope.enter_context(temporary)))
            own = _Repository(outer, root, commit, self._job.environ)
            tree = own.check_out(commit, "tree")
            if tree is None:
                tree = own.check_out(self._fetch(root, commit, own), "fetched")
            if tree is None:
                raise TreeError(f"Git refuses to write the files of commit {commit[:12]}: {_REMEDY}")
            return CommitTree(tree, (*own.submodule_notices(tree, commit), *_notices(tree, commit)))
        except OSError as error:
            raise TreeError(f"the files of commit {commit[:12]} cannot be written: {error.strerror}") from error

    def _fetch(self, root: Path, commit: str, repository: _Repository) -> str:
        """Download a commit's objects that the checkout lacks; return the hash of the commit's tree."""
        try:
            return fetch_objects(self._job.api(root), commit, repository.known_objects(), repository.objects)
        except (ApiError, ObjectsError) as error:
            raise TreeError(
                f"the checkout does not have the files of commit {commit[:12]}, and they cannot be downloaded "
                f"({error}): {_REMEDY}"
            ) from error


class _Repository:
    """A temporary repository that reads the objects of a checkout (Git alternates)."""

    def __init__(self, checkout_root: Path, root: Path, commit: str, environ: Mapping[str, str]) -> None:
        """Create the repository.

        Raises:
            TreeError: Git cannot be run.
        """
        self._outer, self._environ, self._git = checkout_root, environ, checkout_root / "git"
        kind = "sha256" if len(commit) == _SHA256_DIGITS else "sha1"
        options = ("--quiet", "--bare", "--template=", f"--object-format={kind}")
        if run_git(checkout_root, environ, "init", *options, str(self._git)) is None:
            raise TreeError(f"the files of commit {commit[:12]} cannot be written: no Git can be run here")
        self.objects = self._git / "objects"
        borrowed = run_git(root, environ, "rev-parse", "--git-path", "objects")
        if borrowed is not None:
            place = self.objects / "info"
            place.mkdir(parents=True, exist_ok=True)
            write_new(place / "alternates", [os.fsencode(f"{root / borrowed}\n")], UNSYNCED_DISK)

    def known_objects(self) -> frozenset[str]:
        """Return the hashes of all objects in the repository and the checkout."""
        options = ("--batch-all-objects", "--unordered", "--batch-check=%(objectname)")
        return frozenset((self._run_git(self._outer, "cat-file", *options) or "").split())

    def check_out(self, tree: str, name: str) -> Path | None:
        """Write the files of a commit or tree to a new folder and return it; None if objects are missing."""
        folder = self._outer / name
        folder.mkdir()
        written = self._run_git(folder, "read-tree", tree) is not None
        written = written and self._run_git(folder, "checkout-index", "--all", "--quiet") is not None
        return folder if written else None

    def submodule_notices(self, tree: Path, commit: str) -> Iterator[str]:
        """Yield a notice if the commit whose files are in `tree` has submodules."""
        entries = (self._run_git(tree, "ls-files", "--stage", "-z") or "").split("\0")
        paths = [entry.partition("\t")[2] for entry in entries if entry.startswith(_SUBMODULE)]
        if paths:
            yield (
                f"{len(paths)} submodule(s) of commit {commit[:12]}, such as {min(paths)!r}, are empty folders in the "
                "base"
            )

    def _run_git(self, folder: Path, *arguments: str) -> str | None:
        own = {
            "GIT_DIR": str(self._git),
            "GIT_WORK_TREE": str(folder),
            "GIT_INDEX_FILE": str(self._outer / f"{folder.name}.index"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        return run_git(folder, self._environ, *arguments, extra_variables=own)


def _notices(tree: Path, commit: str) -> Iterator[str]:
    """Delete links that lead out of a commit's folder, and yield notices of differences from a normal checkout.

    Raises:
        TreeError: a file or folder is called `.git`.
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
            f"{len(pointers)} file(s) of commit {commit[:12]} are in Git LFS, such as {min(pointers)!r}: the "
            "base gets the pointers instead of the files"
        )


def _is_pointer(path: Path) -> bool:
    try:
        open_file(path, None, follow_links=False).close()
    except PointerFileError:
        return True
    except RefusedFileError:
        pass
    return False
