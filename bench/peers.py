"""Runs the same live suite with other programs: `python -m bench.peers --promptfoo PATH --inspect PATH …`.

Each sends one question per case to a fake model server on loopback and compares the answer with the expected one.
The programs are not installed here: give the path of each, in its own environment. Only programs with a path are
measured. The output is the wall time of each as a multiple of ours, from the start of its process to its end.
`--write` renews the table of performance.md: 100 cases at several latencies, with nothing set and 100 at once, without
and with faults, without and with a judge.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import click

from bench.goals import plain_suite
from bench.live import KEY, run_server
from bench.pages import DOCS, markdown_table, replace_table
from bench.processes import PROGRAM, measure
from tests.llm.models import Answer, FakeModels, Request, ToolCall
from tests.llm.models.rules import echo
from tests.llm.models.trouble import HARD as HARD_FAULTS
from tests.llm.models.trouble import mixed

LATENCY_S = 0.05
CASES = (1, 10, 100, 1_000)
AT_ONCE = (1, 10, 100)
LATENCIES_S = (0.05, 2.0, 10.0)
WRITTEN_CASES = 100
STOPPED_AFTER = 5
"""Times our own wall time after which a program of the written table is stopped."""
LEAST_WAIT_S = 30.0
NAMED = "http://models.example/v1"
"""Address of the server in our own suite if nothing is set, reached through the server as a proxy: to a server on
loopback, fewer calls are made at once."""
CRITERIA = "The answer states the rule for the order."
FAULTS, HANG_S = 0.3, 5.0
"""Share of the requests that meet trouble, and the seconds for which one of five of these hangs."""
TIMED_OUT = 124
"""Exit code of `timeout` for a program that it stopped."""
_QUESTION = re.compile(r"What is the rule for \w+ \d+\?")
MUCH = 2.0
"""The goal: every peer takes at least this many times as long."""

_INSPECT = """import json

import os

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import exact, model_graded_qa
from inspect_ai.solver import generate


@task
def bench():
    with open("cases.json") as file:
        cases = [Sample(input=case["input"], target=case["ground_truth"]) for case in json.load(file)]
    scorer = model_graded_qa(model="openai/gpt-4o") if os.environ["JUDGED"] else exact()
    return Task(dataset=cases, solver=generate(), scorer=scorer)
"""
_DEEPEVAL = """import asyncio
import json
import os
import sys

from deepeval import evaluate
from deepeval.evaluate.configs import AsyncConfig, DisplayConfig
from deepeval.metrics import ExactMatchMetric, GEval
from deepeval.test_case import LLMTestCase, LLMTestCaseParams
from openai import AsyncOpenAI

at_once = int(sys.argv[1]) if sys.argv[1:] else None
shown = [LLMTestCaseParams.INPUT, LLMTestCaseParams.ACTUAL_OUTPUT]


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
        turn = asyncio.Semaphore(at_once or len(cases))
        return await asyncio.gather(*(ask(client, turn, case) for case in cases))


evaluate(
    asyncio.run(ask_all()),
    [
        GEval(name="quality", model="gpt-4o", evaluation_steps=[os.environ["JUDGED"]], evaluation_params=shown)
        if os.environ["JUDGED"]
        else ExactMatchMetric()
    ],
    async_config=AsyncConfig(max_concurrent=at_once, throttle_value=0) if at_once else AsyncConfig(),
    display_config=DisplayConfig(show_indicator=False, print_results=False),
)
"""
_PYDANTIC_EVALS = """import asyncio
import json
import os
import sys

from openai import AsyncOpenAI
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected, LLMJudge
from tenacity import stop_after_attempt, wait_random_exponential

at_once = int(sys.argv[1]) if sys.argv[1:] else None
rubric = os.environ["JUDGED"]


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

        checks = [LLMJudge(rubric=rubric, model="openai-chat:gpt-4o") if rubric else EqualsExpected()]
        dataset = Dataset(name="bench", cases=cases, evaluators=checks)
        report = await dataset.evaluate(
            answer, max_concurrency=at_once, progress=False, retry_task=again, retry_evaluators=again
        )
    right = sum(all(each.value for each in case.assertions.values()) for case in report.cases)
    sys.exit(right != len(cases))


