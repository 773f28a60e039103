"""Writes the files of commits to temporary folders with Git; missing objects are downloaded from GitHub."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from holodeck_action.github.bases.branches import SUBMODULE
from holodeck_action.github.bases.commit_files import REMEDY, CommitFilesError, unreadable_error
from holodeck_action.github.bases.commit_objects import ObjectsError, fetch_objects
from holodeck_action.github.bases.local_git import SideRepository
from holodeck_action.github.job import Job
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.text.foreign import PointerFileError, RefusedFileError, open_file


class CommitTree(Struct, frozen=True):
    """The files of a commit.

    Attributes:
        folder: the folder with the files, as a path without symbolic links.
        notices: differences from a normal checkout, one sentence each.
        repository: the repository that wrote the files.
        tree: the commit or tree whose files these are.
    """

    folder: Path
    notices: tuple[str, ...]
    repository: SideRepository
    tree: str

    def former_path(self, commit: str, path: str) -> str | None:
        """Return the path of a file in this commit that was renamed to `path` until a later `commit`; None if Git finds
        no such file, or lacks files to compare."""
        options = ("-r", "-z", "--name-status", "--find-renames", "--diff-filter=R")
        listed = self.repository.run(self.folder, "diff-tree", *options, self.tree, commit) or ""
        # Each rename has three fields: the similarity, the former path, and the path.
        fields = listed.split("\0")
        return dict(zip(fields[2::3], fields[1::3], strict=False)).get(path)


class CommitTrees:
    """Writes the files of each requested commit once; a context manager that removes them at its exit."""

    def __init__(self, job: Job) -> None:
        """Create the object without writing anything yet.

        Args:
            job: the CI job, used to download Git objects that the checkout lacks.
        """
        self._job = job
        self._scope = ExitStack()
        self._found: dict[tuple[Path, str], CommitTree | CommitFilesError] = {}

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
            CommitFilesError: the files cannot be written.
        """
        if (root, commit) not in self._found:
            try:
                self._found[root, commit] = self._write(root, commit)
            except CommitFilesError as error:
                self._found[root, commit] = error
        found = self._found[root, commit]
        if isinstance(found, CommitFilesError):
            raise found
        return found

    def _write(self, root: Path, commit: str) -> CommitTree:
        try:
            # Files that the commit's code leaves there must not keep the run from ending.
            temporary = tempfile.TemporaryDirectory(prefix="holodeck-base-", ignore_cleanup_errors=True)
            outer = Path(os.path.realpath(self._scope.enter_context(temporary)))
            own = SideRepository.of(outer / "git", root, commit, self._job.environ)
            if own is None:
                raise CommitFilesError(f"the files of commit {commit[:12]} cannot be written: no Git can be run here")
            name, tree = commit, outer / "tree"
            if not _check_out(own, name, tree):
                name, tree = self._fetch(root, commit, own), outer / "fetched"
                if not _check_out(own, name, tree):
                    raise CommitFilesError(f"Git refuses to write the files of commit {commit[:12]}: {REMEDY}")
            return CommitTree(tree, (*_submodule_notices(own, commit), *_notices(tree, commit)), own, name)
        except OSError as error:
            raise CommitFilesError(f"the files of commit {commit[:12]} cannot be written: {error.strerror}") from error

    def _fetch(self, root: Path, commit: str, repository: SideRepository) -> str:
        """Download a commit's objects that the checkout lacks; return the hash of the commit's tree."""
        try:
            return fetch_objects(self._job.api(root), commit, repository)
        except (ApiError, ObjectsError) as error:
            raise unreadable_error(commit, error) from error


def _check_out(repository: SideRepository, tree: str, folder: Path) -> bool:
    """Write the files of a commit or tree to a new folder; return whether all objects were there."""
    folder.mkdir()
    read = repository.run(folder, "read-tree", tree)
    return read is not None and repository.run(folder, "checkout-index", "--all", "--quiet") is not None


def _submodule_notices(repository: SideRepository, commit: str) -> Iterator[str]:
    """Yield a notice if the commit whose files are in the index has submodules."""
    entries = (repository.run(repository.git, "ls-files", "--stage", "-z") or "").split("\0")
    paths = [entry.partition("\t")[2] for entry in entries if entry.startswith(f"{SUBMODULE} ")]
    if paths:
        yield (
            f"{len(paths)} submodule(s) of commit {commit[:12]}, such as {min(paths)!r}, are empty folders in the base"
        )


def _notices(tree: Path, commit: str) -> Iterator[str]:
    """Delete links that lead out of a commit's folder, and yield notices of differences from a normal checkout.

    Raises:
        CommitFilesError: a file or folder is called `.git`.
    """
    pointers: list[str] = []
    for folder, folders, files in os.walk(tree):
        if any(name.lower() == ".git" for name in (*folders, *files)):
            raise CommitFilesError(f"the files of commit {commit[:12]} are not used: one of them is called .git")
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
