"""The metrics of gllm-evals: each is one of this package's, built from the settings that its YAML type has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from holodeck_action.extensions.deepeval.tool_correctness import DeepEvalToolCorrectnessEvaluator
from holodeck_action.extensions.gllm.graded import BaseMetric, GradedMetric, building_of, built
from holodeck_action.extensions.gllm.judging import Grading, Model, Models, grading_of
from holodeck_action.extensions.presets import generation, summarization
from holodeck_action.extensions.presets.agent import TOOL_CORRECTNESS, TRAJECTORY
from holodeck_action.extensions.presets.lm_retrieval import LmRetrievalMetric
from holodeck_action.extensions.presets.parts import Criterion, CriterionPart
from holodeck_action.metrics.base import BaseEvaluator
from holodeck_action.metrics.computed import ComputedEvaluator, checked
from holodeck_action.metrics.judging.refusal import RefusalMetric
from holodeck_action.metrics.judging.trajectory_accuracy import TrajectoryAccuracyMetric
from holodeck_action.metrics.metric_sets import PresetEvaluator
from holodeck_action.metrics.retrieval import RetrievalMetric, RetrievalName

_ANY_PRESET = generation.GenerationMetric()
"""Makes evaluators of criteria; who grades them is the building's to decide."""


class CriterionMetric(GradedMetric):
    """A metric that models grade by criteria, in levels."""

    def __init__(
        self, criterion: Criterion, part: CriterionPart, grading: Grading, scores: Mapping[int, float] | None = None
    ) -> None:
        """Configure; nothing is asked.

        Args:
            criterion: what is asked where the part does not replace it.
            part: threshold, and criteria, steps, inputs and levels of one's own.
            grading: who grades.
            scores: what each level is worth; evenly spread when absent.
        """
        self.part = part
        self.threshold = part.threshold
        self._criterion = criterion
        self._scores = scores
        super().__init__(criterion.name, grading)

    def scored(self, scores: Mapping[int, float] | None) -> Self:
        """Return the metric with other scores of its levels; None for evenly spread ones."""
        return self if scores is None else self._changed(_scores=scores)

    def _build(self) -> BaseEvaluator:
        return _ANY_PRESET.by_criteria(self.part, self._criterion, building_of(self.grading), self._scores)


class _Criteria(CriterionMetric):
    """A criterion of a preset."""

    NAME: ClassVar[str]
    CRITERIA: ClassVar[Sequence[Criterion]]

    def __init__(
        self,
        models: Models = None,
        threshold: float = 0.5,
        aggregation_method: str | None = None,
        max_concurrent_judges: int | None = None,
        fallback_models: Sequence[Model] | None = None,
        *,
        criteria: str | None = None,
        evaluation_steps: Sequence[str] | None = None,
        evaluation_params: Sequence[str] | None = None,
        rubric: Sequence[str] | None = None,
    ) -> None:
        """Configure; nothing is asked. An option of judges that is None is left to the evaluator.

        Args:
            models: who grades.
            threshold: lowest passing score, 0..1; the highest one where low is good.
            aggregation_method: how the verdicts of several judges become one.
            max_concurrent_judges: judges asked at once.
            fallback_models: stand in for a judge that gives no verdict.
            criteria: your own criteria; the built-in steps and levels then do not apply.
            evaluation_steps: your own steps.
            evaluation_params: what the judge sees.
            rubric: a description of an answer of each level, from the lowest.

        Raises:
            ValueError: a setting that is none.
        """
        given: dict[str, Any] = {"criteria": criteria}
        for name, texts in (
            ("evaluation_steps", evaluation_steps),
            ("evaluation_params", evaluation_params),
            ("rubric", rubric),
        ):
            given[name] = None if texts is None else list(texts)
        written = {name: value for name, value in given.items() if value is not None}
        part = CriterionPart.model_validate({"threshold": threshold, **written})
        criterion = next(each for each in self.CRITERIA if each.name == self.NAME)
        grading = grading_of(models, aggregation_method, max_concurrent_judges, fallback_models)
        super().__init__(criterion, part, grading)


class _Retrieved(GradedMetric):
    """A metric of retrieved texts, by DeepEval."""

    NAME: ClassVar[str]

    def __init__(
        self,
        models: Models = None,
        threshold: float = 0.5,
        aggregation_method: str | None = None,
        max_concurrent_judges: int | None = None,
        fallback_models: Sequence[Model] | None = None,
    ) -> None:
        """Configure; nothing is asked. For the arguments see `GEvalCompletenessMetric`."""
        self.threshold = threshold
        super().__init__(self.NAME, grading_of(models, aggregation_method, max_concurrent_judges, fallback_models))

    def _build(self) -> BaseEvaluator:
        parts: dict[str, Any] = {name: {"enabled": False} for name in LmRetrievalMetric().metrics.COUNTED}
        parts[self.NAME] = {"threshold": self.threshold}
        found = built(LmRetrievalMetric.model_validate({"metrics": parts}), self.grading)
        assert isinstance(found, PresetEvaluator)
        return found.members[0].evaluator


