"""Gives the scenarios to the programs: `python -m bench.verdicts --promptfoo PATH --deepeval PATH --inspect PATH`.

Give the path of each program's command, in its own environment. Programs without a path keep their earlier results.
Our own program always runs. The results are in `results.json` beside this module; `--write` renews docs/verdicts.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import click

from bench.verdicts.jobs import Adapter, NotOfferedError, run_job
from bench.verdicts.programs import deepeval, inspect, ours, promptfoo
from bench.verdicts.results import Outcome, read_results, write_results
from bench.verdicts.scenarios import Scenario, read_scenarios
from bench.verdicts.server import Form
from bench.verdicts.tables import write_page

PROGRAMS: dict[str, tuple[Adapter, Form]] = {
    "ours": (ours.run, "score"),
    "promptfoo": (promptfoo.run, "pass"),
    "deepeval": (deepeval.run, "score"),
    "inspect": (inspect.run, "grade"),
}


class Controls:
    """Exit codes of controls; equal ones run once for each program."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, bytes], int] = {}
        self._locks: dict[tuple[str, bytes], Lock] = {}
        self._lock = Lock()

    def code(self, program: str, command: str, scenario: Scenario) -> int:
        """Return the exit code of a scenario's control."""
        control = scenario.control()
        key = program, control.content()
        with self._lock:
            lock = self._locks.setdefault(key, Lock())
        with lock:
            if key not in self._codes:
                self._codes[key] = run_job(control, *PROGRAMS[program], command)[0]
            return self._codes[key]


def outcome_of(program: str, command: str, scenario: Scenario, controls: Controls) -> tuple[Outcome, str]:
    """Return a program's outcome of a scenario, and the end of its output."""
    try:
        code, said = run_job(scenario, *PROGRAMS[program], command)
        control = None if scenario.right == "green" else controls.code(program, command, scenario)
    except NotOfferedError as error:
        return Outcome(program, scenario.id, missing=str(error)), ""
    return Outcome(program, scenario.id, code, control), said


def run_all(commands: dict[str, str], only: tuple[str, ...], at_once: int) -> Iterator[tuple[Outcome, str]]:
    """Yield the outcome of each program and scenario, and the end of its output."""
    controls = Controls()
    scenarios = [each for each in read_scenarios() if not only or each.id in only]
    with ThreadPoolExecutor(at_once) as pool:
        waiting = [
            pool.submit(outcome_of, program, command, scenario, controls)
            for scenario in scenarios
            for program, command in commands.items()
        ]
        for each in waiting:
            yield each.result()


@click.command()
@click.option("--promptfoo", help="Its command.")
@click.option("--deepeval", help="Its command.")
@click.option("--inspect", help="Its command.")
@click.option("--without-ours", is_flag=True, help="Keep our own earlier results.")
@click.option("--scenario", "only", multiple=True, help="Run only this scenario; repeat it for several.")
@click.option("--at-once", default=1, show_default=True, help="Jobs at the same time.")
@click.option("--output", is_flag=True, help="Print the end of the output of wrong jobs.")
@click.option("--write", is_flag=True, help="Renew the tables of docs/verdicts.md.")
def main(
    only: tuple[str, ...], without_ours: bool, at_once: int, output: bool, write: bool, **commands: str | None
) -> None:
    """Give the scenarios to the programs, and print what was wrong."""
    named = {name: command for name, command in commands.items() if command is not None}
    if not without_ours:
        named = {"ours": "", **named}
    right = {each.id: each.right for each in read_scenarios()}
    kept = {(each.program, each.scenario): each for each in read_results()}
    for found, said in run_all(named, only, at_once):
        kept[found.program, found.scenario] = found
        write_results(kept.values())
        verdict = found.verdict(right[found.scenario])
        click.echo(f"{found.program:10} {found.scenario:24} {verdict:11} {found.code} {found.control} {found.missing}")
        if output and verdict.startswith("wrong"):
            click.echo(said)
    if write:
        write_page(tuple(kept.values()))


if __name__ == "__main__":
    main()
