"""Reads and renews generated tables in pages of docs/."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

DOCS = Path(__file__).parents[1] / "docs"


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def table_marks(name: str, command: str) -> tuple[str, str]:
    """Return the comments before and after a generated table, by its name and the command that renews it."""
    return f"<!-- {name}: made by `{command}` -->\n", f"<!-- end of {name} -->"


def current_table(page: Path, name: str, command: str) -> str:
    """Return a table's text on the page; empty if the page does not have it."""
    begin, end = table_marks(name, command)
    return page.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]


def replace_table(page: Path, name: str, command: str, text: str) -> None:
    """Replace a table on a page.

    Raises:
        click.ClickException: the page has no place for it.
    """
    begin, end = table_marks(name, command)
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise click.ClickException(f"{page} has no place for the table {name}")
    page.write_text(f"{before}{begin}{text}{end}{after}", encoding="utf-8")


GOAL_HEADS = ("goal", "measured", "bound", "floor in the same run", "held")
"""Heads of a table of goals."""


@dataclass(frozen=True)
class Goal:
    """One goal: its name, the measured figure and its bound in the same unit, and a description of the floor."""

    name: str
    figure: float
    bound: float
    unit: str
    floor: str
    at_least: bool = False

    @property
    def is_reached(self) -> bool:
        """Whether the figure is within the bound."""
        return self.figure >= self.bound if self.at_least else self.figure <= self.bound

    def row(self) -> tuple[str, ...]:
        """Return the goal's row in the table."""
        sign = "≥" if self.at_least else "≤"
        return (
            self.name,
            _figure_text(self.figure, self.unit),
            f"{sign} {_figure_text(self.bound, self.unit)}",
            self.floor,
            "yes" if self.is_reached else "**no**",
        )


def _figure_text(value: float, unit: str) -> str:
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.2f} {unit}"
