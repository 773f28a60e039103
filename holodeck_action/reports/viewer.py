"""The viewer's page: one file that holds a run as compressed data, and the script that shows it.

The page asks for nothing: its content security policy allows the one script and the one style sheet that it holds, by
hash, and no address. `viewer/` holds the sources of both.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from holodeck_action.reports.templating import shipped_template, template_folder
from holodeck_action.reports.untrusted import wrap
from holodeck_action.reports.viewer_data import Head, Index
from holodeck_action.reports.viewer_head import head_of, metric_columns
from holodeck_action.reports.viewer_index import NO_LINKS, Links, Row, ViewedSuite, index_of, rows_of

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

    rows = rows_of(view.suites, view.chosen or _any)
    index = index_of(rows, metric_columns(view.suites), view.links)
    head = head_of(view.suites, view.exit_code, index, view.links)
    head["live"] = view.live
    if view.chosen is not None:
        head["omitted"] = {
            "cases": len(rows_of(view.suites, _any)) - len(rows),
            "why": "the page holds the cases that --case asks for",
            "command": f"holodeck-action report {view.results} --format html",
        }
    script, style = asset("viewer.js"), asset("viewer.css")
    attention = sum(len(suite.concluded.report.attention) for suite in view.suites)
    given = {
        "head": wrap(_bare(head, view.canonical)),
        "cases": wrap(_first_cases(index, min(attention, _SHOWN_CASES, len(rows)))),
        "attention": attention,
        "policy": Markup(page_policy(live=view.live is not None)),  # noqa: S704
        "style": style,
        "script": script,
        "data": _data(view, rows, index, head, most_details),
    }
    for piece in shipped_template("viewer.html.j2").generate(**given):
        yield piece.encode("utf-8", "replace")


def page_policy(*, live: bool) -> str:
    """Return the content security policy of the viewer's page; the script of a live one may ask its own server."""
    script, style = asset("viewer.js"), asset("viewer.css")
    parts = ["default-src 'none'", f"script-src '{_hash(script)}'", f"style-src '{_hash(style)}'", "img-src data:"]
    parts += ["connect-src 'self'"] if live else []
    return "; ".join([*parts, "base-uri 'none'", "form-action 'none'"])


def style_policy(style: str) -> str:
    """Return the content security policy of a page with this style sheet and no script."""
    return f"default-src 'none'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"


def _data(view: View, rows: Sequence[Row], index: Index, head: Head, most: int) -> Iterator[Any]:
    """Yield the elements that hold the data; the head last, as it says what is left out."""
    from markupsafe import Markup

    def element(attributes: str, text: str) -> Any:
        # Base64, and JSON without `<`.
        return Markup(f"<script {attributes}>{text}</script>")  # noqa: S704

    packed = 'type="application/octet-stream"'
    yield element(f'{packed} id="index"', _packed(index, view.canonical))
    size = 0
    for first in range(0, len(rows), CHUNK_CASES):
        some = rows[first : first + CHUNK_CASES]
        text = _packed([row.detail() for row in some], view.canonical)
        size += len(text)
        if size > most:
            head["omitted"] = {
                "cases": len(rows) - first,
                "why": f"the details of all cases are more than the {most // 2**20} MB that a page should hold",
                "command": f"holodeck-action report {view.results} --format html --case ID -o case.html",
            }
            break
        yield element(f'{packed} class="chunk" data-first="{first}" data-count="{len(some)}"', text)
    text = _json(_bare(head, view.canonical)).replace("<", "\\u003c").replace("##[", "\\u0023\\u0023[")
    yield element('type="application/json" id="head"', text)


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


def _packed(value: Any, canonical: bool) -> str:
    content = zlib.compress(_json(_bare(value, canonical)).encode("utf-8", "replace"), _LEVEL, wbits=31)
    return base64.b64encode(content).decode("ascii")


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


def _any(name: str, title: str) -> bool:
    return True
