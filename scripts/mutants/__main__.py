"""The command: see the package's docstring."""

from __future__ import annotations

import json
import shlex
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from scripts.mutants.places import Place, choose, find_places
from scripts.mutants.trying import Copy, room_of
from scripts.products import ROOT

MEMORY = Path("/dev/shm")
EXTENSIONS = "extensions"
LEFT_OUT = (
    "metrics/judging/libraries_serving.py",
    "reports/template_process.py",
    "text/plain.py",
    "workers/code_errors.py",
    "workers/frames.py",
    "workers/grading.py",
    "workers/json_values.py",
    "workers/limited_workers.py",
    "workers/row_writer.py",
    "workers/serving.py",
    "workers/worker.py",
)
"""Modules for processes whose environment does not say which mutant is on."""


def list_places(root: Path, package: str, seed: int) -> Iterator[Place]:
    """Yield all places of a package, without its extensions."""
    for path in sorted((root / package).rglob("*.py")):
        module = path.relative_to(root / package)
        if module.parts[0] != EXTENSIONS and module.as_posix() not in LEFT_OUT:
            yield from find_places(path.read_bytes(), path.relative_to(root).as_posix(), seed)


def mark_expression(tier: str, root: Path) -> str | None:
    """Return the mark expression of a tier; None for the tests that pytest runs by itself."""
    if tier == "default":
        return None
    if tier != "full":
        return tier
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    options = shlex.split(settings["tool"]["pytest"]["ini_options"]["addopts"])
    return " and ".join(term for term in options[options.index("-m") + 1].split(" and ") if term != "not full")


def outcome_in_words(outcome: Mapping[str, Any] | None, seconds: float) -> str:
    """Return the outcome of a mutant as a heading; None if no test executes it."""
    if outcome is None:
        return "never executed"
    if outcome["found"] is not None:
        return "found"
    return "not found" if outcome["run"] >= outcome["of"] else f"not found within {seconds:g} s"


def report(places: Sequence[Place], outcomes: Mapping[int, Mapping[str, Any]], seconds: float) -> Iterator[str]:
    """Yield the lines of the result; outcomes are by the numbers of places, which start at 1."""
    words = {number: outcome_in_words(outcomes.get(number), seconds) for number in range(1, len(places) + 1)}
    totals = Counter(words.values())
    rest = "".join(f", {totals[word]} {word}" for word in sorted(totals) if word != "found")
    yield f"{totals['found']} of {len(places)} changes were found ({totals['found'] / len(places):.1%}){rest}"
    rooms: dict[str, Counter[str]] = defaultdict(Counter)
    for number, place in enumerate(places, 1):
        rooms[room_of(place)][words[number]] += 1
    yield f"\n{'room':<12} {'places':>6} {'found':>6}"
    for room, counts in sorted(rooms.items()):
        yield f"{room:<12} {counts.total():>6} {counts['found']:>6}"
    for word in sorted(totals):
        if word != "found":
            yield f"\n{word}:"
            yield from (f"  {place}" for number, place in enumerate(places, 1) if words[number] == word)


@click.command()
@click.option("--seed", type=int, required=True, help="Decides which places are changed.")
@click.option("--count", type=click.IntRange(1), default=150, show_default=True, help="The number of places.")
@click.option("--tier", default="default", show_default=True, help="The tests: default, full, or a mark expression.")
@click.option("--seconds", type=float, default=60, show_default=True, help="The most CPU of tests for one change.")
@click.option("--processes", type=click.IntRange(1), default=2, show_default=True, help="Processors for the tests.")
@click.option("--root", type=click.Path(path_type=Path, exists=True), default=ROOT, help="The checkout.")
@click.option("--package", default="holodeck_action", show_default=True, help="The package to change.")
@click.option("--keep", type=click.Path(path_type=Path), help="A folder for all files; continues an interrupted call.")
@click.argument("tests", nargs=-1)
def main(
    seed: int,
    count: int,
    tier: str,
    seconds: float,
    processes: int,
    root: Path,
    package: str,
    keep: Path | None,
    tests: tuple[str, ...],
) -> None:
    """Change places of the core one at a time, and count the changes that TESTS find; without TESTS, all of a tier."""
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=MEMORY if MEMORY.is_dir() else None) as temporary:
        house = Copy(Path(temporary) if keep is None else keep.absolute(), package, processes)
        called = json.dumps([seed, count, tier, str(root.absolute()), package, tests])
        settings, listed, recorded = (house.folder / name for name in ("settings.json", "places.json", "recorded"))
        if not settings.exists():
            places = choose([*list_places(root, package, seed)], count)
            if not places:
                raise click.ClickException(f"{root / package} has no function with a place to change")
            house.build(root, places)
            rows = json.dumps([asdict(place) for place in places], indent=1, ensure_ascii=False)
            listed.write_text(f"{rows}\n", encoding="utf-8")
            settings.write_text(called, encoding="utf-8")
        elif settings.read_text(encoding="utf-8") != called:
            raise click.ClickException(f"{house.folder} is of a call with other options or tests: name a new folder")
        # The copy stays as it is when the checkout changes.
        places = [Place(**row) for row in json.loads(listed.read_bytes())]
        if not recorded.exists():
            house.record(tests, mark_expression(tier, root))
            recorded.touch()
        click.echo("\n".join(report(places, house.try_all(places, seconds), seconds)))


if __name__ == "__main__":
    main()
