"""Kinds of documents, by what they are told, and what is refused before a library looks."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import BinaryIO, Literal

from holodeck_action.suite.checkout import MOST_FILE, Checkout
from holodeck_action.text.foreign import RefusedFileError

Kind = Literal["text", "html", "pdf", "excel", "word", "powerpoint"]
"""`text` is everything whose bytes are its text: Markdown, CSV, JSON, source code."""

SHOWN: dict[Kind, str] = {
    "text": "text file",
    "html": "HTML page",
    "pdf": "PDF file",
    "excel": "Excel file (.xlsx)",
    "word": "Word file (.docx)",
    "powerpoint": "PowerPoint file (.pptx)",
}
"""How messages name a document of each kind."""

_BY_SUFFIX: dict[str, Kind] = {
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


def kind_of(path: PurePath) -> Kind:
    """Return what a file is by the end of its name; a text unless that says otherwise."""
    return _BY_SUFFIX.get(path.suffix.lower(), "text")


MOST_UNPACKED = 256 << 20
"""Most bytes that the parts of an Office file may unpack to."""

_OLD_OFFICE = bytes.fromhex("d0cf11e0a1b11ae1")
"""How files of Office 97 begin, and Office files that are encrypted."""


class UnreadableError(Exception):
    """A document that has no text for us; its text is one clause for a person."""


def opened(path: str, roots: Sequence[str] | None) -> BinaryIO:
    """Open a file for its conversion, if it lies in one of the folders `roots` (None: anywhere).

    Raises:
        UnreadableError: it may not be read.
    """
    try:
        within = None if roots is None else tuple(map(Path, roots))
        return Checkout(Path(path).parent, within, Path(path).parent).open(path, MOST_FILE)
    except RefusedFileError as error:
        raise UnreadableError(f"it {error.clause}") from None


def check_office(file: BinaryIO, kind: Kind) -> None:
    """Refuse what is no Office file, and one that unpacks to more than anybody reads.

    Raises:
        UnreadableError: it is refused.
    """
    if file.read(len(_OLD_OFFICE)) == _OLD_OFFICE:
        raise UnreadableError(f"it is an encrypted file or one of Office 97; save it as an open {SHOWN[kind]}")
    try:
        with zipfile.ZipFile(file) as archive:
            # A reader of the archive stops at these sizes, even where they are not true.
            unpacked = sum(part.file_size for part in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise UnreadableError(f"it is no {SHOWN[kind]}: {error}") from None
    file.seek(0)
    if unpacked > MOST_UNPACKED:
        raise UnreadableError(
            f"it unpacks to {unpacked >> 20} MiB, more than {MOST_UNPACKED >> 20} MiB; give a smaller one"
        )
