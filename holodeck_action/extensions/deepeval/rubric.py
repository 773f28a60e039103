"""Rubrics: integer levels that a judge chooses from, each with a description and a score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

_HIGHEST = 10


class RubricLevel(Struct, frozen=True):
    """One level of a rubric.

    Attributes:
        level: the judge's answer, 0 to 10.
        outcome: description of an answer at this level.
        score: score of the level, 0..1.
    """

    level: int
    outcome: str
    score: float


def build_rubric(outcomes: Sequence[str], scores: Mapping[int, float] | None = None) -> tuple[RubricLevel, ...]:
    """Return a rubric with a level (1, 2, …) for each outcome.

    Args:
        outcomes: at least two descriptions, from the lowest level to the highest.
        scores: scores by level; by default evenly spread from 0 to 1.

    Raises:
        ValueError: there are fewer than two or more than ten outcomes, or a level has no score.
    """
    count = len(outcomes)
    if not 2 <= count <= _HIGHEST:
        raise ValueError(f"a rubric has 2 to {_HIGHEST} levels, not {count}")
    found = scores if scores is not None else {level: (level - 1) / (count - 1) for level in range(1, count + 1)}
    missing = [level for level in range(1, count + 1) if level not in found]
    if missing:
        raise ValueError(f"there is no score for level {missing[0]}")
    return tuple(RubricLevel(level, outcome, float(found[level])) for level, outcome in enumerate(outcomes, 1))


def check_rubric(levels: Sequence[RubricLevel]) -> tuple[RubricLevel, ...]:
    """Check levels, and return them in ascending order.

    Raises:
        ValueError: there are fewer than two levels, or they are not consecutive or not from 0 to 10.
    """
    ordered = tuple(sorted(levels, key=lambda item: item.level))
    numbers = [item.level for item in ordered]
    if len(numbers) < 2 or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise ValueError(f"a rubric needs at least two consecutive levels, not {numbers}")
    if numbers[0] < 0 or numbers[-1] > _HIGHEST:
        raise ValueError(f"the levels of a rubric must be from 0 to {_HIGHEST}, not {numbers}")
    return ordered


def interpolate_score(levels: Sequence[RubricLevel], raw: float) -> float:
    """Return the score for a point on the scale of levels, interpolated linearly between two levels.

    A judge's answer that is weighted by log probabilities may lie between levels.

    Args:
        levels: consecutive levels in ascending order.
        raw: a point from the lowest level to the highest.
    """
    below = levels[min(max(int(raw) - levels[0].level, 0), len(levels) - 2)]
    above = levels[below.level - levels[0].level + 1]
    if raw == above.level:
        return above.score
    return below.score + (above.score - below.score) * (raw - below.level)
