"""Encodes the bodies of requests to models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holodeck_action.text.json_values import parse_json

_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def encode_body(body: Mapping[str, Any]) -> tuple[bytes, Any]:
    """Return the body encoded as JSON, and its value after decoding.

    Raises:
        ValueError: the body contains a number that JSON does not have.
    """
    try:
        return _ENCODER.encode(body).encode(), body
    except UnicodeEncodeError:
        # A lone surrogate in hostile text can be written in JSON but not in UTF-8.
        content = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
        return content, parse_json(content.decode())
