"""The viewer's page: one file that holds a run as compressed data, and the script that shows it.

The page asks for nothing: its content security policy allows the one script and the one style sheet that it holds, by
hash, and no address. `viewer/` holds the sources of both.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cache
from itertools import chain
from typing import Any

from msgspec import Struct

from holodeck_action.reports.page.viewer_cases import LONGEST_TEXT, shortened
from holodeck_action.reports.page.viewer_columns import ColumnBuilder, bare, page_json
from holodeck_action.reports.page.viewer_head import head_of, metric_columns
from holodeck_action.reports.page.viewer_index import NO_LINKS, Links, ViewedSuite, rows_of
from holodeck_action.reports.templating import shipped_template, template_folder
from holodeck_action.reports.untrusted import wrap
from holodeck_action.text.foreign import read_file
from holodeck_action.text.kept_texts import KeptTexts

PAGE_FILE = "report.html"
CHUNK_CASES = 100
"""Cases whose details are compressed together, and unpacked when one of them is shown."""
MOST_DETAILS = 40 * 1024 * 1024
"""Bytes of details in a page, compressed: a browser opens a file of this size without trouble."""
_LEVEL = 6
_PACKED_AHEAD = 3
"""Chunks that are being compressed while the next one is made."""


class View(Struct, frozen=True):
    """What a page shows.

    Attributes:
        suites: at least one.
        exit_code: of all of them.
        results: how a command names the results that the page is made of.
        links: where links lead.
        chosen: tells by id and title of which cases the details are wanted; None for all.
        canonical: whether what differs between runs is left out.
        live: address that tells a page that is served how the run goes on; None for a file.
    """

    suites: Sequence[ViewedSuite]
    exit_code: int
    results: str
    links: Links = NO_LINKS
    chosen: Callable[[str, str], bool] | None = None
    canonical: bool = False
    live: str | None = None


def page_of(view: View, most_details: int = MOST_DETAILS) -> Iterator[bytes]:
    """Yield the page piece by piece, so that it never is in the memory as a whole.

    Args:
        view: what it shows.
        most_details: bytes of details that it may hold, compressed; those of cases that need attention come first.
    """
    from markupsafe import Markup

    packed = _packed_rows(view, most_details)
    head = head_of(view.suites, view.exit_code, view.links)
    head["live"], head["omitted"] = view.live, packed.omitted
    script, style = asset("viewer.js"), asset("viewer.css")
    attention = sum(len(suite.concluded.report.attention) for suite in view.suites)
    given = {
        "head": wrap(bare(head) if view.canonical else head),
        "cases": wrap(packed.columns.first[:attention]),
        "attention": attention,
        "policy": Markup(page_policy(live=view.live is not None)),  # noqa: S704
        "style": style,
        "script": script,
        "data": _data(view, packed, head),
    }
    for piece in shipped_template("viewer.html.j2").generate(**given):
        yield piece.encode("utf-8", "replace")


class _Chunks:
    """Details of cases, compressed `CHUNK_CASES` at a time on another core: it takes as long as to make them.

    Attributes:
        places: of the chunks among the texts.
        full: whether what came last would have made them larger than they may be; it and what follows is left out.
    """

    def __init__(self, texts: KeptTexts, most: int, packer: Executor, *, canonical: bool) -> None:
        self.places: list[int] = []
        self.full = False
        self._texts, self._left, self._packer, self._canonical = texts, most, packer, canonical
        self._details: list[bytes] = []
        self._packing: deque[Future[bytes]] = deque()

    def add(self, detail: dict[str, Any]) -> None:
        """Add those of the next case."""
        text = page_json(detail, self._canonical)
        if len(text) > LONGEST_TEXT:
            text = page_json(shortened(detail), self._canonical)
        self._details.append(text)
        if len(self._details) == CHUNK_CASES:
            self._pack()
            if len(self._packing) == _PACKED_AHEAD:
                self._take()

    def end(self) -> None:
        """Compress what is left."""
        if self._details:
            self._pack()
        while self._packing:
            self._take()

    def _pack(self) -> None:
        self._packing.append(self._packer.submit(_gzip, b"[" + b",".join(self._details) + b"]"))
        self._details = []

    def _take(self) -> None:
        chunk = self._packing.popleft().result()
        self._left -= 4 * ((len(chunk) + 2) // 3)
        self.full = self._left < 0
        if not self.full:
            self.places.append(self._texts.add(chunk))


class _Packed(Struct, frozen=True):
    """The rows of a page: what lists them, their details, and what is left out."""

    columns: ColumnBuilder
    texts: KeptTexts
    chunks: Sequence[int]
    omitted: Mapping[str, Any] | None


def _packed_rows(view: View, most: int) -> _Packed:
    """Go through the rows once: making one takes longer than anything else."""
    texts = KeptTexts()
    columns = ColumnBuilder(metric_columns(view.suites), view.links, texts, canonical=view.canonical)
    all_rows = 0
    with ThreadPoolExecutor(1) as packer:
        chunks = _Chunks(texts, most, packer, canonical=view.canonical)
        for row in rows_of(view.suites):
            all_rows += 1
            if view.chosen is not None and not view.chosen(row.asked.id, row.asked.name or row.asked.id):
                continue
            columns.add(row)
            if not chunks.full:
                chunks.add(row.detail())
        chunks.end()
    omitted: dict[str, Any] | None = None
    if chunks.full:
        omitted = {
            "cases": columns.rows - CHUNK_CASES * len(chunks.places),
            "why": f"the details of all cases are more than the {most // 2**20} MB that a page should hold",
            "command": f"holodeck-action report {view.results} --format html --case ID -o case.html",
        }
    elif view.chosen is not None:
        omitted = {
            "cases": all_rows - columns.rows,
            "why": "the page holds the cases that --case asks for",
            "command": f"holodeck-action report {view.results} --format html",
        }
    return _Packed(columns, texts, chunks.places, omitted)


def page_policy(*, live: bool) -> str:
    """Return the content security policy of the viewer's page; the script of a live one may ask its own server."""
    script, style = asset("viewer.js"), asset("viewer.css")
    parts = ["default-src 'none'", f"script-src '{_hash(script)}'", f"style-src '{_hash(style)}'", "img-src data:"]
    parts += ["connect-src 'self'"] if live else []
    return "; ".join([*parts, "base-uri 'none'", "form-action 'none'"])


