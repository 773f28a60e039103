"""The only entry for bytes from outside: files, archives, spans, imported suites, output of programs, HTTP.

Code that receives such bytes keeps them as `Foreign`, whose `repr` shows only their length. Only its methods turn them
into strings or values. Each method checks the format, and raises an error whose message is a clause. Excerpts for
messages are redacted before they are cut, so that no piece of a secret is left at the cut.

Files are opened here, too: only regular files, with a size limit, and without blocking. Lint rules forbid other modules
to open files, archives, sockets and programs; `pyproject.toml` lists the exceptions with reasons.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import weakref
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TypeVar, cast

from holodeck_action.text.json_values import kind_of, parse_json
from holodeck_action.text.plain import MARGIN, MARK, excerpt, one_line, replace_surrogates

T = TypeVar("T")

MOST_SMALL = 16_000_000
"""Maximum bytes of a small file, such as a setting, a prompt or a schema."""
_LIMIT = 200
"""Maximum characters of foreign text in a message."""
Redact = Callable[[str], str]
"""Removes secrets from a text, such as `Redactor.text`; a mask is no longer than the secret."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NOT_REGULAR = "is not a regular file (a pipe, a device or a socket)"
_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_LONGEST_POINTER = 1024
"""Maximum bytes of a Git LFS pointer, by its specification."""
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class ForeignError(ValueError):
    """The bytes do not have the expected format; the message is a clause to write after the name of their source."""


class RefusedFileError(OSError):
    """A file must not be read or written. `clause` is a clause to write after the file's name; `strerror` is a clause
    with the subject `it`."""

    def __init__(self, clause: str) -> None:
        super().__init__(errno.EACCES, f"it {clause}")
        self.clause = clause


class PointerFileError(RefusedFileError):
    """A file is only a Git LFS pointer, since the checkout did not fetch its content."""

    def __init__(self) -> None:
        super().__init__(
            "is in Git LFS, and only its pointer is here: run git lfs pull; in a workflow, give actions/checkout "
            "lfs: true"
        )


