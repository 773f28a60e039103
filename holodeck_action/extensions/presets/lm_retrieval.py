"""The metric `type: lm_retrieval`: contextual precision and recall of the retrieved texts, and a rating: `good`, `bad`
or `incomplete`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from holodeck_action.extensions.presets.parts import PresetMetric, PresetParts, ScoredPart
from holodeck_action.metrics.base import BaseEvaluator, BuildContext, EvaluationResult
from holodeck_action.metrics.metric_sets import Member, Outcome, PresetEvaluator, PresetResult
from holodeck_action.metrics.params import EvalParam
from holodeck_action.suite.model.base import Flag
from holodeck_action.suite.model.metric_base import GROUND_TRUTH, Role
from holodeck_action.suite.model.probing import Exam

Rating = Literal["good", "bad", "incomplete"]
PRECISION, RECALL = "contextual_precision", "contextual_recall"


class LmRetrievalParts(PresetParts):
    """`metrics` of `lm_retrieval`."""

    COUNTED = (PRECISION, RECALL)

    contextual_precision: ScoredPart = Field(default_factory=ScoredPart)
    """Whether the useful texts come first."""
    contextual_recall: ScoredPart = Field(default_factory=ScoredPart)
    """Whether the retrieved texts contain everything that the expected answer needs."""

    @property
    def needs(self) -> frozenset[str]:
        """The inputs of the metrics: the retrieved texts and the expected output."""
        return GROUND_TRUTH | {"retrieval_context"}


class LmRetrievalMetric(PresetMetric):
    """`type: lm_retrieval`: contextual precision and recall of the retrieved texts, and a rating."""

    PLACE = 13
    ONLY_A_TURN = (
        "it grades the texts that one question retrieved; use type deepeval, metric TurnContextualRecallMetric"
    )

    type: Annotated[Literal["lm_retrieval"], Role.KIND] = "lm_retrieval"
    metrics: LmRetrievalParts = Field(default_factory=LmRetrievalParts)
    """Settings of its metrics, by name. Example: `{contextual_recall: {threshold: 0.7}}`."""
    include_reason: Flag = True
    """Whether the judge explains each score, which is one call each."""

    def _built_in_exam(self) -> Exam:
        from holodeck_action.extensions.deepeval.exams import context_exam

        return context_exam()

    def _calls_of_part(self) -> int:
        return 1 + self.include_reason

    def evaluator(self, building: BuildContext) -> LMBasedRetrievalEvaluator:
        """Return an evaluator with the enabled metrics."""
        from holodeck_action.extensions.deepeval.rag import ContextualPrecisionEvaluator, ContextualRecallEvaluator

        kinds = {PRECISION: ContextualPrecisionEvaluator, RECALL: ContextualRecallEvaluator}

        def evaluator_of(name: str, **options: Any) -> BaseEvaluator:
            found = kinds[name](include_reason=self.include_reason, **options)
            # DeepEval compares the retrieved texts with the expected output and does not use the answer.
            answer = frozenset({EvalParam.ACTUAL_OUTPUT})
            spec = found.PARAM_SPEC
            found.PARAM_SPEC = spec._replace(required=spec.required - answer, optional=spec.optional | answer)
            return found

        parts: dict[str, ScoredPart] = {name: getattr(self.metrics, name) for name in self.metrics.counted_parts}
        members = [
            Member(
                name,
                building.judged_evaluator(
                    self.graded_part(part), partial(evaluator_of, name), threshold=part.threshold
                ),
            )
            for name, part in parts.items()
        ]
        return LMBasedRetrievalEvaluator(self.name or self.type, members, **self.options(building))


class LMBasedRetrievalEvaluator(PresetEvaluator):
    """Grades retrieved texts by DeepEval's contextual precision and recall, with a `relevancy_rating` in the metadata.

    The rating is `good` if both reach their thresholds, `incomplete` if precision reaches its threshold and recall is
    above 0 but below its threshold, and `bad` if precision is below its threshold or recall is 0. A disabled metric
    counts as reaching its threshold.

    If there are no retrieved texts, the score is 0 and no model is called. A string instead of a list counts as one
    chunk.
    """

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        texts = kwargs["retrieval_context"]
        if not any(str(text).strip() for text in ([texts] if isinstance(texts, str) else texts)):
            facts = {"relevancy_rating": "bad"}
            return PresetResult(0.0, False, "nothing was retrieved", self.metric_name, metadata=facts)
        outcomes = await self._evaluate_members(kwargs)
        return self._combine(outcomes, {"relevancy_rating": rating_of(outcomes)})


def rating_of(outcomes: list[Outcome]) -> Rating:
    """Return the rating by the rule in `LMBasedRetrievalEvaluator`."""
    found: Mapping[str, EvaluationResult | None] = {outcome.member.name: outcome.result for outcome in outcomes}
    precision, recall = found.get(PRECISION), found.get(RECALL)
    if precision is not None and precision.passed is False:
        return "bad"
    if recall is None or recall.passed is not False:
        return "good"
    return "incomplete" if recall.score else "bad"
