"""The reasons for which a conversation is picked."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "errors": "an error",
    "low-scores": "a low score",
    "thumbs-down": "a thumbs down",
    "longest": "one of the longest",
    "unlike": "unlike the other cases",
}
"""The values of `--pick`, in the order in which they take turns, and their texts in comments."""
