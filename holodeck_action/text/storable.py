"""Text that every file can hold."""

from __future__ import annotations

import re
from typing import Any

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def storable_text(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 file can hold, by U+FFFD; everything else stays."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def storable(value: Any) -> Any:
    """Return a JSON value with the same done to every text in it, keys included."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, dict):
        return {storable_text(key): storable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [storable(item) for item in value]
    return value
