"""`type: azure`, which selects an evaluator of Azure AI Evaluation by the name of its class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from holodeck_action.extensions.azure.catalogue import AzureEntry, evaluator_names, find_evaluator
from holodeck_action.metrics.base import BaseEvaluator, BuildContext
from holodeck_action.metrics.judging.class_metric import ClassMetric
from holodeck_action.suite.model.metric_base import Role
from holodeck_action.suite.model.probing import Exam


class AzureClassMetric(ClassMetric):
    """`type: azure`: an evaluator of Azure AI Evaluation, by the name of its class.

    The option `tool_definitions` lists the tools available to the agent, each as `{name, description, parameters}`.
    """

    PLACE = 31
    TITLE = "Azure AI Evaluation"

    type: Annotated[Literal["azure"], Role.KIND] = "azure"

    @classmethod
    def class_names(cls) -> tuple[str, ...]:
        """Return the class names of all evaluators in Azure AI Evaluation."""
        return evaluator_names()

    @classmethod
    def exams(cls) -> Mapping[str, Exam]:
        """Return the pairs by which judges are probed, by name of the class."""
        from holodeck_action.extensions.azure.exams import EXAMS

        return EXAMS

    @classmethod
    def find_class(cls, name: str) -> AzureEntry | str | None:
        """Return the named evaluator, or the reason why a suite cannot use it; None if there is no such evaluator."""
        return find_evaluator(name)

    @property
    def library(self) -> str | None:
        """Name of the library that grades."""
        return "azure"

    def evaluator(self, building: BuildContext) -> BaseEvaluator:
        """Create the evaluator of the metric."""
        from holodeck_action.extensions.azure.class_evaluator import AzureClassEvaluator

        self.require_entry()
        return building.judged_evaluator(
            self,
            AzureClassEvaluator,
            metric=self.metric,
            options=dict(self.option_values),
            threshold=self.pass_mark,
        )
