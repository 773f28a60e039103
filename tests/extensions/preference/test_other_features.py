"""The metric `preference` with trials that confirm a regression, and with simulated users."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.result_files import read_record
from tests.commands.project import Finished, Project
from tests.extensions.preference.shop import Judge, answers_in, judged_by
from tests.extensions.simulation.shop import AGENT, GOAL, USER, customer
from tests.llm.models import KEY, FakeModels, Reply, Request
from tests.run.test_confirmation import TARGET, asked, plan

pytestmark = pytest.mark.needs("preference")
QUICKER = AGENT.replace("Which order is it?", "Tell me which order it is, please.")


def prefers(word: str) -> Judge:
    """Prefers the answer that has the word."""

    def judge(one: str, other: str) -> str:
        return "tie" if (word in one) == (word in other) else "first" if word in one else "second"

    return judge


def test_trials_that_confirm_a_regression_are_not_compared(project: Project, models: FakeModels) -> None:
    models.answer(judged_by(prefers("yes")))
    project.write("agent.py", TARGET)
    model = {"provider": "openai", "name": "judge", "endpoint": models.openai_url}
    names = ("steady", "shaky", "broken")
    project.suite(
        [{"name": name, "input": name, "ground_truth": "yes"} for name in names],
        [{"type": "standard", "metric": "rouge", "threshold": 0.5}, {"type": "preference", "model": model}],
    )
    policy: dict[str, Any] = {
        "target": "python:agent:answer",
        "limits": {"concurrency": 1},
        "gates": {"min_pass_rate": 0.3},
    }
    project.policy(**policy)
    plan(project, steady=["yes"], shaky=["yes"], broken=["yes"])
    assert project.run("run", "-o", "base", OPENAI_API_KEY=KEY).code == 0
    project.policy(**policy, baseline={"source": "file:base", "on_regressed": "ignore"})
    plan(project, steady=["yes"], shaky=["no", "yes"], broken=["no"])
    finished = project.run("run", "-o", "out", OPENAI_API_KEY=KEY)
    assert finished.code == 1, finished.stderr
    assert asked(project) == {"steady": 1, "shaky": 5, "broken": 5}
    # Two pairs in both orders; the third has equal answers.
    assert len(models.requests) == 4
    comparison = project.verdict()["comparison"]
    (found,) = comparison["preferences"]
    assert [found[name] for name in ("pairs", "wins", "ties", "losses", "missing")] == [3, 0, 1, 2, 0]
    # The further trials count as those of any run: the shaky case passes in most of them.
    assert [case["title"] for case in comparison["regressed"]] == ["broken"]
    assert [case["title"] for case in comparison["flaky"]] == ["shaky"]
    cases = {case.name: case for case in read_record(project.out / "results.json").cases}
    for name in ("shaky", "broken"):
        kept = [trial.turns[-1].evaluations[-1] for trial in cases[name].confirmation]
        assert [(each.status, each.explanation) for each in kept] == [
            ("skipped", "trials that confirm a regression are not compared")
        ] * 4
    again = project.run("compare", "base", "out", "--judge", "agent.yaml", OPENAI_API_KEY=KEY)
    assert len(models.requests) == 8, again.stderr
    assert "win rate 16.7 % over 3 cases" in finished.stdout
    assert "win rate 16.7 % over 3 cases" in again.stdout


class Talks:
    """Conversations with a simulated user in two runs, and a judge of them."""

    def __init__(self, project: Project, models: FakeModels, **metric: Any) -> None:
        self.project, self.models = project, models
        self.judge = prefers("please")
        models.answer(self)
        model = {"provider": "openai", "name": "judge", "endpoint": models.openai_url}
        user = {**USER, "model": {**USER["model"], "endpoint": models.openai_url}}
        case = {"name": "refund", "simulate": user, "ground_truth": "30 euros", "expect": [{"contains": "refunded"}]}
        project.suite([case], [{"type": "preference", "model": model, **metric}])
        project.policy(target="python:agent:answer", trials={"repeat": 2, "min_pass": 2})

    def __call__(self, request: Request) -> Reply:
        return judged_by(self.judge)(request) if "Two assistants" in request.text else customer(request)

    def run(self, agent: str, *arguments: str) -> Finished:
        self.project.write("agent.py", agent)
        finished = self.project.run("run", *arguments, OPENAI_API_KEY=KEY)
        assert finished.code == 0, finished.stdout + finished.stderr
        return finished

    @property
    def pairs(self) -> list[Request]:
        """The questions to the judge."""
        return [request for request in self.models.requests if "Two assistants" in request.text]


@pytest.mark.parametrize("metric", [{}, {"sees": "conversation"}])
def test_conversations_with_a_simulated_user_are_compared_as_a_whole(
    project: Project, models: FakeModels, metric: dict[str, Any]
) -> None:
    talks = Talks(project, models, **metric)
    talks.run(AGENT, "-o", "base")
    # The last answers of both runs are equal; the conversations are not.
    talks.run(QUICKER, "-o", "out", "--baseline", "file:base")
    assert len(talks.pairs) == 4
    for request in talks.pairs:
        one, other = (json.loads(text) for text in answers_in(request))
        assert [each["role"] for each in one] == ["user", "assistant", "user", "assistant"]
        assert {one[1]["content"], other[1]["content"]} == {
            "Which order is it?",
            "Tell me which order it is, please.",
        }
        assert f"Request:\n~~~~~~~~\n{GOAL}\n~~~~~~~~\n" in request.text
        assert "Expected answer:\n" in request.text
    (found,) = project.verdict()["comparison"]["preferences"]
    assert [found[name] for name in ("cases", "pairs", "wins", "missing", "identical")] == [1, 2, 2, 0, 0]


def test_a_conversation_in_error_is_no_answer(project: Project, models: FakeModels, tmp_path: Path) -> None:
    talks = Talks(project, models)
    talks.run(AGENT, "-o", "base")
    project.write("agent.py", "def answer(messages):\n    raise RuntimeError('closed')\n")
    finished = project.run("run", "-o", "out", "--baseline", "file:base", OPENAI_API_KEY=KEY)
    assert finished.code == 3, finished.stdout + finished.stderr
    assert talks.pairs == []
    for evaluation in read_record(project.out / "results.json").evaluations:
        assert evaluation.status == "pending"
