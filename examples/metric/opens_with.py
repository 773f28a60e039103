"""A metric in a package of its own: whether the answer starts with the expected text."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from holodeck_action.metrics.base import EvalParam, EvaluationResult, ParamSpec
from holodeck_action.metrics.computed import ComputedMetric
from holodeck_action.suite.model.base import Flag
from holodeck_action.suite.model.metric_base import GROUND_TRUTH, Role


class OpensWithMetric(ComputedMetric):
    """`type: opens_with`: whether the answer starts with the ground truth."""

    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE, EvalParam.GROUND_TRUTH}))

    type: Annotated[Literal["opens_with"], Role.KIND] = "opens_with"
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

    def compute(self, **given: Any) -> EvaluationResult:
        """Compare `response` with `ground_truth`, the inputs of `PARAM_SPEC`."""
        response, expected = given["response"], given["ground_truth"]
        if self.case_insensitive:
            response, expected = response.casefold(), expected.casefold()
        found = response.startswith(expected)
        reason = f"the answer {'starts' if found else 'does not start'} with the expected text"
        return self.result(1.0 if found else 0.0, reason, passed=found)
