"""The checkout of a suite: safe access to its files, and its commit and repository."""

from __future__ import annotations

import errno
import fnmatch
import os
import re
from collections.abc import Iterable, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from msgspec import Struct

from holodeck_action.text.foreign import Foreign, RefusedFileError, read_file, read_rest, regular_file
from holodeck_action.text.lazy_patterns import lazy_pattern

MOST_YAML = 256_000_000
"""Maximum size of a suite's YAML file, in bytes."""
MOST_TEXT = 16_000_000
"""Maximum size, in bytes, of a suite's text file: instructions, prompts, schemas, variables."""
MOST_FILE = 100_000_000
"""Maximum size of a file that a case attaches, in bytes."""
MOST_TRANSCRIPT = 2_000_000_000
"""Maximum size of a transcript, in bytes."""
MOST_LISTED = 100_000
"""Maximum number of names that are examined to find the files of one pattern."""

_HINT = "allowed: inside the checkout, or below a folder of --allow-path, which is an input of the action, too"

_SYSTEM = ("/proc", "/sys", "/dev")
"""Folders whose files show the state of the system, such as environments of processes, memory and devices."""
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - nothing is written
"""The one folder inside `_SYSTEM` that has ordinary files."""
_FOLDER_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LIST_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WILD = lazy_pattern(r"[*?\[]")


