"""The reasons for which a conversation can be chosen as a case."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "errors": "an error",
    "low-scores": "a low score",
    "thumbs-down": "a thumbs down",
    "longest": "one of the longest",
    "unlike": "unlike the other cases",
}
"""Descriptions of the reasons for comments, by value of `--pick`, in the order in which the reasons take turns."""
