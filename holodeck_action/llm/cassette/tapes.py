"""JSON documents found by key: lines of one file for a recording, a file each for a cache.

A recording is kept in Git and written by few: lines are appended as they come, and sorted by key at the end, so that
equal recordings have equal bytes and what changed is one line. A cache is shared by runs that read and replace at the
same time, and grows: a file is replaced in one step, for which nobody waits and nothing else is written.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from holodeck_action.record.disk import UNSYNCED_DISK, open_folder, open_kept, write_atomically
from holodeck_action.text.foreign import Foreign, bounded_lines, open_file, read_file
from holodeck_action.text.json_values import parse_json

_KEY = b'{"key":"'
_LONGEST_KEY = 64
"""Characters of a key: hexadecimal digits of a digest."""
_MOST_BYTES = 256_000_000
"""Bytes of a document."""


class DamagedError(Exception):
    """A document that is asked for may stand in a line that cannot be read.

    Attributes:
        place: the line.
    """

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place


class Documents(Protocol):
    """JSON objects by key."""

    @property
    def folder(self) -> Path:
        """Where they are."""
        ...

    @property
    def empty(self) -> bool:
        """Whether there are none."""
        ...

    def place(self, key: str) -> str:
        """Return where a document is, for messages."""
        ...

    def read(self, key: str) -> Foreign | None:
        """Return a document, None when there is none; see `parse_document`.

        Raises:
            OSError: it cannot be read.
            DamagedError: it may stand in a line that cannot be read.
        """
        ...

    def write(self, key: str, document: str) -> None:
        """Store a document, a JSON object on one line, in the place of an earlier one.

        Raises:
            OSError: it cannot be written.
        """
        ...

    def keys(self) -> Iterator[str]:
        """Yield the keys in their order."""
        ...

    def close(self) -> None:
        """Bring what was written into order."""
        ...


class Files:
    """Documents as files `KEY.json` of a folder, each replaced in one step."""

    def __init__(self, folder: Path) -> None:
        """Prepare; nothing is read or made."""
        self.folder = folder

    @property
    def empty(self) -> bool:
        """Whether there are none."""
        return next(self.folder.glob("*.json"), None) is None

    def place(self, key: str) -> str:
        """Return the path of a document's file."""
        return str(self.path(key))

    def path(self, key: str) -> Path:
        """Return the path of a document's file."""
        return self.folder / f"{key}.json"

    def read(self, key: str) -> Foreign | None:
        """Return a document, None when there is none; see `Documents.read`."""
        try:
            return read_file(self.path(key), _MOST_BYTES)
        except FileNotFoundError:
            return None

    def write(self, key: str, document: str) -> None:
        """Store a document in the place of an earlier one; see `Documents.write`."""
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, [_line(document)], disk=UNSYNCED_DISK)

    def keys(self) -> Iterator[str]:
        """Yield the keys in their order."""
        with suppress(OSError):
            yield from sorted(path.stem for path in self.folder.glob("*.json"))

    def close(self) -> None:
        """Do nothing: every file is in order."""