class Checkout(Struct, frozen=True):
    """The folder of a suite, and the paths that the suite may read.

    Attributes:
        folder: absolute path of the folder, from which relative paths start.
        roots: resolved folders inside which the suite may read; None if there are no bounds, because the user names the
            files.
        cwd: absolute working folder, in which processes that run code of the suite start.
        hint: the end of error messages: what the suite may read, and how to allow more.
    """

    folder: Path
    roots: tuple[Path, ...] | None
    cwd: Path
    hint: str = _HINT

    @classmethod
    def of(cls, folder: Path, cwd: Path, allowed: Sequence[os.PathLike[str]] = ()) -> Checkout:
        """Return the checkout of a suite.

        The root is the repository with the suite's folder, else the working folder if it contains the suite, else the
        suite's own folder. The root of the file system is never used.

        Args:
            folder: the suite's folder, absolute.
            cwd: the working folder, absolute.
            allowed: further folders that the workflow allows suites to read.
        """
        place, working = Path(os.path.realpath(folder)), Path(os.path.realpath(cwd))
        parents = (place, *place.parents)
        repository = next((parent for parent in parents if (parent / ".git").exists()), None)
        root = repository or (working if working in parents else place)
        if root == Path(root.anchor):
            root = place
        roots = (root, *(Path(os.path.realpath(path)) for path in allowed))
        return cls(Path(os.path.normpath(folder)), roots, cwd)

    @classmethod
    def unbounded(cls, folder: Path) -> Checkout:
        """Return a checkout without bounds, for files that the user names; relative paths start in `folder`, which is
        absolute."""
        return cls(Path(os.path.normpath(folder)), None, folder)

    @property
    def root_paths(self) -> tuple[str, ...]:
        """The path of the first root: resolved, and as the folder is written; that of the folder without bounds."""
        if not self.roots:
            return (str(self.folder),)
        real = self.roots[0]
        above = os.path.relpath(real, os.path.realpath(self.folder))
        return tuple(dict.fromkeys((str(real), os.path.normpath(self.folder / above))))

    def resolve(self, name: str | Path) -> Path:
        """Return a path with its links resolved.

        Raises:
            RefusedFileError: the suite may not read the path, or it is in Git's data, which may hold credentials.
        """
        try:
            real = Path(os.path.realpath(self.folder / name))
        except ValueError:
            raise RefusedFileError("is not a path of a file") from None
        self._split_root(real)
        return real

    def open(self, name: str | Path, max_bytes: int) -> BinaryIO:
        """Open a regular file for reading.

        Every part of the resolved path is opened separately without following links, so that the checked file is the
        opened one.

        Args:
            name: path of the file; a relative path starts in the checkout's folder.
            max_bytes: largest size in bytes.

        Raises:
            RefusedFileError: the suite may not read the file, or the file is not regular or too large.
            OSError: the file is missing or cannot be opened.
        """
        try:
            return self._open(*self._split_root(self.resolve(name)), max_bytes)
        except OSError as error:
            error.filename = os.fspath(name)
            raise

    def _open(self, root: Path, path_parts: tuple[str, ...], max_bytes: int) -> BinaryIO:
        if not path_parts:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        return regular_file(_open_below(root, path_parts, _FILE_FLAGS), max_bytes)

    def read(self, name: str | Path, max_bytes: int = MOST_TEXT) -> Foreign:
        """Return the content of a file.

        Raises:
            OSError: as `open`.
        """
        with self.open(name, max_bytes) as file:
            return read_rest(file, max_bytes)

    def check(self, name: str | Path, max_bytes: int = MOST_TEXT) -> os.stat_result:
        """Check that a file can be opened, and return its status.

        Raises:
            OSError: as `open`.
        """
        with self.open(name, max_bytes) as file:
            return os.fstat(file.fileno())

    def matching_files(self, pattern: str, max_names: int = MOST_LISTED) -> list[Path]:
        """Return the files that match a pattern, sorted by name; no links are followed.

        `*`, `?` and `[…]` match within a name, `**` matches any number of folders. A name that begins with a dot
        matches only a part of the pattern that begins with a dot. A pattern without wildcards is the path of one file,
        which need not exist.

        Args:
            pattern: a path with wildcards; a relative path starts in the checkout's folder.
            max_names: maximum number of names to examine.

        Raises:
            RefusedFileError: the suite may not read the folder of the pattern, or more than `max_names` names must be
                examined.
            OSError: a folder cannot be listed.
        """
        parts = Path(pattern).parts
        fixed = next((at for at, part in enumerate(parts) if _WILD.search(part)), len(parts))
        start, wild = Path(*parts[:fixed]), parts[fixed:]
        root, above = self._split_root(self.resolve(start))
        if not wild:
            return [self.folder / start]
        if ".." in wild:
            raise RefusedFileError("has `..` after a wildcard (`*`, `?` or `[`): remove the `..`")
        names = _PatternMatcher(wild)
        found: list[Path] = []
        pending = [(Path(), names.start)]
        while pending:
            folder, states = pending.pop()
            try:
                entries = self._list_folder(root, (*above, *folder.parts), max_names)
            except (FileNotFoundError, NotADirectoryError):
                continue
            max_names -= len(entries)
            for name, is_folder in entries:
                inner = folder / name
                if is_folder:
                    following = names.states_after(states, name)
                    if following and self._is_reachable(root, (*above, *inner.parts)):
                        pending.append((inner, following))
                elif names.matches_file(states, name) and not self._is_link_to_folder(start / inner):
                    found.append(self.folder / start / inner)
        return sorted(found)

    def _list_folder(self, root: Path, path_parts: tuple[str, ...], max_names: int) -> list[tuple[str, bool]]:
        """Return (name, is a folder) for each entry of a folder; a link does not count as a folder."""
        descriptor = _open_below(root, path_parts, _LIST_FLAGS)
        try:
            with os.scandir(descriptor) as entries:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in islice(entries, max_names + 1)]
        finally:
            os.close(descriptor)
        if len(found) > max_names:
            raise RefusedFileError("matches too many names: write a narrower pattern")
        return found

    def _is_reachable(self, root: Path, path_parts: tuple[str, ...]) -> bool:
        try:
            self._split_root(root.joinpath(*path_parts))
        except RefusedFileError:
            return False
        return True

    def _is_link_to_folder(self, name: Path) -> bool:
        try:
            return self.resolve(name).is_dir()
        except RefusedFileError:
            # Reading it will be refused.
            return False

    def _split_root(self, resolved_path: Path) -> tuple[Path, tuple[str, ...]]:
        """Return the root that contains a resolved path, and the path's parts after it; see `resolve` for errors."""
        if self.roots is None:
            return Path(resolved_path.anchor), resolved_path.parts[1:]
        root = next((root for root in self.roots if resolved_path.is_relative_to(root)), None)
        system = any(resolved_path.is_relative_to(place) for place in _SYSTEM) and not resolved_path.is_relative_to(
            _SHARED_MEMORY
        )
        if root is None or system:
            raise RefusedFileError(f"is outside the checkout ({self.hint})")
        parts = resolved_path.relative_to(root).parts
        if any(part.lower() == ".git" for part in parts):
            raise RefusedFileError(
                "belongs to Git's data, which may hold credentials, and is not a file of the repository"
            )
        return root, parts


