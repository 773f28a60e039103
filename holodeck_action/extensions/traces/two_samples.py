"""Compares two independent samples of conversations; a conversation is a pair of score and weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist

from msgspec import Struct

from holodeck_action.decide.statistics import (
    effective_sample_size,
    exact_fraction,
    student_t_quantile,
    total_weight,
    wilson_lower_bound,
)

Sample = Sequence[tuple[float, float]]


class Difference(Struct, frozen=True):
    """The difference of two means, second − first, with the ends of its confidence interval."""

    value: float
    low: float
    high: float


def compare_samples(first: Sample, second: Sample, error: float) -> Difference:
    """Return the difference of two samples' means, with Newcombe's interval if all scores are 0 or 1, else Welch's.

    Args:
        first: scores and weights of at least 2 earlier conversations.
        second: scores and weights of at least 2 later conversations.
        error: probability that the interval does not contain the difference of the populations, such as 0.01.
    """
    binary = all(score in (0.0, 1.0) for sample in (first, second) for score, _ in sample)
    return newcombe(first, second, error) if binary else welch(first, second, error)


def newcombe(first: Sample, second: Sample, error: float) -> Difference:
    """Return the difference of two rates with Newcombe's hybrid score interval.

    d − √((p₂ − l₂)² + (u₁ − p₁)²) to d + √((u₂ − p₂)² + (p₁ − l₁)²), where l and u are the ends of Wilson's intervals
    at the effective sample sizes. Source: Newcombe 1998, method 10.
    """
    z = NormalDist().inv_cdf(1 - error / 2)
    (one, low_one, high_one), (two, low_two, high_two) = (_wilson(sample, z) for sample in (first, second))
    value = two - one
    below, above = math.hypot(two - low_two, high_one - one), math.hypot(high_two - two, one - low_one)
    return Difference(value, value - below, value + above)


def _wilson(sample: Sample, z: float) -> tuple[float, float, float]:
    rate = _exact_mean(sample)
    n = effective_sample_size([weight for _, weight in sample])
    return rate, wilson_lower_bound(rate, n, z), 1 - wilson_lower_bound(1 - rate, n, z)


def welch(first: Sample, second: Sample, error: float) -> Difference:
    """Return the difference of two means with Welch's interval.

    d ± t·√(s₁²/n₁ + s₂²/n₂), with effective sample sizes and the degrees of freedom of Welch and Satterthwaite.
    Source: Welch 1947.
    """
    (one, error_one, degrees_one), (two, error_two, degrees_two) = (_moments(sample) for sample in (first, second))
    value, squared = two - one, error_one + error_two
    if squared == 0:
        return Difference(value, value, value)
    degrees_of_freedom = squared**2 / (error_one**2 / degrees_one + error_two**2 / degrees_two)
    half = student_t_quantile(1 - error / 2, degrees_of_freedom) * math.sqrt(squared)
    return Difference(value, value - half, value + half)


def _moments(sample: Sample) -> tuple[float, float, float]:
    """Return the mean, the squared standard error of the mean, and the degrees of freedom."""
    mean = _exact_mean(sample)
    weights = [weight for _, weight in sample]
    n = effective_sample_size(weights)
    spread = math.fsum((score - mean) ** 2 * weight for score, weight in sample) / math.fsum(weights)
    return mean, spread / (n - 1), n - 1


def _exact_mean(sample: Sample) -> float:
    """Return the weighted mean, rounded once: the mean of equal scores is that score, whatever their weights."""
    weights = total_weight(weight for _, weight in sample)
    return float(sum((Fraction(score) * exact_fraction(weight) for score, weight in sample), Fraction(0)) / weights)