class Tape:
    """Documents as lines of one file, found by an index of their places that is made of the file.

    The last line of a key counts. A last line that breaks off was being written when its process was killed: it is
    none. Several processes may write at a time. Files of a folder, which earlier versions wrote, are read as well.
    """

    def __init__(self, path: Path, earlier: Path) -> None:
        """Prepare; nothing is read or made.

        Args:
            path: the file of lines.
            earlier: folder of files that are read where no line has the key.
        """
        self._path = path
        self._earlier = Files(earlier)
        self._file: BinaryIO | None = None
        self._index: dict[str, tuple[int, int, int]] = {}
        self._end = 0
        self._lines = 0
        self._damaged: int | None = None
        self._written: set[str] = set()

    @property
    def folder(self) -> Path:
        """Where they are."""
        return self._path.parent

    @property
    def empty(self) -> bool:
        """Whether there are none."""
        self._look()
        return not self._index and self._earlier.empty

    def place(self, key: str) -> str:
        """Return the line of a document."""
        found = self._index.get(key)
        return self._earlier.place(key) if found is None else self._where(found[2])

    def read(self, key: str) -> Foreign | None:
        """Return a document, None when there is none; see `Documents.read`."""
        if key not in self._index:
            self._look()
        found = self._index.get(key)
        if found is not None:
            assert self._file is not None
            return Foreign(os.pread(self._file.fileno(), found[1], found[0]))
        document = self._earlier.read(key)
        if document is None and self._damaged is not None:
            raise DamagedError(self._where(self._damaged))
        return document

    def write(self, key: str, document: str) -> None:
        """Append a document, which counts from now on; see `Documents.write`."""
        line = _line(f'{{"key":"{key}",{document[1:]}')
        if not self._written:
            self.folder.mkdir(parents=True, exist_ok=True)
        with self._alone(), open_kept(self._path, create=True) as file:
            _mend(file)
            file.seek(0, os.SEEK_END)
            file.write(line)
        self._written.add(key)
        self._index.pop(key, None)

    def keys(self) -> Iterator[str]:
        """Yield the keys in their order."""
        with suppress(OSError):
            self._look()
        yield from sorted({*self._index, *self._earlier.keys()})

    def close(self) -> None:
        """Sort what was written by key, each once, and delete earlier files in whose place it is."""
        # As it is, it can be read as well.
        with suppress(OSError):
            if self._written:
                with self._alone():
                    self._look()
                    places = [self._index[key] for key in sorted(self._index)]
                    file = self._file
                    assert file is not None
                    lines = (os.pread(file.fileno(), size, at) for at, size, _ in places)
                    write_atomically(self._path, (line.rstrip(b"\n") + b"\n" for line in lines))
                for key in self._written:
                    self._earlier.path(key).unlink(missing_ok=True)
        self._written.clear()
        self._forget()

    def _where(self, number: int) -> str:
        return f"line {number} of {self._path}"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold off other processes that write; the file itself may be replaced."""
        with open_folder(self.folder) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _forget(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None
        self._index, self._end, self._lines, self._damaged = {}, 0, 0, None

    def _look(self) -> None:
        """Bring the index up to date with what this process and others have written.

        Raises:
            OSError: the file cannot be read.
        """
        try:
            now = os.stat(self._path)
        except FileNotFoundError:
            return
        if self._file is None or not os.path.samestat(now, os.fstat(self._file.fileno())):
            self._forget()
            self._file = open_file(self._path, None)
        if now.st_size <= self._end:
            return
        self._file.seek(self._end)
        for line in bounded_lines(self._file, _MOST_BYTES):
            ended = line.endswith(b"\n")
            if not ended and not _whole(line):
                break
            key = _key(line)
            if key is not None:
                self._index[key] = (self._end, len(line), self._lines + 1)
            elif line.strip() and self._damaged is None:
                self._damaged = self._lines + 1
            if not ended:
                # An editor has left the end out: whoever writes next adds it.
                break
            self._lines += 1
            self._end += len(line)


def parse_document(data: bytes) -> dict[str, Any]:
    """Return what a document holds.

    Raises:
        ValueError: it is no JSON object.
    """
    # Answers are kept as they came: with halves of characters, and with numbers that are none.
    found = parse_json(data.decode("utf-8", "surrogatepass"), constants=True)
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    return found


def _line(document: str) -> bytes:
    return document.encode("utf-8", "surrogatepass") + b"\n"


def _key(line: bytes) -> str | None:
    """Return the key of a line; None where it has none. Lines as they are written are not parsed."""
    if line.startswith(_KEY):
        key = line[len(_KEY) : len(_KEY) + _LONGEST_KEY + 1].partition(b'"')[0]
        if key.isalnum():
            return key.decode("ascii", "replace")
    try:
        found = parse_document(line).get("key")
    except ValueError:
        return None
    return found if isinstance(found, str) else None


def _whole(line: bytes) -> bool:
    """Tell whether a line that is not ended is a document all the same."""
    try:
        parse_document(line)
    except ValueError:
        return False
    return True


def _mend(file: BinaryIO) -> None:
    """End a last line that breaks off: where it is no document, it is cut off."""
    size = file.seek(0, os.SEEK_END)
    if not size:
        return
    file.seek(size - 1)
    if file.read(1) == b"\n":
        return
    file.seek(0)
    # Seldom: after a process was killed, or after an editor.
    last = file.read().rpartition(b"\n")[2]
    if _whole(last):
        file.write(b"\n")
    else:
        file.truncate(size - len(last))
