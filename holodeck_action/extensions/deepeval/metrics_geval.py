"""`type: geval`: criteria in plain words, graded by a judge model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.metrics.base import BaseEvaluator, BuildContext
from holodeck_action.suite.model.base import Flag, NonBlank, UnitInterval
from holodeck_action.suite.model.metric_base import EvaluationParam, JudgeCalls, QuestionMetric, Role
from holodeck_action.suite.model.providers import LLMProvider

INPUT_OF_PARAM = {"expected_output": "ground_truth", "retrieval_context": "retrieval_context", "context": "context"}
"""The input of a turn that each parameter needs; question and answer always exist, and are omitted."""

_VARIABLE = r"\$\{[A-Za-z_]"
ANSWER_IS_SHOWN: dict[str, Any] = {"contains": {"anyOf": [{"const": "actual_output"}, {"pattern": _VARIABLE}]}}
"""JSON Schema rule: the evaluation parameters must contain `actual_output` or a template variable."""


def check_params(params: list[EvaluationParam]) -> None:
    """Refuse evaluation parameters without the answer.

    Raises:
        PydanticCustomError: `actual_output` is missing.
    """
    if "actual_output" not in params:
        raise PydanticCustomError("evaluation_params", "must contain actual_output: it is the answer that is graded")


class GEvalMetric(QuestionMetric):
    """`type: geval`: criteria in your own words, graded by a judge."""

    PLACE = 2
    IDENTIFYING_KEY = "criteria"
    SCHEMA_RULES = ({"properties": {"evaluation_params": ANSWER_IS_SHOWN}},)
    SCORE_IS_THRESHOLD_FREE = True

    type: Annotated[Literal["geval"], Role.KIND] = "geval"
    name: Annotated[NonBlank, Role.NAME]
    """The name in reports and gates. Example: `Helpfulness`."""
    criteria: NonBlank
    """The criteria for grading, in words. Example: `The answer tells the customer what to do next.`."""
    evaluation_steps: list[NonBlank] | None = None
    """The steps that the judge follows. When absent, it writes them once per run. Example: `[Look for a step that the
    customer can take.]`."""
    evaluation_params: list[EvaluationParam] = Field(default=["actual_output"], min_length=1)
    """The inputs that the judge sees; `actual_output` is required. Example: `[actual_output, input]`."""
    strict_mode: Flag = False
    """The judge answers 1 or 0."""
    threshold: Annotated[UnitInterval | None, Role.PASS_MARK] = None
    """Lowest passing score; 0.5 when absent. Example: `0.7`."""
    model: Annotated[LLMProvider | None, Role.JUDGES] = None
    """The judge; `evaluations.model` when absent."""

    @model_validator(mode="after")
    def _check_answer_is_graded(self) -> GEvalMetric:
        check_params(self.evaluation_params)
        if self.sees_conversation and "input" not in self.evaluation_params:
            raise PydanticCustomError(
                "sees", "adds to the question, which this judge does not see: add input to evaluation_params"
            )
        if self.grades_conversation and "context" in self.evaluation_params:
            raise PydanticCustomError(
                "evaluation_params",
                "must not contain context with scope: conversation: the texts of files belong to one turn",
            )
        return self

    @property
    def needs(self) -> frozenset[str]:
        """The inputs that the judge sees."""
        return frozenset(INPUT_OF_PARAM[name] for name in self.evaluation_params if name in INPUT_OF_PARAM)

    @property
    def pass_mark(self) -> float | None:
        """The threshold; 0.5 if none is given."""
        return 0.5 if self.threshold is None else self.threshold

    def base_name(self, k: int | None) -> str:
        """Return the metric's name."""
        return self.name

    @property
    def library(self) -> str | None:
        """Name of the library that grades."""
        return "deepeval"

    def judge_calls(self) -> Iterator[JudgeCalls]:
        """Yield the number of judge calls per evaluation, and whether the judge also writes the steps."""
        yield JudgeCalls(self, 1, writes_steps=self.evaluation_steps is None)

    def evaluator(self, building: BuildContext) -> BaseEvaluator:
        """Create the evaluator of the metric."""
        from holodeck_action.extensions.deepeval.geval import GEvalEvaluator

        return building.judged_evaluator(
            self,
            GEvalEvaluator,
            name=self.name,
            criteria=self.criteria,
            evaluation_params=self.evaluation_params,
            evaluation_steps=self.evaluation_steps,
            strict_mode=self.strict_mode,
            threshold=self.pass_mark,
        )
