"""gllm-evals' metrics, each built from a metric of this package with the settings of its YAML type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from holodeck_action.extensions.deepeval.tool_correctness import DeepEvalToolCorrectnessEvaluator
from holodeck_action.extensions.gllm.judging import Grading, Model, Models, make_grading
from holodeck_action.extensions.gllm.metric_bases import BaseMetric, GradedMetric, build_evaluator, make_build_context
from holodeck_action.extensions.presets import generation, summarization
from holodeck_action.extensions.presets.agent import TOOL_CORRECTNESS, TRAJECTORY
from holodeck_action.extensions.presets.lm_retrieval import LmRetrievalMetric
from holodeck_action.extensions.presets.parts import Criterion, CriterionPart
from holodeck_action.metrics.base import BaseEvaluator
from holodeck_action.metrics.computed import Grader
from holodeck_action.metrics.judging.refusal import RefusalMetric
from holodeck_action.metrics.judging.trajectory_accuracy import TrajectoryAccuracyMetric
from holodeck_action.metrics.metric_sets import PresetEvaluator
from holodeck_action.metrics.retrieval import RetrievalMetric, RetrievalName

_ANY_PRESET = generation.GenerationMetric()
"""A preset whose method `geval_of_part` builds the evaluators; the `BuildContext` chooses the judges."""


class CriterionMetric(GradedMetric):
    """A metric with criteria and a rubric of levels, graded by models."""

    def __init__(
        self,
        criterion: Criterion,
        preset_part: CriterionPart,
        grading: Grading,
        scores: Mapping[int, float] | None = None,
    ) -> None:
        """Configure the metric; this calls no model.

        Args:
            criterion: the built-in criteria, used unless `preset_part` replaces them.
            preset_part: the threshold, and user-defined criteria, steps, inputs and levels.
            grading: the judges' options.
            scores: scores by level; None to spread scores evenly.
        """
        self.part = preset_part
        self.threshold = preset_part.threshold
        self._criterion = criterion
        self._scores = scores
        super().__init__(criterion.name, grading)

    def with_scores(self, scores: Mapping[int, float] | None) -> Self:
        """Return the metric with other scores for its levels; unchanged if `scores` is None."""
        return self if scores is None else self._copy_with(_scores=scores)

    def _build(self) -> BaseEvaluator:
        return _ANY_PRESET.geval_of_part(self.part, self._criterion, make_build_context(self.grading), self._scores)


class _PresetCriterionMetric(CriterionMetric):
    """Base class of metrics with built-in criteria."""

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
        """Configure the metric without calling a model. If a judge option is None, the evaluator's option applies.

        Args:
            models: the judges.
            threshold: lowest passing score, 0..1; the highest passing score if low scores are good.
            aggregation_method: how the verdicts of several judges are combined.
            max_concurrent_judges: number of judges called concurrently.
            fallback_models: models that replace a judge without a verdict.
            criteria: user-defined criteria, which replace the built-in criteria, steps and levels.
            evaluation_steps: user-defined steps.
            evaluation_params: inputs that the judge sees.
            rubric: descriptions of the levels, starting with the lowest.

        Raises:
            ValueError: a setting is invalid.
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
        grading = make_grading(models, aggregation_method, max_concurrent_judges, fallback_models)
        super().__init__(criterion, part, grading)


class _RetrievalMetric(GradedMetric):
    """Base class of DeepEval's metrics of retrieved texts."""

    NAME: ClassVar[str]

    def __init__(
        self,
        models: Models = None,
        threshold: float = 0.5,
        aggregation_method: str | None = None,
        max_concurrent_judges: int | None = None,
        fallback_models: Sequence[Model] | None = None,
    ) -> None:
        """Configure the metric without calling a model. For the arguments see `GEvalCompletenessMetric`."""
        self.threshold = threshold
        super().__init__(self.NAME, make_grading(models, aggregation_method, max_concurrent_judges, fallback_models))

    def _build(self) -> BaseEvaluator:
        parts: dict[str, Any] = {name: {"enabled": False} for name in LmRetrievalMetric().metrics.COUNTED}
        parts[self.NAME] = {"threshold": self.threshold}
        found = build_evaluator(LmRetrievalMetric.model_validate({"metrics": parts}), self.grading)
        assert isinstance(found, PresetEvaluator)
        return found.members[0].evaluator


class GEvalCompletenessMetric(_PresetCriterionMetric):
    """Grades how much of the expected output the answer covers."""

    NAME, CRITERIA = "completeness", generation.CRITERIA


