"""The checkout of a suite: its files, opened inside it alone and once, and the commit and repository that it is of."""

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

MOST_YAML = 256_000_000
"""Bytes of the largest YAML file of a suite."""
MOST_TEXT = 16_000_000
"""Bytes of the largest text that a suite takes from a file: instructions, prompts, schemas, variables."""
MOST_FILE = 100_000_000
"""Bytes of the largest file of a case."""
MOST_TRANSCRIPT = 2_000_000_000
"""Bytes of the largest transcript."""
MOST_LISTED = 100_000
"""Names that are looked at to find the files of one pattern."""

WAY_OUT = "allowed: inside the checkout, or below a folder of --allow-path, which is an input of the action, too"

_SYSTEM = ("/proc", "/sys", "/dev")
"""Where the system shows itself as files: environments of processes, memory, devices."""
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - nothing is written
"""The one place there that holds files like any other."""
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WILD = re.compile(r"[*?\[]")


class Checkout(Struct, frozen=True):
    """Where the paths of a suite start, and what they may reach.

    Attributes:
        folder: absolute; relative paths start here.
        roots: resolved folders; what lies in none of them is out of reach. None for no bounds: a user of the program
            names the files.
        cwd: absolute working folder, in which processes that run code of the suite start.
        way_out: what a refusal allows.
    """

    folder: Path
    roots: tuple[Path, ...] | None
    cwd: Path
    way_out: str = WAY_OUT

    @classmethod
    def of(cls, folder: Path, cwd: Path, allowed: Sequence[os.PathLike[str]] = ()) -> Checkout:
        """Return the checkout of a suite.

        Its root is that of the repository the suite's folder is in, else the working folder where the suite lies in
        it, else the suite's own folder. The root of the file system is never one.

        Args:
            folder: the suite's, absolute.
            cwd: the working folder, absolute.
            allowed: further folders that the workflow lets suites read.
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
    def anywhere(cls, folder: Path) -> Checkout:
        """Return what the user of the program may name: everything; relative paths start in `folder`, absolute."""
        return cls(Path(os.path.normpath(folder)), None, folder)

    def place(self, name: str | Path) -> Path:
        """Return where a path leads, links followed.

        Raises:
            RefusedFileError: out of reach, or into the data of Git, where credentials of the job may be.
        """
        try:
            real = Path(os.path.realpath(self.folder / name))
        except ValueError:
            raise RefusedFileError("is no path of a file") from None
        self._split(real)
        return real

    def open(self, name: str | Path, most: int) -> BinaryIO:
        """Open a regular file to read it.

        Every part of the resolved path is opened on its own and follows no link: what was checked is what is opened.

        Args:
            name: a path, which may start in the folder.
            most: bytes the file may have.

        Raises:
            RefusedFileError: out of reach, no regular file, or larger.
            OSError: it is not there or cannot be opened.
        """
        try:
            return self._open(*self._split(self.place(name)), most)
        except OSError as error:
            error.filename = os.fspath(name)
            raise

    def _open(self, root: Path, parts: tuple[str, ...], most: int) -> BinaryIO:
        if not parts:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        return regular_file(_opened(root, parts, _FILE), most)

    def read(self, name: str | Path, most: int = MOST_TEXT) -> Foreign:
        """Return the content of a file.

        Raises:
            OSError: as `open`.
        """
        with self.open(name, most) as file:
            return read_rest(file, most)

    def check(self, name: str | Path, most: int = MOST_TEXT) -> os.stat_result:
        """Open a file and close it again; return what the system knows of it.

        Raises:
            OSError: as `open`.
        """
        with self.open(name, most) as file:
            return os.fstat(file.fileno())

    def matching(self, pattern: str, most: int = MOST_LISTED) -> list[Path]:
        """Return the files that a pattern matches, in the order of their names; no link is followed to find them.

        `*`, `?` and `[…]` match within a name, `**` any number of folders. A name that begins with a dot is matched by
        one that does so, too. A pattern without any of them is the path of one file, which need not exist.

        Args:
            pattern: a path, which may start in the folder.
            most: names that are looked at.

        Raises:
            RefusedFileError: the pattern is out of reach, or would have to look at more names.
            OSError: a folder cannot be listed.
        """
        parts = Path(pattern).parts
        fixed = next((at for at, part in enumerate(parts) if _WILD.search(part)), len(parts))
        start, wild = Path(*parts[:fixed]), parts[fixed:]
        root, above = self._split(self.place(start))
        if not wild:
            return [self.folder / start]
        if ".." in wild:
            raise RefusedFileError("has `..` after a `*`: write it without")
        names = _Names(wild)
        found: list[Path] = []
        pending = [(Path(), names.start)]
        while pending:
            folder, states = pending.pop()
            try:
                entries = self._entries(root, (*above, *folder.parts), most)
            except (FileNotFoundError, NotADirectoryError):
                continue
            most -= len(entries)
            for name, is_folder in entries:
                inner = folder / name
                if is_folder:
                    following = names.after(states, name)
                    if following and self._reaches(root, (*above, *inner.parts)):
                        pending.append((inner, following))
                elif names.end_at(states, name) and not self._is_link_to_folder(start / inner):
                    found.append(self.folder / start / inner)
        return sorted(found)

    def _entries(self, root: Path, parts: tuple[str, ...], most: int) -> list[tuple[str, bool]]:
        """Return the names in a folder, and whether each is a folder and no link to one."""
        descriptor = _opened(root, parts, _LISTED)
        try:
            with os.scandir(descriptor) as entries:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in islice(entries, most + 1)]
        finally:
            os.close(descriptor)
        if len(found) > most:
            raise RefusedFileError("looks at too many names: write a narrower pattern")
        return found

    def _reaches(self, root: Path, parts: tuple[str, ...]) -> bool:
        try:
            self._split(root.joinpath(*parts))
        except RefusedFileError:
            return False
        return True

    def _is_link_to_folder(self, name: Path) -> bool:
        try:
            return self.place(name).is_dir()
        except RefusedFileError:
            # Whoever reads it is refused.
            return False

    def _split(self, real: Path) -> tuple[Path, tuple[str, ...]]:
        """Return the root that a resolved path is in, and the parts behind it."""
        if self.roots is None:
            return Path(real.anchor), real.parts[1:]
        root = next((root for root in self.roots if real.is_relative_to(root)), None)
        system = any(real.is_relative_to(place) for place in _SYSTEM) and not real.is_relative_to(_SHARED_MEMORY)
        if root is None or system:
            raise RefusedFileError(f"lies outside of the checkout ({self.way_out})")
        parts = real.relative_to(root).parts
        if any(part.lower() == ".git" for part in parts):
            raise RefusedFileError("is data of Git, which may hold credentials, and no file of the repository")
        return root, parts


class _Names:
    """The parts of a pattern; a state is how many of them the folders so far have matched."""

    def __init__(self, parts: Sequence[str]) -> None:
        self._parts = [None if part == "**" else re.compile(fnmatch.translate(part)) for part in parts]
        self._hidden = [part.startswith(".") for part in parts]
        self._end = len(parts)
        self.start = self._reached((0,))

    def after(self, states: Iterable[int], name: str) -> frozenset[int]:
        """Return the states in a folder of this name; none if it does not match."""
        taken = (state for state in states if self._takes(state, name))
        return self._reached(state if self._parts[state] is None else state + 1 for state in taken)

    def end_at(self, states: Iterable[int], name: str) -> bool:
        """Tell whether a file of this name matches the rest of the pattern; what stands before `**` is a folder."""
        last = {self._end - 1, *takewhile(lambda state: self._parts[state] is None, reversed(range(self._end)))}
        return any(state in last and self._takes(state, name) for state in states)

    def _takes(self, state: int, name: str) -> bool:
        if state == self._end or (name.startswith(".") and not self._hidden[state]):
            return False
        part = self._parts[state]
        return part is None or part.match(name) is not None

    def _reached(self, states: Iterable[int]) -> frozenset[int]:
        # `**` may be no folder at all.
        found = set()
        for start in states:
            state = start
            found.add(state)
            while state < self._end and self._parts[state] is None:
                state += 1
                found.add(state)
        return frozenset(found)


def _opened(root: Path, parts: tuple[str, ...], flags: int) -> int:
    """Open what lies below a root, part by part and without following a link; return its descriptor."""
    above = os.open(root, _FOLDER)
    try:
        for part in parts[:-1]:
            inner = os.open(part, _FOLDER, dir_fd=above)
            os.close(above)
            above = inner
        return os.open(parts[-1] if parts else ".", flags, dir_fd=above)
    finally:
        os.close(above)


_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SCP = re.compile(r"[\w.-]+@[\w.-]+:")
"""How an address starts that is no URL, such as `git@github.com:owner/name.git`."""


def repository_root(folder: Path) -> Path | None:
    """Return the root of the repository that holds `folder`; None outside of one."""
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)


def head_commit(folder: Path) -> str | None:
    """Return the checked-out commit's hash of the repository that holds `folder`; None outside a repository."""
    root = repository_root(folder)
    if root is None:
        return None
    try:
        found = _resolve(_git_folder(root / ".git"))
    except (OSError, ValueError):
        return None
    return found if found is not None and _HASH.fullmatch(found) else None


