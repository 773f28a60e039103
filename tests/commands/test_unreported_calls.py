"""A target that says nothing of tool calls: nobody may take that for "no tool was called"."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holodeck_action.record.record import Record, TurnRecord
from holodeck_action.record.result_files import read_record
from tests.commands.project import Finished, Project

WAY_OUT = "give tool_invocations with the reply, an empty list if no tool was called"

GRADERS = """
def looks(ctx):
    return not ctx.tool_invocations

def looks_away(ctx):
    print(ctx)
    return ctx.agent_response == "Paris"

def hides_it(ctx):
    try:
        return bool(ctx.tool_invocations)
    except Exception:
        return True

def asks_whether_it_can(ctx):
    return not getattr(ctx, "tool_invocations", ())
"""


def _metric(type: str, **settings: Any) -> dict[str, Any]:
    return {"type": type, **settings}


READS_CALLS: dict[str, dict[str, Any]] = {
    "no tool": {"expected_tools": []},
    "a tool": {"expected_tools": ["find"]},
    "tool correctness": {"evaluations": [_metric("tool_correctness", threshold=0.0)]},
    **{
        f"trajectory {mode}": {"evaluations": [_metric("trajectory", mode=mode, threshold=0.0)]}
        for mode in ("subset", "lcs_f1")
    },
    "composite": {
        "evaluations": [_metric("composite", name="both", metrics=[_metric("trajectory", mode="subset")])],
    },
    **{
        f"grader {name}": {"evaluations": [_metric("code", grader=f"graders:{name}")]}
        for name in ("looks", "hides_it", "asks_whether_it_can")
    },
}
"""What is graded by the tool calls of a turn, each in a case that a target without calls satisfies."""

EXPECTING = [name for name in READS_CALLS if name.startswith(("tool", "trajectory", "composite"))]

IGNORES_CALLS: dict[str, dict[str, Any]] = {
    "equality": {},
    "grader looks_away": {"evaluations": [_metric("code", grader="graders:looks_away")]},
}


def _run(project: Project, calls: Any) -> tuple[Finished, Record]:
    cases = {**READS_CALLS, **IGNORES_CALLS}
    project.write("graders.py", GRADERS)
    project.suite([{"name": name, "input": "?", "ground_truth": "Paris", **given} for name, given in cases.items()])
    told = {} if calls is None else {"tool_invocations": calls}
    project.answers([{"case": name, "response": "Paris", **told} for name in cases])
    project.policy(
        ground_truth="unused",
        target="recorded:answers.jsonl",
        cases={name: {"expected_trajectory": [{"name": "find"}]} for name in EXPECTING},
    )
    return project.evaluate()


def _turns(record: Record) -> dict[str | None, TurnRecord]:
    return {case.name: case.trials[0].turns[0] for case in record.cases}


def test_silence_is_an_error_of_what_reads_tool_calls_and_of_nothing_else(project: Project) -> None:
    finished, record = _run(project, None)
    assert finished.code == 3
    judged = {case["id"]: case["judged"] for case in project.verdict()["cases"]}
    silent = {name: judged[case.id] for case in record.cases if (name := case.name)}
    assert silent == {**dict.fromkeys(READS_CALLS, "error"), **dict.fromkeys(IGNORES_CALLS, "passed")}
    for name, turn in _turns(record).items():
        assert turn.tool_invocations is None
        reasons = [assertion.reason for assertion in turn.tool_assertions]
        reasons += [each.error.message for each in turn.evaluations if each.error is not None]
        assert all(WAY_OUT in str(reason) for reason in reasons), reasons
        assert bool(reasons) == (name in READS_CALLS), name
    counts = project.verdict()["counts"]
    assert counts["planned_evaluations"] - counts["completed_evaluations"] == len(READS_CALLS)
    note = "no row of answers.jsonl has tool_invocations, but 6 of 11 cases need them"
    assert note in finished.stderr
    assert note in project.run("validate").stderr


@pytest.mark.full
def test_an_empty_list_says_that_none_was_called(project: Project) -> None:
    finished, record = _run(project, [])
    judged = {case["id"]: case["judged"] for case in project.verdict()["cases"]}
    names = {case.name: judged[case.id] for case in record.cases}
    assert finished.code == 1
    assert {name for name, outcome in names.items() if outcome != "passed"} == {"a tool", "grader hides_it"}
    assert {turn.tool_invocations for turn in _turns(record).values()} == {()}
    assert "has tool_invocations" not in finished.stderr + project.run("validate").stderr


def test_calls_of_a_conversation_are_unknown_as_soon_as_those_of_one_turn_are(project: Project) -> None:
    subset = [_metric("trajectory", mode="subset")]
    composite = [_metric("composite", name="both", metrics=subset)]
    first, last = {"input": "1", "ground_truth": "a"}, {"input": "2", "ground_truth": "b"}
    each = {"alone": subset, "composite": composite}
    project.suite([{"name": name, "turns": [first, {**last, "evaluations": each[name]}]} for name in each])
    project.policy(ground_truth="unused", cases={name: {"expected_trajectory": [{"name": "find"}]} for name in each})
    rows = [{"turn": 0, "response": "a"}, {"turn": 1, "response": "b", "tool_invocations": []}]
    project.answers([{"case": name, **row} for name in each for row in rows])
    finished, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 3
    for case in record.cases:
        (evaluation,) = case.trials[0].turns[1].evaluations
        assert evaluation.error is not None
        assert WAY_OUT in evaluation.error.message


@pytest.mark.full
@pytest.mark.parametrize(("target", "known"), [("recorded:answers.jsonl", False), ("model:openai/gpt-4o", True)])
def test_an_empty_list_of_a_record_of_version_1_is_unknown_unless_the_suites_model_answered(
    project: Project, target: str, known: bool
) -> None:
    _run(project, [])
    path = project.out / "results.json"
    document = json.loads(path.read_bytes())
    document["schema_version"] = 1
    for key in ("digest", "chosen"):
        del document[key]
    document["provenance"]["target"] = target
    path.write_text(json.dumps(document))
    record = read_record(path)
    assert {turn.tool_invocations for turn in _turns(record).values()} == {() if known else None}
    # What was found then stays; graded again, it is found out.
    assert project.run("decide", "out/results.json").code == 1
    assert project.run("rejudge", "out/results.json", "-o", "again").code == (1 if known else 3)
    again = _turns(read_record(project.out.with_name("again") / "results.json"))
    assert [assertion.matched for assertion in again["no tool"].tool_assertions] == [True if known else None]
