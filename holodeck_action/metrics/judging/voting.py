"""Combination of the verdicts of several judges: pure arithmetic."""

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
    """The verdict of one judge of a panel.

    Attributes:
        model: name of the model that was asked for the verdict, such as `openai/gpt-6.1-sol`.
        score: score from 0 to 1; None if the verdict has no score, or there is no verdict.
        passed: whether the judge passes the answer; None if the verdict is only a score, or there is no verdict.
        reason: the judge's reason.
        error: `{code, message}` of the failure of the judge or its fallbacks; None if no model failed.
        fallback: whether a fallback gave the verdict.
        details: further data from the judge, as JSON values.
    """

    model: str
    score: float | None = None
    passed: bool | None = None
    reason: str = ""
    error: Mapping[str, str] | None = None
    fallback: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_verdict(self) -> bool:
        """Whether there is a verdict."""
        return self.score is not None or self.passed is not None

    def data(self) -> dict[str, Any]:
        """Return the verdict as JSON values, in the form of records."""
        found: dict[str, Any] = {
            "model": self.model,
            "score": self.score,
            "passed": self.passed,
            "reason": self.reason,
            "error": None if self.error is None else dict(self.error),
            "fallback": self.fallback,
        }
        return found | ({"details": dict(self.details)} if self.details else {})


def combine(aggregation: Aggregation, verdicts: Sequence[JudgeVerdict]) -> tuple[float | None, bool | None]:
    """Return score and verdict of a panel.

    In a majority vote, the answer passes if more than half of the verdicts are passes, and the score is the mean score
    of the judges in the majority. If the judges give only scores and no verdicts, the score is the median. The other
    aggregations compute the score from all scores; the vote is counted, too.

    Args:
        aggregation: how to combine the verdicts.
        verdicts: the available verdicts, at least one.

    Returns:
        The score from 0 to 1 (None if no judge gave a score), and whether the vote passed (None if no judge gave a
        verdict). For median, mean, min and max, a caller whose metric has a threshold applies it to the score and
        ignores the vote.
    """
    votes = [verdict.passed for verdict in verdicts if verdict.passed is not None]
    passed = 2 * sum(votes) > len(votes) if votes else None
    if aggregation == "majority_vote" and passed is not None:
        won = [verdict.score for verdict in verdicts if verdict.passed is passed and verdict.score is not None]
        return (_mean(won) if won else None), passed
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    return (_aggregate(aggregation, scores) if scores else None), passed


def score_spread(verdicts: Sequence[JudgeVerdict]) -> float | None:
    """Return the difference between the highest and the lowest score; None if there are fewer than two scores."""
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    return max(scores) - min(scores) if len(scores) > 1 else None


def agreement_share(passed: bool | None, verdicts: Sequence[JudgeVerdict]) -> float | None:
    """Return the proportion of judges whose verdict is the same as the panel's; None if there are no verdicts."""
    votes = [verdict.passed for verdict in verdicts if verdict.passed is not None]
    return sum(vote is passed for vote in votes) / len(votes) if votes and passed is not None else None


def explain_vote(aggregation: Aggregation, passed: bool | None, verdicts: Sequence[JudgeVerdict]) -> str:
    """Return a description of the panel's result, followed by the results of its judges."""
    votes = [verdict.passed for verdict in verdicts if verdict.passed is not None]
    if aggregation == "majority_vote" and votes:
        tie = ", a tie, which fails" if 2 * sum(votes) == len(votes) and not passed else ""
        head = f"{sum(votes)} of {len(votes)} judges pass it{tie}"
    else:
        name = "median" if aggregation == "majority_vote" else aggregation
        head = f"{name} of {sum(verdict.has_verdict for verdict in verdicts)} judges"
    return "; ".join([head, *map(_describe_verdict, verdicts)])


def _describe_verdict(verdict: JudgeVerdict) -> str:
    if not verdict.has_verdict:
        error = verdict.error or {}
        return f"no verdict of {cut(error.get('message', verdict.model), _SHOWN)}"
    who = f"{verdict.model} (fallback)" if verdict.fallback else verdict.model
    found = f"{verdict.score:.4g}" if verdict.score is not None else "passed" if verdict.passed else "failed"
    return f"{who} {found}: {cut(verdict.reason, _SHOWN)}"


def _aggregate(aggregation: Aggregation, scores: Sequence[float]) -> float:
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
    # Limited to the range of the scores: rounding must not push the mean of 0.7 and 0.7 below a threshold of 0.7.
    return min(max(math.fsum(scores) / len(scores), min(scores)), max(scores))
