"""How evaluators quote text of models and cases: bounded, on one line, with nothing in it that could act."""

from __future__ import annotations

EXCERPT = 200
"""Characters of foreign text that a reason may quote."""


def excerpt(text: str, limit: int = EXCERPT) -> str:
    """Quote a text: escaped as in Python, at most `limit` of its characters, with an ellipsis where it was cut."""
    if len(text) <= limit:
        return repr(text)
    # Three dots, not an ellipsis: one character beyond ASCII doubles the memory of the whole reason.
    return repr(text[:limit]) + "..."


def count(number: int, unit: str) -> str:
    """Return a number with its unit, such as `1 word` or `2 words`; `unit` is the plural."""
    return f"{number} {unit[:-1] if number == 1 else unit}"
