"""Runs the same live suite with other programs: `python -m bench.peers --promptfoo PATH --inspect PATH …`.

Each sends one question per case to a fake model server on loopback and compares the answer with the expected one.
The programs are not installed here: give the path of each, in its own environment. Only programs with a path are
measured. The output is the wall time of each as a multiple of ours, from the start of its process to its end.
`--write` measures 100 cases at several latencies, without and with faults, and renews their table in performance.md.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from bench.goals import HARD, plain_suite
from bench.live import KEY, run_server
from bench.pages import DOCS, markdown_table, replace_table
from bench.processes import PROGRAM, measure

LATENCY_S = 0.05
CASES = (1, 10, 100, 1_000)
AT_ONCE = (1, 10, 100)
LATENCIES_S = (0.05, 2.0, 10.0)
WRITTEN_CASES = 100
WRITTEN_TIMES = 1
MUCH = 2.0
"""The goal: every peer takes at least this many times as long."""

_INSPECT = """import json

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import exact
from inspect_ai.solver import generate


@task
def bench():
    with open("cases.json") as file:
        cases = [Sample(input=case["input"], target=case["ground_truth"]) for case in json.load(file)]
    return Task(dataset=cases, solver=generate(), scorer=exact())
"""
_DEEPEVAL = """import asyncio
import json
import sys

from deepeval import evaluate
from deepeval.evaluate.configs import AsyncConfig, DisplayConfig
from deepeval.metrics import ExactMatchMetric
from deepeval.test_case import LLMTestCase
from openai import AsyncOpenAI

at_once = int(sys.argv[1])


async def ask(client, turn, case):
    async with turn:
        messages = [{"role": "user", "content": case["input"]}]
        found = await client.chat.completions.create(model="gpt-4o", messages=messages)
    answer = found.choices[0].message.content
    return LLMTestCase(input=case["input"], actual_output=answer, expected_output=case["ground_truth"])


async def ask_all():
    with open("cases.json") as file:
        cases = json.load(file)
    async with AsyncOpenAI() as client:
        turn = asyncio.Semaphore(at_once)
        return await asyncio.gather(*(ask(client, turn, case) for case in cases))


evaluate(
    asyncio.run(ask_all()),
    [ExactMatchMetric()],
    async_config=AsyncConfig(max_concurrent=at_once, throttle_value=0),
    display_config=DisplayConfig(show_indicator=False, print_results=False),
)
"""
_PYDANTIC_EVALS = """import asyncio
import json
import sys

from openai import AsyncOpenAI
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected
from tenacity import stop_after_attempt, wait_random_exponential

at_once = int(sys.argv[1])


async def main():
    with open("cases.json") as file:
        cases = [
            Case(name=str(number), inputs=case["input"], expected_output=case["ground_truth"])
            for number, case in enumerate(json.load(file))
        ]
    # The client's own retries take no broken answer for trouble.
    again = {"stop": stop_after_attempt(7), "wait": wait_random_exponential(0.5, 20), "reraise": True}
    async with AsyncOpenAI(max_retries=0) as client:

        async def answer(question: str) -> str:
            messages = [{"role": "user", "content": question}]
            found = await client.chat.completions.create(model="gpt-4o", messages=messages)
            return found.choices[0].message.content

        dataset = Dataset(name="bench", cases=cases, evaluators=[EqualsExpected()])
        report = await dataset.evaluate(answer, max_concurrency=at_once, progress=False, retry_task=again)
    right = sum(all(each.value for each in case.assertions.values()) for case in report.cases)
    sys.exit(right != len(cases))


