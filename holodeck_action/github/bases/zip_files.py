"""Results files of a zip archive that anybody may have made: read in memory, by name and size, nothing unpacked."""

from __future__ import annotations

import io
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath

from holodeck_action.record.folder import PREVIOUS_FOLDER
from holodeck_action.record.result_files import BASE_FOLDER, RESULTS_FILE

MOST_PACKED = 64 * 1024 * 1024
"""Bytes of an archive."""
MOST_UNPACKED = 256 * 1024 * 1024
"""Bytes of all results files of an archive together."""
MOST_FILES = 5000
MOST_RATIO = 200
"""Unpacked bytes for each packed one; of texts that repeat themselves deflate makes a fiftieth."""

_MOST_DIRECTORY = 4 * 1024 * 1024
"""Bytes of the list of files, which is read as a whole."""
_FREE = 1024 * 1024
"""Bytes that may unpack from anything."""
_BLOCK = 64 * 1024
_END = struct.Struct("<4s4H2LH")
_END_MARK, _LARGE_MARK = b"PK\x05\x06", b"PK\x06\x07"
_LARGE_SIZE = 20
_LONGEST_COMMENT = 65_535
_DRIVE = re.compile(r"[A-Za-z]:")


class ZipError(Exception):
    """An archive cannot be used; the message is a clause about it, in words of ours."""


def results_files(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield each results file of a run, with its name; those of an earlier run or of a base are passed over.

    Raises:
        ZipError: it is no archive, too large unpacked, or has names, links or lengths that no honest one has.
    """
    _check_directory(archive)
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            yield from _results(opened)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError, OSError) as error:
        raise ZipError(f"is no usable zip archive ({type(error).__name__})") from None


def _check_directory(archive: bytes) -> None:
    """Refuse a list of files that would fill the memory, before it is read."""
    start = max(0, len(archive) - _END.size - _LONGEST_COMMENT)
    place = len(archive) - _END.size
    if archive[place : place + 4] != _END_MARK or archive[-2:] != b"\0\0":
        place = archive.rfind(_END_MARK, start)
    if place < 0 or place + _END.size > len(archive):
        raise ZipError("is no zip archive")
    _, _, _, _, files, size, _, _ = _END.unpack_from(archive, place)
    if archive[max(0, place - _LARGE_SIZE) : place].startswith(_LARGE_MARK):
        raise ZipError("is a zip64 archive, which results never need")
    if size > _MOST_DIRECTORY or files > MOST_FILES:
        raise ZipError(f"has more than {MOST_FILES:,} files")


def _results(opened: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    entries = opened.infolist()
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
            content = _read(opened, entry, left)
            left -= len(content)
            yield entry.filename, content


def _check_entry(entry: zipfile.ZipInfo) -> None:
    name = entry.orig_filename
    if not name or "\0" in name or "\\" in name or name.startswith("/") or _DRIVE.match(name):
        raise ZipError("has a file whose name leads out of it")
    if ".." in name.split("/"):
        raise ZipError("has a file whose name leads out of it")
    mode = entry.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise ZipError("has a link")
    if entry.flag_bits & 0x1:
        raise ZipError("has an encrypted file")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ZipError("has a file that is packed in another way than those of GitHub")


def _read(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int) -> bytes:
    content = bytearray()
    with opened.open(entry) as file:
        while piece := file.read(_BLOCK):
            content += piece
            if len(content) > most:
                raise ZipError(f"holds results of more than {MOST_UNPACKED:,} bytes")
            if len(content) > max(_FREE, MOST_RATIO * entry.compress_size):
                raise ZipError(f"unpacks to more than {MOST_RATIO} times its size")
    return bytes(content)
