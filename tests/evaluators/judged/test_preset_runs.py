"""Preset evaluators through `holodeck-action run`: real processes against a model server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holodeck_action.results.evaluation import Evaluation
from holodeck_action.results.record import Record
from tests.cli.project import Finished, Project
from tests.evaluators.judged.preset_judge import PresetJudge, Truth
from tests.llm.models import FakeModels

KEY = "sk-planted-preset-31"
GOOD = {"completeness": 3, "groundedness": 3, "redundancy": 1}


class Presets:
    """A server with a judge, and suites whose answers are recorded."""

    def __init__(self, project: Project, models: FakeModels) -> None:
        self.project = project
        self.models = models
        self.judge = PresetJudge({})

    def reference(self, name: str = "judge", **more: Any) -> dict[str, Any]:
        return {"provider": "openai", "name": name, "endpoint": self.models.openai_url, **more}

    def run(
        self,
        metric: dict[str, Any],
        rows: dict[str, dict[str, Any]],
        truths: dict[str, Truth],
        *flags: str,
        policy: dict[str, Any] | None = None,
        **judge: Any,
    ) -> tuple[Finished, Record]:
        """Grade recorded answers; `rows` hold `response` and the fields of cases, by name of the case."""
        self.judge = PresetJudge(truths, **judge)
        self.models.answer(self.judge)
        cases, answers = [], []
        for name, row in rows.items():
            fields = {key: value for key, value in row.items() if key not in ("response", "tool_invocations")}
            cases.append({"name": name, "input": f"What is [{name}]?", **fields})
            given = {key: row[key] for key in ("response", "tool_invocations") if key in row}
            answers.append({"case": name, **given})
        self.project.suite(cases, [metric], model=self.reference())
        self.project.answers(answers)
        self.project.policy(target="recorded:answers.jsonl", **(policy or {}))
        finished, record = self.project.evaluate(*flags, OPENAI_API_KEY=KEY)
        assert KEY not in finished.stdout + finished.stderr + (self.project.out / "results.json").read_text()
        return finished, record


@pytest.fixture
def presets(project: Project) -> Iterator[Presets]:
    with FakeModels(keys=[KEY]) as models:
        yield Presets(project, models)
        assert models.violations == []


def only(record: Record, case: int = 0) -> Evaluation:
    (evaluation,) = record.cases[case].trials[0].turns[0].evaluations
    return evaluation


def answer(name: str, text: str = "an answer", **more: Any) -> dict[str, Any]:
    return {"response": f"{text} [{name}]", "ground_truth": f"expected [{name}]", **more}


def test_an_answer_is_complete_grounded_and_brief(presets: Presets) -> None:
    truths = {"a": Truth(GOOD), "b": Truth({**GOOD, "completeness": 1}), "c": Truth({**GOOD, "redundancy": 3})}
    finished, record = presets.run({"type": "generation"}, {name: answer(name) for name in truths}, truths)
    assert finished.code == 1, finished.stderr
    scores = [only(record, case).score for case in range(3)]
    assert scores == [1.0, pytest.approx(2 / 3), pytest.approx(2 / 3)]
    assert [only(record, case).metadata["passed"] for case in range(3)] == [True, False, False]
    assert [case["outcome"] for case in presets.project.verdict()["cases"]] == ["passed", "failed", "failed"]
    found = only(record, 2)
    assert found.evaluator_name == "generation"
    assert found.explanation is not None and "redundancy 1 is above its threshold 0.5" in found.explanation
    assert found.metadata["redundancy"]["polarity"] == "minimize"
    assert found.metadata["refused"] is False
    assert sorted(presets.judge.said) == sorted(["refusal", "completeness", "groundedness", "redundancy"] * 3)
