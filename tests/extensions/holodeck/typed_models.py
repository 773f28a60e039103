"""HoloDeck's models and an evaluator together, for the type checker of `make lint`; nothing runs this file."""

from __future__ import annotations

from holodeck.lib.evaluators.base import EvaluationResult
from holodeck.lib.evaluators.nlp_metrics import BLEUEvaluator
from holodeck.models.evaluation import EvaluationMetric
from holodeck.models.test_case import Turn


async def scored(metric: EvaluationMetric, turn: Turn) -> EvaluationResult:
    evaluator = BLEUEvaluator(threshold=metric.threshold)
    return await evaluator.evaluate(response=turn.input, ground_truth=turn.ground_truth or "")
