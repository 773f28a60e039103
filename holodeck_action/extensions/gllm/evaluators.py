"""The evaluators of gllm-evals with their constructors: each runs what the YAML type of its kind runs.

Options for judges reach every metric that leaves them open, also one that is passed in. An option that would have no
effect is refused, and so are other values of `batch_status_check_interval` and `batch_max_iterations` than the default:
judges are asked one by one here, and no batch job of a provider is waited for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Self, cast, get_args

from holodeck_action.extensions.gllm.base import (
    CHECK_S,
    CHECKS,
    AnyMetric,
    BaseEvaluator,
    JudgedEvaluator,
    MetricsAggregator,
)
from holodeck_action.extensions.gllm.graded import BaseMetric, metric_of
from holodeck_action.extensions.gllm.inputs import AgentData, ExpectedData, RAGData, RetrievalData, RetrievedData
from holodeck_action.extensions.gllm.judging import DefaultValues, Grading, Model, Models, grading_of
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
from holodeck_action.metrics.params import EvalParam, one_of
from holodeck_action.metrics.retrieval import RetrievalName

_K = 20
"""The cut-off rank that gllm-evals has."""


class CompositeEvaluator(BaseEvaluator):
    """Any metrics as one."""

    def __init__(
        self,
        metrics: Sequence[AnyMetric],
        name: str = "composite",
        parallel: bool = True,
        metrics_aggregator: MetricsAggregator | None = None,
    ) -> None:
        """Configure; `parallel` runs the metrics at the same time. For the rest see the base class."""
        super().__init__(name, metrics, metrics_aggregator=metrics_aggregator)
        self.parallel = self.run_parallel = parallel


class ClassicalRetrievalEvaluator(BaseEvaluator):
    """Retrieved chunks against the relevant ones; without metrics of your own all six, at every rank of `k`."""

    input_type = RetrievalData

    def __init__(
        self,
        metrics: Sequence[str | ClassicalRetrievalMetric] | None = None,
        k: int | list[int] = _K,
        metrics_aggregator: MetricsAggregator | None = None,
    ) -> None:
        """Configure.

        Args:
            metrics: metrics, or names such as `recall_at_k`.
            k: one cut-off rank, or several, for the names.
            metrics_aggregator: see the base class.

        Raises:
            ValueError: a name or rank that is none.
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
                known = cast(RetrievalName, one_of("metrics", metric, get_args(RetrievalName)))
                found += [ClassicalRetrievalMetric(known, at) for at in ranks]
        super().__init__("classical_retrieval", found, metrics_aggregator=metrics_aggregator)
        self.k = k


class BaseGenerationEvaluator(JudgedEvaluator):
    """An answer by completeness, groundedness and redundancy, unless it refuses."""

    input_type: ClassVar[type | None] = ExpectedData

    def __init__(
        self,
        models: Models = None,
        metrics: Sequence[AnyMetric] | None = None,
        aggregation_method: str | None = None,
        max_concurrent_judges: int | None = None,
        run_parallel: bool = True,
        refusal_metric: GEvalRefusalMetric | None = None,
        batch_status_check_interval: float = CHECK_S,
        batch_max_iterations: int = CHECKS,
        metrics_aggregator: MetricsAggregator | None = None,
        fallback_models: Sequence[Model] | None = None,
    ) -> None:
        """Configure; nothing is asked.

        Args:
            models: who grades: one model, the same one several times, or several.
            metrics: metrics instead of the built-in ones, with judges of their own.
            aggregation_method: how the verdicts of several judges become one.
            max_concurrent_judges: judges asked at once; all when absent.
            run_parallel: whether the metrics are graded at the same time.
            refusal_metric: finds out whether an answer refuses.
            batch_status_check_interval: see the module.
            batch_max_iterations: see the module.
            metrics_aggregator: see the base class.
            fallback_models: stand in for a judge that gives no verdict.

        Raises:
            ValueError: a setting that is none.
        """
        grading = grading_of(models, aggregation_method, max_concurrent_judges, fallback_models)
        if metrics is None:
            metrics = [GEvalCompletenessMetric(), GEvalGroundednessMetric(), GEvalRedundancyMetric()]
        batch = (batch_status_check_interval, batch_max_iterations)
        super().__init__("generation", models, grading, run_parallel, metrics, *batch, metrics_aggregator)
        if refusal_metric is not None and not isinstance(refusal_metric, GEvalRefusalMetric):
            raise ValueError(f"refusal_metric must be a GEvalRefusalMetric, not {type(refusal_metric).__name__}")
        self.refusal_metric = (refusal_metric or GEvalRefusalMetric()).graded_by(grading)
        self._check_reach()

    def graded_by(self, grading: Grading) -> Self:
        """Return the evaluator with another one's options for what its metrics leave open."""
        found = copy(self)
        found.metrics = [metric.graded_by(grading) for metric in self.metrics]
        found.refusal_metric = self.refusal_metric.graded_by(grading)
        return found

    def parts(self) -> list[BaseMetric]:
        """Return its metrics, and what finds out whether an answer refuses."""
        return [*self.metrics, self.refusal_metric]

    @property
    def evaluator(self) -> PresetEvaluator:
        """What evaluates: this package's evaluator of the same kind."""
        refusal = self.refusal_metric.evaluator
        return GenerationEvaluator(
            self.name, self._members(), refusal=refusal, parallel=self.run_parallel, timeout=None
        )


