"""A property: one whole fact less, and no case, gate or run passes that did not pass before.

`FACTS_FUZZ_TIMES=20` takes twenty times as many examples.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.metrics.registry import built_in
from tests.commands.project import Project
from tests.facts.declared import GRADERS, METRICS, cases, facts, gates, reply, without
from tests.targets.service import Service

TIMES = int(os.environ.get("FACTS_FUZZ_TIMES", "1"))
FACTS = list(facts())
AGENT = """
import json, pathlib, sys
ANSWERS = json.loads((pathlib.Path(__file__).parent / "answers.json").read_text())

def answer(request):
    return ANSWERS[request["name"]][request["trial"]]

if __name__ == "__main__":
    print(json.dumps(answer(json.loads(sys.stdin.readline()))))
"""
Answers = dict[str, list[dict[str, Any]]]


class Example:
    """A suite with answers that tell everything, and one more for each fact that they do not tell."""

    def __init__(self, root: Path, seed: int, source: str, url: str = "") -> None:
        self.project = Project(root)
        self.source, self.url, self.base = source, url, b""
        chance = self.chance = random.Random(f"{source} {seed}")
        self.cases, self.added = cases(chance)
        self.gates = gates(chance, compared=source == "compared")
        self.repeat = chance.choice((1, 2, 3))
        if source == "command":
            # A process for each answer.
            self.repeat, self.cases = 1, self.cases[::4]
            self.added = {case["name"]: self.added[case["name"]] for case in self.cases if case["name"] in self.added}
            self.gates["metrics"] = {name: each for name, each in self.gates["metrics"].items() if name in self.added}
        self.answers = {case["name"]: [reply(chance) for _ in range(self.repeat)] for case in self.cases}

    def write(self, folder: str, answers: Answers) -> None:
        """Write the suite with these answers."""
        inner = Project(self.project.folder / folder)
        inner.folder.mkdir()
        inner.suite(self.cases)
        inner.write("graders.py", GRADERS)
        target: Any = {
            "python": "python:agent:answer",
            "command": f"command:{sys.executable} agent.py",
            "http": {"type": "http", "url": f"{self.url}/{folder}"},
        }.get(self.source, "recorded:answers.jsonl")
        if self.source in ("python", "command", "http"):
            inner.write("agent.py", AGENT)
            inner.write("answers.json", json.dumps(answers))
        else:
            inner.answers(
                [{"case": name, "trial": at, **each} for name, row in answers.items() for at, each in enumerate(row)]
            )
        if self.source == "compared":
            inner.write("base.json", self.base)
        baseline = {"baseline": {"source": "file:base.json"}} if self.source == "compared" else {}
        trials = {"repeat": self.repeat, "min_pass": self.chance.randint(1, self.repeat)}
        inner.policy(
            target=target, gates=self.gates, cases=self.added, ground_truth="unused", trials=trials, **baseline
        )

    def verdicts(self, variants: Mapping[str, Answers]) -> dict[str, Mapping[str, str]]:
        """Run each variant, and return what passed or not by case, gate and run; of one that is refused nothing."""
        if self.source == "compared":
            limit, self.gates["max_regressions"] = self.gates["max_regressions"], None
            self.source = "recorded"
            self.write("base", {name: [reply(self.chance) for _ in row] for name, row in self.answers.items()})
            Project(self.project.folder / "base").evaluate()
            self.base = (self.project.folder / "base" / "out" / "results.json").read_bytes()
            self.source = "compared"
            self.gates["max_regressions"] = limit
        found = {}
        for folder, answers in variants.items():
            self.chance = random.Random(self.repeat)
            self.write(folder, answers)
            inner = Project(self.project.folder / folder)
            if self.source == "merged":
                shards = [inner.run("run", "--shard", f"{at}/2", "-o", f"part{at}").code for at in (1, 2)]
                code = 2 if 2 in shards else inner.run("merge", "part1", "part2", "-o", "out").code
            else:
                code = inner.run("run", "-o", "out").code
            if self.source == "rejudged" and code != 2:
                code = inner.run("rejudge", "out/results.json", "-o", "again").code
                inner.out = inner.folder / "again"
            found[folder] = {} if code == 2 else _states(inner.verdict(), code)
        return found


def _states(verdict: Mapping[str, Any], code: int) -> Mapping[str, str]:
    return {
        "run": "passed" if code == 0 else str(code),
        **{f"case {case['id']}": case["outcome"] for case in verdict["cases"]},
        **{f"gate {gate['name']}": gate["state"] for gate in verdict["gates"]},
    }


def _greener(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [f"{what}: {before.get(what)}" for what, now in after.items() if now == "passed" != before.get(what)]


def _check(example: Example, chosen: list[tuple[str, ...]], of: int | None) -> int:
    variants: dict[str, Answers] = {"all": example.answers}
    for fact in chosen:
        variants["-".join(fact)] = {
            name: [without(each, fact) if of is None or at % of == 0 else each for each in row]
            for at, (name, row) in enumerate(example.answers.items())
        }
    found = example.verdicts(variants)
    assert found["all"], "a suite whose answers tell everything is not refused"
    greener = {name: worse for name, after in found.items() if (worse := _greener(found["all"], after))}
    assert not greener, json.dumps(greener, indent=1)
    return len(found) - 1


@pytest.mark.full
@pytest.mark.parametrize("seed", range(TIMES))
def test_a_fact_less_makes_nothing_greener(tmp_path: Path, seed: int) -> None:
    """Of transcripts, every fact: in all answers, and in those of every third case."""
    for of in (None, 3):
        root = tmp_path / str(of)
        root.mkdir()
        assert _check(Example(root, seed, "recorded"), FACTS, of) == len(FACTS)


@pytest.mark.full
@pytest.mark.parametrize("source", ["python", "command", "http", "merged", "rejudged", "compared"])
@pytest.mark.parametrize("seed", range(TIMES))
def test_of_every_source(tmp_path: Path, source: str, seed: int) -> None:
    """Of the other sources, some facts of each example."""
    chosen = random.Random(f"{seed} {source}").sample(FACTS, 2)
    if source != "http":
        _check(Example(tmp_path, seed, source), chosen, None)
        return
    service = Service()

    def respond(handler: Any, received: Any) -> None:
        answers = json.loads((tmp_path / received.path.strip("/") / "answers.json").read_text())
        handler.answer(answers[received.body["name"]][received.body["trial"]])

    service.respond = respond
    try:
        _check(Example(tmp_path, seed, source, service.url), chosen, None)
    finally:
        service.close()


@pytest.mark.needs
def test_every_metric_that_reads_facts_without_a_judge_has_an_example() -> None:
    shown = {metric["type"] for metric in METRICS.values()}
    computed = {
        name: kind
        for name, kind in built_in().classes.items()
        if kind.OF_TOOL_CALLS or kind.HAS_MEMBERS or kind.TAKES_CASE or kind.OF_CONVERSATION
    }
    # Those of a judge, of a workspace, and of a package that a worker imports for seconds.
    assert computed.keys() - shown == {
        "agent",
        "deepeval_tool_correctness",
        "trajectory_accuracy",
        "simulated_user",
        "preference",
        "called",
        "skill",
        "workspace_text",
    }
