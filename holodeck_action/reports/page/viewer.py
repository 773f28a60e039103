"""The viewer's page: one file with the compressed data of a run and the script that shows it.

The page loads nothing: its content security policy only allows its inline script and style sheet, by their hashes, and
no URLs. The sources of both are in `viewer/`.
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

from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.reports.page.run_columns import RunColumn
from holodeck_action.reports.page.viewer_cases import LONGEST_TEXT, shorten
from holodeck_action.reports.page.viewer_columns import GZIP, PACKING_LEVEL, ColumnBuilder, page_json, without_volatile
from holodeck_action.reports.page.viewer_head import metric_columns, page_head
from holodeck_action.reports.page.viewer_index import NO_LINKS, PageLinks, page_rows
from holodeck_action.reports.templating import shipped_template, template_folder
from holodeck_action.reports.untrusted import wrap
from holodeck_action.text.foreign import read_file

PAGE_FILE = "report.html"
CHUNK_CASES = 100
"""Maximum number of cases per chunk. The details of a chunk's cases are compressed together, and decompressed when one
of these cases is shown."""
_CHUNK_BYTES = 4 * 1024 * 1024
"""Size of details, in bytes, at which a chunk ends even with fewer cases, to limit memory."""
MOST_DETAILS = 40 * 1024 * 1024
"""Maximum bytes of compressed details in a page, so that browsers can open the file."""
_MAX_PENDING = 3
"""Maximum number of chunks that are being compressed while the next one is built."""


class PageView(Struct, frozen=True):
    """The content of a page.

    Attributes:
        suites: the suites, at least one.
        exit_code: exit code of all suites together.
        results: path of the results, as a user types it in a command.
        links: URLs for links.
        chosen: a function that returns, from a case's id and title, whether to include the case; None to include all
            cases.
        canonical: whether to omit times and other data that differ between runs.
        runs: the runs of a page with several runs (see `check_columns`), starting with the run in `suites`; else empty.
        live: path from which a served page gets the progress of the run; None if the page is a file.
    """

    suites: Sequence[Conclusion]
    exit_code: int
    results: str
    links: PageLinks = NO_LINKS
    chosen: Callable[[str, str], bool] | None = None
    canonical: bool = False
    runs: Sequence[RunColumn] = ()
    live: str | None = None


def render_page(view: PageView, most_details: int = MOST_DETAILS) -> Iterator[bytes]:
    """Yield the page in pieces, so that it is never in memory as a whole.

    Args:
        view: the content.
        most_details: maximum bytes of compressed details; cases that need attention have priority.
    """
    from markupsafe import Markup

    packed = _pack_rows(view, most_details)
    head = page_head(view.suites, view.exit_code, view.links, view.runs)
    head["live"], head["omitted"] = view.live, packed.omitted
    script, style = asset("viewer.js"), asset("viewer.css")
    attention = sum(len(suite.report.attention) for suite in view.suites)
    given = {
        "head": wrap(without_volatile(head) if view.canonical else head),
        "cases": wrap(packed.columns.first[:attention]),
        "attention": attention,
        "policy": Markup(page_policy(is_live=view.live is not None)),  # noqa: S704
        "style": style,
        "script": script,
        "data": _data_elements(view, packed, head),
    }
    for piece in shipped_template("viewer.html.j2").generate(**given):
        yield piece.encode("utf-8", "replace")


class _Chunks:
    """The details of cases in chunks, compressed in another thread, since compressing takes as long as building them.

    Attributes:
        chunks: for each chunk, its number of cases and its compressed details.
        full: whether the size limit is exceeded; the chunk that exceeds the limit and all later chunks are omitted.
    """

    def __init__(self, max_bytes: int, packer: Executor, *, canonical: bool) -> None:
        self.chunks: list[tuple[int, bytes]] = []
        self.full = False
        self._left, self._packer, self._canonical = max_bytes, packer, canonical
        self._details: list[bytes] = []
        self._bytes = 0
        self._packing: deque[tuple[int, Future[bytes]]] = deque()

    def add(self, detail: dict[str, Any]) -> None:
        """Add the details of the next case."""
        text = page_json(detail, self._canonical)
        if len(text) > LONGEST_TEXT:
            text = page_json(shorten(detail), self._canonical)
        self._details.append(text)
        self._bytes += len(text)
        if len(self._details) == CHUNK_CASES or self._bytes >= _CHUNK_BYTES:
            self._pack()
            if len(self._packing) == _MAX_PENDING:
                self._store_chunk()

    def end(self) -> None:
        """Compress the remaining details and wait for all chunks."""
        if self._details:
            self._pack()
        while self._packing:
            self._store_chunk()

    def _pack(self) -> None:
        packed = self._packer.submit(zlib.compress, b"[" + b",".join(self._details) + b"]", PACKING_LEVEL, GZIP)
        self._packing.append((len(self._details), packed))
        self._details, self._bytes = [], 0

    def _store_chunk(self) -> None:
        cases, packed = self._packing.popleft()
        chunk = packed.result()
        self._left -= 4 * ((len(chunk) + 2) // 3)
        self.full = self._left < 0
        if not self.full:
            self.chunks.append((cases, chunk))


class _PackedRows(Struct, frozen=True):
    """The rows of a page: columns, details in chunks, and a note about omitted details (None if none are omitted)."""

    columns: ColumnBuilder
    chunks: Sequence[tuple[int, bytes]]
    omitted: Mapping[str, Any] | None


def _pack_rows(view: PageView, max_bytes: int) -> _PackedRows:
    """Build columns and details in one pass over the rows, since building a row is the most expensive step."""
    columns = ColumnBuilder(metric_columns(view.suites), view.links, canonical=view.canonical)
    all_rows = 0
    with ThreadPoolExecutor(1) as packer:
        chunks = _Chunks(max_bytes, packer, canonical=view.canonical)
        for row in page_rows(view.suites, view.runs[1:]):
            all_rows += 1
            if view.chosen is not None and not view.chosen(
                row.latest_case.id, row.latest_case.name or row.latest_case.id
            ):
                continue
            columns.add(row)
            if not chunks.full:
                chunks.add(row.detail())
        chunks.end()
    omitted: dict[str, Any] | None = None
    if chunks.full:
        omitted = {
            "cases": columns.rows - sum(cases for cases, _ in chunks.chunks),
            "why": f"the details of all cases exceed the {max_bytes // 2**20} MB that a page may have",
            "command": f"holodeck-action report {view.results} --format html --case ID -o case.html",
        }
    elif view.chosen is not None:
        omitted = {
            "cases": all_rows - columns.rows,
            "why": "the page holds the cases that --case selects",
            "command": f"holodeck-action report {view.results} --format html",
        }
    return _PackedRows(columns, chunks.chunks, omitted)


def page_policy(*, is_live: bool) -> str:
    """Return the content security policy of the viewer's page; a live page's script may also call its own server."""
    script, style = asset("viewer.js"), asset("viewer.css")
    parts = ["default-src 'none'", f"script-src '{_hash(script)}'", f"style-src '{_hash(style)}'", "img-src data:"]
    parts += ["connect-src 'self'"] if is_live else []
    return "; ".join([*parts, "base-uri 'none'", "form-action 'none'"])


def style_policy(style: str) -> str:
    """Return the content security policy of a page with this style sheet and no scripts; forms go to its server."""
    return f"default-src 'none'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'self'"


def _data_elements(view: PageView, packed: _PackedRows, head: dict[str, Any]) -> Iterator[Any]:
    """Yield the HTML elements that contain the page's data, in pieces."""
    from markupsafe import Markup

    def element(attributes: str, pieces: Iterable[str]) -> Iterator[Any]:
        # Safe as markup: Base64, or JSON without `<`.
        for piece in chain([f"<script {attributes}>"], pieces, ["</script>\n"]):
            yield Markup(piece)  # noqa: S704

    of_data = 'type="application/octet-stream"'
    yield from element(f'{of_data} id="index"', _base64(packed.columns.packed()))
    first = 0
    for cases, chunk in packed.chunks:
        about = f'class="chunk" data-first="{first}" data-count="{cases}"'
        yield from element(f"{of_data} {about}", _base64([chunk]))
        first += cases
    text = (
        _json(without_volatile(head) if view.canonical else head)
        .replace("<", "\\u003c")
        .replace("##[", "\\u0023\\u0023[")
    )
    yield from element('type="application/json" id="head"', [text])


def _base64(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yield the pieces of one Base64 string that encodes all bytes."""
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
    """Return a shipped style sheet or script as markup."""
    from markupsafe import Markup

    return Markup(read_file(template_folder() / name).text())  # noqa: S704 - ours


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
