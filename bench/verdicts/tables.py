"""The tables of docs/verdicts.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click
import yaml

from bench.pages import DOCS, markdown_table, replace_table
from bench.verdicts.jobs import TIMED_OUT
from bench.verdicts.results import Outcome
from bench.verdicts.scenarios import Scenario, read_scenarios

PAGE = DOCS / "verdicts.md"
COMMAND = "python -m bench.verdicts --write"
NAMES = {"ours": "holodeck-action", "promptfoo": "promptfoo", "deepeval": "DeepEval", "inspect": "Inspect"}
"""The programs' names in tables."""
_NOTES = Path(__file__).with_name("notes.yaml")
"""One sentence for each wrong verdict: why the program gave it."""


def read_notes() -> dict[str, dict[str, str]]:
    """Return the sentences by program and scenario."""
    found: dict[str, dict[str, str]] = yaml.safe_load(_NOTES.read_text(encoding="utf-8"))
    return found


def page_tables(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Return the page's tables by name.

    Raises:
        click.ClickException: a wrong verdict has no sentence in `notes.yaml`.
    """
    scenarios = {each.id: each for each in read_scenarios()}
    known = [each for each in outcomes if each.scenario in scenarios]
    order = {name: at for at, name in enumerate(scenarios)}
    known.sort(key=lambda each: ([*NAMES].index(each.program), order[each.scenario]))
    return {
        "counts": markdown_table(("class", *NAMES.values()), _count_rows(known, scenarios)),
        "wrong verdicts": markdown_table(
            ("program", "verdict", "scenario", "what happens", "why the verdict is wrong", "why the program gave it"),
            _wrong_rows(known, scenarios),
        ),
        "time limit": _limit_line(known),
        "not offered": markdown_table(("program", "not offered", "scenarios"), _missing_rows(known)),
    }


def write_page(outcomes: Iterable[Outcome]) -> None:
    """Renew the tables."""
    for name, text in page_tables(outcomes).items():
        replace_table(PAGE, name, COMMAND, text)


def _count_rows(outcomes: list[Outcome], scenarios: Mapping[str, Scenario]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each class, and one for all."""
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for each in outcomes:
        scenario = scenarios[each.scenario]
        for kind in (scenario.kind, "**all**"):
            counts[kind, each.program][each.verdict(scenario.right)] += 1
    for kind in (*dict.fromkeys(each.kind for each in scenarios.values()), "**all**"):
        yield (kind, *(_cell(counts[kind, program]) for program in NAMES))


def _cell(count: Counter[str]) -> str:
    words = [f"{count[name]} {name}" for name in ("right", "n/a") if count[name]]
    return ", ".join([*words, *(f"**{count[name]} {name}**" for name in ("wrong green", "wrong red") if count[name])])


def _wrong_rows(outcomes: list[Outcome], scenarios: Mapping[str, Scenario]) -> Iterator[tuple[str, ...]]:
    notes = read_notes()
    for each in outcomes:
        scenario = scenarios[each.scenario]
        verdict = each.verdict(scenario.right)
        if not verdict.startswith("wrong"):
            continue
        note = notes.get(each.program, {}).get(each.scenario)
        if note is None:
            raise click.ClickException(f"notes.yaml has no sentence for {each.program} in {each.scenario}")
        yield NAMES[each.program], verdict, f"`{scenario.id}`", scenario.does, scenario.why, note


def _limit_line(outcomes: list[Outcome]) -> str:
    """Return a line that names the jobs that the time limit ended."""
    found = [f"{NAMES[each.program]} in `{each.scenario}`" for each in outcomes if each.code == TIMED_OUT]
    return f"The time limit ended {len(found)} jobs: {', '.join(found) or 'none'}.\n"


def _missing_rows(outcomes: list[Outcome]) -> Iterator[tuple[str, ...]]:
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for each in outcomes:
        if each.missing:
            found[NAMES[each.program], each.missing].append(f"`{each.scenario}`")
    for (program, missing), names in found.items():
        yield program, missing, ", ".join(names)
