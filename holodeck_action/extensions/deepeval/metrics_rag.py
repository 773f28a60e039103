"""`type: rag`: metrics of retrieval-augmented generation, graded by a judge model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from holodeck_action.metrics.base import BaseEvaluator, BuildContext
from holodeck_action.suite.model.base import Flag, UnitInterval
from holodeck_action.suite.model.metric_base import GROUND_TRUTH, NO_INPUTS, JudgeCalls, JudgedMetric, Role
from holodeck_action.suite.model.probing import Exam
from holodeck_action.suite.model.providers import LLMProvider

RagName = Literal[
    "faithfulness", "contextual_relevancy", "contextual_precision", "contextual_recall", "answer_relevancy"
]

_CONTEXT = frozenset(("retrieval_context",))
_NEEDS: dict[RagName, frozenset[str]] = {
    "faithfulness": _CONTEXT,
    "answer_relevancy": NO_INPUTS,
    "contextual_relevancy": _CONTEXT,
    "contextual_precision": _CONTEXT | GROUND_TRUTH,
    "contextual_recall": _CONTEXT | GROUND_TRUTH,
}
_CALLS: dict[RagName, int] = {
    "answer_relevancy": 2,
    "faithfulness": 3,
    # One call per retrieved text; their number is unknown, so one is assumed.
    "contextual_relevancy": 1,
    "contextual_precision": 1,
    "contextual_recall": 1,
}
"""Number of judge calls per evaluation, without the call that explains the score."""


class RagMetric(JudgedMetric):
    """`type: rag`: a judge grades an answer or the retrieved texts."""

    PLACE = 3
    IDENTIFYING_KEY = "metric_type"
    SCORE_IS_THRESHOLD_FREE = True

    type: Annotated[Literal["rag"], Role.KIND] = "rag"
    metric_type: Annotated[RagName, Role.KIND]
    """The metric to compute. Example: `faithfulness`."""
    threshold: Annotated[UnitInterval, Role.PASS_MARK] = 0.5
    """Lowest passing score; 0.5 when absent. Example: `0.8`."""
    include_reason: Flag = True
    """Whether the judge explains the score, by one more call."""
    model: Annotated[LLMProvider | None, Role.JUDGES] = None
    """The judge; `evaluations.model` when absent."""

    @property
    def needs(self) -> frozenset[str]:
        """The inputs that the metric needs: retrieved texts, the ground truth, or both."""
        return _NEEDS[self.metric_type]

    @property
    def measure(self) -> str:
        """Name of the measured quantity: the `metric_type`."""
        return self.metric_type

    @property
    def own_exam(self) -> Exam:
        """The pair of DeepEval's class of the same task."""
        from holodeck_action.extensions.deepeval.exams import EXAMS

        return EXAMS[f"{self.metric_type.title().replace('_', '')}Metric"]

    @property
    def library(self) -> str | None:
        """Name of the library that grades."""
        return "deepeval"

    def judge_calls(self) -> Iterator[JudgeCalls]:
        """Yield the number of judge calls per evaluation, including the call for the reason."""
        yield JudgeCalls(self, _CALLS[self.metric_type] + self.include_reason)

    def evaluator(self, building: BuildContext) -> BaseEvaluator:
        """Create the evaluator of the metric."""
        from holodeck_action.extensions.deepeval import rag

        evaluators: dict[RagName, type[rag.RagEvaluator]] = {
            "answer_relevancy": rag.AnswerRelevancyEvaluator,
            "contextual_precision": rag.ContextualPrecisionEvaluator,
            "contextual_recall": rag.ContextualRecallEvaluator,
            "contextual_relevancy": rag.ContextualRelevancyEvaluator,
            "faithfulness": rag.FaithfulnessEvaluator,
        }
        return building.judged_evaluator(
            self, evaluators[self.metric_type], threshold=self.threshold, include_reason=self.include_reason
        )
