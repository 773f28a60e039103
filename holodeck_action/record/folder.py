"""The output folder of a run. Only one run writes to it at a time, and files of earlier runs are moved away first."""

from __future__ import annotations

import errno
import fcntl
import fnmatch
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType

from msgspec import Struct

from holodeck_action.record.disk import DISK, Disk, check_links, open_lock
from holodeck_action.record.result_files import (
    BASE_FOLDER,
    EARLIER_FILE,
    FINISHED_FILE,
    RESULTS_FILE,
    TABLES_FOLDER,
    VERDICT_FILE,
)
from holodeck_action.record.serialization import from_json
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.foreign import ForeignError, read_file
from holodeck_action.text.given_paths import GivenPath

PREVIOUS_FOLDER = "previous"
LOCK_FILE = ".lock"
_MOVED = (VERDICT_FILE, RESULTS_FILE, TABLES_FOLDER, EARLIER_FILE, FINISHED_FILE, "junit.xml", "report.*")
"""Patterns of the files that are moved to `previous`, in this order, the verdict first: files that `run` and `report`
write."""
_OUTPUT_FILES = (VERDICT_FILE, RESULTS_FILE, EARLIER_FILE, "junit.xml", "report.md", "report.html")
OUTPUT_PATTERNS = (*_OUTPUT_FILES, FINISHED_FILE, "journal*.jsonl", LOCK_FILE, f"{TABLES_FOLDER}/**", ".holodeck/**")
"""Patterns of all files that runs write into a checkout; no pattern fits a module of Python."""
_TEMPORARY = tuple(f".{name}.*" for name in _MOVED)
"""Patterns of temporary files that a killed run leaves."""


class FolderError(ConfigurationError):
    """An output folder cannot be used; the message is one sentence with its name and a remedy."""

    def __init__(self, message: str) -> None:
        super().__init__([message])


class Claims:
    """Locks on output folders, so that only this run writes to them until the context ends or the process dies."""

    def __init__(self, disk: Disk = DISK) -> None:
        self._disk = disk
        self._locks = ExitStack()
        self._held: set[Path] = set()
        self._cleared: set[Path] = set()

    def __enter__(self) -> Claims:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._locks.close()

    def claim(self, folder: GivenPath) -> None:
        """Lock an existing folder against other writers.

        Raises:
            FolderError: another run has locked it, or it cannot be locked.
        """
        where = folder.real
        if where in self._held:
            return
        try:
            check_links(folder)
            handle = _lock(where / LOCK_FILE)
        except BlockingIOError as error:
            raise FolderError(
                f"{folder}: another run is writing into this folder; wait until it ends, or choose another --output-dir"
            ) from error
        except OSError as error:
            raise _folder_error(error.filename or folder, error) from error
        self._locks.callback(_unlock, where / LOCK_FILE, handle)
        self._held.add(where)

    def clear(self, folder: GivenPath | None) -> None:
        """Lock a folder, and move the files of an earlier run to `previous`. Do nothing if it is None, missing or
        already cleared.

        The folders that an earlier run of several suites wrote are cleared, too. A journal stays, since it can be
        continued.

        Raises:
            FolderError: another run has locked it, or a file cannot be moved.
        """
        if folder is None or not folder.path.is_dir() or folder.real in self._cleared:
            return
        self.claim(folder)
        try:
            for each in (*_suite_folders(folder.path), folder.path):
                _move_to_previous(each, self._disk)
        except OSError as error:
            raise _folder_error(folder.written_path(error.filename) if error.filename else folder, error) from error
        self._cleared.add(folder.real)


def suite_folders(suites: Sequence[tuple[str, str]], root: GivenPath | None) -> list[GivenPath | None]:
    """Return the output folder of each suite: the root if there is one suite, else a separate subfolder for each.

    Args:
        suites: for each suite, its folder as the user would type it, and the name of its file.
        root: the output folder of the run; None if it writes no files.
    """
    if root is None or len(suites) == 1:
        return [root for _ in suites]
    taken: set[str] = {PREVIOUS_FOLDER, BASE_FOLDER}
    folders: list[GivenPath | None] = []
    for shown, file in suites:
        base = name = (shown.strip("./").replace("/", "-") or file.removesuffix(".yaml")) or "suite"
        number = 2
        while name in taken:
            name, number = f"{base}-{number}", number + 1
        taken.add(name)
        folders.append(root / name)
    return folders


def is_inside(file: GivenPath, folder: GivenPath | None) -> bool:
    """Return whether a file is in a folder or its subfolders; False if `folder` is None."""
    return folder is not None and file.real.is_relative_to(folder.real)


def _move_to_previous(folder: Path, disk: Disk) -> None:
    for pattern in _TEMPORARY:
        for file in folder.glob(pattern):
            _remove(file, disk)
    if not (folder / BASE_FOLDER).is_symlink() and (folder / BASE_FOLDER).is_dir():
        # The base of an earlier run is of no use without its results.
        disk.remove(folder / BASE_FOLDER / RESULTS_FILE)
    for name in _OUTPUT_FILES:
        if (folder / name).is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(folder / name))
    # `listdir` includes broken links, which `Path.glob` skips.
    there = sorted(os.listdir(folder))
    found = (folder / name for pattern in _MOVED for name in fnmatch.filter(there, pattern))
    files = [file for file in found if file.is_symlink() or not file.is_dir() or file.name == TABLES_FOLDER]
    if not files:
        return
    previous = folder / PREVIOUS_FOLDER
    if previous.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, "a symbolic link is in the way", str(previous))
    previous.mkdir(exist_ok=True)
    for pattern in _MOVED:
        for file in previous.glob(pattern):
            _remove(file, disk)
    disk.replace(*((file, previous / file.name) for file in files))


def _remove(path: Path, disk: Disk) -> None:
    if path.is_dir() and TABLES_FOLDER in path.name:
        disk.remove_folder(path)
    else:
        disk.remove(path)


def combined_suites(folder: Path | GivenPath) -> tuple[str, ...]:
    """Return the folders of the suites that a folder's combined verdict names; empty if the verdict cannot be read."""
    try:
        content = read_file(folder / VERDICT_FILE, follow_links=False)
        return tuple(suite.folder for suite in content.parse(partial(from_json, kind=_Combined)).suites)
    except (OSError, ForeignError):
        return ()


class _Suite(Struct):
    folder: str


class _Combined(Struct):
    """The fields to read from a combined verdict of any version."""

    suites: tuple[_Suite, ...]


def _suite_folders(folder: Path) -> Iterator[Path]:
    """Yield the folders of the suites that the combined verdict of an earlier run names, if they exist."""
    for name in combined_suites(folder):
        if name not in ("", ".", "..") and os.sep not in name and "\0" not in name:
            inner = folder / name
            if inner.is_dir() and not inner.is_symlink():
                yield inner


def _lock(path: Path) -> int:
    """Open and lock a file; the kernel releases it when the process dies.

    Raises:
        BlockingIOError: another process has locked it.
        OSError: it cannot be opened.
    """
    while True:
        handle = open_lock(path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise
        except OSError:
            # Some network file systems have no locks: run without one.
            return handle
        try:
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        except FileNotFoundError:
            pass
        # The previous owner deleted the file in between.
        os.close(handle)


def _unlock(path: Path, descriptor: int) -> None:
    path.unlink(missing_ok=True)
    os.close(descriptor)


def _folder_error(place: str | GivenPath, error: OSError) -> FolderError:
    return FolderError(f"{place}: cannot be replaced: {error.strerror}; remove it or give another --output-dir")
