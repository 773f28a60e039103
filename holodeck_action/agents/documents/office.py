"""Word, PowerPoint and HTML as Markdown (imported in the worker process only, where markitdown is at home)."""

from __future__ import annotations

from pathlib import Path

from markitdown import StreamInfo
from markitdown.converters import DocxConverter, HtmlConverter, PptxConverter

from holodeck_action.agents.documents.content import UnreadableError, check_office


def word(path: str) -> str:
    """Return the text of a .docx file."""
    check_office(Path(path), "word")
    with open(path, "rb") as file:
        converter = DocxConverter()  # type: ignore[no-untyped-call]
        return str(converter.convert(file, StreamInfo(extension=".docx")).markdown)


def powerpoint(path: str) -> str:
    """Return the text of a .pptx file, slide by slide, with the notes."""
    check_office(Path(path), "powerpoint")
    with open(path, "rb") as file:
        converter = PptxConverter()  # type: ignore[no-untyped-call]
        return str(converter.convert(file, StreamInfo(extension=".pptx")).markdown)


def html(path: str) -> str:
    """Return the text of a page in UTF-8.

    Raises:
        UnreadableError: it is not UTF-8.
    """
    try:
        Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(
            f"it is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from None
    with open(path, "rb") as file:
        return str(HtmlConverter().convert(file, StreamInfo(extension=".html", charset="utf-8")).markdown)
