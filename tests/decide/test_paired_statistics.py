"""Paired statistics against SciPy, or against every possibility written down."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations, product
from random import Random

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.decide.compare.paired_statistics import (
    benjamini_hochberg,
    cases_to_detect,
    holm,
    interval,
    mcnemar_mid_p,
    minimum_detectable_effect,
    p_value,
    score_interval,
    sign_flip_p,
    student_interval,
)
from holodeck_action.decide.statistics import Z_95, mean_lower_bound
from tests.tables import walk


def weighted(values: Iterable[float], weight: float = 1.0) -> list[tuple[float, float]]:
    return [(float(value), weight) for value in values]


def cases(lost: int, gained: int, same: int) -> list[tuple[float, float]]:
    return weighted([-1] * lost + [1] * gained + [0] * same)


@walk(("lost", "gained"), [(0, 0), (1, 7), (7, 1), (5, 5), (0, 6), (40, 61), (900, 1000)])
def test_mcnemar_mid_p_is_that_of_the_binomial_distribution(lost: int, gained: int) -> None:
    n, fewer = lost + gained, min(lost, gained)
    expected = (
        2 * scipy.stats.binom.cdf(fewer, n, 0.5) - scipy.stats.binom.pmf(fewer, n, 0.5) if lost != gained else 1.0
    )
    assert mcnemar_mid_p(lost, gained) == pytest.approx(expected, rel=1e-9)
    assert p_value(cases(lost, gained, 3)) == mcnemar_mid_p(lost, gained)


def test_mcnemar_mid_p_of_the_published_example() -> None:
    # Fagerland, Lydersen & Laake 2013, table 1: airway hyper-responsiveness before and after transplantation.
    assert mcnemar_mid_p(1, 7) == pytest.approx(0.039, abs=0.0005)


@walk("seed", range(6))
def test_the_exact_sign_flip_test_tries_every_sign(seed: int) -> None:
    random = Random(seed)
    # Tenths make ties, which must count.
    found = [(random.randint(-10, 10) / 10, random.choice([1.0, 1.0, 2.0])) for _ in range(12)] + [(0.0, 1.0)] * 9
    sums = [
        abs(math.fsum(sign * value * weight for sign, (value, weight) in zip(signs, found, strict=False)))
        for signs in product((-1, 1), repeat=12)
    ]
    observed = abs(math.fsum(value * weight for value, weight in found))
    assert sign_flip_p(found) == sum(one >= observed - 1e-9 for one in sums) / 2**12


@pytest.mark.full
def test_the_sampled_sign_flip_test_follows_scipy() -> None:
    values = np.random.default_rng(3).normal(-0.05, 0.15, 40)
    theirs = scipy.stats.permutation_test(
        (values, np.zeros(40)),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=200_000,
        rng=np.random.default_rng(0),
    )
    assert sign_flip_p(weighted(values)) == pytest.approx(theirs.pvalue, abs=0.007)
    assert sign_flip_p(weighted(values - 0.5)) == 1 / 10_000, "at best (0 + 1)/(R + 1), never 0"
    assert sign_flip_p(weighted(values)) == sign_flip_p(weighted(-values[::-1]))


def test_equal_weights_are_no_weights() -> None:
    values = [-0.5, -0.25, 0.1, 0.0, -0.3, -0.2, 0.4, 0.1, -0.7, 0.2, -0.1]
    assert p_value(weighted(values, 7.0)) == p_value(weighted(values))
    assert interval(weighted(values, 7.0)) == pytest.approx(interval(weighted(values)))
    assert interval([(-1.0, 4.0), *weighted([0.0] * 11)]) != interval(weighted([-1.0] + [0.0] * 11))


def test_the_interval_of_graded_scores_is_students() -> None:
    values = np.random.default_rng(1).uniform(-0.6, 0.3, 25)
    theirs = scipy.stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert student_interval(weighted(values)) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert interval(weighted(values)) == student_interval(weighted(values))
    uneven = [(abs(float(value)), float(weight)) for weight, value in enumerate(values, start=1)]
    assert interval(uneven)[0] == pytest.approx(mean_lower_bound(uneven), abs=1e-12)


def restricted(lost: int, gained: int, n: int, delta: float) -> float:
    """The score statistic of Tango 1998 by maximising the likelihood numerically."""
    same = n - lost - gained

    def unlikely(share: float) -> float:
        parts = ((lost, share), (gained, share + delta), (same, 1 - 2 * share - delta))
        return -sum(count * math.log(max(part, 1e-300)) for count, part in parts if count)

    low, high = max(0.0, -delta), (1 - delta) / 2
    share = scipy.optimize.minimize_scalar(unlikely, bounds=(low, high), method="bounded", options={"xatol": 1e-13}).x
    return float((gained - lost - n * delta) / math.sqrt(n * (2 * share + delta * (1 - delta))))


@walk(("lost", "gained", "n"), [(3, 1, 20), (12, 2, 50), (0, 4, 30), (5, 5, 10), (60, 90, 900)])
def test_the_score_interval_ends_where_the_score_statistic_is_z(lost: int, gained: int, n: int) -> None:
    low, high = score_interval(lost, gained, n)
    assert low < (gained - lost) / n < high
    assert restricted(lost, gained, n, low) == pytest.approx(Z_95, abs=1e-5)
    assert restricted(lost, gained, n, high) == pytest.approx(-Z_95, abs=1e-5)
    assert score_interval(gained, lost, n) == (-high, -low)
    assert interval(cases(lost, gained, n - lost - gained)) == pytest.approx((low, high))


def test_without_a_change_the_interval_is_not_empty() -> None:
    for n in (10, 35, 1000):
        end = Z_95**2 / (n + Z_95**2)
        assert score_interval(0, 0, n) == pytest.approx((-end, end))
        assert interval(weighted([0.0] * n)) == score_interval(0, 0, n)
    # A loss of 10 points is ruled out from 35 cases on.
    assert score_interval(0, 0, 34)[0] < -0.1 < score_interval(0, 0, 35)[0]
    assert score_interval(10, 0, 10) == pytest.approx((-1.0, restricted_end(10)), abs=1e-6)


def restricted_end(n: int) -> float:
    return float(scipy.optimize.brentq(lambda delta: restricted(n, 0, n, delta) + Z_95, -0.999999, -1e-6))


def test_a_few_graded_changes_do_not_make_a_narrow_interval() -> None:
    found = weighted([-0.4, -0.2, 0.0, 0.1, *[0.0] * 26])
    low, high = interval(found)
    students = student_interval(found)
    assert low < students[0]
    assert students[1] < high
    assert (low, high) == pytest.approx(score_interval(0.6, 0.1, 30))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holms_method_is_every_intersection_tested_at_once(p_values: list[float]) -> None:
    everything = range(len(p_values))
    closed = [
        max(
            min(1.0, len(some) * min(p_values[member] for member in some))
            for size in range(1, len(p_values) + 1)
            for some in combinations(everything, size)
            if one in some
        )
        for one in everything
    ]
    assert holm(p_values) == pytest.approx(closed)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_benjamini_and_hochbergs_method_is_scipys(p_values: list[float]) -> None:
    assert benjamini_hochberg(p_values) == pytest.approx(scipy.stats.false_discovery_control(p_values))


@pytest.mark.parametrize("n", [10, 30, 200])
def test_the_minimum_detectable_effect_is_seen_four_times_in_five(n: int) -> None:
    values = np.random.default_rng(n).normal(0, 0.2, n).clip(-1, 1)
    effect = minimum_detectable_effect(weighted(values))
    assert effect is not None
    shift = effect / (values.std(ddof=1) / math.sqrt(n))
    power = 1 - scipy.stats.nct.cdf(scipy.stats.t.ppf(0.975, n - 1), n - 1, shift)
    assert power == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(("both_ways", "n"), [(0, 40), (3, 60), (40, 400)])
def test_the_minimum_detectable_loss_of_cases_is_seen_four_times_in_five(both_ways: int, n: int) -> None:
    effect = minimum_detectable_effect(cases(both_ways, both_ways, n - 2 * both_ways))
    assert effect is not None
    random = np.random.default_rng(5)
    lost, gained, _ = random.multinomial(n, [both_ways / n + effect, both_ways / n, 1], 3000).T
    seen = np.mean([mcnemar_mid_p(int(a), int(b)) <= 0.05 for a, b in zip(lost, gained, strict=True)])
    assert seen == pytest.approx(0.8, abs=0.1)


def test_nothing_is_detectable_in_a_handful_of_noisy_cases() -> None:
    assert minimum_detectable_effect(cases(1, 1, 0)) is None
    assert minimum_detectable_effect(weighted([-1, 1, -1, 1, 0.5, -0.5])) is None


@pytest.mark.parametrize("effect", [0.03, 0.1])
def test_so_many_cases_see_the_effect_and_fewer_do_not(effect: float) -> None:
    graded = weighted(np.random.default_rng(2).normal(0, 0.3, 40).clip(-1, 1))
    for found in (graded, cases(4, 4, 32), cases(0, 0, 40)):
        needed = cases_to_detect(effect, found)
        for n, sees in ((math.ceil(needed * 1.1) + 3, True), (math.floor(needed * 0.8), False)):
            detectable = minimum_detectable_effect([found[i * len(found) // n] for i in range(n)])
            assert (detectable is not None and detectable <= effect) is sees, (needed, n)


def test_repeating_cases_makes_up_for_fewer_where_repeating_is_the_noise() -> None:
    found = weighted(np.random.default_rng(2).normal(0, 0.3, 40).clip(-1, 1))
    variance = float(np.var([value for value, _ in found], ddof=1))
    assert cases_to_detect(0.1, found, noise=variance, noise_factor=1 / 5) == pytest.approx(
        cases_to_detect(0.1, found) / 5, abs=2
    )
    assert cases_to_detect(0.1, found, noise=0.0, noise_factor=1 / 5) == cases_to_detect(0.1, found)


difference_values = st.one_of(
    st.sampled_from([-1.0, 0.0, 1.0, 0.2, -0.2]), st.floats(-1, 1).map(lambda x: round(x, 12))
)


@given(st.lists(st.tuples(difference_values, st.sampled_from([1.0, 0.5, 3.0])), min_size=2, max_size=40), st.randoms())
def test_order_changes_nothing_and_the_mirror_image_mirrors(found: list[tuple[float, float]], random: Random) -> None:
    shuffled = random.sample(found, len(found))
    mirrored = [(0.0 - value, weight) for value, weight in found]
    low, high = interval(found)
    assert -1 <= low <= high <= 1
    assert interval(shuffled) == (low, high)
    assert interval(mirrored) == (-high, -low)
    assert p_value(found) == p_value(shuffled) == p_value(mirrored)
    assert minimum_detectable_effect(found) == minimum_detectable_effect(shuffled)
    assert minimum_detectable_effect(mirrored) == minimum_detectable_effect(found)
