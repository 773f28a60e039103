"""Word, PowerPoint and HTML as Markdown (imported in the worker process only, where markitdown is at home)."""

from __future__ import annotations

import io
from collections.abc import Sequence

from markitdown import StreamInfo
from markitdown.converters import DocxConverter, HtmlConverter, PptxConverter

from holodeck_action.tools.documents.content import UnreadableError, check_office, opened


def word(path: str, roots: Sequence[str] | None) -> str:
    """Return the text of a .docx file, which must lie in one of the folders `roots`."""
    with opened(path, roots) as file:
        check_office(file, "word")
        converter = DocxConverter()  # type: ignore[no-untyped-call]
        return str(converter.convert(file, StreamInfo(extension=".docx")).markdown)


def powerpoint(path: str, roots: Sequence[str] | None) -> str:
    """Return the text of a .pptx file in one of the folders `roots`, slide by slide, with the notes."""
    with opened(path, roots) as file:
        check_office(file, "powerpoint")
        converter = PptxConverter()  # type: ignore[no-untyped-call]
        return str(converter.convert(file, StreamInfo(extension=".pptx")).markdown)


def html(path: str, roots: Sequence[str] | None) -> str:
    """Return the text of a page in UTF-8, which must lie in one of the folders `roots`.

    Raises:
        UnreadableError: it is not UTF-8.
    """
    with opened(path, roots) as file:
        data = file.read()
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(
            f"it is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from None
    return str(HtmlConverter().convert(io.BytesIO(data), StreamInfo(extension=".html", charset="utf-8")).markdown)
