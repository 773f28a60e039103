"""JSON Schema of a line of history.jsonl."""

from __future__ import annotations

from typing import Any

from holodeck_action.extensions.history.results_history import HistoryLine
from holodeck_action.reports.result_schema import schema_of


def history() -> dict[str, Any]:
    """Return the schema (draft 2020-12)."""
    return schema_of(HistoryLine, "a line of history.jsonl")
