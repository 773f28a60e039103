"""Real documents, small ones written by hand and hostile ones."""

from __future__ import annotations

import base64
import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""One transparent pixel."""


def pdf(pages: Sequence[str | bytes], *, coding: bytes = b"") -> bytes:
    """A PDF file with a line of text on each page; pages that are bytes are their content stream as it stands."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * index) for index in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for index, page in enumerate(pages):
        stream = page if isinstance(page, bytes) else b"BT /F1 12 Tf 72 720 Td (%s) Tj ET" % page.encode()
        objects += [
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            b"/Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>" % (5 + 2 * index),
            b"<< /Length %d%s >>\nstream\n%s\nendstream" % (len(stream), coding, stream),
        ]
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, table)
    return bytes(out)


def endless_pdf() -> bytes:
    """A PDF file whose one page takes minutes to read."""
    return pdf([b"BT /F1 1 Tf " + b"1 0 0 1 9 9 Tm (x) Tj " * 400_000 + b"ET"])


def swelling_pdf(megabytes: int) -> bytes:
    """A PDF file of a few megabytes at most whose one page unpacks to zeros without end."""
    packer = zlib.compressobj(9, wbits=-15)
    zeros = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    last = zlib.compressobj(9, wbits=-15).flush()
    size = megabytes << 20
    checksum = ((size % 65521) << 16 | 1).to_bytes(4, "big")
    return pdf([b"\x78\xda" + zeros * megabytes + last + checksum], coding=b" /Filter /FlateDecode")


def excel(sheets: Mapping[str, Sequence[Sequence[Any]]]) -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    return _saved(book)


def powerpoint(slides: Sequence[tuple[str, str]]) -> bytes:
    """Slides with a title and a text each."""
    from pptx import Presentation

    presentation = Presentation()
    for title, text in slides:
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = text
    return _saved(presentation)


def word(heading: str, text: str) -> bytes:
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    document = (
        f'<?xml version="1.0"?><w:document xmlns:w="{namespace}"><w:body>'
        f'<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>{heading}</w:t></w:r></w:p>'
        f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body></w:document>"
    )
    styles = (
        f'<?xml version="1.0"?><w:styles xmlns:w="{namespace}">'
        '<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/></w:style></w:styles>'
    )
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    return packed(
        {
            "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
            '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/word/document.xml" ContentType="{kind}.document.main+xml"/>'
            f'<Override PartName="/word/styles.xml" ContentType="{kind}.styles+xml"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{package}/relationships">'
            f'<Relationship Id="a" Type="{office}/officeDocument" Target="word/document.xml"/></Relationships>',
            "word/_rels/document.xml.rels": f'<Relationships xmlns="{package}/relationships">'
            f'<Relationship Id="b" Type="{office}/styles" Target="styles.xml"/></Relationships>',
            "word/document.xml": document,
            "word/styles.xml": styles,
        }
    )


def packed(parts: dict[str, str]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return target.getvalue()


def zip_bomb(megabytes: int) -> bytes:
    """An Excel file of a few hundred kilobytes with a sheet that unpacks to many megabytes."""
    target = io.BytesIO(excel({"a": [["x"]]}))
    with (
        zipfile.ZipFile(target, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("xl/worksheets/sheet2.xml", "w", force_zip64=True) as part,
    ):
        for _ in range(megabytes):
            part.write(bytes(1 << 20))
    return target.getvalue()


def _saved(document: Any) -> bytes:
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()
