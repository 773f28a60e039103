"""PDF, Word, PowerPoint and HTML as Markdown (imported in the worker process only)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Literal

from holodeck_action.suite.yaml.garbage import without_collections
from holodeck_action.targets.documents.kinds import UnreadableError, check_office, opened

# A fifth of the import would be the search for garbage in what stays.
with without_collections(to_the_end=True):
    from markitdown import StreamInfo
    from markitdown.converters import DocxConverter, HtmlConverter, PdfConverter, PptxConverter
    from pypdfium2 import PdfDocument, PdfiumError

_ENDINGS = {"word": ".docx", "powerpoint": ".pptx"}


def office(path: str, roots: Sequence[str] | None, kind: Literal["word", "powerpoint"]) -> str:
    """Return the text of a .docx or .pptx file in one of the folders `roots`; slide by slide, with the notes."""
    with opened(path, roots) as file:
        check_office(file, kind)
        converter = DocxConverter() if kind == "word" else PptxConverter()  # type: ignore[no-untyped-call]
        return str(converter.convert(file, StreamInfo(extension=_ENDINGS[kind])).markdown)


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


def pdf(path: str, roots: Sequence[str] | None, pages: Sequence[int] | None) -> str:
    """Return the text of a PDF file.

    Args:
        roots: folders in one of which it must lie; None for anywhere.
        pages: which pages, in their order, the first is 1; None for all.

    Raises:
        UnreadableError: it is no PDF file, is encrypted, has no such page, or has no text.
    """
    with opened(path, roots) as file:
        data = file.read()
    if b"%PDF-" not in data[:1024]:
        raise UnreadableError("it is no PDF file")
    data = _chosen(data, pages)
    text = str(PdfConverter().convert(io.BytesIO(data), StreamInfo(extension=".pdf")).markdown)
    text = text.replace("\f", "").strip()
    if not text:
        raise UnreadableError("it holds no text (a scan?); give it with its text, or as an image")
    return text


def _chosen(data: bytes, pages: Sequence[int] | None) -> bytes:
    """Return the document with the chosen pages alone."""
    try:
        document = PdfDocument(data)
    except PdfiumError as error:
        raise UnreadableError(f"it cannot be read as a PDF file: {error}") from None
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
