"""Amounts of money and scores in sentences."""

from __future__ import annotations

import pytest

from holodeck_action.decide.consumption import KnownTotal
from holodeck_action.reports.phrases import price_text, usd_text
from tests.commands.project import Project


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "$0.0000"), (0.00001, "<$0.0001"), (0.00009, "<$0.0001"), (0.0001, "$0.0001"), (1.5, "$1.5000")],
)
def test_a_price_is_never_rounded_to_nothing(value: float, text: str) -> None:
    assert usd_text(value) == text


def test_a_part_of_a_price_is_at_least_that() -> None:
    assert price_text(KnownTotal(0.25, 1)) == "at least $0.2500 (1 answer without a cost)"


def test_equal_scores_of_a_cause_are_one_number(project: Project) -> None:
    metric = {"type": "standard", "metric": "f1_score", "threshold": 0.5, "name": "Token F1"}
    project.suite([{"name": name, "input": "?", "ground_truth": "red"} for name in ("a", "b", "c")], [metric])
    project.answers([{"case": name, "response": "blue"} for name in ("a", "b", "c")])
    finished = project.run("run", "--target", "recorded:answers.jsonl", "-o", "out")
    assert finished.code == 1
    assert "0.00 to 0" not in finished.stdout + (project.out / "report.md").read_text()
    assert "Token F1 0, needs 0.50" in finished.stdout


@pytest.mark.parametrize("source", ["merge-base", "artifact", "file:base"])
def test_a_source_in_place_of_the_mapping_has_the_right_form_as_answer(project: Project, source: str) -> None:
    project.suite([{"name": "a", "input": "?", "ground_truth": "red"}])
    project.policy(target="recorded:answers.jsonl", baseline=source)
    project.answers([{"case": "a", "response": "red"}])
    finished = project.run("validate")
    assert finished.code == 2
    assert f"baseline: must be a mapping: write source: {source} below it" in finished.stderr