class GEvalCompletenessMetric(_Criteria):
    """How much of the expected output the answer says."""

    NAME, CRITERIA = "completeness", generation.CRITERIA


class GEvalGroundednessMetric(_Criteria):
    """Whether retrieved texts, else the expected output, bear the answer out."""

    NAME, CRITERIA = "groundedness", generation.CRITERIA


class GEvalRedundancyMetric(_Criteria):
    """How much of the answer is said twice or was not asked for; low is good."""

    NAME, CRITERIA = "redundancy", generation.CRITERIA


class GEvalCoherenceMetric(_Criteria):
    """Whether a summary hangs together."""

    NAME, CRITERIA = "coherence", summarization.CRITERIA


class GEvalConsistencyMetric(_Criteria):
    """Whether a summary says nothing that its source does not."""

    NAME, CRITERIA = "consistency", summarization.CRITERIA


class GEvalFluencyMetric(_Criteria):
    """Whether a summary is well written."""

    NAME, CRITERIA = "fluency", summarization.CRITERIA


class GEvalRelevanceMetric(_Criteria):
    """Whether a summary holds what matters of its source."""

    NAME, CRITERIA = "relevance", summarization.CRITERIA


class DeepEvalContextualPrecisionMetric(_Retrieved):
    """Whether relevant texts are ranked first."""

    NAME = "contextual_precision"


class DeepEvalContextualRecallMetric(_Retrieved):
    """How much of the expected output the retrieved texts support."""

    NAME = "contextual_recall"


class GEvalRefusalMetric(GradedMetric):
    """Whether the answer refuses: 1 when it does not."""

    def __init__(self, models: Models = None, fallback_models: Sequence[Model] | None = None) -> None:
        """Configure; `models` grade, `fallback_models` stand in for them."""
        super().__init__("refusal", grading_of(models, fallback_models=fallback_models))

    def _build(self) -> BaseEvaluator:
        return built(RefusalMetric(), self.grading)


class DeepEvalToolCorrectnessMetric(BaseMetric):
    """DeepEval's own number of the tool calls; no model is asked."""

    def __init__(
        self,
        threshold: float = 0.5,
        models: Models = None,
        *,
        evaluation_params: Sequence[str] = (),
        should_exact_match: bool = False,
        should_consider_ordering: bool = False,
        strict_mode: bool = False,
    ) -> None:
        """Configure.

        Args:
            threshold: lowest passing score, 0..1.
            models: refused: there is nothing to ask a model.
            evaluation_params: see `DeepEvalToolCorrectnessEvaluator`, and so the rest.
            should_exact_match: see there.
            should_consider_ordering: see there.
            strict_mode: see there.

        Raises:
            ValueError: a setting that is none, or models.
        """
        if models is not None:
            raise ValueError("models has no effect: tool calls are compared without a model; leave it out")
        evaluator = DeepEvalToolCorrectnessEvaluator(
            evaluation_params, should_exact_match, should_consider_ordering, strict_mode, threshold
        )
        super().__init__(TOOL_CORRECTNESS, evaluator)
        self.threshold = evaluator.threshold


class LangChainAgentTrajectoryAccuracyMetric(GradedMetric):
    """Whether the way to the answer makes sense; a judge looks at the whole trajectory."""

    def __init__(
        self, models: Models = None, threshold: float = 0.5, fallback_models: Sequence[Model] | None = None
    ) -> None:
        """Configure; `models` grade, scores from `threshold` pass, `fallback_models` stand in."""
        self.threshold = threshold
        super().__init__(TRAJECTORY, grading_of(models, fallback_models=fallback_models))

    def _build(self) -> BaseEvaluator:
        return built(TrajectoryAccuracyMetric(threshold=self.threshold), self.grading)


class ClassicalRetrievalMetric(BaseMetric):
    """One retrieval metric at one cut-off rank, such as `recall_at_k` at 5, named `recall_at_5`."""

    def __init__(self, metric: RetrievalName, k: int = 20, threshold: float | None = None) -> None:
        """Configure.

        Args:
            metric: `precision_at_k`, `recall_at_k`, `hit_rate_at_k`, `mrr_at_k`, `map_at_k` or `ndcg_at_k`.
            k: cut-off rank, at least 1.
            threshold: lowest passing score, 0..1; None for no verdict.

        Raises:
            ValueError: a metric or rank that is none.
        """
        config = checked(RetrievalMetric, {"metric": metric, "k": k, "threshold": threshold})
        super().__init__(config.base_name(k), ComputedEvaluator(config), asserts=threshold is not None)
        self.k = k
