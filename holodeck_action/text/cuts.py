"""Cuts that leave a mark: beside one, a piece of a secret is known for what it is (see `redaction`)."""

from __future__ import annotations

MARK = "…"


def cut(text: str, limit: int) -> str:
    """Return a text, or its first `limit` characters and a mark."""
    return text if len(text) <= limit else f"{text[:limit]}{MARK}"


def cut_before(text: str, limit: int) -> str:
    """Return a text, or a mark and its last `limit` characters."""
    return text if len(text) <= limit else f"{MARK}{text[-limit:]}"
