"""Verdicts of several judges as one: pure arithmetic."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from holodeck_action.suite.model.judging import Aggregation
from holodeck_action.text.plain import cut

_SHOWN = 400


class JudgeVerdict(Struct, frozen=True):
    """What one judge of a panel found.

    Attributes:
        model: who gave the verdict, such as `openai/gpt-4o`; where nobody did, who should have.
        score: 0..1; None where the verdict has no number, or there is no verdict.
        passed: the judge's own verdict; None without one.
        reason: the judge's words.
        error: `{code, message}` of what kept the judge from a verdict; None where nothing did.
        fallback: whether another model gave the verdict in the judge's place.
        details: what the judge found besides.
    """

    model: str
    score: float | None = None
    passed: bool | None = None
    reason: str = ""
    error: Mapping[str, str] | None = None
    fallback: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def given(self) -> bool:
        """Whether there is a verdict."""
        return self.score is not None or self.passed is not None

    def data(self) -> dict[str, Any]:
        """Return it as JSON values, as records keep it."""
        told: dict[str, Any] = {
            "model": self.model,
            "score": self.score,
            "passed": self.passed,
            "reason": self.reason,
            "error": None if self.error is None else dict(self.error),
            "fallback": self.fallback,
        }
        return told | ({"details": dict(self.details)} if self.details else {})


def combine(aggregation: Aggregation, verdicts: Sequence[JudgeVerdict]) -> tuple[float | None, bool | None]:
    """Return score and verdict of a panel.

    A majority vote counts the judges that pass the answer; a tie fails it, and the score is the mean over the judges
    on the side that won. Without verdicts there is no vote: the score is the median then. The other aggregations take
    the scores alone; verdicts, where judges have them, are counted all the same.

    Args:
        aggregation: how.
        verdicts: those that were given, at least one.

    Returns:
        The score, 0..1, None when no judge has a number; and the outcome of the vote, None without one. Where the
        verdicts follow from a threshold, that of a score by median, mean, min or max does so too, and not from votes.
    """
    votes = [verdict.passed for verdict in verdicts if verdict.passed is not None]
    passed = 2 * sum(votes) > len(votes) if votes else None
    if aggregation == "majority_vote" and passed is not None:
        won = [verdict.score for verdict in verdicts if verdict.passed is passed and verdict.score is not None]
        return (_mean(won) if won else None), passed
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    return (_of_scores(aggregation, scores) if scores else None), passed


def spread_of(verdicts: Sequence[JudgeVerdict]) -> float | None:
    """Return the distance between the highest and the lowest score; None with fewer than two."""
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    return max(scores) - min(scores) if len(scores) > 1 else None


def share_for(passed: bool | None, verdicts: Sequence[JudgeVerdict]) -> float | None:
    """Return the share of judges whose own verdict is the panel's; None where there are no verdicts."""
    votes = [verdict.passed for verdict in verdicts if verdict.passed is not None]
    return sum(vote is passed for vote in votes) / len(votes) if votes and passed is not None else None


def told(aggregation: Aggregation, passed: bool | None, verdicts: Sequence[JudgeVerdict]) -> str:
    """Say what the panel found, then what every judge said."""
    votes = [verdict.passed for verdict in verdicts if verdict.passed is not None]
    if aggregation == "majority_vote" and votes:
        tie = ", a tie, which fails" if 2 * sum(votes) == len(votes) and not passed else ""
        head = f"{sum(votes)} of {len(votes)} judges pass it{tie}"
    else:
        name = "median" if aggregation == "majority_vote" else aggregation
        head = f"{name} of {sum(verdict.given for verdict in verdicts)} judges"
    return "; ".join([head, *map(_said, verdicts)])


def _said(verdict: JudgeVerdict) -> str:
    if not verdict.given:
        error = verdict.error or {}
        return f"no verdict of {cut(error.get('message', verdict.model), _SHOWN)}"
    who = f"{verdict.model} (fallback)" if verdict.fallback else verdict.model
    found = f"{verdict.score:.4g}" if verdict.score is not None else "passed" if verdict.passed else "failed"
    return f"{who} {found}: {cut(verdict.reason, _SHOWN)}"


def _of_scores(aggregation: Aggregation, scores: Sequence[float]) -> float:
    match aggregation:
        case "mean":
            return _mean(scores)
        case "min":
            return min(scores)
        case "max":
            return max(scores)
        case _:
            return statistics.median(scores)


def _mean(scores: Sequence[float]) -> float:
    # Rounding must not push the mean of 0.7 and 0.7 below a threshold of 0.7.
    return min(max(math.fsum(scores) / len(scores), min(scores)), max(scores))
