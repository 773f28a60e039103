"""Reads results files of an untrusted zip archive in memory, with checks of names and sizes."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath

from holodeck_action.record.folder import PREVIOUS_FOLDER
from holodeck_action.record.result_files import BASE_FOLDER, RESULTS_FILE
from holodeck_action.text.lazy_patterns import lazy_pattern

MOST_PACKED = 64 * 1024 * 1024
"""Maximum bytes of an archive."""
MOST_UNPACKED = 256 * 1024 * 1024
"""Maximum bytes of all results files of an archive together."""
MOST_FILES = 5000
MOST_RATIO = 200
"""Maximum unpacked bytes per packed byte; repetitive text reaches about 50."""

_MOST_DIRECTORY = 4 * 1024 * 1024
"""Maximum bytes of the archive's directory, which is read as a whole."""
_SMALL_FILE_BYTES = 1024 * 1024
"""Unpacked bytes of a file up to which `MOST_RATIO` does not apply."""
_BLOCK_BYTES = 64 * 1024
_END_RECORD = struct.Struct("<4s4H2LH")
_END_SIGNATURE, _ZIP64_SIGNATURE = b"PK\x05\x06", b"PK\x06\x07"
_ZIP64_LOCATOR_BYTES = 20
_LONGEST_COMMENT = 65_535
_DRIVE = lazy_pattern(r"[A-Za-z]:")


class ZipError(Exception):
    """An archive cannot be used; the message continues a sentence that begins with the archive's name, and contains no
    text from the archive."""


def results_files(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each results file in an archive, except results of an earlier run or of a base.

    Raises:
        ZipError: it is not a zip archive, is too large unpacked, or has suspicious names, links or lengths.
    """
    _check_directory(archive)
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            yield from _read_results_files(opened)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError, OSError) as error:
        raise ZipError(f"is not a usable zip archive ({type(error).__name__})") from None


def _check_directory(archive: bytes) -> None:
    """Raise ZipError if the archive's central directory is too large, before it is read into memory."""
    start = max(0, len(archive) - _END_RECORD.size - _LONGEST_COMMENT)
    end = len(archive) - _END_RECORD.size
    if archive[end : end + 4] != _END_SIGNATURE or archive[-2:] != b"\0\0":
        end = archive.rfind(_END_SIGNATURE, start)
    if end < 0 or end + _END_RECORD.size > len(archive):
        raise ZipError("is not a zip archive")
    _, _, _, _, files, size, _, _ = _END_RECORD.unpack_from(archive, end)
    if archive[max(0, end - _ZIP64_LOCATOR_BYTES) : end].startswith(_ZIP64_SIGNATURE):
        raise ZipError("is a zip64 archive, which results never need")
    if files > MOST_FILES:
        raise ZipError(f"has more than {MOST_FILES:,} files")
    if size > _MOST_DIRECTORY:
        raise ZipError(f"has a list of files of more than {_MOST_DIRECTORY:,} bytes")


def _read_results_files(archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    entries = archive.infolist()
    if len(entries) > MOST_FILES:
        raise ZipError(f"has more than {MOST_FILES:,} files")
    names: set[str] = set()
    for entry in entries:
        _check_entry(entry)
        if entry.orig_filename in names:
            raise ZipError("has two files of the same name")
        names.add(entry.orig_filename)
    left = MOST_UNPACKED
    for entry in entries:
        path = PurePosixPath(entry.filename)
        if path.name == RESULTS_FILE and not {PREVIOUS_FOLDER, BASE_FOLDER} & set(path.parts):
            content = _read_entry(archive, entry, left)
            left -= len(content)
            yield entry.filename, content


def _check_entry(entry: zipfile.ZipInfo) -> None:
    name = entry.orig_filename
    leaves = name.startswith("/") or ".." in name.split("/") or _DRIVE.match(name)
    if not name or "\0" in name or "\\" in name or leaves:
        raise ZipError("has a file whose path leaves the archive")
    mode = entry.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise ZipError("has a link")
    if entry.flag_bits & 0x1:
        raise ZipError("has an encrypted file")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ZipError("has a file that is compressed in an unsupported way")


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, max_bytes: int) -> bytes:
    content = bytearray()
    with archive.open(entry) as file:
        while piece := file.read(_BLOCK_BYTES):
            content += piece
            if len(content) > max_bytes:
                raise ZipError(f"holds results of more than {MOST_UNPACKED:,} bytes")
            if len(content) > max(_SMALL_FILE_BYTES, MOST_RATIO * entry.compress_size):
                raise ZipError(f"unpacks to more than {MOST_RATIO} times its size")
    return bytes(content)