def style_policy(style: str) -> str:
    """Return the content security policy of a page with this style sheet and no script."""
    return f"default-src 'none'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"


def _data(view: View, packed: _Packed, head: dict[str, Any]) -> Iterator[Any]:
    """Yield the elements that hold the data, in pieces that end with a line each."""
    from markupsafe import Markup

    def element(attributes: str, pieces: Iterable[str]) -> Iterator[Any]:
        # Base64, and JSON without `<`.
        for piece in chain([f"<script {attributes}>"], pieces, ["</script>\n"]):
            yield Markup(piece)  # noqa: S704

    of_data = 'type="application/octet-stream"'
    yield from element(f'{of_data} id="index"', _base64(_compressed(packed.columns.pieces())))
    rows = packed.columns.rows
    for first, chunk in zip(range(0, rows, CHUNK_CASES), packed.chunks, strict=False):
        about = f'class="chunk" data-first="{first}" data-count="{min(CHUNK_CASES, rows - first)}"'
        yield from element(f"{of_data} {about}", _base64([packed.texts.read(chunk)]))
    text = _json(bare(head) if view.canonical else head).replace("<", "\\u003c").replace("##[", "\\u0023\\u0023[")
    yield from element('type="application/json" id="head"', [text])


def _gzip(text: bytes) -> bytes:
    return b"".join(_compressed([text]))


def _compressed(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield texts as gzip."""
    packer = zlib.compressobj(_LEVEL, wbits=31)
    for text in texts:
        yield packer.compress(text)
    yield packer.flush()


def _base64(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yield bytes as base64."""
    left = b""
    for piece in pieces:
        left += piece
        whole = len(left) // 3 * 3
        yield base64.b64encode(left[:whole]).decode("ascii")
        left = left[whole:]
    yield base64.b64encode(left).decode("ascii")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@cache
def asset(name: str) -> Any:
    """Return a style sheet or script of ours, as markup."""
    from markupsafe import Markup

    return Markup(read_file(template_folder() / name).text())  # noqa: S704 - ours


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