class GEvalGroundednessMetric(_PresetCriterionMetric):
    """Grades whether retrieved texts, or else the expected output, support the answer."""

    NAME, CRITERIA = "groundedness", generation.CRITERIA


class GEvalRedundancyMetric(_PresetCriterionMetric):
    """Grades how much of the answer is repeated or irrelevant; low scores are good."""

    NAME, CRITERIA = "redundancy", generation.CRITERIA


class GEvalCoherenceMetric(_PresetCriterionMetric):
    """Grades whether a summary is coherent."""

    NAME, CRITERIA = "coherence", summarization.CRITERIA


class GEvalConsistencyMetric(_PresetCriterionMetric):
    """Grades whether a summary contains only statements of its source."""

    NAME, CRITERIA = "consistency", summarization.CRITERIA


class GEvalFluencyMetric(_PresetCriterionMetric):
    """Grades whether a summary is well written."""

    NAME, CRITERIA = "fluency", summarization.CRITERIA


class GEvalRelevanceMetric(_PresetCriterionMetric):
    """Grades whether a summary contains the important content of its source."""

    NAME, CRITERIA = "relevance", summarization.CRITERIA


class DeepEvalContextualPrecisionMetric(_RetrievalMetric):
    """Grades whether relevant texts are ranked first."""

    NAME = "contextual_precision"


class DeepEvalContextualRecallMetric(_RetrievalMetric):
    """Grades how much of the expected output the retrieved texts support."""

    NAME = "contextual_recall"


class GEvalRefusalMetric(GradedMetric):
    """Detects whether the answer is a refusal; the score is 1 if it is not a refusal."""

    def __init__(self, models: Models = None, fallback_models: Sequence[Model] | None = None) -> None:
        """Configure the metric; `fallback_models` replace `models` that give no verdict."""
        super().__init__("refusal", make_grading(models, fallback_models=fallback_models))

    def _build(self) -> BaseEvaluator:
        return build_evaluator(RefusalMetric(), self.grading)


class DeepEvalToolCorrectnessMetric(BaseMetric):
    """DeepEval's tool correctness, computed without a model."""

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
        """Configure the metric.

        Args:
            threshold: lowest passing score, 0..1.
            models: must be None, since no model is called.
            evaluation_params: see `DeepEvalToolCorrectnessEvaluator`.
            should_exact_match: see `DeepEvalToolCorrectnessEvaluator`.
            should_consider_ordering: see `DeepEvalToolCorrectnessEvaluator`.
            strict_mode: see `DeepEvalToolCorrectnessEvaluator`.

        Raises:
            ValueError: a setting is invalid, or models are given.
        """
        if models is not None:
            raise ValueError("models has no effect: tool calls are compared without a model; leave it out")
        evaluator = DeepEvalToolCorrectnessEvaluator(
            evaluation_params, should_exact_match, should_consider_ordering, strict_mode, threshold
        )
        super().__init__(TOOL_CORRECTNESS, evaluator)
        self.threshold = evaluator.threshold


class LangChainAgentTrajectoryAccuracyMetric(GradedMetric):
    """Grades whether the steps to the answer make sense; the judge sees the whole trajectory."""

    def __init__(
        self, models: Models = None, threshold: float = 0.5, fallback_models: Sequence[Model] | None = None
    ) -> None:
        """Configure the metric; `threshold` is the lowest passing score. For the rest see `GEvalCompletenessMetric`."""
        self.threshold = threshold
        super().__init__(TRAJECTORY, make_grading(models, fallback_models=fallback_models))

    def _build(self) -> BaseEvaluator:
        return build_evaluator(TrajectoryAccuracyMetric(threshold=self.threshold), self.grading)


class ClassicalRetrievalMetric(BaseMetric):
    """One retrieval metric at one cut-off rank, such as `recall_at_k` at 5, named `recall_at_5`."""

    def __init__(self, metric: RetrievalName, k: int = 20, threshold: float | None = None) -> None:
        """Configure the metric.

        Args:
            metric: `precision_at_k`, `recall_at_k`, `hit_rate_at_k`, `mrr_at_k`, `map_at_k` or `ndcg_at_k`.
            k: cut-off rank, at least 1.
            threshold: lowest passing score, 0..1; None to give no verdict.

        Raises:
            ValueError: the metric or the rank is invalid.
        """
        config = RetrievalMetric(metric=metric, k=k, threshold=threshold)
        super().__init__(config.base_name(k), Grader(config), has_verdict=threshold is not None)
        self.k = k
