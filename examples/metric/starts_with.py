"""A metric in a package of its own: whether the answer starts with the expected text."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from holodeck_action.metrics.base import Building, DeterministicEvaluator, EvalParam, EvaluationResult, ParamSpec
from holodeck_action.suite.model.base import Flag
from holodeck_action.suite.model.metric_base import GROUND_TRUTH, Metric, Role


class StartsWithMetric(Metric):
    """`type: starts_with`: whether the answer starts with the ground truth."""

    type: Annotated[Literal["starts_with"], Role.KIND] = "starts_with"
    case_insensitive: Flag = False
    """Compare case-folded text."""

    @property
    def needs(self) -> frozenset[str]:
        """The expected text."""
        return GROUND_TRUTH

    @property
    def pass_mark(self) -> float | None:
        """All or nothing; None would make the metric informational."""
        return 1.0

    def evaluator(self, building: Building) -> StartsWithEvaluator:
        """Return what scores."""
        return StartsWithEvaluator(self.case_insensitive, **building.options)


class StartsWithEvaluator(DeterministicEvaluator):
    """1.0 when the answer starts with the ground truth, else 0.0."""

    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE, EvalParam.GROUND_TRUTH}))

    def __init__(self, case_insensitive: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._case_insensitive = case_insensitive

    def compute(self, **kwargs: Any) -> EvaluationResult:
        """Compare `response` with `ground_truth`, the parameters of `PARAM_SPEC`."""
        response, expected = kwargs["response"], kwargs["ground_truth"]
        if self._case_insensitive:
            response, expected = response.casefold(), expected.casefold()
        found = response.startswith(expected)
        return EvaluationResult(
            score=1.0 if found else 0.0,
            passed=found,
            reasoning=f"the answer {'starts' if found else 'does not start'} with the expected text",
            metric_name="starts_with",
        )
