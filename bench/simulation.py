"""Simulates gates on comparisons with a known truth: `python -m bench.simulation [--write]`.

An agent passes a trial of case i with probability pᵢ, drawn from Beta(2, ½), which is 80 % on average and mostly close
to 0 or 1. A trial has three turns; a failing trial has one bad turn, so that scores of turns are clustered. The change
multiplies every pᵢ, so that the pass rate falls by exactly the given points. `--write` renews the tables of
docs/statistics.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random

import click

from bench import confirmations
from bench.pages import DOCS, markdown_table, replace_table
from holodeck_action.decide.compare.comparison import SIGNIFICANT
from holodeck_action.decide.compare.differences import PairedValues, classify_differences, difference
from holodeck_action.decide.compare.paired_statistics import (
    cases_to_detect,
    interval,
    p_value,
    score_interval,
    student_interval,
)
from holodeck_action.decide.statistics import MIN_SAMPLE

PAGE = DOCS / "statistics.md"
COMMAND = "make statistics"
MARGIN = 0.1
SIZES = (20, 50, 100)
CHANGES = (0.0, -0.1, -0.2)
RUNS = 1000
_A, _B = 2.0, 0.5
_RATE = _A / (_A + _B)
_BELOW = 0.05
_TURNS = 3
_NEEDED = 0.5
"""Share of trials that must pass for a case to pass."""


@dataclass(frozen=True)
class Trials:
    """Number of trials per case; with `all_pass`, all must pass, and the first failure ends the case."""

    number: int
    all_pass: bool = False

    def __str__(self) -> str:
        return f"{self.number}, all must pass" if self.all_pass else str(self.number)


WAYS = (Trials(1), Trials(5), Trials(5, all_pass=True))


def _draw_trial(random: Random, chance: float) -> tuple[bool, float]:
    """Return whether a random trial passes, and its mean score over the turns."""
    passes = random.random() < chance
    bad = 0 if passes else 1
    scores = [0.45 * random.random() for _ in range(bad)] + [0.6 + 0.4 * random.random() for _ in range(_TURNS - bad)]
    return passes, math.fsum(scores) / _TURNS


def _draw_case(random: Random, chance: float, trials: Trials) -> tuple[float, float]:
    """Return the pass rate and score of a random case."""
    done = []
    for _ in range(trials.number):
        done.append(_draw_trial(random, chance))
        if trials.all_pass and not done[-1][0]:
            break
    score = math.fsum(score for _, score in done) / len(done)
    passed = [passes for passes, _ in done]
    return (float(all(passed)) if trials.all_pass else sum(passed) / len(passed)), score


def _draw_run(random: Random, cases: int, trials: Trials, change: float) -> tuple[PairedValues, PairedValues]:
    """Return the pass rates and the scores of both sides in a random comparison."""
    passed, scored = PairedValues(), PairedValues()
    for _ in range(cases):
        chance = random.betavariate(_A, _B)
        base, head = _draw_case(random, chance, trials), _draw_case(random, chance * (1 + change / _RATE), trials)
        passed.add(base[0], head[0], 1.0, None, trials.number)
        scored.add(base[1], head[1], 1.0, None, trials.number)
    return passed, scored


def _threshold(trials: Trials) -> float:
    """Return a fixed rate slightly below the true pass rate of the base."""
    needed = trials.number if trials.all_pass else 1
    return math.prod((_A + n) / (_A + _B + n) for n in range(needed)) - _BELOW


def gate_row(cases: int, trials: Trials, change: float) -> tuple[str, ...]:
    """Return a row with the shares of runs, in percent, by result of the comparison and by failing gate."""
    random = Random(f"{cases} {trials} {change}")
    counts = dict.fromkeys(("regressed", "non_inferior", "inconclusive", "fell", "below", "case"), 0)
    for _ in range(RUNS):
        passed, scored = _draw_run(random, cases, trials, change)
        states = [
            each.state
            for each in classify_differences(
                [difference(values, MARGIN) for values in (passed, scored)], [True, True], MARGIN
            )
        ]
        counts[next(state for state in ("regressed", "inconclusive", "non_inferior") if state in states)] += 1
        before, after = (math.fsum(value for value, _ in side) / cases for side in (passed.base, passed.head))
        counts["fell"] += after < before
        counts["below"] += after < _threshold(trials)
        counts["case"] += any(
            base >= _NEEDED > head for (base, _), (head, _) in zip(passed.base, passed.head, strict=True)
        )
    shares = (f"{100 * number / RUNS:.1f} %" for number in counts.values())
    return str(cases), str(trials), f"{100 * change:+.0f}" if change else "none", *shares


def gate_rows() -> Iterator[tuple[str, ...]]:
    for cases in SIZES:
        for trials in WAYS:
            for change in CHANGES:
                yield gate_row(cases, trials, change)


GATES = (
    *("cases", "trials", "change", "regressed", "not worse", "inconclusive"),
    *("“pass rate fell”", "“below a fixed rate”", "“a case fails now”"),
)


def _bootstrap_interval(differences: Sequence[tuple[float, float]], random: Random) -> tuple[float, float]:
    """Return the 95 % interval of a mean by percentile bootstrap."""
    import numpy as np

    values = np.array([value for value, _ in differences])
    drawn = np.frombuffer(random.randbytes(8 * 999 * len(values)), dtype=np.uint64) % len(values)
    means = values[drawn.reshape(999, len(values))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def _draw_scores(random: Random, cases: int) -> tuple[list[tuple[float, float]], float]:
    """Return weighted differences of scores and their true mean: 10 % fall by 0.5 on average, the others are 0."""
    return [(-random.betavariate(2, 2) if random.random() < 0.1 else 0.0, 1.0) for _ in range(cases)], -0.05


def _share_drawer(trials: Trials, change: float) -> Callable[[Random, int], tuple[list[tuple[float, float]], float]]:
    def draw(random: Random, cases: int) -> tuple[list[tuple[float, float]], float]:
        passed, _ = _draw_run(random, cases, trials, change)
        return [(head - base, 1.0) for (base, _), (head, _) in zip(passed.base, passed.head, strict=True)], change

    return draw


DATA = {
    "pass or fail, 1 trial": _share_drawer(Trials(1), 0.0),
    "pass or fail, 1 trial, −20 points": _share_drawer(Trials(1), -0.2),
    "share of 5 trials": _share_drawer(Trials(5), 0.0),
    "share of 5 trials, −20 points": _share_drawer(Trials(5), -0.2),
    "scores of which one in ten falls": _draw_scores,
}


def interval_row(name: str, cases: int) -> tuple[str, ...]:
    """Return a row with the share of runs in which intervals cover the truth and a change is found, in percent."""
    random = Random(f"{name} {cases}")
    held = [0, 0, 0]
    seen = 0
    truth = 0.0
    for _ in range(RUNS):
        found, truth = DATA[name](random, cases)
        found = [(round(value, 12), weight) for value, weight in found]
        intervals = (interval(found), student_interval(found), _bootstrap_interval(found, random))
        for position, (low, high) in enumerate(intervals):
            held[position] += low - 1e-9 <= truth <= high + 1e-9
        seen += p_value(found) <= SIGNIFICANT
    return name, str(cases), *(f"{100 * number / RUNS:.1f} %" for number in (*held, seen))


def interval_rows() -> Iterator[tuple[str, ...]]:
    for name in DATA:
        for cases in SIZES:
            yield interval_row(name, cases)


SIZES_HEADS = (
    "margin",
    "cases that rule out a larger loss when none changes",
    "cases that find such a loss 4 times in 5",
    "the same when 1 case in 10 changes by chance",
)


def size_rows() -> Iterator[tuple[str, ...]]:
    steady, noisy = [(0.0, 1.0)] * 100, [(-1.0, 1.0)] * 5 + [(1.0, 1.0)] * 5 + [(0.0, 1.0)] * 90
    for margin in (0.2, 0.1, 0.05, 0.02):
        ruling_out = next(n for n in count(MIN_SAMPLE) if score_interval(0, 0, n)[0] > -margin)
        seeing = (cases_to_detect(margin, differences) for differences in (steady, noisy))
        yield f"{100 * margin:g} points", str(ruling_out), *map(str, seeing)


INTERVALS = ("differences", "cases", "ours", "Student's", "bootstrap", "p ≤ 0.05")
TABLES = {
    "sizes": (SIZES_HEADS, size_rows),
    "gates": (GATES, gate_rows),
    "intervals": (INTERVALS, interval_rows),
    "confirmations": (confirmations.HEADS, confirmations.rows),
}


@click.command()
@click.option("--write", is_flag=True, help="Renew the tables of docs/statistics.md.")
def main(write: bool) -> None:
    """Simulate gates and intervals."""
    show_tables(TABLES, write=write)


def show_tables(
    tables: Mapping[str, tuple[Sequence[str], Callable[[], Iterable[Sequence[str]]]]], *, write: bool
) -> None:
    """Print tables, given by name as their heads and a function that returns their rows; or renew them on the page."""
    for name, (heads, rows) in tables.items():
        text = markdown_table(heads, rows())
        if not write:
            click.echo(text)
            continue
        replace_table(PAGE, name, COMMAND, text)


if __name__ == "__main__":
    main()