def folder_in_repository(folder: Path) -> str | None:
    """Return a folder's path in the repository that holds it, with `/`, empty for its root; None outside of one."""
    root = repository_root(folder)
    if root is None:
        return None
    path = folder.relative_to(root).as_posix()
    return "" if path == "." else path


def origin(root: Path) -> str | None:
    """Return `owner/name` of the remote that a repository was cloned from; None where it has none on a server."""
    try:
        folder = _git_folder(root / ".git")
        text = _text(_common(folder) / "config")
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


def _text(path: Path) -> str:
    """Return the text of a file of Git.

    Raises:
        OSError, ForeignError: it cannot be read.
    """
    return read_file(path, MOST_YAML).text()


def _git_folder(git: Path) -> Path:
    if git.is_dir():
        return git
    # A worktree's or submodule's .git is a file: "gitdir: PATH".
    return (git.parent / _text(git).removeprefix("gitdir:").strip()).resolve()


def _common(folder: Path) -> Path:
    """Return the folder that a worktree shares with its repository; of a repository its own."""
    common = folder / "commondir"
    return (folder / _text(common).strip()).resolve() if common.exists() else folder


def _resolve(folder: Path) -> str | None:
    head = _text(folder / "HEAD").strip()
    if not head.startswith("ref:"):
        return head or None
    reference = head.removeprefix("ref:").strip()
    shared = _common(folder)
    for place in (folder, shared):
        if (place / reference).is_file():
            return _text(place / reference).strip() or None
    packed = shared / "packed-refs"
    if packed.is_file():
        for line in _text(packed).splitlines():
            commit, _, name = line.partition(" ")
            if name == reference:
                return commit
    return None
