"""Storage of JSON documents by key: one file of lines for a recording, one file per document for a cache.

A recording (`JsonLinesFile`) is committed to Git and has few writers. Lines are appended, and sorted by key at the end,
so that equal recordings have equal bytes and a changed document changes one line. A cache (`JsonFiles`) is shared by
concurrent runs and grows: each file is replaced atomically, without locks.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from holodeck_action.record.disk import UNSYNCED_DISK, open_existing, open_folder, write_atomically
from holodeck_action.text.foreign import Foreign, bounded_lines, open_file, read_file
from holodeck_action.text.json_values import parse_json

_KEY = b'{"key":"'
_LONGEST_KEY = 64
"""Maximum characters of a key, the hexadecimal digits of a digest."""
_MOST_BYTES = 256_000_000
"""Maximum bytes of a document."""


class DamagedLineError(Exception):
    """The requested document was not found, but may be on a line that cannot be read.

    Attributes:
        place: path of the file with the number of the line, for messages.
    """

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place


class Documents(Protocol):
    """JSON objects stored by key."""

    @property
    def folder(self) -> Path:
        """The folder of the documents."""
        ...

    def describe_location(self, key: str) -> str:
        """Return the path of a document's file, with its line if there is one, for messages."""
        ...

    def read(self, key: str) -> Foreign | None:
        """Return the document of a key; None if the key has no document. See `parse_document`.

        Raises:
            OSError: the document cannot be read.
            DamagedLineError: the document may be on a line that cannot be read.
        """
        ...

    def write(self, key: str, document: str) -> None:
        """Store a document, a JSON object on one line; it replaces an earlier document with the same key.

        Raises:
            OSError: the document cannot be written.
        """
        ...

    def keys(self) -> Iterator[str]:
        """Yield the keys in sorted order."""
        ...

    def close(self) -> None:
        """Finish writing, and sort the documents if the storage keeps them in order."""
        ...


class JsonFiles:
    """Stores documents as files `KEY.json` in a folder; each file is replaced atomically."""

    def __init__(self, folder: Path) -> None:
        """Create the instance; no file is read or created yet."""
        self.folder = folder

    def describe_location(self, key: str) -> str:
        """Return the path of a document's file, for messages."""
        return str(self.path(key))

    def path(self, key: str) -> Path:
        """Return the path of a document's file."""
        return self.folder / f"{key}.json"

    def read(self, key: str) -> Foreign | None:
        """Return the document of a key; None if the key has no document. See `Documents.read`."""
        try:
            return read_file(self.path(key), _MOST_BYTES)
        except FileNotFoundError:
            return None

    def write(self, key: str, document: str) -> None:
        """Store a document; it replaces an earlier document with the same key. See `Documents.write`."""
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, [_encode_line(document)], disk=UNSYNCED_DISK)

    def keys(self) -> Iterator[str]:
        """Yield the keys in sorted order."""
        with suppress(OSError):
            yield from sorted(path.stem for path in self.folder.glob("*.json"))

    def close(self) -> None:
        """Do nothing: every file is complete as soon as it is written."""


