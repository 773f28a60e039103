"""Measures every report of a large run: `python -m bench.large [CASES] [--kib N]`, with 100,000 cases by default.

Each command reads the record case by case, so its memory beyond that of the smallest command is what it keeps. With
`--kib 150`, each wrong answer has 150 KiB, and the record of 100,000 cases has 3 GiB.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import click

from bench.processes import PROGRAM, Cost, measure
from bench.recorded import TEXT_METRICS
from bench.suites import write_long_suite, write_suite
from holodeck_action.reports.formats import FORMATS

_RECORD = "out/results.json"


@click.command()
@click.argument("cases", type=click.IntRange(min=1), default=100_000)
@click.option(
    "--kib",
    type=click.IntRange(min=1),
    help="Size of each wrong answer; a function then answers, and equality alone grades.",
)
def main(cases: int, kib: int | None) -> None:
    """Run a suite of so many cases, every fifth answer wrong; judge, compare and report it in every format."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        if kib is None:
            write_suite(folder, cases, ("equality", *TEXT_METRICS))
        else:
            write_long_suite(folder, cases, kib)
        click.echo(f"{cases:,} cases, every fifth of which fails:")
        click.echo(
            f"{'command':<24}  {'wall s':>7}  {'CPU s':>7}  {'µs CPU/case':>11}  {'peak MiB':>8}  {'written MiB':>11}"
        )
        _print_cost("run", _measure(folder, "run", "-o", "out"), cases, folder / _RECORD)
        _print_cost(
            "decide", _measure(folder, "decide", _RECORD, "-o", "again"), cases, folder / "again" / "verdict.json"
        )
        shutil.rmtree(folder / "again")
        file = folder / "compared"
        _print_cost("compare", _measure(folder, "compare", _RECORD, _RECORD, "-o", file.name), cases, file)
        for name in ("html", *FORMATS):
            file = folder / f"report.{name}"
            cost = _measure(folder, "report", _RECORD, "--format", name, "-o", file.name)
            _print_cost(f"report --format {name}", cost, cases, file)
            file.unlink()


def _measure(folder: Path, *arguments: str) -> Cost:
    cost = measure((*PROGRAM, *arguments), folder)
    if cost.code not in (0, 1):
        raise SystemExit(f"{' '.join(arguments)} ended with exit code {cost.code}: {cost.said}")
    return cost


def _print_cost(what: str, cost: Cost, cases: int, written: Path) -> None:
    size = written.stat().st_size / 2**20
    each = 1e6 * cost.cpu_s / cases
    click.echo(
        f"{what:<24}  {cost.wall_s:>7.1f}  {cost.cpu_s:>7.1f}  {each:>11.0f}  {cost.peak_mib:>8.0f}  {size:>11.1f}"
    )


if __name__ == "__main__":
    main()
