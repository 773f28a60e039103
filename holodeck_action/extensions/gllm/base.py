"""Base classes of gllm-evals' evaluators, which run several metrics on an item and aggregate the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from holodeck_action.extensions.gllm.inputs import gllm_name, normalize_inputs
from holodeck_action.extensions.gllm.judging import DefaultValues, Grading, Models, check_options_used
from holodeck_action.extensions.gllm.metric_bases import (
    BaseMetric,
    aggregate_keys,
    check_inputs,
    to_gllm_result,
    to_metric,
)
from holodeck_action.metrics.aggregation import Part, aggregate_explanation, aggregate_score, aggregate_success
from holodeck_action.metrics.base import BaseEvaluator as Evaluator
from holodeck_action.metrics.errors import evaluate_items
from holodeck_action.metrics.metric_sets import Member, PresetEvaluator
from holodeck_action.metrics.params import aggregate_fields

INTERVAL_S, ITERATIONS = DefaultValues.BATCH_STATUS_CHECK_INTERVAL, DefaultValues.BATCH_MAX_ITERATIONS
AnyMetric = BaseMetric | Evaluator


class MetricsAggregator:
    """Aggregates results: success if all metrics succeed, and the mean score (1 − score for metrics to minimize)."""

    def aggregate(self, results: Sequence[Part]) -> dict[str, Any]:
        """Return `aggregate_explanation`, `aggregate_success` and `aggregate_score`."""
        return aggregate_keys(aggregate_score(results), aggregate_success(results), aggregate_explanation(results))


class BaseEvaluator:
    """Runs several metrics on an item and aggregates the results.

    Attributes:
        name: name of the evaluator.
        metrics: the metrics.
        input_type: type of an item's inputs; None if it depends on the metrics.
        metrics_aggregator: aggregates the results of the metrics.
    """

    input_type: ClassVar[type | None] = None
    PRESET: ClassVar[type[PresetEvaluator]] = PresetEvaluator

    def __init__(
        self,
        name: str,
        metrics: Sequence[AnyMetric] | None = None,
        batch_status_check_interval: float = INTERVAL_S,
        batch_max_iterations: int = ITERATIONS,
        metrics_aggregator: MetricsAggregator | None = None,
    ) -> None:
        """Configure the evaluator; this calls no model.

        Args:
            name: name of the evaluator.
            metrics: the metrics.
            batch_status_check_interval: must be the default, since judges are called directly, without batch jobs.
            batch_max_iterations: must be the default, for the same reason.
            metrics_aggregator: must be None or a `MetricsAggregator`.

        Raises:
            ValueError: a setting is invalid or would have no effect.
        """
        if not batch_status_check_interval > 0 or not batch_max_iterations > 0:
            raise ValueError("batch_status_check_interval and batch_max_iterations must be positive")
        for option, value, default in (
            ("batch_status_check_interval", batch_status_check_interval, INTERVAL_S),
            ("batch_max_iterations", batch_max_iterations, ITERATIONS),
        ):
            if value != default:
                raise ValueError(
                    f"{option} has no effect: judges are called one by one, not in a batch job; leave it out"
                )
        if metrics is not None and not metrics:
            raise ValueError(f"metrics of {name} must hold at least one metric")
        if metrics_aggregator is not None and type(metrics_aggregator) is not MetricsAggregator:
            raise ValueError(
                "the way scores are combined is fixed: metrics_aggregator must be None or a MetricsAggregator"
            )
        self.name = name
        self.metrics = [to_metric(metric) for metric in metrics or ()]
        self.metrics_aggregator = metrics_aggregator or MetricsAggregator()
        self.batch_status_check_interval = batch_status_check_interval
        self.batch_max_iterations = batch_max_iterations
        self.run_parallel = True

    @property
    def evaluator(self) -> PresetEvaluator:
        """The corresponding evaluator of this package."""
        return self.PRESET(self.name, self._members(), parallel=self.run_parallel, timeout=None)

    def parts(self) -> list[BaseMetric]:
        """Return all metrics, including the metrics of nested evaluators."""
        return self.metrics

    def _members(self) -> list[Member]:
        return [metric.member() for metric in self.metrics]

    def _evaluator_for(self, inputs: Mapping[str, Any]) -> PresetEvaluator:
        """Return the evaluator to use for an item with these inputs."""
        return self.evaluator

    @property
    def required_fields(self) -> set[str]:
        """The names of the required inputs."""
        return {gllm_name(param) for param in self.evaluator.PARAM_SPEC.required}

    async def evaluate(self, data: Any) -> Any:
        """Evaluate one item, or a list of items concurrently.

        Args:
            data: a mapping of inputs, an object with inputs as attributes, or a list of these.

        Returns:
            A dict of `aggregate_explanation`, `aggregate_success` (None if no metric has a threshold),
            `aggregate_score` and the result of each metric under its name. For a list, a list of such dicts.

        Raises:
            EvaluationError: a metric has no model (code `no_judge`), raised before any call; otherwise see
                `metrics.base.BaseEvaluator.evaluate`. For a list, an `ItemsError` with the results of the other items
                is raised after all items are done.
        """
        for part in self.parts():
            part.check_judge()
        if not isinstance(data, list):
            return await self._evaluate(data)
        return await evaluate_items(map(self._evaluate, data))

    async def _evaluate(self, data: object) -> dict[str, Any]:
        given = normalize_inputs(data)
        evaluator = self._evaluator_for(given)
        check_inputs(self.name, evaluator, given)
        result = await evaluator.evaluate(given)
        facts = {"score": result.score, "passed": result.passed, "explanation": result.reasoning}
        merged = to_gllm_result({**result.metadata, **facts})
        for name in ("passed", "explanation", "success", *self._omitted_keys()):
            merged.pop(name, None)
        return {**merged, **aggregate_keys(result.score, result.passed, result.reasoning)}

    def _omitted_keys(self) -> tuple[str, ...]:
        return ("score",)

    @staticmethod
    def aggregate_required_fields(metrics: Iterable[AnyMetric], mode: str = "any") -> set[str]:
        """Combine the required fields of metrics by `union` or `intersection`; the mode `any` returns an empty set.

        Raises:
            ValueError: the mode is unknown.
        """
        return aggregate_fields((to_metric(metric).required_fields for metric in metrics), mode)

    @staticmethod
    def can_evaluate_any(metrics: Iterable[AnyMetric], data: object) -> bool:
        """Return whether an item has all required inputs of at least one metric."""
        return any(to_metric(metric).can_evaluate(data) for metric in metrics)

    @staticmethod
    def ensure_list_of_dicts(data: Mapping[str, Any], key: str) -> None:
        """Raise ValueError unless a field is a list of mappings."""
        value = data.get(key)
        if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
            raise ValueError(f"{key} must be a list of dictionaries")

    @staticmethod
    def ensure_non_empty_list(data: Mapping[str, Any], key: str) -> None:
        """Raise ValueError unless a field is a non-empty list."""
        value = data.get(key)
        if not isinstance(value, list) or not value:
            raise ValueError(f"{key} must be a non-empty list")

    @classmethod
    def get_input_fields(cls) -> list[str] | None:
        """Return the names of the inputs; None if the inputs depend on the metrics."""
        spec = cls.get_input_spec()
        return None if spec is None else [entry["name"] for entry in spec]

    @classmethod
    def get_input_spec(cls) -> list[dict[str, Any]] | None:
        """Return `{name, required}` per input; None if the inputs depend on the metrics."""
        if cls.input_type is None:
            return None
        required = cls.input_type.__required_keys__  # type: ignore[attr-defined]
        return [{"name": name, "required": name in required} for name in cls.input_type.__annotations__]


class JudgedEvaluator(BaseEvaluator):
    """An evaluator whose metrics are graded by models. A metric without its own models uses the evaluator's models."""

    def __init__(
        self,
        name: str,
        models: Models,
        grading: Grading,
        run_parallel: bool,
        metrics: Sequence[AnyMetric],
        *arguments: Any,
    ) -> None:
        super().__init__(name, metrics, *arguments)
        self.models = models
        self.run_parallel = run_parallel
        self.metrics = [metric.with_grading(grading) for metric in self.metrics]
        self._given = grading

    def _check_options_used(self) -> None:
        """Check that each option is used by at least one metric; constructors call this last.

        Raises:
            ValueError: see `check_options_used`.
        """
        check_options_used(self.name, self._given, [grading for part in self.parts() for grading in part.gradings()])
