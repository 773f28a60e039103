"""What is known about a metric before any answer: its evaluator and what is asked of it, once per metric entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holodeck_action.metrics.base import BaseEvaluator
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.results.evaluation import Criteria
from holodeck_action.scoring.registry import EvaluatorRegistry, timeout_of
from holodeck_action.suite.applicability import asserts, effective_threshold, polarity_of
from holodeck_action.suite.metrics import (
    AnyMetric,
    CodeMetric,
    CompositeMetric,
    RagMetric,
    RetrievalMetric,
    StandardMetric,
)
from holodeck_action.suite.values import MetricSpec

# Fields that Criteria holds elsewhere, or that say nothing about how the answer is graded.
_NO_SETTINGS = {
    "type",
    "metric",
    "metric_type",
    "grader",
    "name",
    "threshold",
    "enabled",
    "fail_on_error",
    "pass_values",
    "k",
    "model",
    "judges",
}


@dataclass(frozen=True, slots=True)
class PlannedMetric:
    """A metric entry with its evaluator, or with the reason why it has none.

    `timeout_s`: seconds one evaluation may take. `response_path`: the part of the answer that is evaluated.
    """

    spec: MetricSpec
    criteria: Criteria
    evaluator: BaseEvaluator | EvaluationError
    timeout_s: float
    response_path: str | None


class Planner:
    """Plans every metric entry once: cases share their entries."""

    def __init__(self, registry: EvaluatorRegistry) -> None:
        self._registry = registry
        self._planned: dict[int, PlannedMetric] = {}

    def plan(self, spec: MetricSpec) -> PlannedMetric:
        """Return the plan of a metric entry."""
        # By identity: entries hold mappings and lists, and the plan keeps its entry alive.
        planned = self._planned.get(id(spec))
        if planned is None:
            planned = self._planned[id(spec)] = PlannedMetric(
                spec=spec,
                criteria=criteria_of(spec),
                evaluator=self._evaluator(spec),
                timeout_s=timeout_of(spec.config),
                response_path=spec.config.response_path if isinstance(spec.config, StandardMetric) else None,
            )
        return planned

    def _evaluator(self, spec: MetricSpec) -> BaseEvaluator | EvaluationError:
        try:
            return self._registry.build(spec)
        except EvaluationError as error:
            return error


def criteria_of(spec: MetricSpec) -> Criteria:
    """Return what is asked of a metric, complete enough to judge its score without the suite."""
    config = spec.config
    settings: dict[str, Any] = config.model_dump(mode="json", exclude=_NO_SETTINGS, exclude_defaults=True)
    if spec.k is not None:
        settings["k"] = spec.k
    if isinstance(config, CompositeMetric):
        settings["metrics"] = [
            {"type": metric.type, **metric.model_dump(mode="json", exclude_defaults=True)} for metric in config.metrics
        ]
    return Criteria(
        kind=config.type,
        metric=_metric_of(config),
        threshold=effective_threshold(config),
        asserts=asserts(config),
        polarity=polarity_of(config),
        fail_on_error=config.fail_on_error,
        settings=settings,
        pass_values=tuple(config.pass_values) if isinstance(config, CodeMetric) and config.pass_values else None,
        source=spec.mark,
    )


def _metric_of(config: AnyMetric) -> str:
    if isinstance(config, StandardMetric | RetrievalMetric):
        return config.metric
    if isinstance(config, RagMetric):
        return config.metric_type
    return config.grader if isinstance(config, CodeMetric) else config.type
