"""Conversion of PDF, Word, PowerPoint and HTML files to Markdown (used inside worker processes only)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Literal

from holodeck_action.suite.yaml.garbage_collection import pause_garbage_collection
from holodeck_action.targets.documents.kinds import UnreadableError, check_office, open_document

# Garbage collection would take a fifth of the import time.
with pause_garbage_collection(freeze=True):
    from markitdown import StreamInfo
    from markitdown.converters import DocxConverter, HtmlConverter, PdfConverter, PptxConverter
    from pypdfium2 import PdfDocument, PdfiumError

_ENDINGS = {"word": ".docx", "powerpoint": ".pptx"}


def convert_office(path: str, roots: Sequence[str] | None, kind: Literal["word", "powerpoint"]) -> str:
    """Return the text of a .docx or .pptx file; the text of a presentation has its slides in order, with their notes.

    Args:
        path: path of the file.
        roots: folders of which one must contain the file; None if there is no restriction.
        kind: kind of the document.

    Raises:
        UnreadableError: the file is not a valid document of this kind, or is outside the folders.
    """
    with open_document(path, roots) as file:
        check_office(file, kind)
        converter = DocxConverter() if kind == "word" else PptxConverter()  # type: ignore[no-untyped-call]
        return str(converter.convert(file, StreamInfo(extension=_ENDINGS[kind])).markdown)


def convert_html(path: str, roots: Sequence[str] | None) -> str:
    """Return the text of an HTML file, which must be in one of the folders `roots`, unless `roots` is None.

    Raises:
        UnreadableError: the file is not UTF-8, or is outside the folders.
    """
    with open_document(path, roots) as file:
        data = file.read()
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(
            f"the file is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from None
    return str(HtmlConverter().convert(io.BytesIO(data), StreamInfo(extension=".html", charset="utf-8")).markdown)


def convert_pdf(path: str, roots: Sequence[str] | None, pages: Sequence[int] | None) -> str:
    """Return the text of a PDF file.

    Args:
        path: path of the file.
        roots: folders of which one must contain the file; None if there is no restriction.
        pages: numbers of the pages to convert, from 1, in the order of the returned text; None to convert all.

    Raises:
        UnreadableError: the file is not a PDF, is encrypted, has no such page, or has no text.
    """
    with open_document(path, roots) as file:
        data = file.read()
    if b"%PDF-" not in data[:1024]:
        raise UnreadableError("the file is not a PDF file")
    data = _select_pages(data, pages)
    text = str(PdfConverter().convert(io.BytesIO(data), StreamInfo(extension=".pdf")).markdown)
    text = text.replace("\f", "").strip()
    if not text:
        raise UnreadableError("the file contains no text (a scan?); give a PDF with text, or an image")
    return text


def _select_pages(data: bytes, pages: Sequence[int] | None) -> bytes:
    """Return a PDF file with the selected pages only; the unchanged file if `pages` is None."""
    try:
        document = PdfDocument(data)
    except PdfiumError as error:
        raise UnreadableError(f"the file cannot be read as a PDF file: {error}") from None
    count = len(document)
    if pages is None:
        return data
    for page in pages:
        if page > count:
            raise UnreadableError(f"there is no page {page}: it has {count} page{'' if count == 1 else 's'}")
    chosen = PdfDocument.new()
    chosen.import_pages(document, [page - 1 for page in pages])
    target = io.BytesIO()
    chosen.save(target)
    return target.getvalue()
