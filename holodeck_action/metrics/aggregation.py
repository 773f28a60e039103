"""Several metrics as one: success, score and explanation of the whole."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from holodeck_action.record.evaluation import Polarity


class Part(Struct, frozen=True):
    """What one metric of several found; without score and verdict it was not evaluated.

    Attributes:
        name: the metric's name.
        score: 0..1; None without one.
        passed: its verdict; None without one.
        polarity: whether high or low scores are good; a neutral one is shown and takes no part in the score.
        threshold: lowest passing score, for `minimize` the highest; None without one.
        explanation: why, or why it was not evaluated.
    """

    name: str
    score: float | None
    passed: bool | None
    polarity: Polarity
    threshold: float | None
    explanation: str

    @property
    def missing(self) -> bool:
        """Whether it should have been evaluated and was not."""
        return self.score is None and self.passed is None and self.polarity != "neutral"


def aggregate_success(parts: Sequence[Part]) -> bool | None:
    """Tell whether all parts with a verdict pass.

    Returns:
        False as soon as one fails; None when none gives a verdict, or when one that is missing could still fail.
    """
    verdicts = [part.passed for part in parts if part.passed is not None]
    if not all(verdicts):
        return False
    return True if verdicts and not any(part.missing for part in parts) else None


def aggregate_score(parts: Sequence[Part]) -> float | None:
    """Return the mean quality of the parts: score where high is good, 1 − score where low is good, 0..1.

    Neutral parts, and those with a verdict alone, take no part.

    Returns:
        None when there is nothing to take the mean of, or when a part is missing: the mean of the others is another
        number.
    """
    if any(part.missing for part in parts):
        return None
    qualities = [quality(part.score, part.polarity) for part in parts if part.score is not None]
    counted = [value for value in qualities if value is not None]
    return math.fsum(counted) / len(counted) if counted else None


def quality(score: float, polarity: Polarity) -> float | None:
    """Return how good a score is, 0..1; None for neutral ones."""
    if polarity == "neutral":
        return None
    return 1.0 - score if polarity == "minimize" else float(score)


def aggregate_explanation(parts: Sequence[Part]) -> str:
    """Say in words what failed and why, then what is missing, then what passed."""
    failed = [part for part in parts if part.passed is False]
    missing = [part for part in parts if part.missing]
    passed = [part for part in parts if part.passed]
    shown = [part for part in parts if part.passed is None and not part.missing]
    sentences = []
    if failed:
        sentences.append(f"{len(failed)} of {len(parts)} failed: {'; '.join(map(_why_failed, failed))}")
    if missing:
        sentences.append(f"not evaluated: {'; '.join(f'{part.name}: {part.explanation}' for part in missing)}")
    if passed:
        sentences.append(f"passed: {', '.join(map(_figure, passed))}")
    if shown:
        sentences.append(f"for information: {', '.join(map(_figure, shown))}")
    return ". ".join(sentences) or "there was nothing to evaluate"


def _why_failed(part: Part) -> str:
    if part.score is None or part.threshold is None:
        found = _figure(part)
    else:
        side = "above" if part.polarity == "minimize" else "below"
        found = f"{part.name} {part.score:.4g} is {side} its threshold {part.threshold:.4g}"
    return f"{found} ({part.explanation})" if part.explanation else found


def _figure(part: Part) -> str:
    return part.name if part.score is None else f"{part.name} {part.score:.4g}"
