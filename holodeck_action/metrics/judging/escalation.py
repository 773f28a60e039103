"""Escalation: a second, more expensive judge is called only if the verdict of the first is in doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from holodeck_action.llm.calls import judge_context, use_context
from holodeck_action.metrics.base import Around, BaseEvaluator, EvaluationResult
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.panel import affects_all_judges, error_message

DOUBT_RANGE = 0.1
"""A passing score that is at most this far from the threshold is in doubt."""
_ROUNDING = 1e-9


def escalating(first: BaseEvaluator, second: BaseEvaluator, timeout: float | None) -> BaseEvaluator:
    """Return an evaluator that grades with a first judge, and with a second one if the first verdict is in doubt.

    It is in doubt if it fails the answer, passes it within `DOUBT_RANGE` of the threshold, or is missing. The second
    verdict replaces the first.

    The metadata of an escalated result contains `escalated_from`: score, passed, reason and judges of the first
    verdict, or its error. Each judge may take half of the timeout.

    Args:
        first: the evaluator that is always called.
        second: the evaluator for answers in doubt.
        timeout: maximum seconds of one evaluation; None if there is no limit.
    """

    async def grade(inputs: dict[str, Any]) -> EvaluationResult:
        told: dict[str, Any]
        try:
            # The second judge can take the place of the first.
            with use_context(structs.replace(judge_context(), required=False)):
                found = await first.evaluate(**inputs)
        except (EvaluationError, TimeoutError) as error:
            if isinstance(error, EvaluationError) and affects_all_judges(error):
                raise
            told = {"error": error_message(error)}
        else:
            if not is_in_doubt(found):
                return found
            told = {"score": found.score, "passed": found.passed, "reason": found.reasoning}
            told |= {key: found.metadata[key] for key in ("judge", "panel") if key in found.metadata}
        final = await second.evaluate(**inputs)
        return replace(final, metadata={**final.metadata, "escalated_from": told})

    return Around(first, grade, timeout=timeout)


def is_in_doubt(result: EvaluationResult) -> bool:
    """Return whether a result fails, has no verdict, or passes within `DOUBT_RANGE` of its threshold."""
    if result.passed is not True:
        return True
    score, threshold = result.score, result.threshold
    if threshold is None or not isinstance(score, int | float):
        return False
    return abs(score - threshold) <= DOUBT_RANGE + _ROUNDING
