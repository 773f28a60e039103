"""The property of unknown facts for gates on changes: a case less, on either side, makes none of them greener.

`FACTS_FUZZ_TIMES=20` takes twenty times as many examples.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from holodeck_action.record.record import Record
from holodeck_action.suite.model.policy import Baseline, CaseReaction, Reaction
from tests.commands.project import Project
from tests.commands.test_partial_comparison import store
from tests.record.records import FAILED_EVALUATION, case, case_of, evaluation, record, turn

EXAMPLES = 12 * int(os.environ.get("FACTS_FUZZ_TIMES", "1"))
SETTINGS = {
    "on_missing": ("warn", "fail"),
    "margin": (0.05, 0.3),
    **dict.fromkeys(("on_regressed", "on_inconclusive"), get_args(Reaction)),
    "on_case_regression": get_args(CaseReaction),
}
"""What a comparison is judged by; `source` says where the base is, `confirm` asks again, and `on_loosened` is about
terms."""


def test_every_setting_of_a_comparison_is_tried() -> None:
    assert SETTINGS.keys() == Baseline.model_fields.keys() - {"source", "confirm", "on_loosened"}


def cases_of(chance: random.Random, scores: list[float], unknown: dict[int, str]) -> Record:
    """Cases with a score of two metrics each; of an unknown one the agent or a metric failed, or it was not run."""
    made = []
    for at, score in enumerate(scores):
        other = evaluation(score, evaluator_name="rouge")
        match unknown.get(at):
            case "metric":
                made.append(case_of(turn(evaluation(score), replace(FAILED_EVALUATION, evaluator_name="rouge"))))
            case "agent":
                made.append(case("E"))
            case "not run":
                made.append(case(""))
            case _:
                made.append(case_of(turn(evaluation(score), other)))
    return record(*made)


def variants(chance: random.Random, count: int) -> Iterator[tuple[dict[int, str], dict[int, str]]]:
    """What is unknown on the base and now: nothing first."""
    yield {}, {}
    for _ in range(6):
        how = chance.choice(("metric", "agent", "not run"))
        some = dict.fromkeys(chance.sample(range(count), chance.randint(1, count)), how)
        yield ({}, some) if chance.random() < 0.5 else (some, {})


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_a_case_less_on_either_side_makes_no_gate_greener(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    count = chance.choice((3, 12, 25))
    worse = chance.random() * 0.6
    base = [chance.choice((0.9, 0.9, 0.8, 0.2)) for _ in range(count)]
    head = [0.1 if chance.random() < worse else score for score in base]
    settings: dict[str, Any] = {name: chance.choice(values) for name, values in SETTINGS.items()}
    limit = chance.randrange(4)
    gates = {"max_regressions": limit} if settings["on_case_regression"] == "fail" else {}
    policy = {"baseline": settings, "gates": gates}
    before: dict[str, str] = {}
    for at, (of_base, of_head) in enumerate(variants(chance, count)):
        folder = tmp_path / str(at)
        project: Project = store(folder, base=cases_of(chance, base, of_base), head=cases_of(chance, head, of_head))
        project.write("terms.yaml", json.dumps(policy))
        finished = project.run("compare", "base", "head", "--format", "json", "--policy", "terms.yaml")
        assert finished.code in (0, 1, 3), finished.stderr
        states = {gate["name"]: gate["state"] for gate in json.loads(finished.stdout)["gates"]}
        if settings["on_missing"] == "fail" or not of_base:
            states["run"] = "passed" if finished.code == 0 else "not passed"
        before = before or states
        greener = [name for name, state in states.items() if state == "passed" != before.get(name, "passed")]
        assert not greener, (greener, before, states, of_base, of_head, policy)


@pytest.mark.parametrize("tolerated", [0.05, 1.0, None])
def test_what_completeness_tolerates_turns_no_gate_on_changes_green(tmp_path: Path, tolerated: float | None) -> None:
    """A case that is not answered may have got worse, however few evaluations a run needs."""
    project = Project(tmp_path)
    names = [f"case {at}" for at in range(4)]
    project.suite([{"name": name, "input": "?", "ground_truth": "yes"} for name in names])
    rows = [{"case": name, "response": "yes"} for name in names]
    project.answers(rows)
    metrics = [{"type": "standard", "metric": "equality"}]
    project.policy(target="recorded:answers.jsonl", metrics=metrics)
    assert project.run("run", "-o", "base").code == 0
    gates = {"min_completeness": tolerated, "min_pass_rate": None, "max_regressions": 0}
    baseline = {"source": "file:base", "on_case_regression": "fail", "on_regressed": "fail"}
    project.policy(target="recorded:answers.jsonl", metrics=metrics, gates=gates, baseline=baseline)
    states = {}
    for answered in (rows, rows[:-1]):
        project.answers(answered)
        finished = project.run("run", "-o", "out")
        assert finished.code == (0 if answered is rows else 3), finished.stdout + finished.stderr
        states = {gate["name"]: gate["state"] for gate in project.verdict()["gates"]}
        expected = "passed" if answered is rows else "undetermined"
        assert (states["max_regressions"], states["baseline.on_regressed"]) == (expected, expected)
