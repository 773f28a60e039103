"""What is known about a metric before any answer: its evaluator and what is asked of it, once per metric entry."""

from __future__ import annotations

from dataclasses import dataclass

from holodeck_action.metrics.base import BaseEvaluator
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.results.evaluation import Criteria
from holodeck_action.scoring.registry import EvaluatorRegistry, timeout_of
from holodeck_action.suite.values import MetricSpec


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
                response_path=spec.config.answer_path,
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
    return Criteria(
        kind=config.type,
        metric=config.measure,
        threshold=config.pass_mark,
        asserts=config.asserts,
        polarity=config.polarity,
        fail_on_error=config.fail_on_error,
        settings=config.criteria_settings() | ({} if spec.k is None else {"k": spec.k}),
        pass_values=config.passing_categories,
        source=spec.mark,
    )
