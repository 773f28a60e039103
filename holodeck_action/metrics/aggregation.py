"""Aggregation of several metrics: success, score and explanation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from holodeck_action.record.evaluation import Polarity


class Part(Struct, frozen=True):
    """The result of one of several metrics. If it has neither score nor verdict, the metric was not evaluated.

    Attributes:
        name: name of the metric.
        score: score from 0 to 1; None if there is no score.
        passed: verdict; None if there is no verdict.
        polarity: whether high or low scores are good; a neutral metric is reported but not counted in the score.
        threshold: lowest passing score, or the highest one if the polarity is `minimize`; None if there is no
            threshold.
        explanation: reason for the verdict, or reason why the metric was not evaluated.
    """

    name: str
    score: float | None
    passed: bool | None
    polarity: Polarity
    threshold: float | None
    explanation: str

    @property
    def is_missing(self) -> bool:
        """Whether the metric should have been evaluated but was not."""
        return self.score is None and self.passed is None and self.polarity != "neutral"


def aggregate_success(results: Sequence[Part]) -> bool | None:
    """Return whether all metrics with a verdict pass.

    Returns:
        False if a metric fails. None if no metric fails, but a metric is missing or no metric has a verdict.
    """
    verdicts = [part.passed for part in results if part.passed is not None]
    if not all(verdicts):
        return False
    return True if verdicts and not any(part.is_missing for part in results) else None


def aggregate_score(results: Sequence[Part]) -> float | None:
    """Return the mean quality of the metrics, 0..1; the quality is the score, or 1 − score if low scores are good.

    Neutral metrics and metrics without a score are not counted.

    Returns:
        The mean. None if no metric is counted, or if a metric is missing.
    """
    if any(part.is_missing for part in results):
        return None
    qualities = [quality(part.score, part.polarity) for part in results if part.score is not None]
    counted = [value for value in qualities if value is not None]
    return math.fsum(counted) / len(counted) if counted else None


def quality(score: float, polarity: Polarity) -> float | None:
    """Return the quality of a score, 0..1, where 1 is best; None if the polarity is neutral."""
    if polarity == "neutral":
        return None
    return 1.0 - score if polarity == "minimize" else float(score)


def aggregate_explanation(results: Sequence[Part]) -> str:
    """Return a text that lists failed and missing metrics with their reasons, then passed metrics and those without a
    verdict."""
    failed = [part for part in results if part.passed is False]
    missing = [part for part in results if part.is_missing]
    passed = [part for part in results if part.passed]
    shown = [part for part in results if part.passed is None and not part.is_missing]
    sentences = []
    if failed:
        sentences.append(f"{len(failed)} of {len(results)} failed: {'; '.join(map(_why_failed, failed))}")
    if missing:
        sentences.append(f"not evaluated: {'; '.join(f'{part.name}: {part.explanation}' for part in missing)}")
    if passed:
        sentences.append(f"passed: {', '.join(map(_name_and_score, passed))}")
    if shown:
        sentences.append(f"reported only: {', '.join(map(_name_and_score, shown))}")
    return ". ".join(sentences) or "there was nothing to evaluate"


def _why_failed(result: Part) -> str:
    if result.score is None or result.threshold is None:
        found = _name_and_score(result)
    else:
        side = "above" if result.polarity == "minimize" else "below"
        found = f"{result.name} {result.score:.4g} is {side} its threshold {result.threshold:.4g}"
    return f"{found} ({result.explanation})" if result.explanation else found


def _name_and_score(result: Part) -> str:
    return result.name if result.score is None else f"{result.name} {result.score:.4g}"
