"""Statistics over cases: means, intervals and quantiles (docs/verdict.md)."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from heapq import nlargest
from operator import mul
from typing import overload

Z_95 = 1.959963984540054
"""97.5 % quantile of the standard normal distribution, for two-sided 95 % intervals."""
MIN_SAMPLE = 10
"""Minimum number of cases for an interval of a mean (docs/verdict.md)."""
_ROUNDING = 1e-14
_SUM_ROUNDING = 1e-12
_MAX_STEPS = 10_000


class WeightedValues(Sequence[tuple[float, float]]):
    """(value, weight) pairs, stored in 16 bytes each; pairs can only be appended."""

    def __init__(self) -> None:
        self._values, self._weights = array("d"), array("d")

    def add(self, value: float, weight: float) -> None:
        """Add a pair."""
        self._values.append(value)
        self._weights.append(weight)

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> tuple[float, float]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[float, float]]: ...

    def __getitem__(self, index: int | slice) -> tuple[float, float] | Sequence[tuple[float, float]]:
        if isinstance(index, slice):
            return list(zip(self._values[index], self._weights[index], strict=True))
        return self._values[index], self._weights[index]

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return zip(self._values, self._weights, strict=True)

    @property
    def columns(self) -> tuple[Sequence[float], Sequence[float]]:
        """All values and all weights, as two sequences."""
        return self._values, self._weights


def _split_pairs(pairs: Sequence[tuple[float, float]]) -> tuple[Sequence[float], Sequence[float]]:
    """Return all values and all weights of the pairs."""
    return (
        pairs.columns
        if isinstance(pairs, WeightedValues)
        else ([each for each, _ in pairs], [each for _, each in pairs])
    )


def exact_fraction(value: float) -> Fraction:
    """Return a float's decimal notation as an exact fraction: 1/10 for 0.1."""
    return Fraction(repr(value))


def total_weight(weights: Iterable[float]) -> Fraction:
    """Return the exact sum of weights, each converted by `exact_fraction`."""
    return sum((number * exact_fraction(weight) for weight, number in Counter(weights).items()), Fraction(0))


def weighted_mean(values: Sequence[tuple[float, float]]) -> float | None:
    """Return Σ wᵢxᵢ / Σ wᵢ of (value, weight) pairs, independent of their order; None if there are no pairs."""
    if not values:
        return None
    numbers, weights = _split_pairs(values)
    return math.fsum(map(mul, numbers, weights)) / math.fsum(weights)


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


def mean_lower_bound(values: Sequence[tuple[float, float]]) -> float | None:
    """Return the lower end of the two-sided 95 % interval of the mean of (score 0..1, weight) pairs.

    If every score is 0 or 1, the interval is Wilson's, because Student's has no width if all scores are equal.
    Otherwise it is Student's: x̄ − t·√(s²/n) with s² = Σwᵢ(xᵢ−x̄)²/Σwᵢ · n/(n−1), the effective sample size n and n−1
    degrees of freedom. Source: Miller 2024, §2.1 (cases as clusters).

    Returns:
        The lower end, at least 0; None if there are fewer than two scores.
    """
    mean = weighted_mean(values)
    if mean is None or len(values) < 2:
        return None
    numbers, weights = _split_pairs(values)
    n = effective_sample_size(weights)
    if all(number in (0.0, 1.0) for number in numbers):
        return wilson_lower_bound(mean, n)
    if n <= 1:
        return 0.0
    squares = math.fsum((number - mean) ** 2 * weight for number, weight in values) / math.fsum(weights)
    return max(0.0, mean - student_t_quantile(0.975, n - 1) * math.sqrt(squares / (n - 1)))


def mean_upper_bound(values: Sequence[tuple[float, float]]) -> float | None:
    """Return the upper end of the interval of `mean_lower_bound`: 1 − the lower end for the scores 1 − x.

    None if there are fewer than two scores.
    """
    mirrored = WeightedValues()
    for value, weight in values:
        mirrored.add(1.0 - value, weight)
    low = mean_lower_bound(mirrored)
    return None if low is None else 1.0 - low


def quantile(values: Sequence[tuple[float, float]], probability: float) -> float | None:
    """Return the weighted quantile of (value, weight) pairs for a `probability`; None if there are no pairs.

    The result is always one of the values: the inverse of the empirical distribution, type 1 of Hyndman & Fan 1996.
    """
    total = math.fsum(weight for _, weight in values)
    below = 0.0
    for value, weight in sorted(values):
        below += weight
        if below >= probability * total * (1 - _SUM_ROUNDING):
            return value
    return None


def equal_quantile(values: Sequence[float], probability: float) -> float | None:
    """Return the `quantile` of values with equal weights; None if there are no values."""
    if not values:
        return None
    # `nlargest` keeps memory small: a sorted copy would be larger than all other data of a large run.
    below = max(1, math.ceil(probability * len(values) * (1 - _SUM_ROUNDING))) - 1
    return nlargest(len(values) - below, values)[-1]


def student_t_quantile(probability: float, degrees_of_freedom: float) -> float:
    """Return the quantile of Student's t-distribution for a probability above 0.5, by bisection.

    Args:
        probability: probability, above 0.5 and below 1.
        degrees_of_freedom: a number above 0, which need not be whole.
    """
    low, high = 0.0, 1.0
    while _t_tail(high, degrees_of_freedom) > 1 - probability:
        low, high = high, 2 * high
    while high - low > _ROUNDING * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _t_tail(middle, degrees_of_freedom) > 1 - probability else (low, middle)
    return (low + high) / 2


def _t_tail(t: float, degrees_of_freedom: float) -> float:
    """Return P(T > t) = I_x(ν/2, 1/2)/2 with x = ν/(ν + t²). Source: Abramowitz & Stegun 26.7.1."""
    return 0.5 * _beta(degrees_of_freedom / (degrees_of_freedom + t * t), degrees_of_freedom / 2, 0.5)


def _beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by Lentz's method. Source: DLMF 8.17.22."""
    if x in (0.0, 1.0):
        return x
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for step in range(1, _MAX_STEPS):
        for term in (
            step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step)),
            -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1)),
        ):
            d = 1 / (1 + term * d)
            c = 1 + term / c
            fraction *= c * d
        if abs(c * d - 1) < _ROUNDING:
            break
    return front * fraction


def effective_sample_size(weights: Sequence[float]) -> float:
    """Return Kish's effective sample size (Σw)²/Σw², which is n for n equal weights. Source: Kish 1965, §11.2C."""
    return math.fsum(weights) ** 2 / math.fsum(map(mul, weights, weights))
