"""Disk operations that lose no data and leave no file half-written. Tests replace `Disk` to make operations fail."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from holodeck_action.text.foreign import open_descriptor, regular_file
from holodeck_action.text.given_paths import GivenPath


class Disk:
    """The file system. All changes that can fail or be interrupted are calls of its methods."""

    def write(self, file: BinaryIO, data: bytes) -> None:
        """Write all of `data` to an unbuffered file.

        Raises:
            OSError: such as a full disk; part of the data may have been written.
        """
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]

    def sync(self, file: BinaryIO) -> None:
        """Wait until the written data is on the disk."""
        os.fsync(file.fileno())

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file or folder, replacing an existing one.

        Files are replaced atomically, folders are not.
        """
        if source.is_dir() and target.is_dir():
            self.remove_folder(target)
        os.replace(source, target)

    def replace(self, *renamed: tuple[Path, Path]) -> None:
        """Rename files or folders, given as pairs of source and target, in order.

        Then wait until the new names are on the disk, once for each target folder.
        """
        for source, target in renamed:
            self.rename(source, target)
        for folder in dict.fromkeys(target.parent for _, target in renamed):
            self.sync_folder(folder)

    def remove(self, path: Path) -> None:
        """Delete a file if it exists."""
        path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        """Delete a folder with its content; if the path is a link, only the link is deleted."""
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path)

    def sync_folder(self, folder: Path) -> None:
        """Wait until the entries of a folder are on the disk."""
        with open_folder(folder) as handle:
            os.fsync(handle)


class _UnsyncedDisk(Disk):
    def sync(self, file: BinaryIO) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass


DISK = Disk()
UNSYNCED_DISK = _UnsyncedDisk()
"""A `Disk` that does not wait until data is written, for data that can be restored."""

_BLOCK = 1 << 20


@contextmanager
def stage_file(path: Path, chunks: Iterable[bytes], disk: Disk = DISK) -> Iterator[Path]:
    """Write a temporary file next to `path`, flush it to disk and yield its path; it is deleted when the context ends.

    Raises:
        OSError: the file cannot be written; nothing is left of it.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb", buffering=0) as file:
            for block in _blocks(chunks):
                disk.write(file, block)
            disk.sync(file)
        make_readable(temporary)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, chunks: Iterable[bytes], *, disk: Disk = DISK) -> None:
    """Write `chunks` to a temporary file, flush it to disk and move it to `path`.

    Raises:
        OSError: the file could not be written; the old one is untouched.
    """
    with stage_file(path, chunks, disk) as temporary:
        disk.replace((temporary, path))


def write_new(path: Path, chunks: Iterable[bytes], disk: Disk = DISK) -> None:
    """Write a new file, and flush it to disk.

    Raises:
        OSError: the file exists, or cannot be written.
    """
    with open(path, "xb", buffering=0) as file:
        for chunk in chunks:
            disk.write(file, chunk)
        disk.sync(file)


_CONTINUE_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_APPEND_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_new(path: Path) -> BinaryIO:
    """Create a file, unbuffered, for reading and writing. An existing file or link is replaced.

    Raises:
        OSError: an existing file cannot be replaced, or the new one cannot be created.
    """
    path.unlink(missing_ok=True)
    return cast(BinaryIO, open(path, "x+b", buffering=0))


def open_existing(path: Path, *, create: bool = False) -> BinaryIO:
    """Open an earlier run's file, unbuffered, to continue writing it.

    Args:
        path: the file.
        create: whether to create a missing file.

    Raises:
        RefusedFileError: it is a link or not a regular file.
        OSError: it is missing, or cannot be opened.
    """
    return regular_file(open_descriptor(path, _CONTINUE_FLAGS | (os.O_CREAT if create else 0)), None, is_writable=True)


def append(path: Path, data: bytes) -> None:
    """Append to a file, device or pipe named by another program, without waiting for a reader of the pipe.

    Raises:
        RefusedFileError: it is a pipe without a reader.
        OSError: it cannot be written.
    """
    with os.fdopen(open_descriptor(path, _APPEND_FLAGS), "ab") as file:
        file.write(data)


def write_through(path: Path, chunks: Iterable[bytes]) -> None:
    """Write to a device or pipe that the user names; this may wait for its reader.

    Raises:
        OSError: it cannot be written.
    """
    with open(path, "wb") as stream:
        stream.writelines(chunks)


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """Yield the descriptor of a folder, to flush or lock it.

    Raises:
        OSError: there is no such folder, or it cannot be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)


def open_lock(path: Path) -> int:
    """Open a file for locking, created if it is missing, and return its descriptor; links are not followed.

    Raises:
        OSError: it cannot be opened.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)


def check_links(folder: GivenPath) -> None:
    """Check that no link leads out of the working folder or the repository on the way to a folder: a pull request can
    commit such a link, so that files elsewhere would be moved or replaced.

    A folder that is named outside of both is the user's choice.

    Raises:
        NotADirectoryError: a link leads out, or into Git's data.
    """
    written = Path(os.path.normpath(folder.path))
    above = (written, *written.parents)
    working = Path(os.path.normpath(folder.start))
    inside = next((place for place in above if (place / ".git").exists()), working if working in above else None)
    if inside is None:
        return
    real, bounds = Path(os.path.realpath(folder.path)), Path(os.path.realpath(inside))
    if not real.is_relative_to(bounds) or ".git" in real.relative_to(bounds).parts:
        reason = f"a link leads to {real}, which is not a folder of the checkout"
        raise NotADirectoryError(errno.ENOTDIR, reason, str(folder.path))


def make_folder(folder: GivenPath) -> None:
    """Create a folder with its parents, unless it exists.

    Raises:
        OSError: it cannot be created, or a link leads out of the working folder or the repository.
    """
    check_links(folder)
    folder.path.mkdir(parents=True, exist_ok=True)


def make_readable(path: Path, mode: int = 0o666) -> None:
    """Set the permissions `mode` less the umask; `tempfile` creates files and folders for their owner only."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(mode & ~umask)


def _blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield chunks joined into larger blocks."""
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
