"""What the evaluators of gllm-evals have in common: several metrics of an item, run and put together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from holodeck_action.extensions.gllm.graded import BaseMetric, aggregates, check_given, contract, metric_of
from holodeck_action.extensions.gllm.inputs import given_inputs, shown_name
from holodeck_action.extensions.gllm.judging import DefaultValues, Grading, Models, check_reach
from holodeck_action.metrics.aggregation import Part, aggregate_explanation, aggregate_score, aggregate_success
from holodeck_action.metrics.base import BaseEvaluator as Evaluator
from holodeck_action.metrics.metric_sets import Member, PresetEvaluator
from holodeck_action.metrics.params import aggregate_fields

CHECK_S, CHECKS = DefaultValues.BATCH_STATUS_CHECK_INTERVAL, DefaultValues.BATCH_MAX_ITERATIONS
AnyMetric = BaseMetric | Evaluator


class MetricsAggregator:
    """The whole of several metrics: all succeed, and the mean of score or 1 − score where low is good."""

    def aggregate(self, parts: Sequence[Part]) -> dict[str, Any]:
        """Return `aggregate_explanation`, `aggregate_success` and `aggregate_score`."""
        return aggregates(aggregate_score(parts), aggregate_success(parts), aggregate_explanation(parts))


class BaseEvaluator:
    """Several metrics of one item, run and put together.

    Attributes:
        name: its name.
        metrics: the metrics.
        input_type: what an item looks like; None where that depends on the metrics.
        metrics_aggregator: how they become one.
    """

    input_type: ClassVar[type | None] = None
    PRESET: ClassVar[type[PresetEvaluator]] = PresetEvaluator

    def __init__(
        self,
        name: str,
        metrics: Sequence[AnyMetric] | None = None,
        batch_status_check_interval: float = CHECK_S,
        batch_max_iterations: int = CHECKS,
        metrics_aggregator: MetricsAggregator | None = None,
    ) -> None:
        """Configure; nothing is asked.

        Args:
            name: its name.
            metrics: the metrics.
            batch_status_check_interval: the default: judges are asked one by one, and no batch job is waited for.
            batch_max_iterations: the default, too.
            metrics_aggregator: None, or a `MetricsAggregator`.

        Raises:
            ValueError: a setting that is none, or that would have no effect.
        """
        if not batch_status_check_interval > 0 or not batch_max_iterations > 0:
            raise ValueError("batch_status_check_interval and batch_max_iterations must be positive")
        for option, value, default in (
            ("batch_status_check_interval", batch_status_check_interval, CHECK_S),
            ("batch_max_iterations", batch_max_iterations, CHECKS),
        ):
            if value != default:
                raise ValueError(f"{option} has no effect: judges are asked one by one, in no batch job; leave it out")
        if metrics is not None and not metrics:
            raise ValueError(f"metrics of {name} must hold at least one metric")
        if metrics_aggregator is not None and type(metrics_aggregator) is not MetricsAggregator:
            raise ValueError("how scores become one is fixed: metrics_aggregator must be None or a MetricsAggregator")
        self.name = name
        self.metrics = [metric_of(metric) for metric in metrics or ()]
        self.metrics_aggregator = metrics_aggregator or MetricsAggregator()
        self.batch_status_check_interval = batch_status_check_interval
        self.batch_max_iterations = batch_max_iterations
        self.run_parallel = True

    @property
    def evaluator(self) -> PresetEvaluator:
        """What evaluates: this package's evaluator of the same kind."""
        return self.PRESET(self.name, self._members(), parallel=self.run_parallel, timeout=None)

    def parts(self) -> list[BaseMetric]:
        """Return everything that it evaluates by, the parts of its evaluators included."""
        return self.metrics

    def _members(self) -> list[Member]:
        return [metric.member() for metric in self.metrics]

    def _for(self, given: Mapping[str, Any]) -> PresetEvaluator:
        """Return what evaluates an item."""
        return self.evaluator

    @property
    def required_fields(self) -> set[str]:
        """The names of the inputs without which it cannot evaluate."""
        return {shown_name(param) for param in self.evaluator.PARAM_SPEC.required}

    async def evaluate(self, data: Any) -> Any:
        """Evaluate one item or a list of them, several at a time.

        Args:
            data: a mapping of inputs, an object with them as attributes, or a list of such.

        Returns:
            A dict of `aggregate_explanation`, `aggregate_success` (None where no metric has a threshold),
            `aggregate_score` and the result of each metric under its name; for a list one per item in its order.

        Raises:
            EvaluationError: a metric has no model to ask (code `no_judge`), before any is asked; else see
                `metrics.base.BaseEvaluator.evaluate`; for a list, the error of the first item in its order that has
                one, once all are done.
        """
        for part in self.parts():
            part.check_judge()
        if not isinstance(data, list):
            return await self._evaluate(data)
        found = await asyncio.gather(*map(self._evaluate, data), return_exceptions=True)
        for outcome in found:
            if isinstance(outcome, BaseException):
                raise outcome
        return found

    async def _evaluate(self, data: object) -> dict[str, Any]:
        given = given_inputs(data)
        evaluator = self._for(given)
        check_given(self.name, evaluator, given)
        result = await evaluator.evaluate(given)
        facts = {"score": result.score, "passed": result.passed, "explanation": result.reasoning}
        told = contract({**result.metadata, **facts})
        for name in ("passed", "explanation", "success", *self._left_out()):
            told.pop(name, None)
        return {**told, **aggregates(result.score, result.passed, result.reasoning)}

    def _left_out(self) -> tuple[str, ...]:
        return ("score",)

    @staticmethod
    def aggregate_required_fields(metrics: Iterable[BaseMetric], mode: str = "any") -> set[str]:
        """Combine the required fields of metrics: `union`, `intersection`, or `any` for none.

        Raises:
            ValueError: another mode.
        """
        return aggregate_fields((metric.required_fields for metric in metrics), mode)

    @staticmethod
    def can_evaluate_any(metrics: Iterable[BaseMetric], data: object) -> bool:
        """Tell whether an item has all that one of the metrics needs."""
        return any(metric.can_evaluate(data) for metric in metrics)

    @staticmethod
    def ensure_list_of_dicts(data: Mapping[str, Any], key: str) -> None:
        """Raise ValueError unless a field is a list of mappings."""
        value = data.get(key)
        if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
            raise ValueError(f"{key} must be a list of dictionaries")

    @staticmethod
    def ensure_non_empty_list(data: Mapping[str, Any], key: str) -> None:
        """Raise ValueError unless a field is a list with something in it."""
        value = data.get(key)
        if not isinstance(value, list) or not value:
            raise ValueError(f"{key} must be a list that is not empty")

    @classmethod
    def get_input_fields(cls) -> list[str] | None:
        """Return the names of the inputs; None where they depend on the metrics."""
        spec = cls.get_input_spec()
        return None if spec is None else [entry["name"] for entry in spec]

    @classmethod
    def get_input_spec(cls) -> list[dict[str, Any]] | None:
        """Return `{name, required}` per input; None where they depend on the metrics."""
        if cls.input_type is None:
            return None
        required = cls.input_type.__required_keys__  # type: ignore[attr-defined]
        return [{"name": name, "required": name in required} for name in cls.input_type.__annotations__]


class JudgedEvaluator(BaseEvaluator):
    """An evaluator whose metrics models grade: its own models where a metric has none."""

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
        self.metrics = [metric.graded_by(grading) for metric in self.metrics]
        self._given = grading

    def _check_reach(self) -> None:
        """Refuse options that no part takes; the last step of a constructor.

        Raises:
            ValueError: see `check_reach`.
        """
        check_reach(self.name, self._given, [grading for part in self.parts() for grading in part.gradings()])
