"""JSON Schemas of the files a run writes."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from holodeck_action.results.judge_card import JudgeCard
from holodeck_action.results.record import Record
from holodeck_action.results.verdict import Verdict
from holodeck_action.results.views import Report


def result_schema(document: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file: `results`, `verdict`, `report` or `judge-card`."""
    documents: dict[str, Any] = {"results": Record, "verdict": Verdict, "report": Report, "judge-card": JudgeCard}
    made = TypeAdapter(documents[document]).json_schema(mode="serialization")
    if document == "results":
        made["properties"]["digest"] = {
            "description": "SHA-256 of the file up to this line.",
            "pattern": "^[0-9a-f]{64}$",
            "type": "string",
        }
        made["required"].append("digest")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"{document}.json", **made}
