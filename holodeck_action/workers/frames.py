"""Messages between the run and its worker processes: four bytes of length (big-endian), then JSON in UTF-8."""

from __future__ import annotations

import json
from typing import Any

from holodeck_action.text.json_values import JSON_EXPANSION, parse_json

HEADER = 4
"""Size in bytes of the header of a message, which contains the length of its body."""

ENVELOPE = 256 * 1024
"""Maximum bytes of a message in addition to its content, for its id or an error with a traceback."""

MOST_SPAN_BYTES = 8_000_000
"""Maximum bytes of JSON for the spans of one call."""

CONNECTION_LOST = 70
"""Exit code of a worker whose connection failed."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def pack(message: dict[str, Any]) -> bytes:
    """Return the header and body of a message. Lone surrogates, which a model's text may contain, are preserved."""
    body = _encode(message).encode("utf-8", "surrogatepass")
    return len(body).to_bytes(HEADER, "big") + body


def unpack(body: bytes | bytearray) -> Any:
    """Return the message in a body.

    Raises:
        ValueError: the body is not JSON, or is nested too deeply.
    """
    # Not `json.loads`: code of the suite may have written the body.
    return parse_json(body.decode("utf-8", "surrogatepass"), constants=True)


def frame_limit(max_bytes: int) -> int:
    """Return the maximum size in bytes of a message whose content has at most `max_bytes`."""
    return max_bytes * JSON_EXPANSION + ENVELOPE