class _PatternMatcher:
    """Matches paths against a pattern, part by part. A state is the number of the pattern's parts that a folder's path
    has matched."""

    def __init__(self, path_parts: Sequence[str]) -> None:
        self._parts = [None if part == "**" else re.compile(fnmatch.translate(part)) for part in path_parts]
        self._hidden = [part.startswith(".") for part in path_parts]
        self._end = len(path_parts)
        self.start = self._expand_states((0,))

    def states_after(self, states: Iterable[int], name: str) -> frozenset[int]:
        """Return the states after a folder with this name; empty if nothing inside the folder can match."""
        taken = (state for state in states if self._matches(state, name))
        return self._expand_states(state if self._parts[state] is None else state + 1 for state in taken)

    def matches_file(self, states: Iterable[int], name: str) -> bool:
        """Return whether a file with this name completes the pattern."""
        last = {self._end - 1, *takewhile(lambda state: self._parts[state] is None, reversed(range(self._end)))}
        return any(state in last and self._matches(state, name) for state in states)

    def _matches(self, state: int, name: str) -> bool:
        if state == self._end or (name.startswith(".") and not self._hidden[state]):
            return False
        part = self._parts[state]
        return part is None or part.match(name) is not None

    def _expand_states(self, states: Iterable[int]) -> frozenset[int]:
        # `**` may match no folder.
        found = set()
        for start in states:
            state = start
            found.add(state)
            while state < self._end and self._parts[state] is None:
                state += 1
                found.add(state)
        return frozenset(found)


def _open_below(root: Path, path_parts: tuple[str, ...], flags: int) -> int:
    """Open a path inside a root, part by part and without following links; return the descriptor."""
    above = os.open(root, _FOLDER_FLAGS)
    try:
        for part in path_parts[:-1]:
            inner = os.open(part, _FOLDER_FLAGS, dir_fd=above)
            os.close(above)
            above = inner
        return os.open(path_parts[-1] if path_parts else ".", flags, dir_fd=above)
    finally:
        os.close(above)


_HASH = lazy_pattern(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SCP = lazy_pattern(r"[\w.-]+@[\w.-]+:")
"""Start of an address that is not a URL, such as `git@github.com:owner/name.git`."""


def repository_root(folder: Path) -> Path | None:
    """Return the root of the repository that contains `folder`; None if `folder` is in no repository."""
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)


def head_commit(folder: Path) -> str | None:
    """Return the hash of the checked-out commit of the repository that contains `folder`; None if it is unknown."""
    root = repository_root(folder)
    if root is None:
        return None
    try:
        found = _head_hash(_git_folder(root / ".git"))
    except (OSError, ValueError):
        return None
    return found if found is not None and _HASH.fullmatch(found) else None


def folder_in_repository(folder: Path) -> str | None:
    """Return a folder's path in its repository, with `/`; empty if it is the root, None if it is not in a
    repository."""
    root = repository_root(folder)
    if root is None:
        return None
    path = folder.relative_to(root).as_posix()
    return "" if path == "." else path


def origin(root: Path) -> str | None:
    """Return `owner/name` of the repository's remote `origin`; None if it has no such remote on a server."""
    try:
        folder = _git_folder(root / ".git")
        text = _read_text(_common_folder(folder) / "config")
    except (OSError, ValueError):
        return None
    section = url = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line
        elif section == '[remote "origin"]' and line.partition("=")[0].strip() == "url":
            url = line.partition("=")[2].strip()
    scp = _SCP.match(url)
    path = url[scp.end() :] if scp else urlsplit(url).path if "://" in url and not url.startswith("file:") else ""
    names = path.rstrip("/").removesuffix(".git").split("/")[-2:]
    return "/".join(names) if len(names) == 2 and all(names) else None


def _read_text(path: Path) -> str:
    """Return the text of a file in Git's data.

    Raises:
        OSError, ForeignError: it cannot be read.
    """
    return read_file(path, MOST_YAML).text()


def _git_folder(git: Path) -> Path:
    if git.is_dir():
        return git
    # A worktree's or submodule's .git is a file: "gitdir: PATH".
    return Path(os.path.realpath(git.parent / _read_text(git).removeprefix("gitdir:").strip()))


def _common_folder(folder: Path) -> Path:
    """Return the Git folder that all worktrees of a repository share; `folder` is the Git folder of one of them."""
    common = folder / "commondir"
    return Path(os.path.realpath(folder / _read_text(common).strip())) if common.exists() else folder


def _head_hash(folder: Path) -> str | None:
    head = _read_text(folder / "HEAD").strip()
    if not head.startswith("ref:"):
        return head or None
    reference = head.removeprefix("ref:").strip()
    shared = _common_folder(folder)
    for place in (folder, shared):
        if (place / reference).is_file():
            return _read_text(place / reference).strip() or None
    packed = shared / "packed-refs"
    if packed.is_file():
        for line in _read_text(packed).splitlines():
            commit, _, name = line.partition(" ")
            if name == reference:
                return commit
    return None
