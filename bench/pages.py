"""Tables of pages in docs/ that are made by commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

DOCS = Path(__file__).parents[1] / "docs"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def marks(name: str, command: str) -> tuple[str, str]:
    """What stands before and after a table of a page, by its name and the command that makes it."""
    return f"<!-- {name}: made by `{command}` -->\n", f"<!-- end of {name} -->"


def made_table(page: Path, name: str, command: str) -> str:
    """Return a table as the page has it; empty where it has none."""
    begin, end = marks(name, command)
    return page.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]


def renew(page: Path, name: str, command: str, text: str) -> None:
    """Write a table into its place.

    Raises:
        click.ClickException: the page has no place for it.
    """
    begin, end = marks(name, command)
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise click.ClickException(f"{page} has no place for the table {name}")
    page.write_text(f"{before}{begin}{text}{end}{after}", encoding="utf-8")
