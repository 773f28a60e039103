"""JSON Schema of a line of history.jsonl."""

from __future__ import annotations

from typing import Any

from holodeck_action.extensions.history.history_lines import HistoryLine
from holodeck_action.reports.result_schema import schema_of


def history() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a line of history.jsonl."""
    return schema_of(HistoryLine, "a line of history.jsonl")