asyncio.run(main())
"""


@dataclass(frozen=True)
class Task:
    """A program's task: working folder, data of agent.yaml, the server's address, and the number of calls at once."""

    folder: Path
    suite: Mapping[str, Any]
    address: str
    at_once: int

    def write(self, name: str, content: Any) -> None:
        """Write a file; JSON is YAML, too."""
        (self.folder / name).write_text(content if isinstance(content, str) else json.dumps(content))


def own_command(_: str, asked: Task) -> tuple[str, ...]:
    """Write our own files; return the command."""
    asked.write("agent.yaml", asked.suite)
    asked.write("holodeck-action.yaml", {"limits": {"concurrency": asked.at_once}})
    return (*PROGRAM, "run", "-o", "out")


def promptfoo(command: str, asked: Task) -> tuple[str, ...]:
    """Write promptfoo's files (https://www.promptfoo.dev/docs/configuration/reference/); return the command."""
    cases = [
        {"vars": {"question": case["input"]}, "assert": [{"type": "equals", "value": case["ground_truth"]}]}
        for case in asked.suite["test_cases"]
    ]
    provider = {"id": "openai:chat:gpt-4o", "config": {"apiBaseUrl": asked.address, "apiKey": KEY}}
    asked.write("promptfooconfig.json", {"prompts": ["{{question}}"], "providers": [provider], "tests": cases})
    options = ("--no-cache", "--no-progress-bar", "--no-table", "--max-concurrency", str(asked.at_once))
    return (command, "eval", "-c", "promptfooconfig.json", "-o", "out.json", *options)


def inspect(command: str, asked: Task) -> tuple[str, ...]:
    """Write Inspect's files (https://inspect.aisi.org.uk/options.html); return the command."""
    asked.write("bench.py", _INSPECT)
    asked.write("cases.json", asked.suite["test_cases"])
    most = str(asked.at_once)
    model = ("--model", "openai/gpt-4o", "--model-base-url", asked.address)
    return (command, "eval", "bench.py", *model, "--max-connections", most, "--max-samples", most, "--display", "none")


def deepeval(command: str, asked: Task) -> tuple[str, ...]:
    """Write a script that calls the model and then DeepEval, as documented; `command` is DeepEval's Python."""
    asked.write("bench.py", _DEEPEVAL)
    asked.write("cases.json", asked.suite["test_cases"])
    return (command, "bench.py", str(asked.at_once))


def pydantic_evals(command: str, asked: Task) -> tuple[str, ...]:
    """Write a script for Pydantic Evals that calls the model with OpenAI's client; `command` is its Python."""
    asked.write("bench.py", _PYDANTIC_EVALS)
    asked.write("cases.json", asked.suite["test_cases"])
    return (command, "bench.py", str(asked.at_once))


def holodeck(command: str, asked: Task) -> tuple[str, ...]:
    """Write agent.yaml for HoloDeck, which reads the same file; return the command."""
    asked.write("agent.yaml", {**asked.suite, "execution": {"parallel_test_cases": asked.at_once}})
    return (command, "test", "agent.yaml", "--output", "out.json")


PEERS: dict[str, Callable[[str, Task], tuple[str, ...]]] = {
    function.__name__: function for function in (promptfoo, inspect, deepeval, pydantic_evals, holodeck)
}


@dataclass(frozen=True)
class ServerSetup:
    """The fake server's latency, and whether it mixes in the faults of `bench.goals`."""

    latency_s: float
    hard: bool

    def arguments(self) -> tuple[str, ...]:
        """Return the arguments of the fake server."""
        return ("--latency", str(self.latency_s), *(HARD if self.hard else ()))


def wall_s(name: str, command: str, cases: int, at_once: int, server_is: ServerSetup) -> float | None:
    """Return the wall seconds of a program; None if it failed, lost a case, or sent unnecessary requests."""
    program = PEERS.get(name, own_command)
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        with run_server("tests.llm.models", *server_is.arguments()) as server:
            address = server.addresses["openai"]
            asked = Task(folder, plain_suite(address, cases), address, at_once)
            cost = measure(program(command, asked), folder, _environ(folder, address))
        answers = server.seen["statuses"].get("200", 0)
        # Cut or broken answers also have this status, and are requested again.
        if cost.code or answers < cases or (answers > cases and not server_is.hard):
            click.echo(f"{name}: exit code {cost.code}, answers {server.seen['statuses']}", err=True)
            return None
    return cost.wall_s


def median_seconds(
    commands: Mapping[str, str], cases: int, at_once: int, times: int, server_is: ServerSetup
) -> dict[str, float]:
    """Return the median wall seconds of all programs, which take turns; a program that fails once is left out."""
    took: dict[str, list[float]] = {name: [] for name in ("ours", *commands)}
    for _ in range(times):
        for name in [*took]:
            wall = wall_s(name, commands.get(name, ""), cases, at_once, server_is)
            if wall is None:
                del took[name]
            else:
                took[name].append(wall)
    return {name: statistics.median(walls) for name, walls in took.items()}


