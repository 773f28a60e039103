"""Statistics of paired differences: the same cases before and after a change (docs/statistics.md).

A difference is head − base of one case on a 0..1 scale, so it lies between −1 and 1; `WeightedDifferences` pairs it
with the weight of its case. Nothing depends on the order of cases, and swapping base and head mirrors every result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random

from holodeck_action.decide.statistics import Z_95, effective_sample_size, student_t_quantile, weighted_mean

WeightedDifferences = Sequence[tuple[float, float]]
"""(difference −1..1, weight above 0) of each case."""

Z_80 = 0.8416212335729143
"""80 % quantile of the normal distribution: the power at which a minimum detectable effect is detected."""
EXACT_UP_TO = 14
"""Maximum number n of non-zero differences for which all 2ⁿ sign patterns are tried."""
RESAMPLES = 9_999
MIN_CHANGES_FOR_T = 5
"""Minimum number of non-zero differences for Student's interval, which is too narrow with fewer
(docs/statistics.md)."""
_SEED = 20_130_716
_ROUNDING = 1e-10
_DIGITS = 12
_STEPS = 60


def difference(base: float, head: float) -> float:
    """Return head − base, rounded so that floating-point errors do not count as a change."""
    return round(head - base, _DIGITS) + 0.0


def is_binary(differences: WeightedDifferences) -> bool:
    """Return whether all differences are −1, 0 or 1, as for cases that pass or fail."""
    return all(value in (-1.0, 0.0, 1.0) for value, _ in differences)


def p_value(differences: WeightedDifferences) -> float:
    """Return the two-sided p-value of the hypothesis that nothing has changed.

    It comes from McNemar's mid-p test if differences are binary and weights are equal, else from the sign-flip test.
    """
    if is_binary(differences) and len({weight for _, weight in differences}) <= 1:
        values = [value for value, _ in differences]
        return mcnemar_mid_p(values.count(-1.0), values.count(1.0))
    return sign_flip_p(differences)


def mcnemar_mid_p(lost: int, gained: int) -> float:
    """Return McNemar's two-sided mid-p: 2·P(X < k) + P(X = k), X binomial(lost + gained, ½), k the smaller count.

    Source: Fagerland, Lydersen & Laake 2013, eq. 6.
    """
    n, fewer = lost + gained, min(lost, gained)
    if lost == gained:
        return 1.0
    log_all = math.lgamma(n + 1) - n * math.log(2)
    shares = [math.exp(log_all - math.lgamma(k + 1) - math.lgamma(n - k + 1)) for k in range(fewer + 1)]
    return min(1.0, 2 * math.fsum(shares) - shares[-1])


def sign_flip_p(differences: WeightedDifferences) -> float:
    """Return the two-sided p-value of the sign-flip permutation test on the weighted mean difference.

    Exact up to 14 non-zero differences, else Monte Carlo with a fixed seed and p = (count + 1)/(R + 1), R = 9,999;
    memory grows with R only. Source: Good 2005, §3.2; Phipson & Smyth 2010 for the + 1.
    """
    import numpy as np

    sizes = sorted((abs(value) * weight for value, weight in differences if value), reverse=True)
    total = math.fsum(sizes)
    observed = abs(math.fsum(value * weight for value, weight in differences)) - _ROUNDING * total
    if len(sizes) <= EXACT_UP_TO:
        sums = np.zeros(1)
        for size in sizes:
            sums = np.concatenate((sums - size, sums + size))
        return float(np.mean(np.abs(sums) >= observed))
    # One random byte gives the signs of eight differences; their 256 possible sums are looked up.
    random, sums = Random(_SEED), np.zeros(RESAMPLES)
    signs = 1.0 - 2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    for start in range(0, len(sizes), 8):
        eight = np.array(sizes[start : start + 8])
        drawn = np.frombuffer(random.randbytes(RESAMPLES), dtype=np.uint8)
        sums += (signs[:, : len(eight)] * eight).sum(axis=1)[drawn]
    return (int(np.count_nonzero(np.abs(sums) >= observed)) + 1) / (RESAMPLES + 1)


def interval(differences: WeightedDifferences) -> tuple[float, float]:
    """Return the 95 % interval of the mean difference, within −1..1.

    Student's interval if differences are graded, at least 5 are not zero and the effective sample size is at least 2;
    else the score interval.
    """
    if _needs_score_interval(differences):
        return score_interval(*_count_changes(differences))
    return student_interval(differences)


def student_interval(differences: WeightedDifferences) -> tuple[float, float]:
    """Return Student's 95 % interval of the mean difference, within −1..1.

    d̄ ± t·√(s²/n), with the effective sample size n and n − 1 degrees of freedom. Source: Miller 2024, §4.2.
    """
    mean, error, degrees_of_freedom = _moments(differences)
    half = student_t_quantile(0.975, degrees_of_freedom) * error
    return max(-1.0, mean - half), min(1.0, mean + half)


def score_interval(lost: float, gained: float, n: float) -> tuple[float, float]:
    """Return Tango's 95 % score interval of (gained − lost)/n; the interval is ±z²/(n + z²) if `lost` and `gained` are
    0.

    For graded scores it is conservative: since d² ≤ |d|, their variance is at most the one assumed. Source: Tango 1998,
    §3.

    Args:
        lost: number of cases that passed before and fail now; for graded scores, the sum of the losses.
        gained: number of cases that failed before and pass now; for graded scores, the sum of the gains.
        n: number of pairs.
    """
    return 0.0 - _score_upper_end(gained, lost, n), _score_upper_end(lost, gained, n)


def score_interval_of(differences: WeightedDifferences) -> tuple[float, float]:
    """Return Tango's 95 % score interval of the mean difference, with the effective sample size; see
    `score_interval`."""
    return score_interval(*_count_changes(differences))


def _score_upper_end(lost: float, gained: float, n: float) -> float:
    """Return the δ for which (gained − lost − nδ)/√(n(2q + δ(1 − δ))) = −z.

    q is the expected proportion of lost cases if the difference is δ: the larger root of 2nq² + bq − lost·δ(1 − δ) = 0.
    """

    def is_excluded(delta: float) -> bool:
        b = -lost - gained + (2 * n + lost - gained) * delta
        product = 2 * lost * delta * (1 - delta)
        root = math.sqrt(max(0.0, b * b + 4 * n * product))
        share = (root - b) / (4 * n) if b <= 0 else product / (root + b)
        variance = n * (2 * share + delta * (1 - delta))
        return n * delta - (gained - lost) > Z_95 * math.sqrt(max(0.0, variance))

    return _bisect(is_excluded, (gained - lost) / n, 1.0)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values adjusted by Holm's method, which controls the family-wise error rate. Source: Holm 1979."""
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, position in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[position]))
        adjusted[position] = highest
    return tuple(adjusted)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values adjusted to control the false discovery rate. Source: Benjamini & Hochberg 1995."""
    adjusted = [0.0] * len(p_values)
    lowest, n = 1.0, len(p_values)
    for rank, position in reversed(list(enumerate(sorted(range(n), key=p_values.__getitem__), start=1))):
        lowest = min(lowest, p_values[position] * n / rank)
        adjusted[position] = lowest
    return tuple(adjusted)


def minimum_detectable_effect(differences: WeightedDifferences) -> float | None:
    """Return the smallest change that is detected with 80 % power at α = 0.05; None if it would be above 1.

    It is (t₀.₉₇₅ + t₀.₈)·√(s²/n) if Student's interval applies (Bloom 1995), else the solution δ of z₀.₉₇₅·√ψ +
    z₀.₈·√(ψ − δ²) = δ·√n (Connor 1987). ψ is the proportion of changing cases: δ plus twice the proportion of the
    measured lost or gained cases, whichever are fewer.
    """
    if _needs_score_interval(differences):
        lost, gained, n = _count_changes(differences)
        return _detectable(2 * min(lost, gained) / n, n)
    _, error, degrees_of_freedom = _moments(differences)
    effect = (student_t_quantile(0.975, degrees_of_freedom) + student_t_quantile(0.8, degrees_of_freedom)) * error
    return effect if effect <= 1 else None


def cases_to_detect(
    effect: float, differences: WeightedDifferences, noise: float = 0.0, noise_factor: float = 1.0
) -> int:
    """Return the number of cases needed to detect a change of `effect` with 80 % power at α = 0.05.

    Args:
        effect: the change, above 0 and at most 1.
        differences: the measured differences.
        noise: variance of the differences that is due to differences between trials.
        noise_factor: factor by which more trials reduce `noise`: measured trials / planned trials.
    """
    if _needs_score_interval(differences):
        lost, gained, n = _count_changes(differences)
        changing = min(1.0, 2 * min(lost, gained) / n + effect)
        needed = ((Z_95 * math.sqrt(changing) + Z_80 * math.sqrt(max(0.0, changing - effect**2))) / effect) ** 2
    else:
        _, error, degrees_of_freedom = _moments(differences)
        variance = error**2 * (degrees_of_freedom + 1)
        variance -= min(noise, variance) * (1 - noise_factor)
        # Two more cases make up for Student's quantiles, which are larger than the normal ones.
        needed = ((Z_95 + Z_80) / effect) ** 2 * variance + 2
    return math.ceil(needed - _ROUNDING)


def _detectable(discordant_count: float, n: float) -> float | None:
    def is_detected(effect: float) -> bool:
        changing = min(1.0, discordant_count + effect)
        spread = Z_95 * math.sqrt(changing) + Z_80 * math.sqrt(max(0.0, changing - effect**2))
        return effect * math.sqrt(n) >= spread

    return _bisect(is_detected, 0.0, 1.0) if is_detected(1.0) else None


def _needs_score_interval(differences: WeightedDifferences) -> bool:
    """Return whether Student's interval does not apply: the differences are binary, too few are non-zero, or one case
    has almost all of the weight."""
    return (
        is_binary(differences)
        or sum(value != 0 for value, _ in differences) < MIN_CHANGES_FOR_T
        or effective_sample_size([weight for _, weight in differences]) < 2
    )


def _count_changes(differences: WeightedDifferences) -> tuple[float, float, float]:
    """Return the numbers of lost, gained and all cases, scaled to the effective sample size."""
    n = effective_sample_size([weight for _, weight in differences])
    lost = weighted_mean([(max(0.0, -value), weight) for value, weight in differences])
    gained = weighted_mean([(max(0.0, value), weight) for value, weight in differences])
    assert lost is not None
    assert gained is not None
    return lost * n, gained * n, n


def _moments(differences: WeightedDifferences) -> tuple[float, float, float]:
    """Return mean, standard error of the mean and degrees of freedom (effective cases − 1)."""
    mean = weighted_mean(differences)
    assert mean is not None
    degrees_of_freedom = effective_sample_size([weight for _, weight in differences]) - 1
    squares = weighted_mean([((value - mean) ** 2, weight) for value, weight in differences])
    assert squares is not None
    return mean, math.sqrt(squares / degrees_of_freedom), degrees_of_freedom


def _bisect(condition: Callable[[float], bool], low: float, high: float) -> float:
    """Return, by bisection, the smallest number between `low` and `high` that meets `condition`; `high` if no number
    does."""
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if condition(middle) else (middle, high)
    return high
