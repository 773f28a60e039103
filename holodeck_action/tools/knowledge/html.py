"""The text of HTML: headings as Markdown has them, blocks apart, without tags, scripts and styles."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_HEADINGS = {f"h{level}": f"{'#' * level} " for level in range(1, 7)}
_BLOCKS = frozenset(
    {
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "body",
            "dd",
            "div",
            "dl",
            "dt",
            "figcaption",
            "figure",
            "footer",
        ),
        *("form", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "table", "title", "tr", "ul"),
    }
)
_SILENT = frozenset(("script", "style", "template", "noscript"))
_BLANKS = re.compile(r"[ \t\r\f\v\n]+")
_GAPS = re.compile(r"\s*\n\s*\n\s*")


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._silent = 0
        self._kept = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent += 1
        elif tag in _HEADINGS:
            self.parts.append(f"\n\n{_HEADINGS[tag]}")
        elif tag in ("td", "th"):
            self.parts.append(" | ")
        elif tag == "br":
            self.parts.append("\n")
        elif tag in _BLOCKS:
            self.parts.append("\n\n- " if tag == "li" else "\n\n")
        self._kept += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag in _HEADINGS or tag in _BLOCKS:
            self.parts.append("\n\n")
        if tag == "pre":
            self._kept = max(0, self._kept - 1)

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(data if self._kept else _BLANKS.sub(" ", data))


def text_of_html(document: str) -> str:
    """Return the text of an HTML document; broken markup is read as browsers do, as far as it goes."""
    reader = _Reader()
    reader.feed(document)
    reader.close()
    return _GAPS.sub("\n\n", "".join(reader.parts)).strip()