def _environ(folder: Path, address: str) -> dict[str, str]:
    """Return an environment with its own home, no telemetry, and no check for newer versions."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {
        **kept,
        "HOME": str(folder),
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": address,
        "BENCH_KEY": KEY,
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
        "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
        "DEEPEVAL_DISABLE_DOTENV": "1",
    }


def table_rows(
    commands: Mapping[str, str], cases: tuple[int, ...], at_once: tuple[int, ...], times: int, server_is: ServerSetup
) -> Iterator[Any]:
    """Yield a row for each combination of a number of cases and a number of calls at once."""
    for count in cases:
        for most in at_once:
            if most > count:
                continue
            found = median_seconds(commands, count, most, times, server_is)
            if "ours" not in found:
                raise click.ClickException(f"our own run of {count} cases failed")
            own = found.pop("ours")
            ratios = {name: took / own for name, took in found.items()}
            shown = [_cell(name, commands, ratios) for name in PEERS]
            held = ("yes" if min(ratios.values()) >= MUCH else "**no**") if ratios else "not measured"
            yield (f"{count:,}", str(most), f"{own:.2f} s", *shown, held)


def latency_rows(commands: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each latency, without and with faults: 100 cases, 100 at once."""
    for hard in (False, True):
        for latency_s in LATENCIES_S:
            found = median_seconds(
                commands, WRITTEN_CASES, WRITTEN_CASES, WRITTEN_TIMES, ServerSetup(latency_s, hard=hard)
            )
            if "ours" not in found:
                raise click.ClickException(f"our own run with {latency_s:g} s per answer failed")
            own = found.pop("ours")
            ratios = {name: took / own for name, took in found.items()}
            latency = f"{latency_s:g} s" if latency_s >= 1 else f"{latency_s * 1000:g} ms"
            yield (
                latency,
                "30 %" if hard else "none",
                f"{own:.2f} s",
                *(_cell(name, commands, ratios) for name in commands),
            )


def _cell(name: str, commands: Mapping[str, str], ratios: Mapping[str, float]) -> str:
    """Return the cell of a program: its ratio to ours, in bold if it is faster."""
    if name not in commands:
        return "not measured"
    if name not in ratios:
        return "loses a case"
    return f"{ratios[name]:.1f} ×" if ratios[name] >= 1 else f"**{ratios[name]:.2f} ×**"


HEADS = ("cases", "at once", "ours", *PEERS, f"all ≥ {MUCH:g} ×")


@click.command()
@click.option("--promptfoo", help="Its command.")
@click.option("--inspect", help="Its command.")
@click.option("--deepeval", help="The Python that has it.")
@click.option("--pydantic-evals", help="The Python that has it and OpenAI's client.")
@click.option("--holodeck", help="Its command.")
@click.option("--latency", "latency_s", default=LATENCY_S, show_default=True, help="Seconds until an answer.")
@click.option(
    "--hard", is_flag=True, help="30 % of the requests meet a 429, a 500, a hang of 5 s, a cut or broken JSON."
)
@click.option("--cases", multiple=True, type=int, default=CASES, show_default=True)
@click.option("--at-once", multiple=True, type=int, default=AT_ONCE, show_default=True)
@click.option("--times", default=5, show_default=True, help="Of the runs of each, the median counts.")
@click.option("--write", is_flag=True, help="Renew the table by latency and faults in docs/performance.md.")
def main(
    cases: tuple[int, ...],
    at_once: tuple[int, ...],
    times: int,
    latency_s: float,
    hard: bool,
    write: bool,
    **commands: str | None,
) -> None:
    """Compare with other programs; prints a table in Markdown."""
    named = {name: command for name in PEERS if (command := commands[name]) is not None}
    if write:
        table = markdown_table(("answers after", "faults", "ours", *named), latency_rows(named))
        replace_table(DOCS / "performance.md", "latencies", "python -m bench.peers --write", table)
        return
    click.echo(markdown_table(HEADS, table_rows(named, cases, at_once, times, ServerSetup(latency_s, hard))), nl=False)


if __name__ == "__main__":
    main()
