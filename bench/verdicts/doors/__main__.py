"""Runs the scenarios over the doors of our own program: `python -m bench.verdicts.doors [ID…]`."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import click

from bench.pages import markdown_table
from bench.verdicts.doors.outcomes import VERDICTS, Outcome, Verdict, run_scenario
from bench.verdicts.doors.scenarios import FOLDER, read_doors


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID…]")
@click.option("--folder", type=click.Path(path_type=Path), default=FOLDER, help="The folder of the files.")
@click.option("--output", is_flag=True, help="Print the output of wrong scenarios.")
@click.option("--costs", is_flag=True, help="Print the seconds of processor time of each scenario.")
def main(ids: tuple[str, ...], folder: Path, output: bool, costs: bool) -> None:
    """Run all scenarios, or those with an ID or of a door; the exit code is 1 if one is wrong."""
    scenarios = [each for each in read_doors(folder) if not ids or each.id in ids or each.door in ids]
    if missing := [each for each in ids if each not in {name for one in scenarios for name in (one.id, one.door)}]:
        raise click.ClickException(f"no scenario or door has the name {missing[0]}")
    outcomes = []
    for scenario in scenarios:
        found = run_scenario(scenario)
        outcomes.append(found)
        if costs:
            print_cost(found)
        if found.verdict != "right":
            click.echo(f"{found.verdict}: {scenario.id}: {found.detail}\n  {scenario.does} {scenario.why}")
            if output:
                click.echo(found.ended.log + (f"sound:\n{found.control.log}" if found.control else ""))
    click.echo(table(outcomes))
    sys.exit(any(each.verdict != "right" for each in outcomes))


def print_cost(outcome: Outcome) -> None:
    """Print the processor time of a scenario, and that of its sound variant."""
    sound = f" + {outcome.control.cpu_s:.2f}" if outcome.control else ""
    click.echo(f"{outcome.ended.cpu_s:.2f}{sound} s {outcome.scenario.id}")


def table(outcomes: Iterable[Outcome]) -> str:
    """Return the number of each verdict by door, as a table in Markdown."""
    counts: defaultdict[str, Counter[Verdict]] = defaultdict(Counter)
    for each in outcomes:
        for row in (each.scenario.door, "**all**"):
            counts[row][each.verdict] += 1
    rows = [*(name for name in counts if name != "**all**"), "**all**"]
    cells = ([name, *(str(counts[name][verdict] or "") for verdict in VERDICTS)] for name in rows)
    return markdown_table(("door", *VERDICTS), cells)


if __name__ == "__main__":
    main()
