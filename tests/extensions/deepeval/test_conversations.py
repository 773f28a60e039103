"""Whole conversations, graded by DeepEval's classes: live, replayed, compared, and graded again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holodeck_action.record.result_files import read_record
from tests.commands.project import Project, evaluations
from tests.extensions.deepeval.test_classes import judged
from tests.llm.models import KEY, Answer, FakeModels, Request
from tests.llm.models.values import Reply

CASES = 6
RIGHT = "Your name is Ann."
FORGOT = "I do not know your name."


def answering(request: Request) -> Reply:
    """The agent remembers a name; the judge says in which turn it did not."""
    if request.model == "agent":
        if "name is" in request.text:
            return "Hello!"
        return FORGOT if "case 3" in request.text and "again" in request.text else RIGHT
    if request.schema is None:
        # G-Eval asks for probabilities instead.
        known = FORGOT not in request.text
        reason = "it knows the name" if known else "it does not know the name in turn 2"
        return Answer(json.dumps({"score": 9 if known else 2, "reason": reason}))
    if FORGOT not in request.text:
        return Answer(_good(request))
    if "verdicts" in (request.schema or {}).get("properties", {}):
        verdict = {"index": 5, "reason": "it forgot the name in turn 2", "ai_message": FORGOT}
        return Answer(json.dumps({"verdicts": [verdict]}))
    return Answer(json.dumps({"reason": "it forgot the name in turn 2"}))


def _good(request: Request) -> str:
    names = (request.schema or {}).get("properties", {})
    return json.dumps({name: [] if name == "verdicts" else "it kept to its role" for name in names})


@pytest.fixture
def talk(project: Project, models: FakeModels) -> Project:
    """Six conversations of three turns with the suite's own model."""

    def model(name: str) -> dict[str, Any]:
        return {"provider": "openai", "name": name, "endpoint": models.openai_url, "api_key": KEY}

    metric: dict[str, Any] = {"type": "deepeval", "metric": "RoleAdherenceMetric", "threshold": 0.8}
    metric["options"] = {"chatbot_role": "clerk"}
    memory: dict[str, Any] = {"type": "geval", "name": "Memory", "criteria": "It remembers the name.", "threshold": 0.7}
    memory |= {"evaluation_steps": ["Look for the name."], "scope": "conversation"}
    again = {number: " again" if number == 3 else "" for number in range(CASES)}
    cases = [
        {
            "name": f"case {number}",
            "turns": [
                {"input": f"My name is Ann, case {number}."},
                {"input": f"What is my name, case {number}?"},
                {"input": f"And my name{again[number]}, case {number}?"},
            ],
        }
        for number in range(CASES)
    ]
    project.suite(cases, model=model("agent"), evaluations={"model": model("judge"), "metrics": [metric, memory]})
    return project


@pytest.mark.models(answer=answering)
def test_six_conversations_are_judged_replayed_compared_and_judged_again(talk: Project, models: FakeModels) -> None:
    finished, record = talk.evaluate("--record", "tape")
    assert finished.code == 1, finished.stderr
    found = [each.trials[0] for each in record.cases]
    assert [([len(turn.evaluations) for turn in trial.turns], len(trial.evaluations)) for trial in found] == [
        ([0, 0, 0], 2)
    ] * CASES
    for at, mark in enumerate((0.8, 0.7)):
        scores = [float(str(trial.evaluations[at].score)) for trial in found]
        assert [score < mark for score in scores] == [number == 3 for number in range(CASES)]
    asked = len(models.requests)
    # The five good conversations get their reason by the same question, which is asked once.
    assert asked == CASES * 3 + (CASES + 2) + CASES
    first = talk.out.joinpath("results.json").read_bytes()

    replayed = talk.run("run", "-o", "replayed", "--replay", "tape")
    assert replayed.code == 1
    assert len(models.requests) == asked
    canonical = ("--canonical", "--format", "json")
    reports = [talk.run("report", f"{folder}/results.json", *canonical).stdout for folder in ("out", "replayed")]
    assert reports[0] == reports[1] != ""

    rejudged = talk.run("rejudge", "out/results.json", "-o", "rejudged", "--replay", "tape")
    assert rejudged.code == 1, rejudged.stderr
    assert len(models.requests) == asked
    third = read_record(talk.folder / "rejudged" / "results.json")
    assert [(each.score, each.explanation) for each in evaluations(third)] == [
        (each.score, each.explanation) for each in evaluations(record)
    ]
    assert talk.out.joinpath("results.json").read_bytes() == first

    comment = talk.run("report", "out/results.json", "--format", "markdown").stdout
    assert "it forgot the name in turn 2" in comment
    assert "it does not know the name in turn 2" in comment


