"""The chunks in what a retrieval tool returned."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from holodeck_action.results.record import RetrievedChunk

_ID_LENGTH = 16
"""Hexadecimal digits of the digest that names a chunk without an id."""


def chunks_of(value: Any) -> tuple[RetrievedChunk, ...]:
    """Return the chunks of a result, in its order.

    Args:
        value: a list, of which each item is a chunk, or anything else, which is one; null is none. A chunk is a text,
            or an object with `text` and, if it has them, `id` (text or integer) and `score`; any other value counts
            with its JSON text.

    Returns:
        The chunks. One without an id gets the beginning of its text's SHA-256: the same text has the same id wherever
        it is found.
    """
    if value is None:
        return ()
    return tuple(_chunk(item) for item in (value if isinstance(value, list) else [value]))


def _chunk(item: Any) -> RetrievedChunk:
    text, identity, score = item, None, None
    if isinstance(item, dict) and isinstance(item.get("text"), str):
        text, identity, score = item["text"], item.get("id"), item.get("score")
    if not isinstance(text, str):
        text = json.dumps(text, ensure_ascii=False)
    if isinstance(identity, bool) or not isinstance(identity, str | int) or identity == "":
        identity = hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]
    if isinstance(score, bool) or not isinstance(score, int | float) or not _is_finite(score):
        score = None
    return RetrievedChunk(str(identity), text, None if score is None else float(score))


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False
