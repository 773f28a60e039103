"""The tables of goals in docs/performance.md have the rows that their commands print, judged as these judge."""

from __future__ import annotations

import re

import pytest

from bench import recorded
from bench.pages import DOCS, GOAL_HEADS, Goal, current_table, markdown_table

PAGE = DOCS / "performance.md"
TABLES = {
    "goals": current_table(PAGE, "goals", "python -m bench.goals --markdown"),
    "cases": current_table(PAGE, "cases", recorded.COMMAND),
}


def rows_of(name: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in TABLES[name].splitlines()[2:]]


def number(text: str) -> float:
    found = re.search(r"[\d.]+", text)
    assert found is not None
    return float(found[0])


@pytest.mark.parametrize(("name", "fewest"), [("goals", 15), ("cases", 3)])
def test_the_table_is_one_of_the_command(name: str, fewest: int) -> None:
    rows = rows_of(name)
    assert TABLES[name].startswith(markdown_table(GOAL_HEADS, []))
    assert len(rows) >= fewest
    assert len({row[0] for row in rows}) == len(rows)


@pytest.mark.parametrize("table", TABLES)
def test_each_goal_is_judged_by_its_figures(table: str) -> None:
    for name, measured, bound, _, held in rows_of(table):
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
