"""JSON Schemas of the files that commands write."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.json import schema_components

from holodeck_action.decide.compare.comparison import Comparison
from holodeck_action.decide.compare.comparison_report import ComparisonReport
from holodeck_action.decide.verdict_file import VerdictHead, WrittenCase
from holodeck_action.record.judge_card import JudgeCard
from holodeck_action.record.record import Record
from holodeck_action.reports.report_views import Report

_DIGESTS = {
    "digest": "SHA-256 of the file up to this line.",
    "record_digest": "SHA-256 of the canonical form of the record.",
}
_REFERENCE = "#/$defs/{name}"
_EVALUATION = {"$ref": _REFERENCE.format(name="Evaluation")}


class VerdictFile(VerdictHead, frozen=True, kw_only=True):
    """The content of the verdict file, see `Verdict`."""

    comparison: Comparison | None
    warnings: tuple[str, ...]
    cases: tuple[WrittenCase, ...]


_DOCUMENTS: dict[str, type[Struct]] = {
    "results": Record,
    "verdict": VerdictFile,
    "report": Report,
    "comparison": ComparisonReport,
    "judge-card": JudgeCard,
}


def result_schema(document: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a kind of file that a command writes, such as `results`."""
    made = schema_of(_DOCUMENTS[document], f"{document}.json")
    if document == "results":
        for name, description in _DIGESTS.items():
            made["properties"][name] = {"description": description, "pattern": "^[0-9a-f]{64}$", "type": "string"}
        made["required"].append("digest")
    return made


def schema_of(kind: type[Struct], title: str, kinds: Sequence[type[Struct]] = ()) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a class.

    Args:
        kind: the class.
        title: title of the schema.
        kinds: further classes that lists of evaluations may contain.
    """
    of_models: dict[str, Any] = {}

    def of_model(model: Any) -> dict[str, Any]:
        described = model.model_json_schema(mode="serialization", ref_template=_REFERENCE.format(name="{model}"))
        of_models.update({**described.pop("$defs", {}), model.__name__: described})
        return {"$ref": _REFERENCE.format(name=model.__name__)}

    (_, *others), parts = schema_components((kind, *kinds), schema_hook=of_model, ref_template=_REFERENCE)
    for part in parts.values():
        part["description"] = inspect.cleandoc(part["description"])
        for described in part["properties"].values():
            if kinds and described.get("items") == _EVALUATION:
                # HoneyHive's classes have no tags, which a declared union would need.
                described["items"] = {"anyOf": [*others, _EVALUATION]}
    made = parts.pop(kind.__name__)
    schema = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": schema, **made, "title": title, "$defs": {**parts, **of_models}}
