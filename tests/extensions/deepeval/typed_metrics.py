"""The names of DeepEval's metrics for programs; `make lint` checks their types."""

from __future__ import annotations

from holodeck_action import LLMProvider
from holodeck_action.metrics import GEval, Rag


def metrics(judge: LLMProvider) -> tuple[GEval, Rag]:
    return GEval(name="Helpful", criteria="It helps.", model=judge), Rag(metric_type="faithfulness", model=judge)
