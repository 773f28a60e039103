"""Messages between the run and its worker processes: four bytes of length (big-endian), then JSON in UTF-8."""

from __future__ import annotations

import json
from typing import Any

from holodeck_action.text.json_values import parse_json

HEADER = 4
"""Bytes of the length before each message."""

JSON_EXPANSION = 6
"""Most bytes JSON needs for one byte of content (a control character becomes `\\u0000`)."""

ENVELOPE = 256 * 1024
"""Room for what surrounds a result: its id, or an error with its traceback."""

MOST_SPAN_BYTES = 8_000_000
"""Bytes of JSON that the spans of one call may have."""

CONNECTION_LOST = 70
"""Exit code of a worker whose connection was closed under it."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def pack(message: dict[str, Any]) -> bytes:
    """Return one framed message; lone surrogates survive, as they may stand in a model's text."""
    body = _encode(message).encode("utf-8", "surrogatepass")
    return len(body).to_bytes(HEADER, "big") + body


def unpack(body: bytes | bytearray) -> Any:
    """Return the value of one message without its header.

    Raises:
        ValueError: it is not JSON, or nested too deeply to be read.
    """
    # Code of the suite may have written it.
    return parse_json(body.decode("utf-8", "surrogatepass"), constants=True)


def frame_limit(max_bytes: int) -> int:
    """Return the most bytes a message may have whose content is held to `max_bytes`."""
    return max_bytes * JSON_EXPANSION + ENVELOPE
