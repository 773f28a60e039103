"""`type: rag`: metrics of retrieval-augmented generation, graded by a judge model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from holodeck_action.metrics.base import BaseEvaluator, Building
from holodeck_action.suite.model.base import Flag, UnitInterval
from holodeck_action.suite.model.metric_base import GROUND_TRUTH, NOTHING, JudgeCalls, JudgedMetric, Role
from holodeck_action.suite.model.providers import LLMProvider

RagName = Literal[
    "faithfulness", "contextual_relevancy", "contextual_precision", "contextual_recall", "answer_relevancy"
]

_CONTEXT = frozenset(("retrieval_context",))
_NEEDS: dict[RagName, frozenset[str]] = {
    "faithfulness": _CONTEXT,
    "answer_relevancy": NOTHING,
    "contextual_relevancy": _CONTEXT,
    "contextual_precision": _CONTEXT | GROUND_TRUTH,
    "contextual_recall": _CONTEXT | GROUND_TRUTH,
}
_CALLS: dict[RagName, int] = {
    "answer_relevancy": 2,
    "faithfulness": 3,
    # One for each retrieved text, of which nobody knows the number: one text is reckoned with.
    "contextual_relevancy": 1,
    "contextual_precision": 1,
    "contextual_recall": 1,
}
"""Calls of one evaluation without the one that explains the score."""


class RagMetric(JudgedMetric):
    """`type: rag`: an answer and the retrieved texts, graded by a judge."""

    PLACE = 3
    TOLD_BY = "metric_type"
    SCORE_IS_THRESHOLD_FREE = True

    type: Annotated[Literal["rag"], Role.KIND] = "rag"
    metric_type: Annotated[RagName, Role.KIND]
    """What is graded. Example: `faithfulness`."""
    threshold: Annotated[UnitInterval, Role.PASS_MARK] = 0.5
    """Lowest passing score; 0.5 when absent. Example: `0.8`."""
    include_reason: Flag = True
    """Whether the judge explains the score, which is one call."""
    model: Annotated[LLMProvider | None, Role.JUDGES] = None
    """The judge; `evaluations.model` when absent."""

    @property
    def needs(self) -> frozenset[str]:
        """Retrieved texts, or a text to compare with, or both."""
        return _NEEDS[self.metric_type]

    @property
    def measure(self) -> str:
        """The metric."""
        return self.metric_type

    @property
    def library(self) -> str | None:
        """DeepEval asks."""
        return "deepeval"

    def judge_calls(self) -> Iterator[JudgeCalls]:
        """Yield the calls of the metric; the reason is one more."""
        yield JudgeCalls(self, _CALLS[self.metric_type] + self.include_reason)

    def evaluator(self, building: Building) -> BaseEvaluator:
        """Return what scores."""
        from holodeck_action.extensions.deepeval import rag

        evaluators: dict[RagName, type[rag.RagEvaluator]] = {
            "answer_relevancy": rag.AnswerRelevancyEvaluator,
            "contextual_precision": rag.ContextualPrecisionEvaluator,
            "contextual_recall": rag.ContextualRecallEvaluator,
            "contextual_relevancy": rag.ContextualRelevancyEvaluator,
            "faithfulness": rag.FaithfulnessEvaluator,
        }
        return building.asking(
            self, evaluators[self.metric_type], threshold=self.threshold, include_reason=self.include_reason
        )
