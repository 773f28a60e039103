"""Judges against labels: every formula held against scipy, exact arithmetic, or simulation."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.decide.agreement import (
    alpha_of_pairs,
    cohen_kappa,
    corrected_rate,
    count_confusion,
    mean_absolute_error,
    pearson,
    spearman,
    wilson,
)
from holodeck_action.record.judge_card import NO_ESTIMATE, Confusion, Estimate
from tests.tables import walk

TABLES = st.builds(Confusion, *[st.integers(0, 60)] * 4)


def ends(found: Estimate) -> tuple[float, float]:
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def test_verdicts_are_counted_by_who_said_what() -> None:
    verdicts = [(True, True)] * 4 + [(False, True)] * 3 + [(True, False)] * 2 + [(False, False)]
    found = count_confusion(verdicts)
    assert found == Confusion(true_pass=4, false_pass=3, false_fail=2, true_fail=1)
    assert (found.n, found.agreement_count, found.human_passes, found.human_fails, found.judge_passes) == (
        10,
        5,
        6,
        4,
        7,
    )


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_rate_has_wilsons_interval(counts: tuple[int, int]) -> None:
    successes, n = counts
    found = wilson(successes, n)
    expected = scipy.stats.binomtest(successes, n).proportion_ci(method="wilson")
    assert found.value == successes / n
    low, high = ends(found)
    assert low == pytest.approx(expected.low, abs=1e-9)
    assert high == pytest.approx(expected.high, abs=1e-9)


def test_nothing_is_known_of_no_answers() -> None:
    empty = Confusion(0, 0, 0, 0)
    assert wilson(0, 0) == cohen_kappa(empty) == corrected_rate(0, 0, empty) == alpha_of_pairs([]) == NO_ESTIMATE
    assert pearson([]) is spearman([(1.0, 1.0)]) is mean_absolute_error([]) is None


@given(TABLES)
def test_kappa_is_that_of_its_definition(table: Confusion) -> None:
    n = table.n
    found = cohen_kappa(table)
    if not n or table.human_passes == table.judge_passes == n or table.human_passes == table.judge_passes == 0:
        assert found == NO_ESTIMATE
        return
    agreed = Fraction(table.true_pass + table.true_fail, n)
    chance = Fraction(table.human_passes * table.judge_passes, n * n)
    chance += Fraction((n - table.human_passes) * (n - table.judge_passes), n * n)
    expected = float((agreed - chance) / (1 - chance))
    assert found.value == pytest.approx(expected, abs=1e-9)
    assert (found.low is None) == (n < 10)
    if n >= 10:
        low, high = ends(found)
        assert -1 <= low <= expected + 1e-9
        assert expected - 1e-9 <= high <= 1


def numeric_error(table: Confusion) -> float:
    """κ's standard error by the delta method with numeric derivatives: no formula of Fleiss's."""
    cells = [table.true_pass, table.false_pass, table.false_fail, table.true_fail]
    n = sum(cells)
    shares = [cell / n for cell in cells]

    def kappa(p: list[float]) -> float:
        total = sum(p)
        a, b, c, d = (x / total for x in p)
        chance = (a + c) * (a + b) + (b + d) * (c + d)
        return (a + d - chance) / (1 - chance)

    step = 1e-6
    slopes = []
    for at in range(4):
        up = [*shares]
        down = [*shares]
        up[at] += step
        down[at] -= step
        slopes.append((kappa(up) - kappa(down)) / (2 * step))
    mean = sum(p * slope for p, slope in zip(shares, slopes, strict=True))
    return math.sqrt(sum(p * (slope - mean) ** 2 for p, slope in zip(shares, slopes, strict=True)) / n)


@pytest.mark.parametrize(
    "table", [Confusion(400, 90, 80, 430), Confusion(900, 40, 60, 100), Confusion(300, 5, 290, 305)]
)
def test_kappas_interval_is_at_least_that_of_its_standard_error(table: Confusion) -> None:
    found = cohen_kappa(table)
    low, high = ends(found)
    assert found.value is not None
    margin = 1.959963984540054 * numeric_error(table)
    assert low <= found.value - margin + 1e-6
    assert high >= found.value + margin - 1e-6
    # And hardly wider, with as many answers.
    assert high - low <= 1.4 * 2 * margin


def test_perfect_agreement_on_few_answers_is_no_certainty() -> None:
    low, high = ends(cohen_kappa(Confusion(6, 0, 0, 6)))
    assert (round(low, 3), high) == (0.515, 1.0)
    assert cohen_kappa(Confusion(4, 0, 0, 5)) == Estimate(1.0)


def simulated(chance: random.Random, n: int, rate: float, sensitivity: float, specificity: float) -> Confusion:
    verdicts = []
    for _ in range(n):
        human = chance.random() < rate
        verdicts.append((human, chance.random() < (sensitivity if human else 1 - specificity)))
    return count_confusion(verdicts)


@walk("n", [20, 100])
@walk(("rate", "sensitivity", "specificity"), [(0.5, 0.9, 0.9), (0.8, 0.95, 0.7), (0.9, 0.98, 0.6)])
def test_intervals_hold_what_they_promise(n: int, rate: float, sensitivity: float, specificity: float) -> None:
    """In at least 93 % of samples, the truth is inside; the bound of chance alone is 0.93 at 1,000 of them."""
    chance = random.Random(3)
    both = rate * sensitivity + (1 - rate) * specificity
    judge = rate * sensitivity + (1 - rate) * (1 - specificity)
    by_chance = rate * judge + (1 - rate) * (1 - judge)
    kappa, target = (both - by_chance) / (1 - by_chance), 0.7
    p = target * sensitivity + (1 - target) * (1 - specificity)
    held = {"kappa": [], "rate": []}  # type: dict[str, list[bool]]
    for _ in range(1000):
        table = simulated(chance, n, rate, sensitivity, specificity)
        found = cohen_kappa(table)
        if found.low is not None:
            low, high = ends(found)
            held["kappa"].append(low <= kappa <= high)
        corrected = corrected_rate(sum(chance.random() < p for _ in range(200)), 200, table)
        if corrected.value is not None:
            low, high = ends(corrected)
            held["rate"].append(low <= target <= high)
    for name, inside in held.items():
        assert sum(inside) / len(inside) >= 0.93, name


def test_a_rate_is_corrected_by_what_the_judge_misses() -> None:
    # se .9, sp .8; of 1000 answers 690 pass: (.69 + .8 − 1)/(.9 + .8 − 1) = .7.
    found = corrected_rate(690, 1000, Confusion(90, 20, 10, 80))
    assert found.value == pytest.approx(0.7)
    low, high = ends(found)
    assert low < 0.7 < high
    # Independent: the delta method over three binomial rates, close to it with as many answers.
    error = math.sqrt(0.69 * 0.31 / 1000 + 0.7**2 * 0.9 * 0.1 / 100 + 0.3**2 * 0.8 * 0.2 / 100) / 0.7
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.1)
    # Fewer labels, less certain.
    fewer = ends(corrected_rate(690, 1000, Confusion(9, 2, 1, 8)))
    assert fewer[1] - fewer[0] > 2 * (high - low)


@walk(
    ("passes", "table", "value"),
    [
        # Fewer passes than a judge with this specificity gives to bad answers alone.
        (10, Confusion(90, 20, 10, 80), 0.0),
        (100, Confusion(90, 20, 10, 80), 1.0),
        # No label of one class; a judge that guesses; a judge that errs always.
        (50, Confusion(90, 0, 10, 0), None),
        (50, Confusion(0, 20, 0, 80), None),
        (50, Confusion(50, 50, 50, 50), None),
        (50, Confusion(1, 9, 9, 1), None),
    ],
)
def test_a_corrected_rate_at_its_edges(passes: int, table: Confusion, value: float | None) -> None:
    found = corrected_rate(passes, 100, table)
    assert found.value == value
    if value is not None:
        low, high = ends(found)
        assert 0 <= low <= value <= high <= 1


@given(TABLES, st.integers(0, 50))
def test_a_corrected_rate_stays_a_rate(table: Confusion, passes: int) -> None:
    found = corrected_rate(passes, 50, table)
    if found.value is not None:
        low, high = ends(found)
        assert 0 <= low <= found.value <= high <= 1


def test_alphas_interval_is_that_of_a_bootstrap() -> None:
    """Against scipy's percentile bootstrap with α pair by pair."""
    chance = random.Random(11)
    pairs = [(float(human), float(human if chance.random() < 0.85 else not human)) for human in [0, 1, 1] * 20]

    def by_pairs(one: list[float], other: list[float]) -> float:
        values = [*one, *other]
        n, mean = len(values), sum(values) / len(values)
        observed = sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) * 2 / n
        expected = 2 * sum((value - mean) ** 2 for value in values) / (n - 1)
        return 1 - observed / expected

    found = alpha_of_pairs(pairs)
    one, other = (list(side) for side in zip(*pairs, strict=True))
    assert found.value == pytest.approx(by_pairs(one, other))
    expected = scipy.stats.bootstrap(
        (one, other), by_pairs, paired=True, vectorized=False, n_resamples=2000, method="percentile", random_state=5
    ).confidence_interval
    low, high = ends(found)
    assert low == pytest.approx(expected.low, abs=0.05)
    assert high == pytest.approx(expected.high, abs=0.05)
    assert alpha_of_pairs(pairs) == found


