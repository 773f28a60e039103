"""Simulates races of variants with a known truth, `python -m bench.races [--write]`.

The variants answer the same cases. With a probability of 0.7, a variant's answer depends on the case's difficulty, and
otherwise on chance alone, so that the variants agree on many cases, as variants of one agent do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import click
from msgspec import Struct

from bench.simulation import show_tables
from holodeck_action.extensions.race.evidence import Bounds, Standing, start_race

CASES, RUNS = 200, 500
RATE = 0.8
_SHARED = 0.7
FIELDS = {"all the same": 0.0, "the others 1 point worse": 0.01, "the others 5 points worse": 0.05}
"""By how much the other variants are worse than the best, in tests of the error rate."""
SIZES = (2, 4, 8, 16)
GAPS = (0.05, 0.1, 0.2)
DROPS_HEADS = ("variants", "pass rates", "the best was dropped")
CALLS_HEADS = ("variants", "the others are worse by", "calls", "only the best is left", "the best was dropped")


class Simulated(Struct, frozen=True):
    """A simulated race: its end, the share of the full grid's calls, and whether the full grid's best was dropped."""

    standing: Standing
    calls: float
    lost: bool


def draw_grid(random: Random, rates: Sequence[float], cases: int) -> list[tuple[float, ...]]:
    """Return the values of all variants, 1 or 0, in each case."""
    grid = []
    for _ in range(cases):
        difficulty = random.random()
        drawn = (difficulty if random.random() < _SHARED else random.random() for _ in rates)
        grid.append(tuple(float(each < rate) for each, rate in zip(drawn, rates, strict=True)))
    return grid


def run_race(grid: Sequence[Sequence[float]]) -> Simulated:
    """Race the variants of a full grid."""
    variants, answered = len(grid[0]), 0
    standing = start_race(variants, len(grid))
    for values in grid:
        if standing.is_over:
            break
        answered += len(standing.living)
        standing = standing.add_case({each: Bounds(values[each], values[each]) for each in standing.living})
    sums = [sum(values[each] for values in grid) for each in range(variants)]
    # One certain variant of those with the highest sum: the promise holds for each of them.
    return Simulated(standing, answered / (variants * len(grid)), sums.index(max(sums)) in standing.dropped)


def simulate(variants: int, gap: float, runs: int, cases: int = CASES) -> list[Simulated]:
    """Return simulated races in which all variants but the first are worse by `gap`."""
    random = Random(f"{variants} {gap} {cases}")
    rates = (RATE, *(RATE - gap,) * (variants - 1))
    return [run_race(draw_grid(random, rates, cases)) for _ in range(runs)]


def drops_row(variants: int, name: str, runs: int = RUNS) -> tuple[str, ...]:
    """Return the proportion of races that drop the best variant of the full grid, in percent."""
    lost = sum(each.lost for each in simulate(variants, FIELDS[name], runs))
    return str(variants), name, f"{100 * lost / runs:.1f} %"


def calls_row(variants: int, gap: float, runs: int = RUNS) -> tuple[str, ...]:
    """Return the calls of races in percent of the full grid's, and how they ended."""
    done = simulate(variants, gap, runs)
    calls = sum(each.calls for each in done) / runs
    alone = sum(each.standing.living == (0,) for each in done) / runs
    lost = sum(each.lost for each in done) / runs
    return str(variants), f"{100 * gap:g} points", *(f"{100 * share:.1f} %" for share in (calls, alone, lost))


def drops_rows() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table about the error rate."""
    for variants in SIZES:
        for name in FIELDS:
            yield drops_row(variants, name)


def calls_rows() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table about calls."""
    for variants in (2, 8):
        for gap in GAPS:
            yield calls_row(variants, gap)


TABLES = {"races": (DROPS_HEADS, drops_rows), "race calls": (CALLS_HEADS, calls_rows)}


@click.command()
@click.option("--write", is_flag=True, help="Renew the tables of docs/statistics.md.")
def main(write: bool) -> None:
    """Simulate races."""
    show_tables(TABLES, write=write)


if __name__ == "__main__":
    main()
