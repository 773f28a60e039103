"""gllm-evals' evaluators with their constructors; each runs the same evaluator as the corresponding YAML type.

Options for judges apply to every metric that does not set them, including metrics that are passed in. Options without
effect are refused, and so are values of `batch_status_check_interval` and `batch_max_iterations` other than the
defaults: judges are called directly, without batch jobs of a provider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Self, cast, get_args

from holodeck_action.extensions.gllm.base import (
    INTERVAL_S,
    ITERATIONS,
    AnyMetric,
    BaseEvaluator,
    JudgedEvaluator,
    MetricsAggregator,
)
from holodeck_action.extensions.gllm.inputs import AgentData, GenerationData, RAGData, RetrievalData, RetrievedData
from holodeck_action.extensions.gllm.judging import DefaultValues, Grading, Model, Models, make_grading
from holodeck_action.extensions.gllm.metric_bases import BaseMetric, to_metric
from holodeck_action.extensions.gllm.metrics import (
    ClassicalRetrievalMetric,
    CriterionMetric,
    DeepEvalContextualPrecisionMetric,
    DeepEvalContextualRecallMetric,
    DeepEvalToolCorrectnessMetric,
    GEvalCoherenceMetric,
    GEvalCompletenessMetric,
    GEvalConsistencyMetric,
    GEvalFluencyMetric,
    GEvalGroundednessMetric,
    GEvalRedundancyMetric,
    GEvalRefusalMetric,
    GEvalRelevanceMetric,
    LangChainAgentTrajectoryAccuracyMetric,
)
from holodeck_action.extensions.presets import query_transformation
from holodeck_action.extensions.presets.agent import TOOL_CORRECTNESS
from holodeck_action.extensions.presets.generation import GenerationEvaluator
from holodeck_action.extensions.presets.lm_retrieval import LMBasedRetrievalEvaluator as RetrievalPreset
from holodeck_action.extensions.presets.parts import CriterionPart
from holodeck_action.extensions.presets.query_transformation import QueryTransformationMetric
from holodeck_action.metrics.aggregation import Part, aggregate_explanation
from holodeck_action.metrics.metric_sets import Member, PresetEvaluator, TextEvaluator
from holodeck_action.metrics.params import EvalParam, require_choice
from holodeck_action.metrics.retrieval import RetrievalName

_K = 20
"""The default cut-off rank of gllm-evals."""


class CompositeEvaluator(BaseEvaluator):
    """Runs any metrics and aggregates their results."""

    def __init__(
        self,
        metrics: Sequence[AnyMetric],
        name: str = "composite",
        parallel: bool = True,
        metrics_aggregator: MetricsAggregator | None = None,
    ) -> None:
        """Configure the evaluator; `parallel` runs the metrics concurrently. For other arguments see the base class."""
        super().__init__(name, metrics, metrics_aggregator=metrics_aggregator)
        self.parallel = self.run_parallel = parallel


class ClassicalRetrievalEvaluator(BaseEvaluator):
    """Compares retrieved chunks with the relevant chunks, by default by all six metrics at each rank in `k`."""

    input_type = RetrievalData

    def __init__(
        self,
        metrics: Sequence[str | ClassicalRetrievalMetric] | None = None,
        k: int | list[int] = _K,
        metrics_aggregator: MetricsAggregator | None = None,
    ) -> None:
        """Configure the evaluator.

        Args:
            metrics: metrics, or names such as `recall_at_k`.
            k: one or several cut-off ranks, for metrics given by name.
            metrics_aggregator: see the base class.

        Raises:
            ValueError: a name or rank is invalid.
        """
        ranks = k if isinstance(k, list) else [k]
        if not ranks:
            raise ValueError("k must hold at least one rank")
        if metrics and k != _K and all(isinstance(metric, BaseMetric) for metric in metrics):
            raise ValueError("k has no effect: each of the metrics has its own rank; leave it out")
        found: list[AnyMetric] = []
        for metric in get_args(RetrievalName) if metrics is None else metrics:
            if isinstance(metric, BaseMetric):
                found.append(metric)
            else:
                known = cast(RetrievalName, require_choice("metrics", metric, get_args(RetrievalName)))
                found += [ClassicalRetrievalMetric(known, at) for at in ranks]
        super().__init__("classical_retrieval", found, metrics_aggregator=metrics_aggregator)
        self.k = k


class BaseGenerationEvaluator(JudgedEvaluator):
    """Grades an answer by completeness, groundedness and redundancy, unless the answer is a refusal."""

    input_type: ClassVar[type | None] = GenerationData

    def __init__(
        self,
        models: Models = None,
        metrics: Sequence[AnyMetric] | None = None,
        aggregation_method: str | None = None,
        max_concurrent_judges: int | None = None,
        run_parallel: bool = True,
        refusal_metric: GEvalRefusalMetric | None = None,
        batch_status_check_interval: float = INTERVAL_S,
        batch_max_iterations: int = ITERATIONS,
        metrics_aggregator: MetricsAggregator | None = None,
        fallback_models: Sequence[Model] | None = None,
    ) -> None:
        """Configure the evaluator; this calls no model.

        Args:
            models: the judges: one model, several, or the same one several times.
            metrics: metrics that replace the built-in ones; each may have its own judges.
            aggregation_method: how the verdicts of several judges are combined.
            max_concurrent_judges: number of judges called concurrently; None to call all at once.
            run_parallel: whether the metrics are evaluated concurrently.
            refusal_metric: detects answers that are refusals.
            batch_status_check_interval: must be the default; see the module.
            batch_max_iterations: must be the default; see the module.
            metrics_aggregator: see the base class.
            fallback_models: models that replace a judge without a verdict.

        Raises:
            ValueError: a setting is invalid.
        """
        grading = make_grading(models, aggregation_method, max_concurrent_judges, fallback_models)
        if metrics is None:
            metrics = [GEvalCompletenessMetric(), GEvalGroundednessMetric(), GEvalRedundancyMetric()]
        batch = (batch_status_check_interval, batch_max_iterations)
        super().__init__("generation", models, grading, run_parallel, metrics, *batch, metrics_aggregator)
        if refusal_metric is not None and not isinstance(refusal_metric, GEvalRefusalMetric):
            raise ValueError(f"refusal_metric must be a GEvalRefusalMetric, not {type(refusal_metric).__name__}")
        self.refusal_metric = (refusal_metric or GEvalRefusalMetric()).with_grading(grading)
        self._check_options_used()

    def with_grading(self, grading: Grading) -> Self:
        """Return a copy that uses the options in `grading` for metrics that do not set them."""
        found = copy(self)
        found.metrics = [metric.with_grading(grading) for metric in self.metrics]
        found.refusal_metric = self.refusal_metric.with_grading(grading)
        return found

    def parts(self) -> list[BaseMetric]:
        """Return the metrics and the refusal metric."""
        return [*self.metrics, self.refusal_metric]

    @property
    def evaluator(self) -> PresetEvaluator:
        """The corresponding evaluator of this package."""
        refusal = self.refusal_metric.evaluator
        return GenerationEvaluator(
            self.name, self._members(), refusal=refusal, parallel=self.run_parallel, timeout=None
        )


class GEvalGenerationEvaluator(BaseGenerationEvaluator):
    """Grades an answer by completeness, groundedness and redundancy, unless the answer is a refusal."""


class SummarizationEvaluator(JudgedEvaluator):
    """Grades a summary of the input by coherence, consistency, fluency and relevance."""

    input_type = RAGData
    PRESET = TextEvaluator

    def __init__(
        self,
        models: Models = None,
        metrics: Sequence[AnyMetric] | None = None,
        aggregation_method: str | None = DefaultValues.AGGREGATION_METHOD,
        run_parallel: bool = True,
        batch_status_check_interval: float = INTERVAL_S,
        batch_max_iterations: int = ITERATIONS,
        metrics_aggregator: MetricsAggregator | None = None,
        fallback_models: Sequence[Model] | None = None,
    ) -> None:
        """Configure the evaluator; see `BaseGenerationEvaluator` for the arguments."""
        grading = make_grading(models, aggregation_method, fallback_models=fallback_models)
        if metrics is None:
            metrics = [
                GEvalCoherenceMetric(),
                GEvalConsistencyMetric(),
                GEvalFluencyMetric(),
                GEvalRelevanceMetric(),
            ]
        batch = (batch_status_check_interval, batch_max_iterations)
        super().__init__("summarization", models, grading, run_parallel, metrics, *batch, metrics_aggregator)
        self._check_options_used()


class LMBasedRetrievalEvaluator(JudgedEvaluator):
    """Grades retrieved texts by contextual precision and recall; results also have `relevancy_rating` and `score`."""

    input_type = RetrievedData
    PRESET = RetrievalPreset

    def __init__(
        self,
        models: Models = None,
        metrics: Sequence[AnyMetric] | None = None,
        enabled_metrics: Sequence[type[BaseMetric] | str] | None = None,
        run_parallel: bool = True,
        metrics_aggregator: MetricsAggregator | None = None,
        fallback_models: Sequence[Model] | None = None,
    ) -> None:
        """Configure the evaluator.

        Args:
            models: the judges of the built-in metrics.
            metrics: additional metrics; a metric replaces the built-in metric with the same name.
            enabled_metrics: names or classes of the metrics to use; None to use all.
            run_parallel: whether the metrics are evaluated concurrently.
            metrics_aggregator: see the base class.
            fallback_models: models that replace a judge without a verdict.

        Raises:
            ValueError: a setting is invalid, or an enabled metric is unknown.
        """
        built_in = (DeepEvalContextualPrecisionMetric(), DeepEvalContextualRecallMetric())
        pool = {metric.name: metric for metric in map(to_metric, (*built_in, *(metrics or ())))}
        if enabled_metrics is not None:
            names = [name if isinstance(name, str) else getattr(name, "NAME", "") for name in enabled_metrics]
            unknown = [name for name in names if name not in pool]
            if unknown or not names:
                raise ValueError(f"enabled_metrics must name some of {', '.join(pool)}, not {enabled_metrics!r:.200}")
            pool = {name: metric for name, metric in pool.items() if name in names}
        grading = make_grading(models, fallback_models=fallback_models)
        batch = (INTERVAL_S, ITERATIONS)
        used = list(pool.values())
        super().__init__("lm_retrieval", models, grading, run_parallel, used, *batch, metrics_aggregator)
        self.enabled_metrics = enabled_metrics
        self._check_options_used()

    def _omitted_keys(self) -> tuple[str, ...]:
        return ()


class QTEvaluator(JudgedEvaluator):
    """Grades a rewritten query by completeness, groundedness and redundancy."""

    input_type = RAGData
    PRESET = TextEvaluator

    def __init__(
        self,
        models: Models = None,
        completeness_metric: AnyMetric | None = None,
        groundedness_metric: AnyMetric | None = None,
        redundancy_metric: AnyMetric | None = None,
        aggregation_method: str | None = None,
        max_concurrent_judges: int | None = None,
        run_parallel: bool = True,
        score_mapping: Mapping[str, Mapping[int, float]] | None = None,
        score_weights: Mapping[str, float] | None = None,
        batch_status_check_interval: float = INTERVAL_S,
        batch_max_iterations: int = ITERATIONS,
        metrics_aggregator: MetricsAggregator | None = None,
        fallback_models: Sequence[Model] | None = None,
    ) -> None:
        """Configure the evaluator.

        Args:
            models: the judges of the built-in metrics.
            completeness_metric: a metric that replaces the built-in one.
            groundedness_metric: a metric that replaces the built-in one.
            redundancy_metric: a metric that replaces the built-in one.
            aggregation_method: how the verdicts of several judges are combined.
            max_concurrent_judges: number of judges called concurrently; None to call all at once.
            run_parallel: whether the metrics are evaluated concurrently.
            score_mapping: scores of a built-in metric by level; None to spread scores evenly.
            score_weights: weights of the metrics in the score; None to weight them equally.
            batch_status_check_interval: must be the default; see the module.
            batch_max_iterations: must be the default; see the module.
            metrics_aggregator: see the base class.
            fallback_models: models that replace a judge without a verdict.

        Raises:
            ValueError: a setting is invalid.
        """
        own = {
            "completeness": completeness_metric,
            "groundedness": groundedness_metric,
            "redundancy": redundancy_metric,
        }
        pool = {name: _criterion_metric(name) if given is None else to_metric(given) for name, given in own.items()}
        without_levels = [
            name for name in score_mapping or () if not isinstance(pool.get(name), CriterionMetric | None)
        ]
        if without_levels:
            raise ValueError(f"score_mapping has no effect on {without_levels[0]}_metric, which has no levels")
        config = QueryTransformationMetric.model_validate(
            {
                "metrics": {name: each.part for name, each in pool.items() if isinstance(each, CriterionMetric)},
                "score_mapping": dict(score_mapping or {}),
                "score_weights": dict(score_weights or {}),
            }
        )
        for name, each in pool.items():
            if isinstance(each, CriterionMetric):
                pool[name] = each.with_scores(getattr(config.score_mapping, name))
        grading = make_grading(models, aggregation_method, max_concurrent_judges, fallback_models)
        batch = (batch_status_check_interval, batch_max_iterations)
        used = list(pool.values())
        super().__init__("query_transformation", models, grading, run_parallel, used, *batch, metrics_aggregator)
        self._by_name = dict(zip(pool, self.metrics, strict=True))
        self._weights: dict[str, float] = config.score_weights.model_dump()
        self.completeness_metric = self._by_name["completeness"]
        self.groundedness_metric = self.hallucination_metric = self._by_name["groundedness"]
        self.redundancy_metric = self._by_name["redundancy"]
        self.score_mapping = score_mapping
        self.score_weights = score_weights
        self._check_options_used()

    def _members(self) -> list[Member]:
        return [metric.member(name, weight=self._weights[name]) for name, metric in self._by_name.items()]


def _criterion_metric(name: str) -> CriterionMetric:
    criterion = next(each for each in query_transformation.CRITERIA if each.name == name)
    return CriterionMetric(criterion, CriterionPart(), Grading())


class AgentEvaluator(JudgedEvaluator):
    """Grades tool calls and answer, and also the item's trajectory if a trajectory metric is given."""

    input_type = AgentData

    def __init__(
        self,
        models: Models = None,
        tool_correctness_metric: DeepEvalToolCorrectnessMetric | None = None,
        generation_evaluator: GEvalGenerationEvaluator | None = None,
        trajectory_accuracy_metric: LangChainAgentTrajectoryAccuracyMetric | None = None,
        metrics_aggregator: MetricsAggregator | None = None,
        aggregation_method: str | None = DefaultValues.AGGREGATION_METHOD,
        fallback_models: Sequence[Model] | None = None,
    ) -> None:
        """Configure the evaluator; this calls no model.

        Args:
            models: the judges of metrics that set no models.
            tool_correctness_metric: grades the tool calls.
            generation_evaluator: grades the answer.
            trajectory_accuracy_metric: grades the trajectory; neither score nor verdict depends on it.
            metrics_aggregator: see the base class.
            aggregation_method: how the verdicts of several judges are combined.
            fallback_models: models that replace a judge without a verdict.

        Raises:
            ValueError: a setting is invalid.
        """
        for option, given, kind in (
            ("tool_correctness_metric", tool_correctness_metric, DeepEvalToolCorrectnessMetric),
            ("generation_evaluator", generation_evaluator, BaseGenerationEvaluator),
            ("trajectory_accuracy_metric", trajectory_accuracy_metric, LangChainAgentTrajectoryAccuracyMetric),
        ):
            if given is not None and not isinstance(given, kind):
                raise ValueError(f"{option} must be a {kind.__name__}, not {type(given).__name__}")
        grading = make_grading(models, aggregation_method, fallback_models=fallback_models)
        self.tool_correctness_metric = tool_correctness_metric or DeepEvalToolCorrectnessMetric()
        self.generation_evaluator = (generation_evaluator or GEvalGenerationEvaluator()).with_grading(grading)
        metrics: list[AnyMetric] = [self.tool_correctness_metric]
        metrics += [] if trajectory_accuracy_metric is None else [trajectory_accuracy_metric]
        super().__init__("agent", models, grading, True, metrics, INTERVAL_S, ITERATIONS, metrics_aggregator)
        self.trajectory_accuracy_metric = self.metrics[1] if trajectory_accuracy_metric else None
        self._check_options_used()

    def parts(self) -> list[BaseMetric]:
        """Return all metrics, including those that grade the answer."""
        return [*self.metrics, *self.generation_evaluator.parts()]

    def _members(self) -> list[Member]:
        return [self.tool_correctness_metric.member(), Member("generation", self.generation_evaluator.evaluator)]

    def _evaluator_for(self, inputs: Mapping[str, Any]) -> PresetEvaluator:
        members = self._members()
        if self.trajectory_accuracy_metric is not None and EvalParam.TOOL_INVOCATIONS in inputs:
            members.append(self.trajectory_accuracy_metric.member(neutral=True))
        return PresetEvaluator(self.name, members, timeout=None)

    @staticmethod
    def format_tool_violation(tool_score: float, tool_passed: bool, tool_threshold: float) -> str:
        """Return a sentence that states by how much the tool calls miss their threshold."""
        return aggregate_explanation([Part(TOOL_CORRECTNESS, tool_score, tool_passed, "maximize", tool_threshold, "")])
