"""Kinds of documents, and by what they are told."""

from __future__ import annotations

from pathlib import PurePath
from typing import Literal

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
