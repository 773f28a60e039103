"""JSON Schema of race.json."""

from __future__ import annotations

from typing import Any

from holodeck_action.extensions.race.outcome import RaceOutcome
from holodeck_action.reports.result_schema import schema_of


def race() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of race.json."""
    return schema_of(RaceOutcome, "race.json, the outcome of a race")