asyncio.run(main())
"""


@dataclass(frozen=True)
class Task:
    """A program's task: working folder, data of agent.yaml, the server's address, the number of calls at once (None if
    nothing is set), and whether a model judges the answers."""

    folder: Path
    suite: Mapping[str, Any]
    address: str
    at_once: int | None
    judged: bool

    def write(self, name: str, content: Any) -> None:
        """Write a file; JSON is YAML, too."""
        (self.folder / name).write_text(content if isinstance(content, str) else json.dumps(content))


def own_command(_: str, asked: Task) -> tuple[str, ...]:
    """Write our own files; return the command."""
    suite = asked.suite
    if asked.judged:
        judge = {"type": "geval", "name": "quality", "criteria": CRITERIA, "evaluation_steps": [CRITERIA]}
        suite = {**suite, "evaluations": {"model": suite["model"], "metrics": [judge]}}
    asked.write("agent.yaml", suite)
    if asked.at_once is not None:
        asked.write("holodeck-action.yaml", {"limits": {"concurrency": asked.at_once}})
    return (*PROGRAM, "run", "-o", "out", *(("--allow-plain-http",) if asked.at_once is None else ()))


def promptfoo(command: str, asked: Task) -> tuple[str, ...]:
    """Write promptfoo's files (https://www.promptfoo.dev/docs/configuration/reference/); return the command."""
    provider = {"id": "openai:chat:gpt-4o", "config": {"apiBaseUrl": asked.address, "apiKey": KEY}}
    judge = {"type": "llm-rubric", "value": CRITERIA, "provider": provider}
    cases = [
        {
            "vars": {"question": case["input"]},
            "assert": [judge if asked.judged else {"type": "equals", "value": case["ground_truth"]}],
        }
        for case in asked.suite["test_cases"]
    ]
    asked.write("promptfooconfig.json", {"prompts": ["{{question}}"], "providers": [provider], "tests": cases})
    most = () if asked.at_once is None else ("--max-concurrency", str(asked.at_once))
    options = ("--no-cache", "--no-progress-bar", "--no-table", *most)
    return (command, "eval", "-c", "promptfooconfig.json", "-o", "out.json", *options)


def inspect(command: str, asked: Task) -> tuple[str, ...]:
    """Write Inspect's files (https://inspect.aisi.org.uk/options.html); return the command."""
    asked.write("bench.py", _INSPECT)
    asked.write("cases.json", asked.suite["test_cases"])
    most = str(asked.at_once)
    limits = () if asked.at_once is None else ("--max-connections", most, "--max-samples", most)
    model = ("--model", "openai/gpt-4o", "--model-base-url", asked.address)
    return (command, "eval", "bench.py", *model, *limits, "--display", "none")


def deepeval(command: str, asked: Task) -> tuple[str, ...]:
    """Write a script that calls the model and then DeepEval, as documented; `command` is DeepEval's Python."""
    asked.write("bench.py", _DEEPEVAL)
    asked.write("cases.json", asked.suite["test_cases"])
    return _script(command, asked)


def pydantic_evals(command: str, asked: Task) -> tuple[str, ...]:
    """Write a script for Pydantic Evals that calls the model with OpenAI's client; `command` is its Python."""
    asked.write("bench.py", _PYDANTIC_EVALS)
    asked.write("cases.json", asked.suite["test_cases"])
    return _script(command, asked)


def _script(command: str, asked: Task) -> tuple[str, ...]:
    return (command, "bench.py", *(() if asked.at_once is None else (str(asked.at_once),)))


def holodeck(command: str, asked: Task) -> tuple[str, ...]:
    """Write agent.yaml for HoloDeck, which reads the same file; return the command."""
    asked.write("agent.yaml", {**asked.suite, "execution": {"parallel_test_cases": asked.at_once or 1}})
    return (command, "test", "agent.yaml", "--output", "out.json")


PEERS: dict[str, Callable[[str, Task], tuple[str, ...]]] = {
    function.__name__: function for function in (promptfoo, inspect, deepeval, pydantic_evals, holodeck)
}


@dataclass(frozen=True)
class Situation:
    """The cases, the calls at once (None if nothing is set), the server's latency, and whether it mixes in the faults
    of `bench.goals` and whether a model judges the answers."""

    cases: int
    at_once: int | None
    latency_s: float
    hard: bool
    judged: bool = False

    @property
    def calls(self) -> int:
        """Model calls of all cases."""
        return self.cases * (1 + self.judged)


@dataclass(frozen=True)
class Took:
    """Wall seconds of a run, most calls under way at once, and requests a call."""

    wall_s: float
    at_once: int
    requests: float


def run(name: str, command: str, given: Situation, limit_s: float | None = None) -> Took | float | None:
    """Run a program; None if it failed, lost a case or sent unnecessary requests, the seconds after which it was
    stopped if it took longer than `limit_s`."""
    program = PEERS.get(name, own_command)
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        with run_server("bench.peers", "serve", str(given.latency_s), *(("hard",) if given.hard else ())) as server:
            address = server.addresses["openai"]
            environ = _environ(folder, address, judged=given.judged)
            if name == "ours" and given.at_once is None:
                environ["http_proxy"] = address.removesuffix("/v1")
                address = NAMED
            suite = plain_suite(address, given.cases)
            asked = Task(folder, suite, address, given.at_once, given.judged)
            arguments = program(command, asked)
            bound = () if limit_s is None else ("timeout", "--kill-after=5", f"{limit_s:.0f}")
            cost = measure((*bound, *arguments), folder, environ)
    if limit_s is not None and cost.code == TIMED_OUT:
        return limit_s
    answers = server.seen["statuses"].get("200", 0)
    # Cut or broken answers also have this status, and are requested again.
    if cost.code or answers < given.calls or (answers > given.calls and not given.hard):
        click.echo(f"{name}: exit code {cost.code}, answers {server.seen['statuses']}\n{cost.said[-600:]}", err=True)
        return None
    return Took(cost.wall_s, server.seen["peak"], server.seen["requests"] / given.calls)