@pytest.mark.models(answer=answering)
def test_a_conversation_is_compared_with_its_base(talk: Project) -> None:
    assert talk.run("run", "-o", "now").code == 1
    text = (talk.folder / "agent.yaml").read_text().replace(" again", "")
    talk.write("agent.yaml", text)
    base = talk.run("run", "-o", "base")
    assert base.code == 0, base.stdout
    compared = talk.run("compare", "base", "now")
    assert "case 3" in compared.stdout
    assert "Memory" in compared.stdout


@pytest.mark.models(answer=judged)
def test_a_conversation_with_unknown_calls_or_an_empty_answer_never_passes(
    project: Project, models: FakeModels
) -> None:
    judge = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url, "api_key": KEY}
    tools = {"type": "deepeval", "metric": "ToolUseMetric", "threshold": 0.0}
    metrics = [
        {**tools, "options": {"available_tools": [{"name": "find"}]}},
        {"type": "deepeval", "metric": "KnowledgeRetentionMetric", "threshold": 0.1},
    ]
    turns = [{"input": "Hello?"}, {"input": "And?"}]
    project.suite([{"name": "talk", "turns": turns}], evaluations={"model": judge, "metrics": metrics})
    project.policy(target="recorded:answers.jsonl")
    first = {"case": "talk", "turn": 0, "response": "Hi!", "tool_invocations": []}
    project.answers([first, {"case": "talk", "turn": 1, "response": " "}])
    finished, record = project.evaluate()
    assert finished.code in (1, 3)
    used, retained = evaluations(record)
    assert (used.score, retained.score) == (0, 0)
    assert retained.explanation == "the answer of turn 1 is empty"
    project.answers([first, {"case": "talk", "turn": 1, "response": "Yes."}])
    used = evaluations(project.evaluate()[1])[0]
    assert "needs the tool calls of turn 1, which are unknown" in str(used.error)


@pytest.mark.models(answer=judged)
def test_the_tools_of_the_agent_are_those_of_the_metric_unless_they_are_unknown(
    project: Project, models: FakeModels
) -> None:
    judge = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url, "api_key": KEY}
    use = {"type": "deepeval", "metric": "ToolUseMetric", "threshold": 0.0}
    find = {"name": "find", "description": "finds an order", "type": "function", "file": "own.py", "function": "find"}
    project.write("own.py", "def find(order): ...")
    project.policy(target="recorded:answers.jsonl")
    project.answers([{"case": "one", "turn": 0, "response": "Hi!", "tool_invocations": [{"name": "find", "args": {}}]}])
    for tools in ([find], None):
        before = len(models.requests)
        case = {"name": "one", "turns": [{"input": "Hello"}]}
        project.suite([case], evaluations={"model": judge, "metrics": [use]}, tools=tools)
        finished, record = project.evaluate()
        (found,) = evaluations(record)
        if tools:
            assert finished.code == 0, finished.stderr
            assert any("finds an order" in request.text for request in models.requests[before:])
            told = {"available_tools": [{"name": "find", "description": "finds an order"}]}
            assert found.criteria.settings["options"] == told
        else:
            assert (finished.code, len(models.requests)) == (3, before)
            assert "write the option available_tools" in str(found.error)
