"""JSON Schemas of HoneyHive's documents."""

from __future__ import annotations

from typing import Any

from holodeck_action.extensions.honeyhive.honeyhive_models import (
    KINDS,
    EvaluationBatch,
    HoneyHiveExport,
    MultiEvaluationResult,
)
from holodeck_action.reports.result_schema import schema_of

_KINDS = tuple(KINDS.values())


def honeyhive() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the output of `export --format honeyhive`."""
    return schema_of(HoneyHiveExport, "honeyhive.json", _KINDS)


def evaluation_batch() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of `EvaluationBatch`."""
    return schema_of(EvaluationBatch, "evaluation-batch.json", _KINDS)


def multi_evaluation_result() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of `MultiEvaluationResult`."""
    return schema_of(MultiEvaluationResult, "multi-evaluation-result.json", _KINDS)