def median_seconds(commands: Mapping[str, str], given: Situation, times: int) -> dict[str, float]:
    """Return the median wall seconds of all programs, which take turns; a program that fails once is left out."""
    took: dict[str, list[float]] = {name: [] for name in ("ours", *commands)}
    for _ in range(times):
        for name in [*took]:
            done = run(name, commands.get(name, ""), given)
            if isinstance(done, Took):
                took[name].append(done.wall_s)
            else:
                del took[name]
    return {name: statistics.median(walls) for name, walls in took.items()}


def serve(latency_s: float, *, hard: bool) -> None:
    """Serve the model under test and the judge until standard input ends."""

    def latency(request: Request) -> float:
        hangs = hard and Random(f"hang/{request.number}").random() < FAULTS / len(HARD_FAULTS)
        return latency_s + HANG_S * hangs

    # A fault that only delays would answer with an echo, which is no verdict.
    others = tuple(fault for fault in HARD_FAULTS if not fault.delay)
    share = FAULTS * len(others) / len(HARD_FAULTS)
    with FakeModels(latency=latency) as models:
        models.answer(mixed(share, faults=others, rule=answer) if hard else answer)
        print(json.dumps({"openai": models.openai_url}), flush=True)
        sys.stdin.read()
        print(json.dumps({"requests": len(models.requests), "statuses": models.statuses, "peak": models.peak}))


def answer(request: Request) -> Answer:
    """Return an echo to the model under test, and a verdict that each program's judge understands to other requests."""
    if _QUESTION.fullmatch(request.text):
        return echo(request)
    verdict = {"pass": True, "score": 10, "reason": "GRADE: C"}
    if request.tools:
        return Answer(tools=(ToolCall(next(iter(request.tools)), verdict),))
    return Answer(json.dumps(verdict))


def _environ(folder: Path, address: str, *, judged: bool) -> dict[str, str]:
    """Return an environment with its own home, no telemetry, and no check for newer versions."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {
        **kept,
        "HOME": str(folder),
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": address,
        "BENCH_KEY": KEY,
        "JUDGED": CRITERIA if judged else "",
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
        "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
        "DEEPEVAL_DISABLE_DOTENV": "1",
    }


def table_rows(
    commands: Mapping[str, str], cases: tuple[int, ...], at_once: tuple[int, ...], times: int, given: Situation
) -> Iterator[Any]:
    """Yield a row for each combination of a number of cases and a number of calls at once."""
    for count in cases:
        for most in at_once:
            if most > count:
                continue
            found = median_seconds(commands, replace(given, cases=count, at_once=most), times)
            if "ours" not in found:
                raise click.ClickException(f"our own run of {count} cases failed")
            own = found.pop("ours")
            ratios = {name: took / own for name, took in found.items()}
            shown = [_cell(name, commands, ratios) for name in PEERS]
            held = ("yes" if min(ratios.values()) >= MUCH else "**no**") if ratios else "not measured"
            yield (f"{count:,}", str(most), f"{own:.2f} s", *shown, held)


def written_rows(commands: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield a row of the written table for each situation: one run of each program."""
    for judged, hard, most, latency_s in product((False, True), (False, True), (None, WRITTEN_CASES), LATENCIES_S):
        given = Situation(WRITTEN_CASES, most, latency_s, hard, judged)
        own = run("ours", "", given)
        if not isinstance(own, Took):
            raise click.ClickException(f"our own run failed: {given}")
        limit_s = max(LEAST_WAIT_S, STOPPED_AFTER * own.wall_s)
        latency = f"{latency_s:g} s" if latency_s >= 1 else f"{latency_s * 1000:g} ms"
        row = (
            "yes" if judged else "no",
            "30 %" if hard else "none",
            "nothing" if most is None else str(most),
            latency,
            f"{own.wall_s:.2f} s{_counts(own)}",
            *(_written_cell(run(name, command, given, limit_s), own) for name, command in commands.items()),
        )
        click.echo("  ".join(row), err=True)
        yield row


def _written_cell(took: Took | float | None, own: Took) -> str:
    if took is None:
        return "loses a case"
    if not isinstance(took, Took):
        return f"over {took / own.wall_s:.0f} ×"
    ratio = took.wall_s / own.wall_s
    return (f"{ratio:.2f} ×" if ratio >= 1 else f"**{ratio:.2f} ×**") + _counts(took)


def _counts(took: Took) -> str:
    return f" ({took.at_once}; {took.requests:.2f})"


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
        table = markdown_table(("judged", "faults", "set", "answers after", "ours", *named), written_rows(named))
        replace_table(DOCS / "performance.md", "latencies", "python -m bench.peers --write", table)
        return
    click.echo(
        markdown_table(HEADS, table_rows(named, cases, at_once, times, Situation(1, 1, latency_s, hard))), nl=False
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(float(sys.argv[2]), hard=sys.argv[3:] == ["hard"])
    else:
        main()
