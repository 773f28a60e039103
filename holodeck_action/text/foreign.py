"""The one way in for bytes from outside: files, archives, spans, imported suites, output of programs, HTTP.

Whoever receives such bytes holds them as `Foreign`, which shows nothing by itself. Its methods alone turn them into
text or values. Each checks the form, and refuses with a clause that a message can go on with. Words for a message lose
their secrets before they are cut, so that no piece of a secret is left at the cut.

Files are opened here, too: a regular file, of a bounded size, without waiting for anybody. Outside of this module the
lint rules refuse to open files, archives, sockets and programs; `pyproject.toml` lists the exceptions with reasons.
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
from holodeck_action.text.plain import MARGIN, MARK, excerpt, one_line, storable_text

T = TypeVar("T")

MOST_SMALL = 16_000_000
"""Bytes of a small file: a setting, a prompt, a schema."""
_LIMIT = 200
"""Characters of foreign words in a message."""
Redact = Callable[[str], str]
"""Removes secrets from a text, such as `Redactor.text`; a mask is no longer than what it masks."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NOT_REGULAR = "is no regular file (a pipe, a device or a socket)"
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class ForeignError(ValueError):
    """Foreign bytes are not what they must be; the message is a clause that goes on from the name of their source."""


class RefusedFileError(OSError):
    """A file that is not read: `clause` goes on from its name, `strerror` begins with `it`."""

    def __init__(self, clause: str) -> None:
        super().__init__(errno.EACCES, f"it {clause}")
        self.clause = clause


class Foreign:
    """Bytes from outside, which are neither text nor a value before a method of this class has made one of them."""

    __slots__ = ("_cut", "_data", "_unfinished")

    def __init__(self, data: bytes, *, cut: bool = False, unfinished: bool = False) -> None:
        """Hold bytes.

        Args:
            data: the bytes.
            cut: whether others before them were dropped.
            unfinished: whether others behind them were dropped or never came.
        """
        self._data = data
        self._cut = cut
        self._unfinished = unfinished

    @classmethod
    def of_text(cls, text: str, most: int | None = None) -> Foreign:
        """Hold text that another process or program sent; who sent it cut it to `most` characters, if not None."""
        return cls(storable_text(text).encode(), unfinished=most is not None and len(text) >= most)

    def __repr__(self) -> str:
        return f"<{len(self._data):,} foreign bytes>"

    def __len__(self) -> int:
        return len(self._data)

    def text(self) -> str:
        """Return the bytes as UTF-8 text, without a byte order mark.

        Raises:
            ForeignError: they are not UTF-8; the clause names the line.
        """
        data = self._data.removeprefix(_BYTE_ORDER_MARK)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise ForeignError(f"is not UTF-8 text (line {line})") from None

    def json(self) -> Any:
        """Return the value of a JSON text (RFC 8259).

        Raises:
            ForeignError: it is none; the clause says why.
        """
        text = self.text()
        try:
            return parse_json(text)
        except ValueError as error:
            raise ForeignError(f"is not valid JSON: {error}") from None

    def json_object(self) -> dict[str, Any]:
        """Return the members of a JSON object.

        Raises:
            ForeignError: it is none.
        """
        value = self.json()
        if not isinstance(value, dict):
            raise ForeignError(f"must be a JSON object, not {kind_of(value)}")
        return value

    def lossy_json(self) -> Any:
        """Return the value of a JSON text, read with U+FFFD in the place of what is not UTF-8.

        Raises:
            ForeignError: it is none; the clause is the reason alone.
        """
        try:
            return parse_json(self.lossy_text())
        except ValueError as error:
            raise ForeignError(str(error)) from None

    def lossy_text(self) -> str:
        """Return the bytes as text, with U+FFFD in the place of what is not UTF-8."""
        return self._data.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace")

    def parse(self, reader: Callable[[bytes], T], *refusals: type[Exception]) -> T:
        """Return what a reader makes of the bytes: a codec, an archive, a schema that checks the shape.

        Args:
            reader: may raise anything for bytes that do not fit.
            refusals: errors of the reader that name what is wrong, and pass unchanged.

        Raises:
            ForeignError: the reader refuses the bytes, or they are nested too deeply for it.
        """
        passing: tuple[type[Exception], ...] = (ForeignError, MemoryError, OSError, *refusals)
        try:
            return reader(self._data)
        except passing:
            raise
        except RecursionError:
            raise ForeignError("is nested too deeply") from None
        except Exception as error:
            raise ForeignError(f"cannot be read: {one_line(str(error)) or type(error).__name__}") from error

    def unpacked(self, most: int) -> Foreign:
        """Return what gzip or zlib packed into the bytes (RFC 1952, RFC 1950).

        Raises:
            ForeignError: they are damaged or cut short, or unpack to more than `most` bytes.
        """
        import zlib

        unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32)
        try:
            data = unpacking.decompress(self._data, most + 1)
        except zlib.error as error:
            raise ForeignError(f"is damaged: {error}") from None
        if len(data) > most:
            raise ForeignError(f"unpacks to more than {most:,} bytes")
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
        """Return the bytes as text without secrets; what was dropped beside them shows as `…`.

        Beside a cut `MARGIN` bytes are left out, in which a piece of a secret may stand that nobody knows.
        """
        text = redact(self.lossy_text())
        if self._cut:
            text = f"{MARK}{text[len(Foreign(self._data[:MARGIN]).lossy_text()) :]}"
        if self._unfinished:
            end = len(text) - len(Foreign(self._data[-MARGIN:]).lossy_text())
            text = f"{text[: max(0, end)]}{MARK}"
        return text

    def words(self, redact: Redact, limit: int = _LIMIT) -> str:
        """Return the beginning as one line for a message: secrets are removed first, then it is cut.

        Args:
            redact: removes secrets.
            limit: characters of the line.
        """
        return excerpt(self.without_secrets(redact), limit)

    def last_words(self, redact: Redact, limit: int = _LIMIT) -> str:
        """Return the last line that is not blank, as `words` does; empty if there is none."""
        lines = self.without_secrets(redact).splitlines()
        return excerpt(next((line for line in reversed(lines) if line.strip()), ""), limit)


