"""`EvaluationResult`, the result of an evaluator.

Source: HoloDeck DeepEval data model, EvaluationResult and its invariants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.record.evaluation import Polarity, Score
from holodeck_action.text.plain import cut


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EvaluationResult(dict[str, Any]):
    """A score with its reason: a dict that contains the fields, the extra scores, and the score under the metric's
    name.

    It can be serialised with `json.dumps`; the fields are also attributes.

    Attributes:
        score: a number from 0 to 1, a boolean, a category, or None if there is only an explanation.
        passed: the verdict: computed from `threshold` if there is one, otherwise given by the evaluator; None if there
            is no verdict.
        reasoning: the reason; never empty, because an empty reason is replaced by a default.
        metric_name: the metric's name, such as `bleu`; `result["bleu"]` is the score.
        threshold: the threshold that decides `passed`; None if there is no threshold.
        raw_score: the score on its original scale; None if this is 0..1.
        evaluation_steps: the steps that a judge followed; None if there are none.
        metadata: further scores and data, JSON values only; each is also an item such as `result["rouge1"]`.
        polarity: whether high or low scores are good.
        confidence: the judge's confidence from 0 to 1; None if not given.

    Raises:
        EvaluationError: a score is not a finite number from 0 to 1 (code `invalid_score`); `passed` contradicts score
            and threshold, or the confidence is not a number from 0 to 1 (code `invalid_result`).
    """

    score: Score
    passed: bool | None = None
    reasoning: str = ""
    metric_name: str = "score"
    threshold: float | None = None
    raw_score: float | None = None
    evaluation_steps: tuple[str, ...] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    polarity: Polarity = "maximize"
    confidence: float | None = None

    def __post_init__(self) -> None:
        score = self.score
        if isinstance(score, int | float) and not isinstance(score, bool):
            check_score(score, self.metric_name)
            if self.threshold is not None:
                self._apply_threshold(score, self.threshold)
        if self.confidence is not None:
            self._check_confidence(self.confidence)
        if not self.reasoning.strip():
            object.__setattr__(self, "reasoning", self._default_reasoning())
        self.update(self._items())

    def _items(self) -> dict[str, Any]:
        """Return the items of the dict. If keys collide, fields take precedence over the score under the metric's name,
        and this score over metadata.
        """
        steps = None if self.evaluation_steps is None else list(self.evaluation_steps)
        own = {name: getattr(self, name) for name in _FIELDS}
        own |= {"evaluation_steps": steps, "metadata": dict(self.metadata)}
        return {**own, **self.metadata, self.metric_name: self.score, **own}

    def _apply_threshold(self, score: float, threshold: float) -> None:
        passed = score <= threshold if self.polarity == "minimize" else score >= threshold
        if self.passed not in (None, passed):
            raise EvaluationError(
                f"{self.metric_name} gave passed={self.passed}, but its score {score:g} and threshold "
                f"{threshold:g} mean {passed}",
                code="invalid_result",
            )
        object.__setattr__(self, "passed", passed)

    def _check_confidence(self, confidence: object) -> None:
        number = isinstance(confidence, int | float) and not isinstance(confidence, bool)
        if not number or not 0.0 <= confidence <= 1.0:  # type: ignore[operator]
            shown = cut(repr(confidence), 80)
            raise EvaluationError(
                f"{self.metric_name} gave the confidence {shown}, which is not a number from 0 to 1",
                code="invalid_result",
            )

    def _default_reasoning(self) -> str:
        if self.score is None:
            return f"{self.metric_name} gave neither a score nor an explanation"
        return f"{self.metric_name} gave {self.score!r} without an explanation"


_FIELDS = tuple(item.name for item in fields(EvaluationResult))


def check_score(score: float, metric_name: str) -> None:
    """Check that a number is a valid score.

    Raises:
        EvaluationError: the number is NaN, infinite, or outside 0..1 (code `invalid_score`).
    """
    if not 0.0 <= score <= 1.0:
        try:
            shown = repr(float(score))
        except OverflowError:
            shown = "a number too large to show"
        raise EvaluationError(
            f"{metric_name} gave the score {shown}, which is not a number from 0 to 1",
            code="invalid_score",
            context={"score": shown},
        )


def check_threshold(threshold: float | None) -> float | None:
    """Return a threshold after checking that it is in the range of scores.

    Raises:
        ValueError: the threshold is NaN or outside 0..1.
    """
    if threshold is None or 0.0 <= threshold <= 1.0:
        return threshold
    raise ValueError(f"threshold must be a number from 0 to 1, not {threshold!r}")


EXCERPT = 200
"""Maximum characters of untrusted text that a reason quotes."""


def excerpt(text: str, limit: int = EXCERPT) -> str:
    """Return a text in quotes, escaped as in Python; if it is longer than `limit` characters, dots replace the rest."""
    if len(text) <= limit:
        return repr(text)
    # Three dots, not an ellipsis: one character beyond ASCII doubles the memory of the whole reason.
    return repr(text[:limit]) + "..."


def format_count(number: int, unit: str) -> str:
    """Return a number with its unit, such as `1 word` or `2 words`; `unit` is the plural."""
    return f"{number} {unit[:-1] if number == 1 else unit}"
