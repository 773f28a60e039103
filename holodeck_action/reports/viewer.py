"""The viewer's page: one file that holds a run as compressed data, and the script that shows it.

The page asks for nothing: its content security policy allows the one script and the one style sheet that it holds, by
hash, and no address. `viewer/` holds the sources of both.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from holodeck_action.reports.templating import shipped_template, template_folder
from holodeck_action.reports.untrusted import wrap
from holodeck_action.reports.viewer_data import Detail, Head, Index, Omitted
from holodeck_action.reports.viewer_head import head_of, metric_columns
from holodeck_action.reports.viewer_index import NO_LINKS, IndexBuilder, Links, ViewedSuite, rows_of

PAGE_FILE = "report.html"
CHUNK_CASES = 100
"""Cases whose details are compressed together, and unpacked when one of them is shown."""
MOST_DETAILS = 40 * 1024 * 1024
"""Bytes of details in a page, compressed: a browser opens a file of this size without trouble."""
_SHOWN_CASES = 10
"""Cases that are listed for readers without JavaScript."""
_LEVEL = 6


@dataclass(frozen=True, slots=True)
class View:
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
    index, shown = packed.index, len(packed.index["id"])
    head = head_of(view.suites, view.exit_code, index, view.links)
    head["live"], head["omitted"] = view.live, packed.omitted
    script, style = asset("viewer.js"), asset("viewer.css")
    attention = sum(len(suite.concluded.report.attention) for suite in view.suites)
    given = {
        "head": wrap(_bare(head, view.canonical)),
        "cases": wrap(_first_cases(index, min(attention, _SHOWN_CASES, shown))),
        "attention": attention,
        "policy": Markup(page_policy(live=view.live is not None)),  # noqa: S704
        "style": style,
        "script": script,
        "data": _data(view, packed, head),
    }
    for piece in shipped_template("viewer.html.j2").generate(**given):
        yield piece.encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class _Packed:
    """The rows of a page: what lists them, their details compressed (`CHUNK_CASES` each), and what is left out."""

    index: Index
    chunks: tuple[bytes, ...]
    omitted: Omitted | None


def _packed_rows(view: View, most: int) -> _Packed:
    """Go through the rows once: making one takes longer than anything else."""
    builder = IndexBuilder(metric_columns(view.suites), view.links)
    chunks: list[bytes] = []
    details: list[Detail] = []
    all_rows = rows = size = 0
    full = False
    for row in rows_of(view.suites):
        all_rows += 1
        if view.chosen is not None and not view.chosen(*row.names):
            continue
        rows += 1
        builder.add(row)
        if full:
            continue
        details.append(row.detail())
        if len(details) == CHUNK_CASES:
            full, size = _pack(details, chunks, size, most, view.canonical)
    if details and not full:
        full, size = _pack(details, chunks, size, most, view.canonical)
    omitted: Omitted | None = None
    if full:
        omitted = {
            "cases": rows - CHUNK_CASES * len(chunks),
            "why": f"the details of all cases are more than the {most // 2**20} MB that a page should hold",
            "command": f"holodeck-action report {view.results} --format html --case ID -o case.html",
        }
    elif view.chosen is not None:
        omitted = {
            "cases": all_rows - rows,
            "why": "the page holds the cases that --case asks for",
            "command": f"holodeck-action report {view.results} --format html",
        }
    return _Packed(builder.index, tuple(chunks), omitted)


def _pack(details: list[Detail], chunks: list[bytes], size: int, most: int, canonical: bool) -> tuple[bool, int]:
    """Move details into a chunk; return whether it was too much, which leaves it out, and how large all are."""
    chunk = _compressed([_json(_bare(details, canonical))])
    details.clear()
    size += 4 * ((len(chunk) + 2) // 3)
    if size > most:
        return True, size
    chunks.append(chunk)
    return False, size


def page_policy(*, live: bool) -> str:
    """Return the content security policy of the viewer's page; the script of a live one may ask its own server."""
    script, style = asset("viewer.js"), asset("viewer.css")
    parts = ["default-src 'none'", f"script-src '{_hash(script)}'", f"style-src '{_hash(style)}'", "img-src data:"]
    parts += ["connect-src 'self'"] if live else []
    return "; ".join([*parts, "base-uri 'none'", "form-action 'none'"])


def style_policy(style: str) -> str:
    """Return the content security policy of a page with this style sheet and no script."""
    return f"default-src 'none'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"


def _data(view: View, packed: _Packed, head: Head) -> Iterator[Any]:
    """Yield the elements that hold the data."""
    from markupsafe import Markup

    def element(attributes: str, text: str) -> Any:
        # Base64, and JSON without `<`.
        return Markup(f"<script {attributes}>{text}</script>")  # noqa: S704

    of_data = 'type="application/octet-stream"'
    columns = _compressed(_index_pieces(packed.index, view.canonical))
    yield element(f'{of_data} id="index"', base64.b64encode(columns).decode("ascii"))
    rows = len(packed.index["id"])
    for first, chunk in zip(range(0, rows, CHUNK_CASES), packed.chunks, strict=False):
        about = f'class="chunk" data-first="{first}" data-count="{min(CHUNK_CASES, rows - first)}"'
        yield element(f"{of_data} {about}", base64.b64encode(chunk).decode("ascii"))
    text = _json(_bare(head, view.canonical)).replace("<", "\\u003c").replace("##[", "\\u0023\\u0023[")
    yield element('type="application/json" id="head"', text)


def _index_pieces(index: Index, canonical: bool) -> Iterator[str]:
    """Yield the JSON of the columns, one by one."""
    before = "{"
    for name, column in index.items():
        yield f"{before}{_json(_bare({name: column}, canonical))[1:-1]}"
        before = ","
    yield "}"


def _first_cases(index: Index, count: int) -> list[dict[str, object]]:
    return [
        {
            "title": index["title"][at],
            "outcome": index["outcome"][at],
            "place": index["place"][at],
            "reason": index["reason"][at],
        }
        for at in range(count)
    ]


def _compressed(texts: Iterable[str]) -> bytes:
    """Return texts as gzip."""
    packer = zlib.compressobj(_LEVEL, wbits=31)
    return b"".join([*(packer.compress(text.encode("utf-8", "replace")) for text in texts), packer.flush()])


def _bare(value: Any, canonical: bool) -> Any:
    """Return data, of a canonical page without what differs between runs and machines."""
    if not canonical:
        return value
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {key: _timeless(item) if key.endswith("_ms") else _bare(item, True) for key, item in value.items()}
    return [_bare(item, True) for item in value] if isinstance(value, list) else value


def _timeless(value: Any) -> Any:
    return [None] * len(value) if isinstance(value, list) else None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@cache
def asset(name: str) -> Any:
    """Return a style sheet or script of ours, as markup."""
    from markupsafe import Markup

    return Markup((template_folder() / name).read_text(encoding="utf-8"))  # noqa: S704 - ours


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
