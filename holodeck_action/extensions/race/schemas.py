"""JSON Schemas of race.json and optimize.json."""

from __future__ import annotations

from typing import Any

from holodeck_action.extensions.race.optimization import Optimization
from holodeck_action.extensions.race.outcome import RaceOutcome
from holodeck_action.reports.result_schema import schema_of


def race() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of race.json."""
    return schema_of(RaceOutcome, "race.json, the outcome of a race")


def optimize() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of optimize.json."""
    return schema_of(Optimization, "optimize.json, the outcome of an optimization")
