"""`type: deepeval_tool_correctness`: DeepEval's own number of the tool calls, for which no model is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from holodeck_action.metrics.base import BaseEvaluator, Building
from holodeck_action.suite.model.base import Flag, FormatModel, UnitInterval
from holodeck_action.suite.model.metric_base import TOOLS, Metric, Role


class ToolCallComparison(FormatModel):
    """How DeepEval compares tool calls."""

    threshold: Annotated[UnitInterval, Role.PASS_MARK] = 0.5
    """Lowest passing score; 0.5 when absent. Example: `0.8`."""
    evaluation_params: list[Literal["input_parameters"]] = Field(default=[])
    """`[input_parameters]`: compare arguments, not only names. Example: `[input_parameters]`."""
    should_exact_match: Flag = False
    """1 when the calls are exactly the expected ones, in order, else 0."""
    should_consider_ordering: Flag = False
    """Align calls in order, as a longest common subsequence."""
    strict_mode: Flag = False
    """A score below 1 becomes 0, and the threshold is 1."""


class DeepEvalToolCorrectnessMetric(ToolCallComparison, Metric):
    """`type: deepeval_tool_correctness`: tool calls by DeepEval's own class, without a model."""

    PLACE = 6
    OF_TOOL_CALLS = True

    type: Annotated[Literal["deepeval_tool_correctness"], Role.KIND] = "deepeval_tool_correctness"

    @property
    def needs(self) -> frozenset[str]:
        """The expected calls."""
        return TOOLS

    @property
    def pass_mark(self) -> float | None:
        """The threshold; in strict mode 1."""
        return 1.0 if self.strict_mode else self.threshold

    @property
    def library(self) -> str | None:
        """DeepEval computes it."""
        return "deepeval"

    def computed_by_library(self) -> list[Metric]:
        """Return the metric."""
        return [self]

    @property
    def compares_literals(self) -> bool:
        """Whether it compares arguments: DeepEval knows plain values alone."""
        return bool(self.evaluation_params)

    def notices(self, place: str) -> Iterator[str]:
        """Yield that strict mode has another threshold than the one written."""
        if self.strict_mode and "threshold" in self.model_fields_set and self.threshold != 1:
            yield f"{place}: threshold has no effect on {self.type} with strict_mode: it is 1"

    def evaluator(self, building: Building) -> BaseEvaluator:
        """Return what scores."""
        from holodeck_action.extensions.deepeval.tool_correctness import DeepEvalToolCorrectnessEvaluator

        return DeepEvalToolCorrectnessEvaluator(
            evaluation_params=self.evaluation_params,
            should_exact_match=self.should_exact_match,
            should_consider_ordering=self.should_consider_ordering,
            strict_mode=self.strict_mode,
            threshold=self.pass_mark,
            **building.options,
        )
