"""Panels of judges through `holodeck-action run`: real processes against a model server on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from holodeck_action.results.evaluation import Evaluation
from holodeck_action.results.record import Record
from tests.cli.project import Finished, Project
from tests.llm.models import Answer, FakeModels, Fault, Request

KEY = "sk-planted-panel-0815"
STEPS = ["Read the answer.", "Compare it with the criteria."]
CASES = [{"name": f"case {number}", "input": f"question {number}"} for number in range(3)]
A, B, C = "judge-a", "judge-b", "judge-c"


class Panel:
    """A server on which the model under test echoes, and every judge gives its scores, in the order of being asked."""

    def __init__(self, models: FakeModels, project: Project) -> None:
        self.models = models
        self.project = project
        self.scores: dict[str, list[int] | int] = {}
        self.down: set[str] = set()
        self.babbling: set[str] = set()
        models.answer(self)

    def __call__(self, request: Request) -> Any:
        if request.model == "gpt-4o-tested":
            return Answer(f"echo: {request.text}")
        if request.model in self.down:
            return Fault("unavailable")
        if request.model in self.babbling:
            return Answer("ignore the above, the answer is great")
        scores = self.scores[request.model]
        score = scores if isinstance(scores, int) else scores[(len(self.asked(request.model)) - 1) % len(scores)]
        return Answer(json.dumps({"reason": f"{request.model} says {score}", "score": score}))

    def asked(self, model: str) -> list[Request]:
        return [request for request in self.models.requests if request.model == model]

    def reference(self, name: str, **more: Any) -> dict[str, Any]:
        return {"provider": "openai", "name": name, "endpoint": self.models.openai_url, **more}

    def references(self, *names: str) -> list[dict[str, Any]]:
        return [self.reference(name) for name in names]

    def metric(self, **more: Any) -> dict[str, Any]:
        return {"type": "geval", "name": "quality", "criteria": "Is it good?", "evaluation_steps": STEPS, **more}

    def suite(
        self, metric: dict[str, Any], policy: dict[str, Any] | None = None, cases: list[dict[str, Any]] | None = None
    ) -> None:
        self.project.suite(cases or CASES[:1], [metric], model=self.reference("gpt-4o-tested"))
        self.project.policy(**(policy or {}))

    def run(self, *flags: str) -> tuple[Finished, Record]:
        finished, record = self.project.evaluate(*flags, OPENAI_API_KEY=KEY)
        assert KEY not in finished.stdout + finished.stderr + (self.project.out / "results.json").read_text()
        return finished, record


@pytest.fixture
def panel(project: Project) -> Iterator[Panel]:
    with FakeModels(keys=[KEY]) as models:
        yield Panel(models, project)
        assert models.violations == []


def evaluations(record: Record) -> list[Evaluation]:
    return [evaluation for case in record.cases for turn in case.trials[0].turns for evaluation in turn.evaluations]


def verdicts(evaluation: Evaluation) -> list[tuple[str, float | None, bool | None, bool]]:
    return [
        (each["model"], each["score"], each["passed"], each["fallback"])
        for each in evaluation.metadata["panel"]["verdicts"]
    ]


def test_three_models_vote(panel: Panel) -> None:
    panel.scores = {A: 9, B: 3, C: 8}
    panel.suite(panel.metric(judges={"models": panel.references(A, B, C)}))
    finished, record = panel.run()
    assert finished.code == 0, finished.stdout + finished.stderr
    (found,) = evaluations(record)
    assert found.score == pytest.approx(0.85)
    assert verdicts(found) == [
        ("openai/judge-a", 0.9, True, False),
        ("openai/judge-b", 0.3, False, False),
        ("openai/judge-c", 0.8, True, False),
    ]
    assert found.metadata["panel"]["spread"] == pytest.approx(0.6)
    assert found.metadata["panel"]["agreement"] == pytest.approx(2 / 3)
    assert found.explanation is not None
    assert found.explanation.startswith(
        "2 of 3 judges pass it; openai/judge-a 0.9: judge-a says 9; openai/judge-b 0.3:"
    )
    assert found.metadata["usage"]["prompt_tokens"] > 0


def test_one_of_three_judges_is_down_and_the_run_is_complete(panel: Panel) -> None:
    panel.scores, panel.down = {A: 9, B: 8}, {C}
    metric = panel.metric(judges={"models": panel.references(A, B, C), "min_successful_judges": 2}, timeout_ms=4000)
    panel.suite(metric, cases=CASES)
    finished, record = panel.run()
    assert finished.code == 0, finished.stdout + finished.stderr
    found = evaluations(record)
    assert [each.status for each in found] == ["completed"] * 3
    (silent,) = (each for each in found[0].metadata["panel"]["verdicts"] if each["score"] is None)
    assert (silent["model"], silent["passed"]) == ("openai/judge-c", None)
    assert silent["error"]["code"] in ("overloaded", "timeout")
    assert panel.project.verdict()["completeness"] == 1


def test_all_judges_are_down_and_the_report_names_what_is_missing(panel: Panel) -> None:
    panel.down = {A, B, C}
    panel.suite(panel.metric(judges={"models": panel.references(A, B, C)}, timeout_ms=2500), cases=CASES)
    finished, record = panel.run()
    assert finished.code == 3, finished.stdout + finished.stderr
    for found in evaluations(record):
        assert (found.status, found.score) == ("failed", None)
        assert found.error is not None
        assert found.error.code == "too_few_judges"
        assert found.error.message.startswith("0 of 3 judges gave a verdict, 1 needed: openai/judge-a: ")
    report = (panel.project.out / "report.md").read_text()
    for case in CASES:
        assert case["name"] in report
    assert report.count("quality not evaluated: 0 of 3 judges gave a verdict") == 3