class Foreign:
    """Bytes from outside the program. Its methods turn them into strings or values."""

    __slots__ = ("_cut", "_data", "_unfinished")

    def __init__(self, data: bytes, *, is_truncated: bool = False, unfinished: bool = False) -> None:
        """Wrap bytes.

        Args:
            data: the bytes.
            is_truncated: whether earlier bytes were dropped.
            unfinished: whether later bytes were dropped or never arrived.
        """
        self._data = data
        self._cut = is_truncated
        self._unfinished = unfinished

    @classmethod
    def of_text(cls, text: str, max_characters: int | None = None) -> Foreign:
        """Wrap a string from a process that cuts its output to `max_characters`; None if it does not cut."""
        unfinished = max_characters is not None and len(text) >= max_characters
        return cls(replace_surrogates(text).encode(), unfinished=unfinished)

    def __repr__(self) -> str:
        return f"<{len(self._data):,} foreign bytes>"

    def __len__(self) -> int:
        return len(self._data)

    def text(self) -> str:
        """Return the bytes as UTF-8 text, without a byte order mark.

        Raises:
            ForeignError: the bytes are not UTF-8; the message names the line.
        """
        data = self._data.removeprefix(_BYTE_ORDER_MARK)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise ForeignError(f"is not UTF-8 text (line {line})") from None

    def json(self) -> Any:
        """Parse the bytes as JSON (RFC 8259).

        Raises:
            ForeignError: the JSON is invalid; the message contains the reason.
        """
        text = self.text()
        try:
            return parse_json(text)
        except ValueError as error:
            raise ForeignError(f"is not valid JSON: {error}") from None

    def json_object(self) -> dict[str, Any]:
        """Parse the bytes as a JSON object.

        Raises:
            ForeignError: the JSON is invalid or not an object.
        """
        value = self.json()
        if not isinstance(value, dict):
            raise ForeignError(f"must be a JSON object, not {kind_of(value)}")
        return value

    def lossy_json(self) -> Any:
        """Parse the bytes as JSON, with U+FFFD in place of bytes that are not UTF-8.

        Raises:
            ForeignError: the JSON is invalid; the message is only the reason.
        """
        try:
            return parse_json(self.lossy_text())
        except ValueError as error:
            raise ForeignError(str(error)) from None

    def lossy_text(self) -> str:
        """Return the bytes as a string, with U+FFFD in place of bytes that are not UTF-8."""
        return self._data.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace")

    def parse(self, reader: Callable[[bytes], T], *reraised: type[Exception]) -> T:
        """Pass the bytes to a reader, such as a codec, and return its result.

        Args:
            reader: parses the bytes; may raise any exception.
            reraised: exceptions of the reader to pass on unchanged, because their messages name the defect.

        Raises:
            ForeignError: the reader raised another exception, or the bytes are nested too deeply.
        """
        passing: tuple[type[Exception], ...] = (ForeignError, MemoryError, OSError, *reraised)
        try:
            return reader(self._data)
        except passing:
            raise
        except RecursionError:
            raise ForeignError("is nested too deeply") from None
        except Exception as error:
            raise ForeignError(f"cannot be read: {one_line(str(error)) or type(error).__name__}") from error

    def unpack(self, max_bytes: int) -> Foreign:
        """Decompress gzip or zlib data (RFC 1952, RFC 1950).

        Raises:
            ForeignError: the data is damaged or incomplete, or unpacks to more than `max_bytes` bytes.
        """
        import zlib

        unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32)
        try:
            data = unpacking.decompress(self._data, max_bytes + 1)
        except zlib.error as error:
            raise ForeignError(f"is damaged: {error}") from None
        if len(data) > max_bytes:
            raise ForeignError(f"unpacks to more than {max_bytes:,} bytes")
        if not unpacking.eof or unpacking.unused_data:
            raise ForeignError("is damaged: it is cut short, or has something after its end")
        return Foreign(data)

    def lines(self) -> Iterator[Foreign]:
        """Yield the lines without their line ends."""
        yield from map(Foreign, self._data.splitlines())

    def digest(self) -> str:
        """Return the SHA-256 of the bytes in hexadecimal."""
        return hashlib.sha256(self._data).hexdigest()

    def without_secrets(self, redact: Redact) -> str:
        """Return the bytes as a string with secrets masked, and with `…` in place of dropped bytes.

        The `MARGIN` bytes next to a cut are omitted, since they may hold a part of a secret that cannot be recognised.
        """
        text = redact(self.lossy_text())
        if self._cut:
            text = f"{MARK}{text[len(Foreign(self._data[:MARGIN]).lossy_text()) :]}"
        if self._unfinished:
            end = len(text) - len(Foreign(self._data[-MARGIN:]).lossy_text())
            text = f"{text[: max(0, end)]}{MARK}"
        return text

    def short_line(self, redact: Redact, limit: int = _LIMIT) -> str:
        """Return the beginning of the text as one line for a message, redacted and then cut.

        Args:
            redact: removes secrets.
            limit: maximum length of the line.
        """
        return excerpt(self.without_secrets(redact), limit)

    def last_line(self, redact: Redact, limit: int = _LIMIT) -> str:
        """Return the last line that is not blank, redacted and cut as by `short_line`; empty if all lines are blank."""
        lines = self.without_secrets(redact).splitlines()
        return excerpt(next((line for line in reversed(lines) if line.strip()), ""), limit)


def open_file(
    path: os.PathLike[str] | str, max_bytes: int | None = MOST_SMALL, *, follow_links: bool = True
) -> BinaryIO:
    """Open a file for reading at a path that a user or another program supplied.

    Args:
        path: the file.
        max_bytes: largest size in bytes; None if there is no limit, because the file is read in parts.
        follow_links: whether to follow a symbolic link.

    Raises:
        RefusedFileError: the file is a pipe, a device, a socket, a link that is not followed, or too large.
        OSError: it does not exist, is a folder, or cannot be opened.
    """
    return _open_regular(path, max_bytes, None, follow_links=follow_links)


def _open_regular(
    path: os.PathLike[str] | str, max_bytes: int | None, folder: int | None, *, follow_links: bool
) -> BinaryIO:
    return regular_file(open_descriptor(path, _FILE if follow_links else _FILE | os.O_NOFOLLOW, folder), max_bytes)