def test_turns_of_one_conversation_are_resampled_together() -> None:
    chance = random.Random(2)
    once = [(float(chance.random() < 0.5), float(chance.random() < 0.5)) for _ in range(30)]
    repeated = [pair for pair in once for _ in range(5)]
    groups = [at for at in range(30) for _ in range(5)]
    apart, together = ends(alpha_of_pairs(repeated)), ends(alpha_of_pairs(repeated, groups))
    assert together[1] - together[0] > 1.7 * (apart[1] - apart[0])


def test_alpha_has_no_interval_where_a_bootstrap_tells_nothing() -> None:
    assert alpha_of_pairs([(1.0, 1.0), (0.0, 0.0)] * 20) == Estimate(1.0)
    assert alpha_of_pairs([(1.0, 1.0)] * 20) == NO_ESTIMATE
    few = alpha_of_pairs([(1.0, 0.0), (0.0, 0.0), (1.0, 1.0)] * 3)
    assert few.value is not None
    assert few.low is None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=3, max_size=50))
def test_correlations_and_error(whole: list[tuple[int, int]]) -> None:
    pairs = [(x / 20, y / 20) for x, y in whole]
    xs, ys = zip(*pairs, strict=True)
    assert mean_absolute_error(pairs) == pytest.approx(sum(abs(x - y) for x, y in pairs) / len(pairs))
    if len(set(xs)) == 1 or len(set(ys)) == 1:
        assert pearson(pairs) is spearman(pairs) is None
        return
    assert pearson(pairs) == pytest.approx(scipy.stats.pearsonr(xs, ys).statistic, abs=1e-9)
    assert spearman(pairs) == pytest.approx(scipy.stats.spearmanr(xs, ys).statistic, abs=1e-9)
