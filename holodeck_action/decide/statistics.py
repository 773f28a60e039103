"""Numbers over cases: means, intervals and quantiles (docs/results.md)."""

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
"""Two-sided 95 % quantile of the normal distribution."""
MANY_ENOUGH = 10
"""Cases below which an interval of a mean says nothing (docs/results.md)."""
_ROUNDING = 1e-14
_SUM_ROUNDING = 1e-12
_MOST_STEPS = 10_000


class Weighted(Sequence[tuple[float, float]]):
    """(value, weight) pairs in sixteen bytes each; pairs are added at the end."""

    def __init__(self) -> None:
        self._values, self._weights = array("d"), array("d")

    def add(self, value: float, weight: float) -> None:
        """Add a pair."""
        self._values.append(value)
        self._weights.append(weight)

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, at: int) -> tuple[float, float]: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[tuple[float, float]]: ...

    def __getitem__(self, at: int | slice) -> tuple[float, float] | Sequence[tuple[float, float]]:
        if isinstance(at, slice):
            return list(zip(self._values[at], self._weights[at], strict=True))
        return self._values[at], self._weights[at]

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return zip(self._values, self._weights, strict=True)

    @property
    def sides(self) -> tuple[Sequence[float], Sequence[float]]:
        """The values and their weights."""
        return self._values, self._weights


def _sides(pairs: Sequence[tuple[float, float]]) -> tuple[Sequence[float], Sequence[float]]:
    """Return the values and their weights."""
    return pairs.sides if isinstance(pairs, Weighted) else ([each for each, _ in pairs], [each for _, each in pairs])


def exactly(value: float) -> Fraction:
    """Return a number as it is written: 0.1 is a tenth, which no float is."""
    return Fraction(repr(value))


def total_weight(weights: Iterable[float]) -> Fraction:
    """Return the exact sum of weights as they are written."""
    return sum((number * exactly(weight) for weight, number in Counter(weights).items()), Fraction(0))


def weighted_mean(values: Sequence[tuple[float, float]]) -> float | None:
    """Return Σ wᵢxᵢ / Σ wᵢ of (value, weight) pairs, summed exactly so that order does not matter; None when empty."""
    if not values:
        return None
    numbers, weights = _sides(values)
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

    Where every score is 0 or 1 it is Wilson's, because the other is no interval at all when all scores are equal. Else
    it is Student's: x̄ − t·√(s²/n) with s² = Σwᵢ(xᵢ−x̄)²/Σwᵢ · n/(n−1), n the effective sample size, and n−1 degrees of
    freedom; for equal weights the standard error of the mean over cases. Source: Miller 2024, §2.1 (cases as clusters).

    Returns:
        At least 0; None with fewer than two scores.
    """
    mean = weighted_mean(values)
    if mean is None or len(values) < 2:
        return None
    numbers, weights = _sides(values)
    n = effective_sample_size(weights)
    if all(number in (0.0, 1.0) for number in numbers):
        return wilson_lower_bound(mean, n)
    if n <= 1:
        return 0.0
    squares = math.fsum((number - mean) ** 2 * weight for number, weight in values) / math.fsum(weights)
    return max(0.0, mean - student_t_quantile(0.975, n - 1) * math.sqrt(squares / (n - 1)))


def mean_upper_bound(values: Sequence[tuple[float, float]]) -> float | None:
    """Return the upper end of the interval of `mean_lower_bound`: both are mirror images, x and 1 − x."""
    mirrored = Weighted()
    for value, weight in values:
        mirrored.add(1.0 - value, weight)
    low = mean_lower_bound(mirrored)
    return None if low is None else 1.0 - low


def quantile(values: Sequence[tuple[float, float]], share: float) -> float | None:
    """Return the smallest value of (value, weight) pairs that a share of the weight does not exceed; None when empty.

    It is always one of the values: the inverse of the empirical distribution, type 1 of Hyndman & Fan 1996.
    """
    total = math.fsum(weight for _, weight in values)
    below = 0.0
    for value, weight in sorted(values):
        below += weight
        if below >= share * total * (1 - _SUM_ROUNDING):
            return value
    return None


def equal_quantile(values: Sequence[float], share: float) -> float | None:
    """Return the `quantile` of values of equal weight; None when empty."""
    if not values:
        return None
    # The largest ones alone: a list of all is larger than everything else that is known of a large run.
    below = max(1, math.ceil(share * len(values) * (1 - _SUM_ROUNDING))) - 1
    return nlargest(len(values) - below, values)[-1]


def student_t_quantile(share: float, freedom: float) -> float:
    """Return the quantile of Student's distribution above its median, by bisection of the tail's area.

    Args:
        share: area below it, above 0.5 and below 1.
        freedom: degrees of freedom, above 0.
    """
    low, high = 0.0, 1.0
    while _t_tail(high, freedom) > 1 - share:
        low, high = high, 2 * high
    while high - low > _ROUNDING * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _t_tail(middle, freedom) > 1 - share else (low, middle)
    return (low + high) / 2


def _t_tail(t: float, freedom: float) -> float:
    """Return P(T > t) = I_x(ν/2, 1/2)/2 with x = ν/(ν + t²). Source: Abramowitz & Stegun 26.7.1."""
    return 0.5 * _beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def _beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by Lentz's method. Source: DLMF 8.17.22."""
    if x in (0.0, 1.0):
        return x
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for step in range(1, _MOST_STEPS):
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
    """Return Kish's effective sample size (Σw)²/Σw²; the plain count for equal weights. Source: Kish 1965, §11.2C."""
    return math.fsum(weights) ** 2 / math.fsum(map(mul, weights, weights))
