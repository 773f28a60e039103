"""The settings of `simulate`, and the problems of a file that has it wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.suite.model.named_models import SMALL
from tests.commands.project import Project
from tests.extensions.simulation.shop import USER, customer, shop
from tests.llm.models import KEY, FakeModels

MODEL = "{provider: openai, name: gpt-4o-mini}"
SUITE = """\
name: shop
model: {provider: openai, name: gpt-4o}
instructions: {inline: Help.}
test_cases:
  - name: refund
    expect: [{contains: refunded}]
"""


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (
            f"    input: Hello.\n    simulate: {{goal: x, model: {MODEL}}}",
            "agent.yaml:8:5: test_cases[0].simulate: cannot be combined with input: the simulated user writes the "
            'inputs; keep simulate or input (case "refund")',
        ),
        (
            f"    simulate:\n      goal: x\n      model: {MODEL}\n    turns: [{{input: a}}]\n    files: []",
            "agent.yaml:7:5: test_cases[0].simulate: cannot be combined with turns and files: the simulated user "
            'writes the inputs; keep simulate or turns and files (case "refund")',
        ),
        (
            f"    simulate: {{model: {MODEL}}}",
            'agent.yaml:7:15: test_cases[0].simulate.goal: is missing (required: what the user wants) (case "refund")',
        ),
        (
            "    simulate: {goal: x}",
            'agent.yaml:7:15: test_cases[0].simulate.model: is missing (required) (case "refund")',
        ),
        (
            f"    simulate: {{goal: x, scenario: y, model: {MODEL}}}",
            "agent.yaml:7:35: test_cases[0].simulate.scenario: is another name of goal; give only one of them"
            ' (case "refund")',
        ),
        (
            f"    simulate: {{goal: x, persona: p, user_description: y, model: {MODEL}}}",
            "agent.yaml:7:55: test_cases[0].simulate.user_description: is another name of persona; give only one of "
            'them (case "refund")',
        ),
        (
            f"    ground_truth: y\n    simulate: {{goal: x, expected_outcome: z, model: {MODEL}}}",
            "agent.yaml:7:19: test_cases[0].ground_truth: is also given as expected_outcome of simulate; give only one"
            ' (case "refund")',
        ),
        (
            "    simulate: {goal: x, temperature: 0.1, model: {provider: openai, name: m, temperature: 0.2}}",
            "agent.yaml:7:38: test_cases[0].simulate.temperature: is also given in model; give only one of them"
            ' (case "refund")',
        ),
        (
            f"    simulate: {{goal: x, user_script: [a, b], opening: c, max_turns: 2, model: {MODEL}}}",
            "agent.yaml:7:69: test_cases[0].simulate.max_turns: is below the number of messages in opening and "
            'user_script, which is 3 (case "refund")',
        ),
        (
            f"    simulate: {{goal: x, max_turns: 0, model: {MODEL}}}",
            'agent.yaml:7:36: test_cases[0].simulate.max_turns: 0 is out of range (allowed: 1 to 100) (case "refund")',
        ),
        (
            f"    simulate: {{goal: x, stop: [{{similar: y, embedding_model: e, threshold: 0.5}}], model: {MODEL}}}",
            "agent.yaml:7:31: test_cases[0].simulate.stop: the check similar calls a model; give checks that are "
            'computed (case "refund")',
        ),
        (
            f"    simulate: {{goal: x, stop: [{{contians: y}}], model: {MODEL}}}",
            'agent.yaml:7:32: test_cases[0].simulate.stop[0]: "contians" is not a check, did you mean',
        ),
        (
            f"    simulate: {{goal: x, personna: y, model: {MODEL}}}",
            'agent.yaml:7:25: test_cases[0].simulate.personna: unknown key, did you mean "persona"?',
        ),
    ],
)
def test_problems_have_their_place(project: Project, lines: str, error: str) -> None:
    project.write("agent.yaml", SUITE + lines + "\n")
    finished = project.run("validate")
    assert finished.code == 2
    assert finished.errors[0].startswith(error), finished.errors


@pytest.mark.models(answer=customer)
@pytest.mark.proves(
    "CaseEntry: simulate", "Simulate: scenario user_description expected_outcome goal persona model temperature knows"
)
@pytest.mark.parametrize(("name", "sent"), [("gpt-4o-mini", 0.2), (SMALL, None)])
def test_the_names_of_deepeval_are_accepted(
    project: Project, models: FakeModels, name: str, sent: float | None
) -> None:
    user = {
        "scenario": "Wants money.",
        "user_description": "Ada",
        "expected_outcome": "The money is refunded.",
        "knows": "The order is A-17.",
        "model": {**USER["model"], "name": name, "temperature": 0.2},
    }
    checks = [{"type": "standard", "metric": "equality", "threshold": 1}]
    shop(project, {"simulate": user, "evaluations": checks, "expect": None})
    finished, record = project.evaluate(OPENAI_BASE_URL=models.openai_url, OPENAI_API_KEY=KEY)
    assert finished.code == 1
    [case] = record.cases
    assert case.user is not None
    assert (case.user.goal, case.user.persona, case.user.knows) == ("Wants money.", "Ada", "The order is A-17.")
    # What is reported is what was sent.
    assert case.user.temperature == sent
    assert case.trials[0].turns[-1].ground_truth == "The money is refunded."
    for request in models.requests:
        assert request.body.get("temperature") == sent
        assert "The money is refunded." not in request.system


def test_a_missing_key_is_found_before_the_run(project: Project) -> None:
    shop(project, {"simulate": USER})
    finished = project.run("run")
    assert finished.code == 2
    assert "agent.yaml:" in finished.errors[0]
    assert "OPENAI_API_KEY" in finished.errors[0]
    validated = project.run("validate")
    assert validated.code == 0
    assert "OPENAI_API_KEY" in validated.stdout + validated.stderr


def test_the_plan_counts_the_calls_of_the_user(project: Project, models: FakeModels) -> None:
    users: list[dict[str, Any]] = [
        USER,
        {**USER, "opening": "Hello."},
        {**USER, "opening": "Hello.", "stop": {"contains": "x"}},
        {**USER, "user_script": ["a", "b"], "max_turns": 2},
    ]
    shop(project, *({"simulate": user} for user in users), trials={"repeat": 2})
    finished = project.run("run", "--dry-run", OPENAI_BASE_URL=models.openai_url, OPENAI_API_KEY=KEY)
    assert finished.code == 0
    assert "plan: agent.yaml: 4 cases, python:agent:answer answers" in finished.stdout
    # 2 + 1 + 0 + 0 at least in the first trial, 2 * (8 + 7 + 7 + 0) at most, twice.
    assert "simulated users: 3 to 88 calls of openai/gpt-4o-mini, about " in finished.stdout + finished.stderr
    assert models.requests == []


def test_a_price_that_is_not_known_cannot_be_limited(project: Project, models: FakeModels) -> None:
    user = {**USER, "model": {"provider": "openai", "name": "of-my-own"}}
    shop(project, {"simulate": user}, budget={"max_cost_usd": 1})
    finished = project.run("run", OPENAI_BASE_URL=models.openai_url, OPENAI_API_KEY=KEY)
    assert finished.code == 2
    assert "the price of OpenAI model of-my-own is unknown" in finished.stderr


@pytest.mark.models(answer=customer)
def test_cases_in_tables_can_have_users(project: Project, models: FakeModels, tmp_path: Path) -> None:
    shop(project, {"input": "x"})
    written = json.loads((project.folder / "agent.yaml").read_text())
    del written["test_cases"]
    project.write("agent.yaml", json.dumps({**written, "test_cases_file": "cases.csv"}))
    model = json.dumps(USER["model"]).replace('"', '""')
    project.write(
        "cases.csv", f'name,simulate.goal,simulate.model,expect.contains\nrefund,Get money,"{model}",refunded\n'
    )
    finished, record = project.evaluate(OPENAI_BASE_URL=models.openai_url, OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stderr
    assert len(record.cases[0].trials[0].turns) == 2