class GEvalGenerationEvaluator(BaseGenerationEvaluator):
    """An answer by completeness, groundedness and redundancy, unless it refuses."""


class SummarizationEvaluator(JudgedEvaluator):
    """A summary of the input by coherence, consistency, fluency and relevance."""

    input_type = RAGData
    PRESET = TextEvaluator

    def __init__(
        self,
        models: Models = None,
        metrics: Sequence[AnyMetric] | None = None,
        aggregation_method: str | None = DefaultValues.AGGREGATION_METHOD,
        run_parallel: bool = True,
        batch_status_check_interval: float = CHECK_S,
        batch_max_iterations: int = CHECKS,
        metrics_aggregator: MetricsAggregator | None = None,
        fallback_models: Sequence[Model] | None = None,
    ) -> None:
        """Configure; see `BaseGenerationEvaluator` for the arguments."""
        grading = grading_of(models, aggregation_method, fallback_models=fallback_models)
        if metrics is None:
            metrics = [
                GEvalCoherenceMetric(),
                GEvalConsistencyMetric(),
                GEvalFluencyMetric(),
                GEvalRelevanceMetric(),
            ]
        batch = (batch_status_check_interval, batch_max_iterations)
        super().__init__("summarization", models, grading, run_parallel, metrics, *batch, metrics_aggregator)
        self._check_reach()


class LMBasedRetrievalEvaluator(JudgedEvaluator):
    """The retrieved texts by contextual precision and recall; results have `relevancy_rating` and `score`, too."""

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
        """Configure.

        Args:
            models: who grades the built-in metrics.
            metrics: further metrics; one replaces the built-in metric of its name.
            enabled_metrics: names or classes of those that are used; all when absent.
            run_parallel: whether the metrics are graded at the same time.
            metrics_aggregator: see the base class.
            fallback_models: stand in for a judge that gives no verdict.

        Raises:
            ValueError: a setting that is none, or no metric of an enabled name.
        """
        built_in = (DeepEvalContextualPrecisionMetric(), DeepEvalContextualRecallMetric())
        pool = {metric.name: metric for metric in map(metric_of, (*built_in, *(metrics or ())))}
        if enabled_metrics is not None:
            names = [name if isinstance(name, str) else getattr(name, "NAME", "") for name in enabled_metrics]
            unknown = [name for name in names if name not in pool]
            if unknown or not names:
                raise ValueError(f"enabled_metrics must name some of {', '.join(pool)}, not {enabled_metrics!r:.200}")
            pool = {name: metric for name, metric in pool.items() if name in names}
        grading = grading_of(models, fallback_models=fallback_models)
        batch = (CHECK_S, CHECKS)
        used = list(pool.values())
        super().__init__("lm_retrieval", models, grading, run_parallel, used, *batch, metrics_aggregator)
        self.enabled_metrics = enabled_metrics
        self._check_reach()

    def _left_out(self) -> tuple[str, ...]:
        return ()


