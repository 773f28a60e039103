"""The kinds of documents, and checks of a file before a library reads it."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import BinaryIO, Literal

from holodeck_action.suite.checkout import MOST_FILE, Checkout
from holodeck_action.text.foreign import RefusedFileError

Kind = Literal["text", "html", "pdf", "excel", "word", "powerpoint"]
"""Kind of a document; `text` includes all plain text files, such as Markdown, CSV, JSON and source code."""

KIND_NAMES: dict[Kind, str] = {
    "text": "text file",
    "html": "HTML page",
    "pdf": "PDF file",
    "excel": "Excel file (.xlsx)",
    "word": "Word file (.docx)",
    "powerpoint": "PowerPoint file (.pptx)",
}
"""Names of the kinds in messages."""

_KIND_BY_SUFFIX: dict[str, Kind] = {
    ".pdf": "pdf",
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".xls": "excel",
    ".docx": "word",
    ".doc": "word",
    ".pptx": "powerpoint",
    ".ppt": "powerpoint",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
}


def document_kind(path: PurePath) -> Kind:
    """Return the kind of a document by the file's extension; `text` for unknown extensions."""
    return _KIND_BY_SUFFIX.get(path.suffix.lower(), "text")


MOST_UNPACKED = 256 << 20
"""Maximum bytes of an Office file after it is unpacked."""

_OLD_OFFICE = bytes.fromhex("d0cf11e0a1b11ae1")
"""First bytes of Office 97 files and of encrypted Office files."""


class UnreadableError(Exception):
    """A document cannot be converted to text; the message is a clause with the reason."""


def open_document(path: str, roots: Sequence[str] | None) -> BinaryIO:
    """Open a file for conversion; one of the folders `roots` must contain it, unless `roots` is None.

    Raises:
        UnreadableError: the file is outside the folders, or cannot be opened.
    """
    try:
        within = None if roots is None else tuple(map(Path, roots))
        return Checkout(Path(path).parent, within, Path(path).parent).open(path, MOST_FILE)
    except RefusedFileError as error:
        raise UnreadableError(f"the file {error.clause}") from None


def check_office(file: BinaryIO, kind: Kind) -> None:
    """Reject files that are not Office files or unpack to too many bytes.

    Raises:
        UnreadableError: the file was rejected.
    """
    if file.read(len(_OLD_OFFICE)) == _OLD_OFFICE:
        raise UnreadableError(
            f"the file is encrypted or has the format of Office 97; save it as an unencrypted {KIND_NAMES[kind]}"
        )
    try:
        with zipfile.ZipFile(file) as archive:
            # These sizes may be wrong, but `zipfile` does not unpack more than them.
            unpacked = sum(part.file_size for part in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise UnreadableError(f"the file is not a valid {KIND_NAMES[kind]}: {error}") from None
    file.seek(0)
    if unpacked > MOST_UNPACKED:
        raise UnreadableError(
            f"the file unpacks to {unpacked >> 20} MiB, more than {MOST_UNPACKED >> 20} MiB; give a smaller one"
        )


def has_part(file: BinaryIO, folder: str, content: bytes) -> bool:
    """Return whether a part of a checked Office file, in a folder of the archive, contains some bytes."""
    with zipfile.ZipFile(file) as archive:
        return any(content in archive.read(name) for name in archive.namelist() if name.startswith(folder))
