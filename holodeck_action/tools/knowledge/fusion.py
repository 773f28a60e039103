"""Rankings, and one out of several."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DIGITS = 6
"""Decimal places of scores: what processors compute differently lies far behind them."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What one kind of search found: scores by position, and how much they weigh (0 to 1)."""

    scores: Mapping[int, float]
    weight: float


def ordered(scores: Mapping[int, float]) -> list[tuple[int, float]]:
    """Return positions with rounded scores, the best first, equal ones in the order of their positions."""
    rounded = ((position, round(score, DIGITS) + 0.0) for position, score in scores.items())
    return sorted(rounded, key=lambda pair: (-pair[1], pair[0]))


def ranks(scores: Mapping[int, float]) -> dict[int, int]:
    """Return the rank of each position from 1; equal scores share the better rank (1, 2, 2, 4)."""
    found: dict[int, int] = {}
    before, rank = None, 0
    for place, (position, score) in enumerate(ordered(scores), start=1):
        if score != before:
            before, rank = score, place
        found[position] = rank
    return found


def fuse(rankings: Sequence[Ranking], k: int) -> dict[int, float]:
    """Fuse rankings by weighted reciprocal rank.

    score(d) = (k + 1) · Σ over the rankings that have d: weight / (k + rank). With weights that add up to 1, a text
    that is first everywhere scores 1 and one that is found nowhere 0. Source: G. Cormack, C. Clarke and S. Büttcher,
    Reciprocal Rank Fusion Outperforms Condorcet and Individual Rank Learning Methods, SIGIR 2009, with weights.

    Args:
        rankings: their weights add up to 1.
        k: the larger, the less the first ranks stand out (60 in the source).
    """
    found: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        if ranking.weight > 0.0:
            for position, rank in ranks(ranking.scores).items():
                found[position] += (k + 1) * ranking.weight / (k + rank)
    return dict(found)
