"""Errors as agents, services, models and simulated users cause them: who must act, and what a race counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holodeck_action.decide.error_table import ACTIONS
from tests.commands.project import Project
from tests.llm.models import KEY, Answer, FakeModels, Request
from tests.targets.service import Handler, Received, Service

AGENT = """
import json, sys

ERROR = {"error": {"message": "the database is down", "kind": "infrastructure"}}

def answer(request):
    return ERROR

if __name__ == "__main__":
    print(json.dumps(ERROR))
"""
CASES = 3


def respond(handler: Handler, received: Received) -> None:
    """Answer with the status in the path; with 200 correctly."""
    at = received.path.strip("/")
    if at.isdecimal():
        handler.answer({"response": received.body["input"]} if at == "200" else {"detail": "no"}, int(at))
    else:
        handler.answer({"error": {"message": "the database is down", "kind": at}})


def suite(project: Project, **top: Any) -> None:
    project.suite([{"name": f"case {at}", "input": f"{at}", "ground_truth": f"{at}"} for at in range(CASES)], **top)
    project.write("agent.py", AGENT)
    project.answers(
        [{"case": f"case {at}", "error": {"message": "no", "kind": "infrastructure"}} for at in range(CASES)]
    )


INFRASTRUCTURE = (
    "recorded:answers.jsonl",
    "python:agent:answer",
    "command:python3 agent.py",
    "/infrastructure",
    "/503",
)


@pytest.mark.parametrize(
    ("target", "actor"),
    [
        *((target, "infrastructure") for target in (*INFRASTRUCTURE, "/429", "/502", "http://127.0.0.1:9/down")),
        *((target, "configuration") for target in ("/403", "/401", "/404")),
        *((target, "agent") for target in ("/500", "/422", "/agent")),
    ],
)
def test_who_must_act_on_an_error_of_a_target(project: Project, service: Service, target: str, actor: str) -> None:
    service.respond = respond
    suite(project)
    project.policy(target=f"{service.url}{target}" if target.startswith("/") else target)
    finished = project.run("run", "-o", "out", "--no-html")
    assert finished.code == 3, finished.stderr
    assert ACTIONS[actor] in finished.stdout
    assert ("The agent must be repaired" in finished.stdout) == (actor == "agent")


@pytest.mark.needs("race")
@pytest.mark.parametrize(
    ("target", "known"),
    [
        *((target, False) for target in ("recorded:answers.jsonl", "/infrastructure", "/503", "/429", "/403")),
        *((target, True) for target in ("/500", "/agent")),
    ],
)
def test_trouble_outside_of_a_variant_is_no_loss(project: Project, service: Service, target: str, known: bool) -> None:
    service.respond = respond
    suite(project)
    varied = f"{service.url}{target}" if target.startswith("/") else target
    axes = ("--vary", f"target={service.url}/200", "--vary", f"target={varied}")
    finished = project.run("race", "-o", "out", *axes)
    found = json.loads((project.out / "race.json").read_bytes())
    other = next(each for each in found["variants"] if each["name"] == f"target={varied}")
    assert (other["value"], other["unknown"]) == ((0.0, 0) if known else (None, CASES))
    assert other["dropped"] is None
    assert finished.code == (0 if known else 3), finished.stderr
    assert found["outcome"] == ("equal" if known else "undecided")


@pytest.mark.needs("simulation")
def test_a_simulated_user_that_failed_is_not_the_agents_fault(project: Project, models: FakeModels) -> None:
    project.write("agent.py", "def answer(messages):\n    return 'Which order?'\n")
    user = {"goal": "Get the money back.", "model": {"provider": "openai", "name": "gpt-4o-mini"}}
    cases = [{"name": f"case {at}", "simulate": user, "expect": [{"contains": "x"}]} for at in range(2)]
    project.suite(cases, evaluations=None)
    project.policy(target="python:agent:answer")

    def rule(request: Request) -> Answer:
        return Answer(json.dumps({"state": "goes_on", "message": "Hello."}))

    models.answer(rule)
    finished = project.run("run", "-o", "out", "--no-html", OPENAI_BASE_URL=models.openai_url, OPENAI_API_KEY=KEY)
    assert finished.code == 3, finished.stderr
    assert "gave no usable message twice" in finished.stdout
    assert ACTIONS["user"] in finished.stdout
    assert "The agent must be repaired" not in finished.stdout

    # Nor is a first message that the user does not write.
    models.answer(lambda request: Answer("no JSON"))
    finished = project.run("run", "-o", "out", "--no-html", OPENAI_BASE_URL=models.openai_url, OPENAI_API_KEY=KEY)
    assert ACTIONS["user"] in finished.stdout


@pytest.mark.models(latency=5.0)
def test_a_model_that_is_too_slow_and_an_answer_that_is_cut(project: Project, models: FakeModels) -> None:
    suite(project, response_format={"type": "object"})
    environ = {"OPENAI_BASE_URL": models.openai_url, "OPENAI_API_KEY": KEY}
    project.policy(limits={"turn_timeout_s": 0.1})
    finished = project.run("run", "-o", "out", "--no-html", **environ)
    assert finished.code == 3, finished.stderr
    assert ACTIONS["configuration"] in finished.stdout
    assert "turn_timeout_s" in finished.stdout


def test_an_answer_of_the_model_that_is_cut(project: Project, models: FakeModels) -> None:
    suite(project, response_format={"type": "object"})
    models.answer(lambda request: Answer('{"a": "', finish="length"))
    environ = {"OPENAI_BASE_URL": models.openai_url, "OPENAI_API_KEY": KEY}
    finished = project.run("run", "-o", "out", "--no-html", **environ)
    assert finished.code == 3, finished.stderr
    assert "raise model.max_tokens" in finished.stdout
    assert ACTIONS["configuration"] in finished.stdout
    assert "The agent must be repaired" not in finished.stdout
