"""Plays the tour of examples/repository, and writes what there is to look at.

    python -m scripts.tour

Each commit of a small shop is pushed to the fake GitHub of the tests. The workflows of the shop start the Action, as
real processes, and a scripted server on loopback answers for the models. The exit code is 1 if an outcome differs from
the one that examples/repository/tour.yaml expects.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import click

from scripts.tour.pages import write_pages
from scripts.tour.story import read_story
from scripts.tour.tour import EXAMPLE, play


@click.command(help=__doc__.partition("\n")[0] if __doc__ else None)
@click.option("--output", default="holodeck-results/tour", show_default=True, type=click.Path(path_type=Path))
@click.option("--steps", type=click.IntRange(1), help="Play only the first N steps.")
def main(output: Path, steps: int | None) -> None:
    if output.exists():
        shutil.rmtree(output)
    output.mkdir(parents=True)
    began, played = time.monotonic(), []
    for done in play(read_story(EXAMPLE / "tour.yaml")[:steps], output):
        played.append(done)
        codes = ", ".join(str(run.code) for run in done.runs)
        click.echo(f"{'as expected' if not done.problems else 'NOT AS EXPECTED'}  {done.step.title}: exit code {codes}")
        for problem in done.problems:
            click.echo(f"    {problem}")
    write_pages(played, output)
    click.echo(f"{time.monotonic() - began:.0f} s; open {output / 'index.html'}")
    sys.exit(any(done.problems for done in played))


if __name__ == "__main__":
    main()
