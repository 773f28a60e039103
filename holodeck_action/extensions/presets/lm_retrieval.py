"""`type: lm_retrieval`: retrieved texts by contextual precision and recall, and a rating."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from holodeck_action.extensions.presets.parts import PresetMetric, PresetParts, ScoredPart
from holodeck_action.metrics.base import BaseEvaluator, Building, EvaluationResult
from holodeck_action.metrics.metric_sets import Member, Outcome, PresetEvaluator, PresetResult
from holodeck_action.metrics.params import EvalParam
from holodeck_action.suite.model.base import Flag
from holodeck_action.suite.model.metric_base import GROUND_TRUTH, Role

Rating = Literal["good", "bad", "incomplete"]
PRECISION, RECALL = "contextual_precision", "contextual_recall"


class LmRetrievalParts(PresetParts):
    """`metrics` of `lm_retrieval`."""

    COUNTED = ("contextual_precision", "contextual_recall")

    contextual_precision: ScoredPart = Field(default_factory=ScoredPart)
    """Whether the useful texts come first."""
    contextual_recall: ScoredPart = Field(default_factory=ScoredPart)
    """Whether everything that is needed was retrieved."""

    @property
    def needs(self) -> frozenset[str]:
        """The texts, and what they are compared with."""
        return GROUND_TRUTH | {"retrieval_context"}


class LmRetrievalMetric(PresetMetric):
    """`type: lm_retrieval`: the retrieved texts by contextual precision and recall, with a rating."""

    PLACE = 13

    type: Annotated[Literal["lm_retrieval"], Role.KIND] = "lm_retrieval"
    metrics: LmRetrievalParts = Field(default_factory=LmRetrievalParts)
    """Settings of its metrics, by name. Example: `{contextual_recall: {threshold: 0.7}}`."""
    include_reason: Flag = True
    """Whether the judge explains each score, which is one call each."""

    def _calls_of_part(self) -> int:
        return 1 + self.include_reason

    def evaluator(self, building: Building) -> LMBasedRetrievalEvaluator:
        """Return what scores."""
        from holodeck_action.extensions.deepeval.rag import ContextualPrecisionEvaluator, ContextualRecallEvaluator

        kinds = {PRECISION: ContextualPrecisionEvaluator, RECALL: ContextualRecallEvaluator}

        def evaluator_of(name: str, **options: Any) -> BaseEvaluator:
            found = kinds[name](include_reason=self.include_reason, **options)
            # DeepEval compares the retrieved texts with the expected output: the answer plays no part.
            answer = frozenset({EvalParam.ACTUAL_OUTPUT})
            spec = found.PARAM_SPEC
            found.PARAM_SPEC = spec._replace(required=spec.required - answer, optional=spec.optional | answer)
            return found

        parts = {name: getattr(self.metrics, name) for name in self.metrics.counted}
        members = [
            Member(
                name,
                building.asking(self.graded_part(part), partial(evaluator_of, name), threshold=part.threshold),
            )
            for name, part in parts.items()
        ]
        return LMBasedRetrievalEvaluator(self.name or self.type, members, **self.options(building))


class LMBasedRetrievalEvaluator(PresetEvaluator):
    """Contextual precision and recall of DeepEval; `relevancy_rating` in the metadata.

    `good`: both reach their thresholds. `incomplete`: what was found is ranked well, and supports a part of the
    expected output, but less of it than the threshold of the recall. `bad`: what helps is ranked too low, or nothing of
    the expected output is supported. A metric that is omitted counts as one that reaches its threshold.

    Without any retrieved text the score is 0, and no model is called. A text instead of a list of them is one chunk.
    """

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        texts = kwargs["retrieval_context"]
        if not any(str(text).strip() for text in ([texts] if isinstance(texts, str) else texts)):
            facts = {"relevancy_rating": "bad"}
            return PresetResult(0.0, False, "nothing was retrieved", self.metric_name, metadata=facts)
        outcomes = await self._outcomes(kwargs)
        return self._whole(outcomes, {"relevancy_rating": rating_of(outcomes)})


def rating_of(outcomes: list[Outcome]) -> Rating:
    """Return the rating; see `LMBasedRetrievalEvaluator` for the rule."""
    found: Mapping[str, EvaluationResult | None] = {outcome.member.name: outcome.result for outcome in outcomes}
    precision, recall = found.get(PRECISION), found.get(RECALL)
    if precision is not None and precision.passed is False:
        return "bad"
    if recall is None or recall.passed is not False:
        return "good"
    return "incomplete" if recall.score else "bad"
