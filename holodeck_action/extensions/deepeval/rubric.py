"""Rubrics: whole levels that a judge chooses from, each with what it stands for and its score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

_HIGHEST = 10


class Level(Struct, frozen=True):
    """One level of a rubric.

    Attributes:
        level: what the judge answers, 0 to 10.
        outcome: what an answer of this level is like.
        score: what it is worth, 0..1.
    """

    level: int
    outcome: str
    score: float


def rubric_of(outcomes: Sequence[str], scores: Mapping[int, float] | None = None) -> tuple[Level, ...]:
    """Return the rubric with the levels 1, 2, … for outcomes.

    Args:
        outcomes: from the lowest level to the highest, at least two.
        scores: by level; by default evenly spread from 0 to 1.

    Raises:
        ValueError: fewer than two outcomes or more than ten, or `scores` without one of the levels.
    """
    count = len(outcomes)
    if not 2 <= count <= _HIGHEST:
        raise ValueError(f"a rubric has 2 to {_HIGHEST} levels, not {count}")
    found = scores if scores is not None else {level: (level - 1) / (count - 1) for level in range(1, count + 1)}
    missing = [level for level in range(1, count + 1) if level not in found]
    if missing:
        raise ValueError(f"there is no score for level {missing[0]}")
    return tuple(Level(level, outcome, float(found[level])) for level, outcome in enumerate(outcomes, 1))


def check_rubric(levels: Sequence[Level]) -> tuple[Level, ...]:
    """Return the levels in order.

    Raises:
        ValueError: fewer than two levels, levels that do not follow one another, or are not from 0 to 10.
    """
    ordered = tuple(sorted(levels, key=lambda item: item.level))
    numbers = [item.level for item in ordered]
    if len(numbers) < 2 or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise ValueError(f"a rubric needs at least two levels that follow one another, not {numbers}")
    if numbers[0] < 0 or numbers[-1] > _HIGHEST:
        raise ValueError(f"the levels of a rubric are from 0 to {_HIGHEST}, not {numbers}")
    return ordered


def score_at(levels: Sequence[Level], raw: float) -> float:
    """Return the score at a place on the scale of the levels; between two levels on the line that joins theirs.

    A judge's log probabilities put its answer between levels.

    Args:
        levels: in order, following one another.
        raw: from the lowest level to the highest.
    """
    below = levels[min(max(int(raw) - levels[0].level, 0), len(levels) - 2)]
    above = levels[below.level - levels[0].level + 1]
    if raw == above.level:
        return above.score
    return below.score + (above.score - below.score) * (raw - below.level)