def open_file(path: os.PathLike[str] | str, most: int | None = MOST_SMALL, *, follow: bool = True) -> BinaryIO:
    """Open a file that a person or a program outside names, to read it.

    Args:
        path: of the file.
        most: bytes that it may have; None for a file that is read in parts.
        follow: whether the path may be a link.

    Raises:
        RefusedFileError: it is a pipe, a device, a socket or a link that is not followed, or larger than `most`.
        OSError: it does not exist, is a folder, or cannot be opened.
    """
    return _opened(path, most, None, follow=follow)


def _opened(path: os.PathLike[str] | str, most: int | None, folder: int | None, *, follow: bool) -> BinaryIO:
    return regular_file(open_descriptor(path, _FILE if follow else _FILE | os.O_NOFOLLOW, folder), most)


def open_descriptor(path: os.PathLike[str] | str, flags: int, folder: int | None = None) -> int:
    """Return the descriptor of an opened file, see `os.open`.

    Raises:
        RefusedFileError: it is a socket, a device that is not there, or a link where the flags follow none.
        OSError: it cannot be opened.
    """
    try:
        return os.open(path, flags, 0o666, dir_fd=folder)
    except ValueError:
        raise RefusedFileError("is no path of a file") from None
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise RefusedFileError(_NOT_REGULAR) from None
        if error.errno == errno.ELOOP and flags & os.O_NOFOLLOW:
            raise RefusedFileError("is a link, which is not followed") from None
        raise


def read_file(path: os.PathLike[str] | str, most: int = MOST_SMALL, *, follow: bool = True) -> Foreign:
    """Return the content of a file, see `open_file`.

    Raises:
        OSError: as `open_file`, or the file grew beyond `most` meanwhile.
    """
    with open_file(path, most, follow=follow) as file:
        return read_rest(file, most)


def read_rest(file: BinaryIO, most: int) -> Foreign:
    """Return what an open file holds from where it stands.

    Raises:
        RefusedFileError: that is more than `most` bytes.
        OSError: it cannot be read.
    """
    data = file.read(most + 1)
    if len(data) > most:
        raise _too_large(len(data), most)
    return Foreign(data)


def bounded_lines(file: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield the lines of an open file with their ends; the last one may lack its end.

    Raises:
        RefusedFileError: a line has more than `most` bytes.
        OSError: it cannot be read.
    """
    while line := file.readline(most + 1):
        if len(line) > most:
            raise RefusedFileError(f"has a line of more than {most:,} bytes")
        yield line


def regular_file(descriptor: int, most: int | None, *, write: bool = False) -> BinaryIO:
    """Return an opened file that is a regular one and not too large; of others the descriptor is closed.

    Args:
        descriptor: opened without blocking, and owned by the returned file.
        most: bytes that it may have; None for any number.
        write: whether it is written, too; then it has no buffer.

    Raises:
        OSError: as `open_file`.
    """
    try:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(found.st_mode):
            raise RefusedFileError(_NOT_REGULAR)
        if most is not None and found.st_size > most:
            raise _too_large(found.st_size, most)
        os.set_blocking(descriptor, True)
        return cast(BinaryIO, os.fdopen(descriptor, "r+b", buffering=0)) if write else os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _too_large(size: int, most: int) -> RefusedFileError:
    return RefusedFileError(f"has {size:,} bytes; at most {most:,} are read: give a smaller one")


class OpenFolder:
    """A folder that may be renamed while its files are read; links in it are not followed."""

    def __init__(self, path: os.PathLike[str] | str) -> None:
        """Open it.

        Raises:
            OSError: there is no such folder, or it cannot be opened.
        """
        self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._handle)

    def open(self, name: str, most: int | None = MOST_SMALL) -> BinaryIO:
        """Open a file of it, see `open_file`.

        Raises:
            OSError: as `open_file`.
        """
        return _opened(name, most, self._handle, follow=False)

    def names(self) -> list[str]:
        """Return the names of what is in it."""
        return os.listdir(self._handle)
