"""The five metrics of `type: standard` that Azure AI Evaluation computes."""

from __future__ import annotations

from collections.abc import Iterator

from holodeck_action.extensions.azure.base import HIGHEST, LOWEST, SUPPORTED_PROVIDERS
from holodeck_action.metrics.base import BaseEvaluator, BuildContext
from holodeck_action.metrics.standard import StandardMetric
from holodeck_action.suite.model.metric_base import GROUND_TRUTH, NO_INPUTS, Metric
from holodeck_action.suite.model.probing import Exam

MIGRATION = {
    "groundedness": "type rag with metric_type faithfulness",
    "relevance": "type rag with metric_type answer_relevancy",
    "coherence": "type geval with criteria for coherence",
    "fluency": "type geval with criteria for fluency",
    "similarity": "type geval with evaluation_params actual_output and expected_output",
}
"""The replacement of each deprecated metric."""


class AzureMetric(StandardMetric):
    """A metric of Azure AI Evaluation, graded from 1 to 5."""

    @property
    def needs(self) -> frozenset[str]:
        """The inputs that the metric needs from the case: the ground truth for similarity, none for the others."""
        return GROUND_TRUTH if self.metric == "similarity" else NO_INPUTS

    @property
    def pass_mark(self) -> float | None:
        """The threshold as a score from 0 to 1; with `scale: 5`, it is converted from the suite's value from 1 to 5."""
        if self.threshold is None or self.scale != HIGHEST:
            return super().pass_mark
        return max(0.0, (self.threshold - LOWEST) / (HIGHEST - LOWEST))

    def judged_parts(self) -> Iterator[tuple[str, Metric]]:
        """Yield this metric under an empty name, since it is not composed of other metrics."""
        yield "", self

    @property
    def library(self) -> str | None:
        """Name of the library that grades."""
        return "azure"

    @property
    def own_exam(self) -> Exam | None:
        """The pair of the metric's class; None with a prompt of the suite."""
        from holodeck_action.extensions.azure.exams import EXAMS
        from holodeck_action.extensions.azure.metrics import EVALUATORS

        return None if self.custom_prompt is not None else EXAMS[EVALUATORS[self.metric].CLASS]

    def settings_problem(self) -> str | None:
        """Return a description of a defect in the threshold or the prompt; None if both are valid."""
        if self.scale == HIGHEST and self.threshold is not None and self.threshold < LOWEST:
            return (
                f"has a threshold of {self.threshold:g} on scale 5, where the lowest score is 1: every answer would "
                "pass"
            )
        if self.custom_prompt is None:
            return None
        from holodeck_action.extensions.azure.metrics import EVALUATORS

        return EVALUATORS[self.metric].prompt_problem(self.custom_prompt)

    def judge_problem(self, provider: str, title: str) -> str | None:
        """Return an error message with a remedy, unless the judge is a model of Azure OpenAI."""
        if provider in SUPPORTED_PROVIDERS:
            return None
        return (
            f"is graded only by models of the provider azure_openai, and {title} is not one of them: give it "
            f"a `model` of that provider, or migrate to {MIGRATION[self.metric]}"
        )

    def notices(self, place: str) -> Iterator[str]:
        """Yield a deprecation notice, and a notice for each setting without effect."""
        yield f"{self.metric} is deprecated: migrate to {MIGRATION[self.metric]}"
        yield from super().notices(place)

    def evaluator(self, building: BuildContext) -> BaseEvaluator:
        """Create the evaluator, which calls the judge."""
        from holodeck_action.extensions.azure.metrics import EVALUATORS

        kind = EVALUATORS[self.metric]
        return building.judged_evaluator(self, kind, threshold=self.pass_mark, custom_prompt=self.custom_prompt)
