"""The preset for retrieved texts: precision and recall by a judge, and a rating (evaluators reference §8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from holodeck_action.metrics.base import EvaluationResult
from holodeck_action.metrics.presets.preset import Outcome, PresetEvaluator, PresetResult

Rating = Literal["good", "bad", "incomplete"]
PRECISION, RECALL = "contextual_precision", "contextual_recall"


class LMBasedRetrievalEvaluator(PresetEvaluator):
    """Contextual precision and recall of DeepEval; `relevancy_rating` in the metadata.

    `good`: both reach their thresholds. `incomplete`: what was found is ranked well, and supports a part of the
    expected output, but less of it than the threshold of the recall. `bad`: what helps is ranked too low, or nothing of
    the expected output is supported. A metric that is left out counts as one that reaches its threshold.

    Without any retrieved text the score is 0, and nobody is asked. A text instead of a list of them is one chunk.
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
