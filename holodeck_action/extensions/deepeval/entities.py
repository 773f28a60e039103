"""Inputs and settings of DeepEval's metrics (HoloDeck DeepEval data model §1.2, §1.3 and §2.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from msgspec import Struct
from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field

from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from holodeck_action.metrics.result import check_threshold
from holodeck_action.suite.model.metric_base import VALID_EVALUATION_PARAMS

Params = TypeVar("Params", bound=Sequence[str])


def check_criteria(criteria: str) -> str:
    """Return the criteria after checking that they are not blank.

    Raises:
        ValueError: the criteria are blank.
    """
    if not criteria.strip():
        raise ValueError("criteria must not be empty")
    return criteria


def check_params(params: Params) -> Params:
    """Return the names of evaluation parameters after checking them.

    Raises:
        ValueError: a parameter is unknown, or `actual_output` is missing.
    """
    unknown = [param for param in params if param not in VALID_EVALUATION_PARAMS]
    if unknown:
        raise ValueError(
            f"evaluation_params: {unknown[0]!r} is not one of {', '.join(sorted(VALID_EVALUATION_PARAMS))}"
        )
    if "actual_output" not in params:
        raise ValueError("evaluation_params must contain actual_output: it is the answer that is graded")
    return params


class EvaluationInput(BaseModel):
    """The inputs of one evaluation; `query`, `response` and `ground_truth` are aliases of the first three fields.

    Raises:
        ValidationError: the answer is missing, or a value has the wrong type.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    input: str | None = Field(default=None, validation_alias=AliasChoices("input", "query"))
    """The question; required by every metric except faithfulness."""
    actual_output: str = Field(validation_alias=AliasChoices("actual_output", "response"))
    expected_output: str | None = Field(default=None, validation_alias=AliasChoices("expected_output", "ground_truth"))
    context: str | None = None
    retrieval_context: list[str] | None = None
    metadata: dict[str, Any] | None = None
    """Information about the item for the caller; metrics do not use it."""

    def inputs(self) -> Mapping[str, Any]:
        """Return the given inputs by name."""
        return self.model_dump(exclude={"metadata"}, exclude_none=True)


class GEvalConfig(BaseModel):
    """Settings of a G-Eval, for `GEvalEvaluator.from_config`.

    Attributes:
        name: name of the metric.
        criteria: criteria for grading, in words.
        evaluation_steps: steps that the judge follows; the judge writes them if None.
        evaluation_params: inputs that the judge sees; must contain `actual_output`.
        threshold: lowest passing score, 0..1.
        strict_mode: whether the judge answers only 1 or 0.

    Raises:
        ValidationError: the criteria are empty, a parameter is unknown, `actual_output` is missing, the threshold is
            outside 0..1, or a value has the wrong type.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    criteria: Annotated[str, AfterValidator(check_criteria)]
    evaluation_steps: list[str] | None = None
    evaluation_params: Annotated[list[str], AfterValidator(check_params)] = ["actual_output"]
    threshold: Annotated[float, AfterValidator(check_threshold)] = 0.5
    strict_mode: bool = False


class RAGMetricConfig(Struct, frozen=True):
    """Settings of a RAG metric, for `from_config` of its evaluator.

    Attributes:
        threshold: lowest passing score, 0..1.
        include_reason: whether the judge explains the score.
        model_config: the model that grades; evaluation fails if it is missing.

    Raises:
        ValueError: the threshold is outside 0..1.
    """

    threshold: float = 0.5
    include_reason: bool = True
    model_config: DeepEvalModelConfig | None = None

    def __post_init__(self) -> None:
        check_threshold(self.threshold)
