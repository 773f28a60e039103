"""The table of goals in docs/performance.md has the rows that `python -m bench.goals` prints, judged as it judges."""

from __future__ import annotations

import re

from bench.goals import HEADS, Goal
from bench.pages import DOCS, current_table, markdown_table

SHOWN = current_table(DOCS / "performance.md", "goals", "python -m bench.goals --markdown")
ROWS = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in SHOWN.splitlines()[2:]]


def number(text: str) -> float:
    found = re.search(r"[\d.]+", text)
    assert found is not None
    return float(found[0])


def test_the_table_is_one_of_the_command() -> None:
    assert SHOWN.startswith(markdown_table(HEADS, []))
    assert len(ROWS) >= 15
    assert len({row[0] for row in ROWS}) == len(ROWS)


def test_each_goal_is_judged_by_its_figures() -> None:
    for name, measured, bound, _, held in ROWS:
        if number(measured) == number(bound):
            # They were rounded.
            continue
        goal = Goal(name, number(measured), number(bound), measured.split()[-1], "", at_least=bound.startswith("≥"))
        assert goal.row()[-1] == held, name


def test_a_goal_is_held_at_its_bound() -> None:
    assert Goal("at most", 2.0, 2.0, "ms", "").is_reached
    assert not Goal("at most", 2.01, 2.0, "ms", "").is_reached
    assert Goal("at least", 10.0, 10.0, "×", "", at_least=True).is_reached
    assert not Goal("at least", 9.9, 10.0, "×", "", at_least=True).is_reached
    assert Goal("peak", 250.4, 250, "MiB", "floor").row() == ("peak", "250 MiB", "≤ 250 MiB", "floor", "**no**")
