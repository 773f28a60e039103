"""Escalation: a second, more expensive judge is called only if the verdict of the first is in doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, final

from msgspec import structs

from holodeck_action.llm.calls import judge_context, use_context
from holodeck_action.metrics.base import BaseEvaluator, EvaluationResult, RetryConfig
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.panel import affects_all_judges, error_message

DOUBT_RANGE = 0.1
"""A passing score that is at most this far from the threshold is in doubt."""
_ROUNDING = 1e-9


class EscalatingEvaluator(BaseEvaluator):
    """Grades with a first judge, and with a second one if the first fails the answer, passes it within `DOUBT_RANGE` of
    the threshold, or gives no verdict. The second verdict replaces the first.

    The metadata of an escalated result contains `escalated_from`: score, passed, reason and judges of the first
    verdict, or its error. Each judge may take half of the timeout.
    """

    def __init__(self, first: BaseEvaluator, second: BaseEvaluator, timeout: float | None) -> None:
        """Create the evaluator.

        Args:
            first: the evaluator that is always called.
            second: the evaluator for answers in doubt.
            timeout: maximum seconds of one evaluation; None if there is no limit.
        """
        super().__init__(timeout=timeout, retry_config=RetryConfig(max_retries=0))
        self._first = first
        self._second = second
        self.PARAM_SPEC = first.PARAM_SPEC

    @property
    def name(self) -> str:
        """The metric's name."""
        return self._first.name

    @property
    def metric_name(self) -> str:
        """The key of the score in results."""
        return self._first.metric_name

    @property
    def version(self) -> str:
        """Version of the judges' evaluators."""
        return self._first.version

    @final
    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        told: dict[str, Any]
        try:
            # The second judge can take the place of the first.
            with use_context(structs.replace(judge_context(), required=False)):
                found = await self._first.evaluate(**kwargs)
        except (EvaluationError, TimeoutError) as error:
            if isinstance(error, EvaluationError) and affects_all_judges(error):
                raise
            told = {"error": error_message(error)}
        else:
            if not is_in_doubt(found):
                return found
            told = {"score": found.score, "passed": found.passed, "reason": found.reasoning}
            told |= {key: found.metadata[key] for key in ("judge", "panel") if key in found.metadata}
        second = await self._second.evaluate(**kwargs)
        return replace(second, metadata={**second.metadata, "escalated_from": told})


def is_in_doubt(result: EvaluationResult) -> bool:
    """Return whether a result fails, has no verdict, or passes within `DOUBT_RANGE` of its threshold."""
    if result.passed is not True:
        return True
    score, threshold = result.score, result.threshold
    if threshold is None or not isinstance(score, int | float):
        return False
    return abs(score - threshold) <= DOUBT_RANGE + _ROUNDING
