"""What is done to the disk where nothing may be lost or half-written: one value, which tests replace to let it fail."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from holodeck_action.text.foreign import open_descriptor, regular_file


class Disk:
    """The system's own files; every change that can fail or be cut short is one of these calls."""

    def write(self, file: BinaryIO, data: bytes) -> None:
        """Write all of `data` to an unbuffered file.

        Raises:
            OSError: the disk is full, or the like; part of it may be written.
        """
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]

    def sync(self, file: BinaryIO) -> None:
        """Wait until what was written is on the disk."""
        os.fsync(file.fileno())

    def rename(self, source: Path, target: Path) -> None:
        """Give a file or folder another name, replacing one that has it.

        Files are replaced in one step; for folders no system has one.
        """
        if source.is_dir() and target.is_dir():
            self.remove_folder(target)
        os.replace(source, target)

    def replace(self, *renamed: tuple[Path, Path]) -> None:
        """Rename files or folders, each given with its new place, one after the other.

        Wait once for each folder of a new place, until its names are on the disk.
        """
        for source, target in renamed:
            self.rename(source, target)
        for folder in dict.fromkeys(target.parent for _, target in renamed):
            self.sync_folder(folder)

    def remove(self, path: Path) -> None:
        """Delete a file, if it is there."""
        path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        """Delete a folder with all that is in it; a link to one is not followed."""
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path)

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names in a folder are on the disk."""
        with open_folder(folder) as handle:
            os.fsync(handle)


class _Unsynced(Disk):
    def sync(self, file: BinaryIO) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass


DISK = Disk()
UNSYNCED_DISK = _Unsynced()
"""Leaves it to the system when files reach the disk: for what can be had again."""

_BLOCK = 1 << 20


@contextmanager
def staged(path: Path, chunks: Iterable[bytes], disk: Disk = DISK) -> Iterator[Path]:
    """Write a file beside `path` and flush it to disk; it is there while the context lasts, to be moved into place.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb", buffering=0) as file:
            for block in _blocks(chunks):
                disk.write(file, block)
            disk.sync(file)
        share(temporary)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, chunks: Iterable[bytes], *, disk: Disk = DISK) -> None:
    """Write `chunks` beside `path`, flush them to disk and move them into place.

    Raises:
        OSError: nothing was replaced.
    """
    with staged(path, chunks, disk) as temporary:
        disk.replace((temporary, path))


def write_new(path: Path, chunks: Iterable[bytes], disk: Disk = DISK) -> None:
    """Write a file that is not there yet, and flush it to disk.

    Raises:
        OSError: it is there, or cannot be written.
    """
    with open(path, "xb", buffering=0) as file:
        for chunk in chunks:
            disk.write(file, chunk)
        disk.sync(file)


_KEPT = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_APPENDED = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_new(path: Path) -> BinaryIO:
    """Open a file to read and write it, unbuffered, in the place of any other one; a link is replaced, not followed.

    Raises:
        OSError: it cannot be replaced, or not be written.
    """
    path.unlink(missing_ok=True)
    return cast(BinaryIO, open(path, "x+b", buffering=0))


def open_kept(path: Path, *, create: bool = False) -> BinaryIO:
    """Open a file of ours to go on writing it, unbuffered.

    Args:
        path: the file.
        create: whether it is made if it is missing.

    Raises:
        RefusedFileError: it is a link or no regular file.
        OSError: it is missing, or cannot be opened.
    """
    return regular_file(open_descriptor(path, _KEPT | (os.O_CREAT if create else 0)), None, write=True)


def append(path: Path, data: bytes) -> None:
    """Write at the end of a file or to a device that a program outside names; a pipe is not waited for.

    Raises:
        RefusedFileError: it is a pipe that nobody reads.
        OSError: it cannot be written.
    """
    with os.fdopen(open_descriptor(path, _APPENDED), "ab") as file:
        file.write(data)


def write_through(path: Path, chunks: Iterable[bytes]) -> None:
    """Write to a device or a pipe that a person names; this may wait for its reader.

    Raises:
        OSError: it cannot be written.
    """
    with open(path, "wb") as stream:
        stream.writelines(chunks)


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """Yield the descriptor of a folder, to flush or to lock it.

    Raises:
        OSError: there is no such folder, or it cannot be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)


def open_lock(path: Path) -> int:
    """Return the descriptor of a file to lock, which is made if it is missing; a link is not followed.

    Raises:
        OSError: it cannot be opened.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)


def share(path: Path, mode: int = 0o666) -> None:
    """Let everyone read a file or folder who may read the folder around it: `tempfile` makes it private to its user."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(mode & ~umask)


def _blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield chunks together, so that small ones are not written one by one."""
    gathered: list[bytes] = []
    size = 0
    for chunk in chunks:
        gathered.append(chunk)
        size += len(chunk)
        if size >= _BLOCK:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)
