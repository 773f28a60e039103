"""The e-process of a race: against an independent implementation, and against simulated truth."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations
from random import Random

import pytest

from bench.pages import current_table
from bench.races import CALLS_HEADS, DROPS_HEADS, FIELDS, GAPS, SIZES, calls_row, drops_row, simulate
from bench.simulation import COMMAND, PAGE
from holodeck_action.extensions.race.evidence import BETS, UNKNOWN, Bounds, Evidence, Standing, start_race


def direct_wealth(differences: list[Fraction], cases: int) -> Fraction:
    """The mean over the grid of bets of the products, each factor from the definition, in exact arithmetic."""
    total = Fraction(0)
    for numerator in range(1, 20, 2):
        product = Fraction(1)
        for at, difference in enumerate(differences):
            mean = -sum(differences[:at], Fraction(0)) / (cases - at)
            stake = Fraction(numerator, 20)
            if mean > -1:
                stake = min(stake, 1 / (1 + mean))
            product *= 1 + stake * (difference - mean)
        total += product
    return total / 10


def known(*values: float) -> dict[int, Bounds]:
    return {at: Bounds(value, value) for at, value in enumerate(values)}


def raced(grid: Sequence[Sequence[float]]) -> Standing:
    standing = start_race(len(grid[0]), len(grid))
    for row in grid:
        if standing.is_over:
            return standing
        standing = standing.add_case({at: Bounds(row[at], row[at]) for at in standing.living})
    return standing


@pytest.mark.parametrize("seed", range(6))
def test_the_wealth_is_the_direct_product(seed: int) -> None:
    random = Random(seed)
    cases = random.choice((1, 7, 40))
    steps = [-20, 0, 20] if seed % 2 else list(range(-20, 21))
    drawn = [Fraction(random.choice(steps), 20) for _ in range(cases)]
    evidence = Evidence(cases)
    for at, difference in enumerate(drawn):
        evidence = evidence.after(float(difference))
        expected = direct_wealth(drawn[: at + 1], cases)
        assert evidence.wealth == pytest.approx(float(expected), rel=1e-9, abs=1e-9)
    assert len(BETS) == 10


def test_the_expected_wealth_never_grows_if_the_rival_is_not_better() -> None:
    """Exact: over all orders of a list that adds up to 0, at any fixed time, and at the highest wealth of all."""
    differences = (1.0, 1.0, 0.5, -0.5, -1.0, -1.0)
    orders = list(permutations(differences))
    sums = [0.0] * (len(differences) + 1)
    reached = 0
    for order in orders:
        evidence = Evidence(len(order))
        highest = 0.0
        for at, difference in enumerate(order, start=1):
            evidence = evidence.after(difference)
            sums[at] += evidence.wealth
            highest = max(highest, evidence.wealth)
        reached += highest >= 2
    assert max(sums) / len(orders) <= 1 + 1e-9
    assert 0 < reached / len(orders) <= 1 / 2


def test_a_variant_is_dropped_at_the_threshold_of_the_start() -> None:
    grid = [(1.0, 0.0, 1.0)] * 60
    standing = raced(grid)
    assert standing.living == (0, 2)
    assert standing.seen == 60
    assert standing.threshold == 2 / 0.05
    drop = standing.dropped[1]
    before = Evidence(60)
    for _ in range(drop.cases - 1):
        before = before.after(1.0)
    assert before.wealth < 40 <= drop.wealth == before.after(1.0).wealth
    # Two variants need less evidence.
    assert raced([(1.0, 0.0)] * 60).dropped[1].cases < drop.cases


def test_variants_that_cannot_be_told_apart_stay() -> None:
    equal = [(1.0, 0.0), (0.0, 1.0)] * 50
    assert raced(equal).living == (0, 1)
    assert raced([*equal[1:], (1.0, 1.0)]).living == (0, 1)


def test_an_unknown_value_is_no_loss_and_no_win() -> None:
    """Nobody is dropped for an unknown value, and nobody drops another by one."""
    for unknown in (0, 1):
        standing = start_race(2, 100)
        for _ in range(100):
            standing = standing.add_case({**known(1.0, 0.0), unknown: UNKNOWN})
        assert standing.living == (0, 1)


def test_a_light_case_moves_the_evidence_less() -> None:
    light, full = start_race(2, 40), start_race(2, 40)
    light, full = light.add_case(known(1.0, 0.0), 0.5), full.add_case(known(1.0, 0.0))
    assert 1 < light.evidence[0, 1].wealth < full.evidence[0, 1].wealth
    assert light.evidence[0, 1] == Evidence(40).after(0.5)


@pytest.mark.parametrize(("variants", "runs"), [(2, 120), (4, 60), (8, 20)])
@pytest.mark.parametrize("name", FIELDS)
def test_the_best_of_the_full_grid_is_kept(variants: int, runs: int, name: str) -> None:
    """A small version of the table, on fewer cases; ties and near-ties."""
    lost = sum(each.lost for each in simulate(variants, FIELDS[name], runs, cases=60))
    assert lost <= 0.05 * runs


def test_a_race_of_unequal_variants_saves_calls() -> None:
    few = [simulate(4, gap, 10, cases=100) for gap in (0.05, 0.4)]
    shares = [sum(each.calls for each in done) / len(done) for done in few]
    assert shares[1] < 0.6 < shares[0]
    assert all(each.standing.living == (0,) for each in few[1])


def cells(name: str) -> list[list[str]]:
    lines = current_table(PAGE, name, COMMAND).splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_tables_keep_what_they_promise() -> None:
    drops, calls = cells("races"), cells("race calls")
    assert drops[0] == [*DROPS_HEADS]
    assert len(drops) == 2 + len(SIZES) * len(FIELDS)
    assert max(float(row[2][:-2]) for row in drops[2:]) <= 5.0
    assert calls[0] == [*CALLS_HEADS]
    assert len(calls) == 2 + 2 * len(GAPS)
    assert max(float(row[-1][:-2]) for row in calls[2:]) <= 5.0
    shares = [float(row[2][:-2]) for row in calls[2:]]
    assert shares[0] > shares[1] > shares[2]
    assert shares[3] > shares[4] > shares[5]


@pytest.mark.full
def test_rows_of_the_tables_come_out_again() -> None:
    assert [*drops_row(2, "all the same")] in cells("races")
    assert [*calls_row(2, 0.2)] in cells("race calls")