class QTEvaluator(JudgedEvaluator):
    """A rewritten query by completeness, groundedness and redundancy."""

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
        batch_status_check_interval: float = CHECK_S,
        batch_max_iterations: int = CHECKS,
        metrics_aggregator: MetricsAggregator | None = None,
        fallback_models: Sequence[Model] | None = None,
    ) -> None:
        """Configure.

        Args:
            models: who grades the built-in metrics.
            completeness_metric: instead of the built-in one, and so the other two.
            groundedness_metric: see above.
            redundancy_metric: see above.
            aggregation_method: how the verdicts of several judges become one.
            max_concurrent_judges: judges asked at once; all when absent.
            run_parallel: whether the metrics are graded at the same time.
            score_mapping: what each level of a built-in metric's rubric is worth; evenly spread when absent.
            score_weights: the share of each metric in the score; equal when absent.
            batch_status_check_interval: see the module.
            batch_max_iterations: see the module.
            metrics_aggregator: see the base class.
            fallback_models: stand in for a judge that gives no verdict.

        Raises:
            ValueError: a setting that is none.
        """
        own = {
            "completeness": completeness_metric,
            "groundedness": groundedness_metric,
            "redundancy": redundancy_metric,
        }
        pool = {name: _criterion_metric(name) if given is None else metric_of(given) for name, given in own.items()}
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
                pool[name] = each.scored(getattr(config.score_mapping, name))
        grading = grading_of(models, aggregation_method, max_concurrent_judges, fallback_models)
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
        self._check_reach()

    def _members(self) -> list[Member]:
        return [metric.member(name, weight=self._weights[name]) for name, metric in self._by_name.items()]


def _criterion_metric(name: str) -> CriterionMetric:
    criterion = next(each for each in query_transformation.CRITERIA if each.name == name)
    return CriterionMetric(criterion, CriterionPart(), Grading())


class AgentEvaluator(JudgedEvaluator):
    """Tool calls and answer together; the trajectory is shown where a metric for it and the trajectory are given."""

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
        """Configure; nothing is asked.

        Args:
            models: who grades where a part is not given.
            tool_correctness_metric: grades the tool calls.
            generation_evaluator: grades the answer.
            trajectory_accuracy_metric: looks at the way to the answer; neither score nor verdict depend on it.
            metrics_aggregator: see the base class.
            aggregation_method: how the verdicts of several judges become one.
            fallback_models: stand in for a judge that gives no verdict.

        Raises:
            ValueError: a setting that is none.
        """
        for option, given, kind in (
            ("tool_correctness_metric", tool_correctness_metric, DeepEvalToolCorrectnessMetric),
            ("generation_evaluator", generation_evaluator, BaseGenerationEvaluator),
            ("trajectory_accuracy_metric", trajectory_accuracy_metric, LangChainAgentTrajectoryAccuracyMetric),
        ):
            if given is not None and not isinstance(given, kind):
                raise ValueError(f"{option} must be a {kind.__name__}, not {type(given).__name__}")
        grading = grading_of(models, aggregation_method, fallback_models=fallback_models)
        self.tool_correctness_metric = tool_correctness_metric or DeepEvalToolCorrectnessMetric()
        self.generation_evaluator = (generation_evaluator or GEvalGenerationEvaluator()).graded_by(grading)
        metrics: list[AnyMetric] = [self.tool_correctness_metric]
        metrics += [] if trajectory_accuracy_metric is None else [trajectory_accuracy_metric]
        super().__init__("agent", models, grading, True, metrics, CHECK_S, CHECKS, metrics_aggregator)
        self.trajectory_accuracy_metric = self.metrics[1] if trajectory_accuracy_metric else None
        self._check_reach()

    def parts(self) -> list[BaseMetric]:
        """Return its metrics, and those of the answer."""
        return [*self.metrics, *self.generation_evaluator.parts()]

    def _members(self) -> list[Member]:
        return [self.tool_correctness_metric.member(), Member("generation", self.generation_evaluator.evaluator)]

    def _for(self, given: Mapping[str, Any]) -> PresetEvaluator:
        members = self._members()
        if self.trajectory_accuracy_metric is not None and EvalParam.TOOL_INVOCATIONS in given:
            members.append(self.trajectory_accuracy_metric.member(neutral=True))
        return PresetEvaluator(self.name, members, timeout=None)

    @staticmethod
    def format_tool_violation(tool_score: float, tool_passed: bool, tool_threshold: float) -> str:
        """Say by how much the tool calls miss their threshold."""
        return aggregate_explanation([Part(TOOL_CORRECTNESS, tool_score, tool_passed, "maximize", tool_threshold, "")])