class JsonLinesFile:
    """Stores documents as lines of one file (JSON Lines), with an index of the lines' positions.

    If several lines have the same key, the last one is valid. An incomplete line at the end of the file is ignored,
    because its writer was killed. Several processes may write at the same time. Earlier versions of the program stored
    each document in a separate file; these files are read too.
    """

    def __init__(self, path: Path, earlier_path: Path) -> None:
        """Create the instance; no file is read or created yet.

        Args:
            path: path of the file.
            earlier_path: folder with one file per document, which is searched for keys that have no line in the file.
        """
        self._path = path
        self._earlier = JsonFiles(earlier_path)
        self._file: BinaryIO | None = None
        self._index: dict[str, tuple[int, int, int]] = {}
        self._end = 0
        self._lines = 0
        self._damaged: int | None = None
        self._written: set[str] = set()

    @property
    def folder(self) -> Path:
        """The folder of the file."""
        return self._path.parent

    def describe_location(self, key: str) -> str:
        """Return the file and line number of a document, for messages."""
        found = self._index.get(key)
        return self._earlier.describe_location(key) if found is None else self._describe_line(found[2])

    def read(self, key: str) -> Foreign | None:
        """Return the document of a key; None if the key has no document. See `Documents.read`."""
        if key not in self._index:
            self._update_index()
        found = self._index.get(key)
        if found is not None:
            assert self._file is not None
            return Foreign(os.pread(self._file.fileno(), found[1], found[0]))
        document = self._earlier.read(key)
        if document is None and self._damaged is not None:
            raise DamagedLineError(self._describe_line(self._damaged))
        return document

    def write(self, key: str, document: str) -> None:
        """Append a document, which replaces earlier documents with the same key. See `Documents.write`."""
        line = _encode_line(f'{{"key":"{key}",{document[1:]}')
        if not self._written:
            self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock(), open_existing(self._path, create=True) as file:
            _repair_last_line(file)
            file.seek(0, os.SEEK_END)
            file.write(line)
        self._written.add(key)
        self._index.pop(key, None)

    def keys(self) -> Iterator[str]:
        """Yield the keys in sorted order."""
        with suppress(OSError):
            self._update_index()
        yield from sorted({*self._index, *self._earlier.keys()})

    def close(self) -> None:
        """Sort the file by key, keep only the last line of each key, and delete single-document files whose key has a
        line.
        """
        # An unsorted file is readable too, so errors are ignored.
        with suppress(OSError):
            if self._written:
                with self._lock():
                    # This process holds the lock, so the file is left over from a killed process.
                    for leftover in self.folder.glob(f".{self._path.name}.*"):
                        leftover.unlink(missing_ok=True)
                    self._update_index()
                    places = [self._index[key] for key in sorted(self._index)]
                    file = self._file
                    assert file is not None
                    lines = (os.pread(file.fileno(), size, at) for at, size, _ in places)
                    write_atomically(self._path, (line.rstrip(b"\n") + b"\n" for line in lines))
                for key in self._written:
                    self._earlier.path(key).unlink(missing_ok=True)
        self._written.clear()
        self._reset_index()

    def _describe_line(self, number: int) -> str:
        return f"line {number} of {self._path}"

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Lock out other writing processes. The lock is on the folder, because the file may be replaced."""
        with open_folder(self.folder) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _reset_index(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None
        self._index, self._end, self._lines, self._damaged = {}, 0, 0, None

    def _update_index(self) -> None:
        """Index the lines that this or another process has appended since the last update.

        Raises:
            OSError: the file cannot be read.
        """
        try:
            now = os.stat(self._path)
        except FileNotFoundError:
            return
        if self._file is None or not os.path.samestat(now, os.fstat(self._file.fileno())):
            self._reset_index()
            self._file = open_file(self._path, None)
        if now.st_size <= self._end:
            return
        self._file.seek(self._end)
        for line in bounded_lines(self._file, _MOST_BYTES):
            ended = line.endswith(b"\n")
            if not ended and not _is_complete(line):
                break
            key = _key_of_line(line)
            if key is not None:
                self._index[key] = (self._end, len(line), self._lines + 1)
            elif line.strip() and self._damaged is None:
                self._damaged = self._lines + 1
            if not ended:
                # An editor removed the last line end; the next writer adds it.
                break
            self._lines += 1
            self._end += len(line)


def parse_document(data: bytes) -> dict[str, Any]:
    """Return the JSON object of a document.

    Raises:
        ValueError: the document is not a JSON object.
    """
    # Answers are stored unchanged, so they may contain lone surrogates, NaN and infinity.
    found = parse_json(data.decode("utf-8", "surrogatepass"), constants=True)
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def _encode_line(document: str) -> bytes:
    return document.encode("utf-8", "surrogatepass") + b"\n"


def _key_of_line(line: bytes) -> str | None:
    """Return the key of a line; None if it has no key. Lines written by this module need not be parsed as JSON."""
    if line.startswith(_KEY):
        key = line[len(_KEY) : len(_KEY) + _LONGEST_KEY + 1].partition(b'"')[0]
        if key.isalnum():
            return key.decode("ascii", "replace")
    try:
        found = parse_document(line).get("key")
    except ValueError:
        return None
    return found if isinstance(found, str) else None


def _is_complete(line: bytes) -> bool:
    """Return whether a line without a line break is a complete document."""
    try:
        parse_document(line)
    except ValueError:
        return False
    return True


def _repair_last_line(file: BinaryIO) -> None:
    """Add a missing line break to the last line, or remove the line if it is not a complete document."""
    size = file.seek(0, os.SEEK_END)
    if not size:
        return
    file.seek(size - 1)
    if file.read(1) == b"\n":
        return
    file.seek(0)
    # Rare: only after a killed process or an editor.
    last = file.read().rpartition(b"\n")[2]
    if _is_complete(last):
        file.write(b"\n")
    else:
        file.truncate(size - len(last))
