"""A model plays the user: who says what, when it ends, and what is graded."""

from __future__ import annotations

from typing import Any

import pytest

from holodeck_action.record.record import CaseRecord
from tests.commands.project import Project
from tests.extensions.simulation.shop import AGENT, GOAL, USER, customer
from tests.llm.models import KEY, FakeModels


def shop(project: Project, *cases: dict[str, Any], **policy: Any) -> None:
    project.write("agent.py", AGENT)
    expect = [{"contains": "refunded"}]
    project.suite(
        [{"name": f"refund {number}", "expect": expect, **case} for number, case in enumerate(cases)],
        evaluations=None,
    )
    project.policy(target="python:agent:answer", **policy)


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
