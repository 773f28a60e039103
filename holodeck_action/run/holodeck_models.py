"""HoloDeck's models that hold metrics, for Python code that makes them by hand: with the metrics of this package."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainValidator

from holodeck_action.metrics.registry import built_in
from holodeck_action.suite.model.agent import EvaluationConfig as SuiteEvaluations
from holodeck_action.suite.model.metric_base import Metric

MetricType = Annotated[Metric, PlainValidator(lambda value: built_in().read("suite", value))]
"""An entry of `evaluations.metrics` (`holodeck.models.evaluation.MetricType`)."""


class EvaluationConfig(SuiteEvaluations):
    """`evaluations` of agent.yaml (`holodeck.models.evaluation.EvaluationConfig`)."""

    metrics: Annotated[list[MetricType], Field(min_length=1)]
