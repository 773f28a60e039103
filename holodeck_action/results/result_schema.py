"""JSON Schemas of the files that commands write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from holodeck_action.results.comparison import Comparison
from holodeck_action.results.comparison_report import ComparisonReport
from holodeck_action.results.history import HistoryLine
from holodeck_action.results.honeyhive import EvaluationBatch, HoneyHiveExport, MultiEvaluationResult
from holodeck_action.results.judge_card import JudgeCard
from holodeck_action.results.record import Record
from holodeck_action.results.report_views import Report
from holodeck_action.results.sequences import OneByOne
from holodeck_action.results.verdict_file import VerdictHead, WrittenCase


@dataclass(frozen=True, slots=True)
class VerdictFile(VerdictHead):
    """The whole judgement, see `Verdict`."""

    comparison: Comparison | None
    warnings: tuple[str, ...]
    cases: OneByOne[WrittenCase]


def result_schema(document: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file that a command writes, such as `results`, or of its part."""
    documents: dict[str, Any] = {
        "results": Record,
        "verdict": VerdictFile,
        "report": Report,
        "comparison": ComparisonReport,
        "judge-card": JudgeCard,
        "history": HistoryLine,
        "honeyhive": HoneyHiveExport,
        "evaluation-batch": EvaluationBatch,
        "multi-evaluation-result": MultiEvaluationResult,
    }
    made = TypeAdapter(documents[document]).json_schema(mode="serialization")
    if document == "results":
        made["properties"]["digest"] = {
            "description": "SHA-256 of the file up to this line.",
            "pattern": "^[0-9a-f]{64}$",
            "type": "string",
        }
        made["properties"]["record_digest"] = {
            "description": "SHA-256 of the canonical form of the record.",
            "pattern": "^[0-9a-f]{64}$",
            "type": "string",
        }
        made["required"].append("digest")
    title = "a line of history.jsonl" if document == "history" else f"{document}.json"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **made}
