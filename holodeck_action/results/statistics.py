"""Numbers over cases: means and intervals (statistics reference)."""

from __future__ import annotations

import math
from collections.abc import Sequence

Z_95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""


def weighted_mean(values: Sequence[tuple[float, float]]) -> float | None:
    """Return Σ wᵢxᵢ / Σ wᵢ of (value, weight) pairs, summed exactly so that order does not matter; None when empty."""
    if not values:
        return None
    return math.fsum(value * weight for value, weight in values) / math.fsum(weight for _, weight in values)


def wilson_lower_bound(rate: float, n: float, z: float = Z_95) -> float:
    """Return the lower end of the Wilson score interval of a rate.

    centre (p̂ + z²/2n)/(1 + z²/n), half-width z/(1 + z²/n)·√(p̂(1−p̂)/n + z²/4n²). Source: Wilson 1927.

    Args:
        rate: observed rate, 0..1.
        n: (effective) sample size, above 0.
        z: normal quantile of the confidence level.
    """
    denominator = 1 + z * z / n
    centre = (rate + z * z / (2 * n)) / denominator
    half = z / denominator * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return max(0.0, centre - half)


def effective_sample_size(weights: Sequence[float]) -> float:
    """Return Kish's effective sample size (Σw)²/Σw²; the plain count for equal weights. Source: Kish 1965, §11.2C."""
    return math.fsum(weights) ** 2 / math.fsum(weight * weight for weight in weights)
