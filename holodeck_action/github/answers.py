"""What comes back from an API: read within bounds, since whoever answers may send anything, slowly and without end."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Protocol

MOST_BYTES = 64 * 1024 * 1024
"""Of one answer, decompressed: a page of 100 comments of 65,536 characters of 4 bytes takes 26 MB."""

ERROR_BYTES = 64 * 1024
"""Of an answer that only says why not."""

_CHUNK = 64 * 1024
_REASONS = 5


class Body(Protocol):
    """The answer of `urllib3`, before it is read."""

    def read1(self, amt: int | None = None, decode_content: bool | None = None) -> bytes:
        """Return some of the bytes that are left, none at the end."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class TooLargeError(Exception):
    """The body is longer than it may be."""


class TooSlowError(Exception):
    """The body comes in drops."""


def read_body(body: Body, most: int, within_s: float) -> bytes:
    """Return a body, decompressed; the connection is free for the next request afterwards, or closed.

    Args:
        body: not yet read.
        most: bytes.
        within_s: seconds for all of it. A limit for each piece alone would let drops go on for ever.

    Raises:
        TooLargeError: it has more bytes.
        TooSlowError: it took longer.
        urllib3.exceptions.HTTPError: it broke off.
    """
    pieces: list[bytes] = []
    size = 0
    end = time.monotonic() + within_s
    while piece := body.read1(_CHUNK, decode_content=True):
        size += len(piece)
        if size > most or time.monotonic() > end:
            body.close()
            raise TooLargeError if size > most else TooSlowError
        pieces.append(piece)
    return b"".join(pieces)


def json_of(content: bytes) -> Any:
    """Return the value that a body of JSON holds.

    Raises:
        ValueError: it holds none that can be used.
    """
    try:
        return json.loads(content.decode("utf-8"))
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None


def message_of(status: int, content: bytes) -> str:
    """Return what an answer says about why not: hostile text, or the name of the status when it says nothing."""
    try:
        data = json_of(content)
    except ValueError:
        data = None
    parts: list[str] = []
    if isinstance(data, Mapping):
        errors = data.get("errors")
        reasons = errors[:_REASONS] if isinstance(errors, list) else []
        reasons = [reason.get("message") if isinstance(reason, Mapping) else reason for reason in reasons]
        parts = [text for text in (data.get("message"), *reasons) if isinstance(text, str) and text.strip()]
    if parts:
        return "; ".join(parts)
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no reason given"