def open_descriptor(path: os.PathLike[str] | str, flags: int, folder: int | None = None) -> int:
    """Open a file as `os.open` does, and return its descriptor.

    Raises:
        RefusedFileError: the file is a socket, a missing device, or a link that the flags forbid to follow.
        OSError: it cannot be opened.
    """
    try:
        return os.open(path, flags, 0o666, dir_fd=folder)
    except ValueError:
        raise RefusedFileError("is not a path of a file") from None
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise RefusedFileError(_NOT_REGULAR) from None
        if error.errno == errno.ELOOP and flags & os.O_NOFOLLOW:
            raise RefusedFileError("is a link, which is not followed") from None
        raise


def read_file(path: os.PathLike[str] | str, max_bytes: int = MOST_SMALL, *, follow_links: bool = True) -> Foreign:
    """Return the content of a file, see `open_file`.

    Raises:
        OSError: as for `open_file`, or the file has grown beyond `max_bytes`.
    """
    with open_file(path, max_bytes, follow_links=follow_links) as file:
        return read_rest(file, max_bytes)


def read_rest(file: BinaryIO, max_bytes: int) -> Foreign:
    """Read an open file from its position to the end.

    Raises:
        RefusedFileError: the rest has more than `max_bytes` bytes.
        OSError: it cannot be read.
    """
    # Memory for `max_bytes` would be reserved before it is known how much there is.
    expected = min(os.fstat(file.fileno()).st_size, max_bytes)
    data = file.read(expected + 1)
    if len(data) > expected:
        data += file.read(max_bytes + 1 - len(data))
    if len(data) > max_bytes:
        raise _too_large(len(data), max_bytes)
    return Foreign(data)


def bounded_lines(file: BinaryIO, max_bytes: int) -> Iterator[bytes]:
    """Yield the lines of an open file with their line ends; the last line may have none.

    Raises:
        RefusedFileError: a line has more than `max_bytes` bytes.
        OSError: it cannot be read.
    """
    while line := file.readline(max_bytes + 1):
        if len(line) > max_bytes:
            raise RefusedFileError(f"has a line of more than {max_bytes:,} bytes")
        yield line


def regular_file(descriptor: int, max_bytes: int | None, *, is_writable: bool = False) -> BinaryIO:
    """Return the file of a descriptor; if it is not a regular file or too large, close the descriptor and raise an
    error.

    Args:
        descriptor: opened without blocking; the returned file owns it.
        max_bytes: largest size in bytes; None if there is no limit.
        is_writable: whether to open the file for writing, too; it is then unbuffered.

    Raises:
        OSError: as `open_file`.
    """
    try:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(found.st_mode):
            raise RefusedFileError(_NOT_REGULAR)
        if max_bytes is not None and found.st_size > max_bytes:
            raise _too_large(found.st_size, max_bytes)
        os.set_blocking(descriptor, True)
        if is_writable:
            return cast(BinaryIO, os.fdopen(descriptor, "r+b", buffering=0))
        if found.st_size <= _LONGEST_POINTER and os.pread(descriptor, len(_LFS_POINTER), 0) == _LFS_POINTER:
            raise PointerFileError
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _too_large(size: int, max_bytes: int) -> RefusedFileError:
    return RefusedFileError(f"has {size:,} bytes; at most {max_bytes:,} are read: give a smaller one")


class OpenFolder:
    """A folder that stays open while its files are read, even if it is renamed. Links in it are not followed."""

    def __init__(self, path: os.PathLike[str] | str) -> None:
        """Open the folder. Raises: OSError: there is no such folder, or it cannot be opened."""
        self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._handle)

    def open(self, name: str, max_bytes: int | None = MOST_SMALL) -> BinaryIO:
        """Open a file of the folder, see `open_file`.

        Raises:
            OSError: as `open_file`.
        """
        return _open_regular(name, max_bytes, self._handle, follow_links=False)

    def names(self) -> list[str]:
        """Return the names of the folder's entries."""
        return os.listdir(self._handle)
