"""JSON Schemas of the files a run writes."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from holodeck_action.results.record import Record
from holodeck_action.results.verdict import Verdict


def result_schema(document: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file: `results` or `verdict`."""
    made = TypeAdapter(Record if document == "results" else Verdict).json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"{document}.json", **made}
