"""A model plays the user: who says what, when it ends, and what is graded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holodeck_action.record.record import CaseRecord
from tests.commands.project import Project
from tests.extensions.simulation.shop import GOAL, USER, customer, ended, goes_on, said, saying, shop
from tests.llm.models import KEY, FakeModels


def converse(project: Project, models: FakeModels, *arguments: str) -> tuple[int, CaseRecord]:
    finished, record = project.evaluate(*arguments, OPENAI_BASE_URL=models.openai_url, OPENAI_API_KEY=KEY)
    return finished.code, record.cases[0]


def messages(case: CaseRecord, trial: int = 0) -> list[str]:
    return [turn.input for turn in case.trials[trial].turns]


@pytest.mark.models(answer=customer)
def test_a_model_plays_the_user_until_it_says_that_the_goal_is_met(project: Project, models: FakeModels) -> None:
    shop(project, {"simulate": {**USER, "persona": "Ada", "knows": ["The order is A-17."]}, "ground_truth": "30 euros"})
    code, case = converse(project, models)
    assert code == 0
    assert messages(case)[1:] == ["It is A-17."]
    assert [turn.said_by for turn in case.trials[0].turns] == ["model", "model"]
    # Graded once, at the end.
    assert [len(turn.evaluations) for turn in case.trials[0].turns] == [0, 1]
    calls = case.trials[0].user
    assert calls is not None
    assert (calls.calls, calls.asked_again, calls.ended) == (3, 0, "the user says that the goal is met")
    assert case.user is not None
    assert (case.user.model, case.user.temperature, case.user.goal) == ("openai/gpt-4o-mini", 0.7, GOAL)
    # It knows goal, persona and facts, but neither the expected answer nor what tools returned.
    for request in models.requests:
        assert GOAL in request.system
        assert "The order is A-17." in request.system
        assert "30 euros" not in request.system
        assert "secret margin" not in request.system + request.text
        assert request.body["temperature"] == 0.7
        assert request.body["seed"] == calls.seed


@pytest.mark.models(answer=saying(goes_on("Hello?"), goes_on("It is A-17."), ended("given_up")))
def test_the_user_gives_up(project: Project, models: FakeModels) -> None:
    shop(project, {"simulate": USER, "expect": [{"contains": "coffee"}]})
    code, case = converse(project, models)
    # Graded all the same.
    assert code == 1
    assert case.trials[0].user is not None
    assert case.trials[0].user.ended == "the user gives up"


@pytest.mark.models(answer=customer)
@pytest.mark.parametrize(
    ("settings", "said_first", "why"),
    [
        ({"opening": "A-17 leaks."}, ["A-17 leaks."], "the user says that the goal is met"),
        ({"opening": "One.", "user_script": ["Two.", "Three."]}, ["One.", "Two.", "Three."], ""),
        ({"stop": [{"contains": "money"}, {"contains": "order"}]}, [], 'the check contains "order" of stop holds'),
        ({"stop": {"regex": "Which .*"}}, [], "the check regex /Which .*/ of stop holds"),
        ({"stop": [{"expected_tools": ["refund"]}]}, [], "the check expected_tools of stop holds"),
        ({"max_turns": 1}, [], "max_turns is reached (1)"),
        ({"user_script": ["One.", "Two."], "max_turns": 2}, ["One.", "Two."], "max_turns is reached (2)"),
    ],
)
@pytest.mark.proves("Simulate: opening user_script stop max_turns", "StopTools: expected_tools")
def test_what_is_said_and_when_it_ends(
    project: Project, models: FakeModels, settings: dict[str, Any], said_first: list[str], why: str
) -> None:
    shop(project, {"simulate": {**USER, **settings}})
    case = converse(project, models)[1]
    trial = case.trials[0]
    assert messages(case)[: len(said_first)] == said_first
    by = ["script"] * len(said_first)
    assert [turn.said_by for turn in trial.turns] == by + ["model"] * (len(trial.turns) - len(by))
    assert trial.user is not None
    assert trial.user.ended == (why or "the user says that the goal is met")
    # Nothing is asked beyond the end.
    assert len(models.requests) == trial.user.calls


@pytest.mark.models(answer=customer)
def test_tools_and_conversation_metrics_see_all_turns(project: Project, models: FakeModels) -> None:
    grader = """
def grade(context):
    calls = [len(turn.tool_invocations) for turn in context.earlier_turns]
    return calls == [0, 1] and len(context.tool_invocations) == 1 and context.turn_input == "Thanks."
"""
    project.write("graders.py", grader)
    user = {**USER, "user_script": ["Hello.", "A-17.", "Thanks."], "max_turns": 3}
    shop(
        project,
        {
            "simulate": user,
            "expected_tools": ["refund"],
            "evaluations": [{"type": "code", "grader": "graders:grade"}],
            "expect": [{"contains": "Which order"}],
        },
    )
    code, case = converse(project, models)
    last = case.trials[0].turns[-1]
    assert code == 0, [each.explanation for each in last.evaluations]
    assert [each.matched for each in last.tool_assertions] == [True]
    assert [len(turn.tool_invocations or ()) for turn in case.trials[0].turns] == [0, 1, 0]
    assert models.requests == []


@pytest.mark.models(answer=customer)
def test_repeated_trials_have_different_seeds_and_conversations(project: Project, models: FakeModels) -> None:
    shop(project, {"simulate": USER}, trials={"repeat": 3})
    code, case = converse(project, models)
    assert code == 0
    seeds = {trial.user.seed for trial in case.trials if trial.user is not None}
    assert len(seeds) == 3
    assert {request.body["seed"] for request in models.requests} == seeds
    assert len({messages(case, index)[0] for index in range(3)}) == 3


@pytest.mark.parametrize(("provider", "field"), [("mistral", "random_seed"), ("anthropic", None)])
@pytest.mark.models(answer=lambda request: json.dumps(ended() if said(request) else goes_on("It is A-17.")))
def test_each_provider_gets_the_seed_in_its_own_field(
    project: Project, models: FakeModels, provider: str, field: str | None
) -> None:
    shop(project, {"simulate": {**USER, "model": {"provider": provider, "name": "claude-haiku-4-5"}}})
    keys = {"MISTRAL_API_KEY": KEY, "MISTRAL_BASE_URL": models.openai_url}
    keys |= {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": models.anthropic_url}
    _, record = project.evaluate(**keys)
    models.take_violations()
    [trial] = record.cases[0].trials
    assert trial.user is not None
    assert [request.body.get(field or "seed") for request in models.requests] == [trial.user.seed] * len(
        models.requests
    )
