"""A suite summarised by its own callable: `gates.summary` with `method: custom`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holodeck_action.decide.decision import Terms, decide
from holodeck_action.record.record import CustomSummary
from holodeck_action.record.result_files import read_record
from holodeck_action.suite.model.policy import Gates
from tests.commands.project import Project

SUMMARIES = """
import os


def lowest(means):
    return min(means.values())


async def doubled(means: dict[str, float]) -> float:
    return min(1.0, 2 * means["equality"])


def too_much(means):
    return 1.5


def no_number(means):
    return True


def not_a_number(means):
    return float("nan")


def failing(means):
    raise ValueError("no faithfulness, and the token is " + os.environ["HOLODECK_TOKEN"])


def other_parameters(first, second):
    return 1.0
"""


def suite(project: Project, function: str, minimum: float = 0.5, *, answers: str = "P F", **gates: Any) -> None:
    """One case per word of `answers`: P is right, F is wrong, E is missing."""
    words = answers.split()
    project.suite(
        [{"name": f"case {at}", "input": "?", "ground_truth": "Paris"} for at in range(len(words))],
        [{"type": "standard", "metric": "equality"}, {"type": "length", "max_characters": 1000}],
    )
    said = {"P": "Paris", "F": "Lyon"}
    project.answers([{"case": f"case {at}", "response": said[w]} for at, w in enumerate(words) if w in said])
    summary = {"method": "custom", "function": function, "min": minimum}
    project.policy(
        target="recorded:answers.jsonl",
        secrets=["${HOLODECK_TOKEN}"],
        gates={"min_pass_rate": None, "summary": summary, **gates},
    )
    project.write("summaries.py", SUMMARIES)


def run(project: Project) -> tuple[int, dict[str, Any], CustomSummary]:
    """The exit code, the gate's verdict, and what the record holds."""
    finished, record = project.evaluate(HOLODECK_TOKEN="hk-7f3a9c1d")
    assert "hk-7f3a9c1d" not in finished.stdout + finished.stderr + (project.out / "results.json").read_text()
    (gate,) = (gate for gate in project.verdict()["gates"] if gate["name"] == "summary")
    assert record.summary is not None
    return finished.code, gate, record.summary


@pytest.mark.proves("GateSummary: method function")
@pytest.mark.parametrize(
    ("function", "minimum", "code", "actual"),
    [
        ("summaries:lowest", 0.5, 0, 0.5),
        ("summaries:lowest", 0.6, 1, 0.5),
        ("summaries:doubled", 0.6, 0, 1.0),
    ],
)
def test_the_callable_decides(project: Project, function: str, minimum: float, code: int, actual: float) -> None:
    suite(project, function, minimum)
    assert run(project)[0] == code
    gate = project.verdict()["gates"][-1]
    assert (gate["actual"], gate["required"]) == (actual, minimum)
    assert gate["reason"].endswith(f" ({function}), needs {minimum:.2f}")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("summaries:too_much", "summaries:too_much gave the score 1.5, which is not a number from 0 to 1"),
        ("summaries:no_number", "summaries:no_number gave True, which is not a number"),
        ("summaries:not_a_number", "summaries:not_a_number"),
        ("summaries:failing", "ValueError: no faithfulness"),
        ("summaries:other_parameters", "means"),
    ],
)
def test_what_is_no_score_leaves_the_run_incomplete(project: Project, function: str, reason: str) -> None:
    suite(project, function, 0.01)
    code, gate, kept = run(project)
    assert (code, gate["state"], gate["actual"]) == (3, "undetermined", None)
    assert reason in gate["reason"]
    assert (kept.score, kept.reason) == (None, gate["reason"])


def test_a_missing_score_leaves_it_undetermined(project: Project) -> None:
    suite(project, "summaries:lowest", 0.01, answers="P E")
    code, gate, kept = run(project)
    assert (code, gate["state"], kept.score) == (3, "undetermined", 1.0)


def test_decide_takes_the_number_from_the_record(project: Project) -> None:
    suite(project, "summaries:lowest", 0.5)
    run(project)
    (project.folder / "summaries.py").unlink()
    assert project.run("decide", "out/results.json").code == 0
    policy = json.loads((project.folder / "holodeck-action.yaml").read_text())
    policy["gates"]["summary"]["min"] = 0.6
    project.write("stricter.yaml", json.dumps(policy))
    assert project.run("decide", "out/results.json", "--policy", "stricter.yaml", HOLODECK_TOKEN="x").code == 1
    record = read_record(project.out / "results.json")
    other = Gates.model_validate({"summary": {"method": "custom", "function": "other:one", "min": 0.1}})
    (gate,) = (gate for gate in decide(record, Terms(other)).gates if gate.name == "summary")
    assert (gate.state, gate.reason) == (
        "undetermined",
        "other:one is called during a run, but this run did not call it",
    )


@pytest.mark.proves("GateSummary: function")
@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("summaries:absent", "holodeck-action.yaml:10:16: gates.summary.function: "),
        ("nowhere:score", "holodeck-action.yaml:10:16: gates.summary.function: "),
        ("summaries", "gates.summary.function: "),
        (None, "gates.summary.function: is required with method custom, and allowed only with it"),
    ],
)
def test_a_callable_that_is_none_is_refused(project: Project, function: Any, says: str) -> None:
    suite(project, function)
    finished = project.run("run", HOLODECK_TOKEN="hk-7f3a9c1d")
    assert finished.code == 2, finished.stdout + finished.stderr
    assert says in finished.stderr
