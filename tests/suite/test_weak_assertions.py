"""Assertions that decide nothing are told, with their place: by `validate`, and in the record of a run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.commands.project import Project

NUMERIC = {"type": "standard", "metric": "numeric"}
MEAN = {"type": "standard", "metric": "bleu"}
GOOD = {"name": "good", "input": "?", "ground_truth": "1"}


def notes(project: Project, cases: list[dict[str, Any]], metrics: list[dict[str, Any]]) -> list[str]:
    project.suite(cases, metrics)
    finished = project.run("validate")
    assert finished.code == 0, finished.stderr
    return [line.removeprefix("note: ") for line in finished.stderr.splitlines() if "model's key" not in line]


def test_a_case_that_lost_its_ground_truth_is_told_by_name_and_line_and_stands_in_the_report(project: Project) -> None:
    lost = {"name": "lost", "input": "?"}
    found = [note for note in notes(project, [GOOD, lost], [NUMERIC, MEAN]) if "nothing in case" in note]
    assert len(found) == 1
    assert found[0].startswith('agent.yaml:28:3: nothing in case "lost" can fail (numeric: does not apply: ')
    assert "the turn has no ground_truth" in found[0]
    project.answers([{"case": name, "response": "1"} for name in ("good", "lost")])
    finished, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 0
    assert found[0] in record.notices
    assert "informational (without an assertion): lost" in finished.stdout


def test_many_cases_are_counted(project: Project) -> None:
    cases = [GOOD, *({"name": f"lost {number}", "input": "?"} for number in range(23))]
    found = [note for note in notes(project, cases, [NUMERIC]) if "can fail" in note]
    assert len(found) == 21
    assert found[-1] == "3 more cases in which nothing can fail"


@pytest.mark.parametrize(
    ("truth", "settings", "reason"),
    [
        ("about 40", {}, "is not a number"),
        ("1,000", {}, "has thousands separators, which need accept_thousands_separators: true"),
        ("1,000", {"accept_thousands_separators": True}, None),
        ("14%", {}, "has a percent sign, which needs accept_percent: true"),
        ("1e3", {}, None),
        ("inf", {}, "is not a finite number, and equals no number"),
    ],
)
def test_an_expected_value_that_is_no_number(
    project: Project, truth: str, settings: dict[str, Any], reason: str | None
) -> None:
    entry = {**NUMERIC, **settings}
    found = notes(project, [GOOD, {**GOOD, "name": "odd", "ground_truth": truth}], [entry])
    told = [note for note in found if "expected value" in note]
    assert told == ([] if reason is None else [note for note in told if f'"{truth}" {reason}, so no answer' in note])
    assert len(told) == (reason is not None)
    assert all(note.startswith("agent.yaml:") for note in told)


def test_thresholds_that_every_score_reaches(project: Project) -> None:
    project.write("checks.py", "def grade(ctx):\n    return 1\n")
    metrics: list[dict[str, Any]] = [
        NUMERIC,
        {**MEAN, "threshold": 0},
        {"type": "standard", "metric": "rouge", "threshold": 0.01},
        {"type": "code", "grader": "checks:grade", "threshold": 1, "scale": {"min": 1, "max": 5}},
        {"type": "composite", "name": "both", "threshold": 0, "metrics": [{**NUMERIC, "threshold": 0}, MEAN]},
    ]
    found = [note for note in notes(project, [GOOD], metrics) if "no score is" in note]
    assert [note.split(": ", 1)[1] for note in found] == [
        '"bleu": no score is below the threshold 0, so it cannot fail',
        '"grade": no score is below the threshold 1, so it cannot fail',
        '"both: numeric": no score is below the threshold 0, so it cannot fail',
    ]
    assert all(note.startswith("agent.yaml:") for note in found)
