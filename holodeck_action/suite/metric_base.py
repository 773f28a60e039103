"""What metric entries have in common."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.suite.base import Flag, FormatModel, Integer, MaybeText, UnitInterval
from holodeck_action.suite.judging import Judges

EvaluationParam = Literal["input", "actual_output", "expected_output", "context", "retrieval_context"]
VALID_EVALUATION_PARAMS = frozenset[str](get_args(EvaluationParam))
"""What a judge can be shown of an item."""
ArgumentMatching = Literal["exact", "subset", "ignore"]


class MetricModel(FormatModel):
    """What every metric entry has."""

    enabled: Flag = True
    """False: the metric is shown as skipped and asserts nothing."""
    fail_on_error: Flag = False
    """True: an evaluation that could not be done fails its case; false: it only counts against completeness."""
    timeout_ms: Annotated[Integer, Field(gt=0)] | None = None
    """Milliseconds one evaluation may take; 60,000 when absent."""
    retry_on_failure: Annotated[Integer, Field(ge=1, le=3)] | None = None
    """How often a transient failure of the evaluation is tried again."""
    name: MaybeText = None
    """The name shown in reports and used by gates; derived from the metric when absent."""


class ToolCallComparison(FormatModel):
    """How DeepEval compares the tool calls made with the expected ones (evaluators §6)."""

    threshold: UnitInterval = 0.5
    """Lowest passing score."""
    evaluation_params: list[Literal["input_parameters"]] = Field(default=[])
    """What is compared besides names."""
    should_exact_match: Flag = False
    """True: 1.0 when the calls are the expected ones, in order, else 0.0."""
    should_consider_ordering: Flag = False
    """True: the expected calls count as far as they were made in order."""
    strict_mode: Flag = False
    """True: a score below 1 is 0, and the threshold is 1."""


class JudgedMetric(MetricModel):
    """What every metric has that a model may grade."""

    judges: Judges | None = None
    """A panel of models that grade instead of one; what it leaves out is as the policy file says."""

    @model_validator(mode="after")
    def _model_or_panel(self) -> Self:
        if self.judges is not None and self.judges.models and getattr(self, "model", None) is not None:
            raise PydanticCustomError("judges", "names models, and so does model: give one of them")
        return self
