"""Whatever a simulated user does wrong is an error with its reason, never a verdict on the agent."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.commands.project import Project
from tests.extensions.simulation.shop import USER, ended, goes_on, said, saying, shop
from tests.llm.models import KEY, Answer, FakeModels, Fault, Request

PERSONA = "Ada, a cook in Leeds who always writes in short sentences."
FIRST = goes_on("Hello.")
WRONG: list[tuple[Any, str]] = [
    (goes_on(""), "it is empty"),
    (goes_on(" … "), "it is empty"),
    (goes_on("hello"), "it repeats an earlier message"),
    (goes_on("I want to get the money back for the kettle."), 'it quotes the goal ("get the money back for the")'),
    (
        goes_on("I am a cook, in Leeds, who always talks."),
        'it quotes the persona ("a cook in leeds who always")',
    ),
    (goes_on("Assistant: your money is on its way."), "it speaks as the agent"),
    (goes_on("So?\n**Tested:** 30 euros."), "it speaks as the agent"),
    (goes_on("Which order is it?"), "it speaks as the agent, whose answer it repeats"),
    ("I would say hello.", "it holds no JSON object"),
    ({"state": "bored", "message": "Hm."}, "state: Input should be 'goes_on', 'goal_met' or 'given_up'"),
    (Answer(refusal="I do not play."), "the model refuses to play the user"),
    (Answer('{"state": "goes_on", "mess', finish="length"), "it stops at the token limit"),
]


def test_words(project: Project) -> None:
    """Six words in a row are a quote, five are not."""
    assert len(["get", "the", "money", "back", "for", "the"]) == 6


@pytest.mark.parametrize(("wrong", "why"), WRONG)
@pytest.mark.proves("Simulate: goal persona")
def test_a_message_that_cannot_be_used_is_requested_once_more(
    project: Project, models: FakeModels, wrong: Any, why: str
) -> None:
    shop(project, {"simulate": {**USER, "persona": PERSONA}})
    environ = {"OPENAI_BASE_URL": models.openai_url, "OPENAI_API_KEY": KEY}
    models.answer(saying(FIRST, wrong, goes_on("It is A-17."), ended()))
    finished, record = project.evaluate(**environ)
    assert finished.code == 0, finished.stderr
    [trial] = record.cases[0].trials
    assert [turn.input for turn in trial.turns] == ["Hello.", "It is A-17."]
    assert trial.user is not None
    assert trial.user.asked_again == 1
    assert f"could not be used: {why}" in models.requests[2].text

    models.answer(saying(FIRST, wrong))
    # An error of a metric would fail its case; this is none.
    checks = [{"type": "code", "grader": "agent:answer", "fail_on_error": True}]
    shop(project, {"simulate": {**USER, "persona": PERSONA}, "evaluations": checks})
    finished, record = project.evaluate(**environ)
    assert finished.code == 3
    [trial] = record.cases[0].trials
    assert trial.error is not None
    assert trial.error.message == (
        f"the simulated user failed: OpenAI model gpt-4o-mini gave no usable message twice: {why}"
    )
    assert project.verdict()["cases"][0]["outcome"] == "error"
    [turn] = trial.turns
    assert turn.response == "Which order is it?"
    assert {each.status for each in turn.evaluations} == {"pending"}
    assert "simulated user failed" in (project.out / "report.md").read_text()


STATES = [(state, said, why) for state in ("goal_met", "given_up") for said, why in (
    ("Assistant: your money is on its way.", "it speaks as the agent"),
    ("Which order is it?", "it speaks as the agent, whose answer it repeats"),
    ("Hello.", "it repeats an earlier message"),
    ("I want to get the money back for the kettle.", 'it quotes the goal ("get the money back for the")'),
)]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize(("state", "said", "why"), STATES)
def test_the_message_that_ends_the_conversation_is_checked_too(
    project: Project, models: FakeModels, state: str, said: str, why: str
) -> None:
    shop(project, {"simulate": USER, "expect": [{"contains": "order"}]})
    environ = {"OPENAI_BASE_URL": models.openai_url, "OPENAI_API_KEY": KEY}
    models.answer(saying(FIRST, {"state": state, "message": said}))
    finished, record = project.evaluate(**environ)
    assert finished.code == 3, finished.stdout
    [trial] = record.cases[0].trials
    assert trial.error is not None
    assert trial.error.message.endswith(f"gave no usable message twice: {why}")

    # Words of farewell end it, and so does nothing.
    for last in ("Thank you, goodbye.", "", "  "):
        models.answer(saying(FIRST, {"state": state, "message": last}))
        finished, record = project.evaluate(**environ)
        assert finished.code == 0, finished.stdout


def test_a_first_message_must_be_written(project: Project, models: FakeModels) -> None:
    shop(project, {"simulate": USER})
    models.answer(saying(ended()))
    finished, record = project.evaluate(OPENAI_BASE_URL=models.openai_url, OPENAI_API_KEY=KEY)
    assert finished.code == 3
    [trial] = record.cases[0].trials
    assert trial.error is not None
    assert "it ends the conversation before the first message" in trial.error.message
    assert [turn.skipped is not None for turn in trial.turns] == [True]


@pytest.mark.parametrize(
    ("fault", "code", "why"),
    [
        (Fault(error="bad_key", times=None), "authentication", "refused the key"),
        (Fault(error="unknown_model", times=None), "model_not_found", "is unknown or not accessible"),
        (Fault(error="content_filter", times=None), "content_filter", "content filter"),
        (Fault(error="bad_request", times=None), "bad_request", "refused the request"),
        (Fault(status=200, body="<html>", times=None), "malformed", ""),
    ],
)
def test_a_model_that_cannot_be_called(project: Project, models: FakeModels, fault: Fault, code: str, why: str) -> None:
    shop(project, {"simulate": {**USER, "opening": "Hello."}})
    models.fail(fault)
    finished, record = project.evaluate(OPENAI_BASE_URL=models.openai_url, OPENAI_API_KEY=KEY)
    assert finished.code == 3
    [trial] = record.cases[0].trials
    assert trial.error is not None
    assert trial.error.code == code
    assert trial.error.message.startswith("the simulated user failed: ")
    assert why in trial.error.message


@pytest.mark.models(latency=5.0)
def test_a_user_that_takes_too_long(project: Project, models: FakeModels) -> None:
    shop(project, {"simulate": USER}, limits={"turn_timeout_s": 0.5})
    finished, record = project.evaluate(OPENAI_BASE_URL=models.openai_url, OPENAI_API_KEY=KEY)
    assert finished.code == 3
    [trial] = record.cases[0].trials
    assert trial.error is not None
    assert trial.error.code == "timeout"


def test_a_check_of_stop_that_cannot_be_evaluated(project: Project, models: FakeModels) -> None:
    project.write("agent.py", "def answer(messages):\n    return 'Yes.'\n")
    shop(project, {"simulate": {**USER, "opening": "Hello.", "stop": [{"expected_tools": ["refund"]}]}}, agent=None)
    finished, record = project.evaluate(OPENAI_BASE_URL=models.openai_url, OPENAI_API_KEY=KEY)
    assert finished.code == 3
    [trial] = record.cases[0].trials
    assert trial.error is not None
    assert "the check expected_tools of stop cannot be evaluated: " in trial.error.message
    assert "does not report tool calls" in trial.error.message


def test_an_agent_that_fails_is_its_own_error(project: Project, models: FakeModels) -> None:
    project.write("agent.py", "def answer(messages):\n    raise ValueError('broken')\n")
    shop(project, {"simulate": {**USER, "opening": "Hello."}}, agent=None)
    finished, record = project.evaluate(OPENAI_BASE_URL=models.openai_url, OPENAI_API_KEY=KEY)
    assert finished.code == 3
    [trial] = record.cases[0].trials
    assert trial.error is None
    assert trial.turns[0].error is not None
    assert "broken" in trial.turns[0].error.message
    assert {each.status for each in trial.turns[0].evaluations} == {"pending"}
    assert models.requests == []


def test_a_budget_ends_the_user_too(project: Project, models: FakeModels) -> None:
    def endless(request: Request) -> Answer:
        return Answer(json.dumps(goes_on(f"Hm {len(said(request))}.")), prompt_tokens=400, completion_tokens=100)

    models.answer(endless)
    shop(project, {"simulate": USER}, budget={"max_tokens": 3000})
    finished, record = project.evaluate(OPENAI_BASE_URL=models.openai_url, OPENAI_API_KEY=KEY)
    assert finished.code == 4
    assert record.stopped is not None
    assert "budget" in record.stopped
    assert 0 < len(models.requests) < 8
    assert "simulated users: 2 to 16 calls of openai/gpt-4o-mini" in finished.stdout + finished.stderr


@pytest.mark.parametrize(
    ("hostile", "surfaces"),
    [
        ("<script>alert(1)</script>", ["comment", "report.html", "junit.xml"]),
        ("![x](https://evil.example/?q)", ["comment"]),
        ("a\u202eb\x1b[31m", ["comment", "report.html", "junit.xml", "console"]),
    ],
)
def test_hostile_text_of_the_user_is_escaped(
    project: Project, models: FakeModels, hostile: str, surfaces: list[str]
) -> None:
    shop(project, {"simulate": {**USER, "max_turns": 1}})
    models.answer(saying(goes_on(f"Look {hostile} here")))
    finished, record = project.evaluate(OPENAI_BASE_URL=models.openai_url, OPENAI_API_KEY=KEY)
    assert finished.code == 1
    assert hostile in record.cases[0].trials[0].turns[0].input
    shown = {file: (project.out / file).read_text() for file in ("report.md", "report.html", "junit.xml")}
    # What stands in fences and in code spans is text.
    shown["comment"] = re.sub(r"(?ms)^(`{3,})text\n.*?^\1$|`[^`\n]+`", "", shown["report.md"])
    shown["console"] = finished.stdout + finished.stderr
    assert [surface for surface in surfaces if hostile in shown[surface]] == []
