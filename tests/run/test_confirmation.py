"""`on_case_regression: confirm`: a case that got worse is asked again before the run fails for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.record import CaseRecord
from holodeck_action.record.result_files import read_record
from tests.commands.project import Finished, Project

TARGET = '''
"""An agent whose n-th answer to a question is the n-th entry of a plan; the last one is repeated."""
import json
from pathlib import Path


def answer(messages):
    question = messages[-1]["content"]
    plan, asked = Path(__file__).with_name("plan.json"), Path(__file__).with_name("asked.json")
    counts = json.loads(asked.read_text()) if asked.exists() else {}
    counts[question] = counts.get(question, 0) + 1
    asked.write_text(json.dumps(counts))
    answers = json.loads(plan.read_text())[question]
    return answers[min(counts[question], len(answers)) - 1]
'''
RIGHT, WRONG = "yes", "no"


def make_project(folder: Path, *, confirm: dict[str, Any] | None = None, **more: Any) -> Project:
    """A project with three cases, whose base passed them all."""
    project = Project(folder)
    project.write("agent.py", TARGET)
    project.suite([{"name": name, "input": name, "ground_truth": RIGHT} for name in ("steady", "shaky", "broken")])
    limits = {"concurrency": 1}
    project.policy(target="python:agent:answer", limits=limits, gates={"min_pass_rate": 0.3})
    plan(project, steady=[RIGHT], shaky=[RIGHT], broken=[RIGHT])
    assert project.run("run", "agent.yaml", "-o", "base").code == 0
    baseline = {"source": "file:base/results.json", "on_regressed": "ignore", "confirm": confirm}
    baseline = {name: value for name, value in baseline.items() if value is not None}
    project.policy(
        target="python:agent:answer", limits=limits, gates={"min_pass_rate": 0.3}, **{"baseline": baseline, **more}
    )
    return project


def plan(project: Project, **answers: list[str]) -> None:
    project.write("plan.json", json.dumps(answers))
    (project.folder / "asked.json").unlink(missing_ok=True)


def asked(project: Project) -> dict[str, int]:
    found: dict[str, int] = json.loads((project.folder / "asked.json").read_text())
    return found


def run(project: Project, *arguments: str) -> Finished:
    return project.run("run", "agent.yaml", "-o", "out", *arguments)


def cases(project: Project) -> dict[str | None, CaseRecord]:
    return {case.name: case for case in read_record(project.out / "results.json").cases}


def test_a_case_counts_as_regressed_only_if_it_fails_in_most_trials(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    plan(project, steady=[RIGHT], shaky=[WRONG, RIGHT], broken=[WRONG])

    result = run(project)

    assert result.code == 1
    assert asked(project) == {"steady": 1, "shaky": 5, "broken": 5}
    assert "1 case got worse than on the base; none may: broken; 1 more case failed, but not in most" in result.stdout
    assert "flaky: shaky failed in 1 of 5 trials now, and passed in 1 of 1 on the base" in result.stdout
    assert "flaky: shaky failed in 1 of 5 trials" in (project.out / "report.md").read_text()
    found = cases(project)
    assert [len(case.trials) for case in found.values()] == [1, 1, 1]
    assert [trial.index for trial in found["shaky"].confirmation] == [1, 2, 3, 4]
    comparison = project.verdict()["comparison"]
    assert [case["title"] for case in comparison["regressed"]] == ["broken"]
    assert [case["title"] for case in comparison["flaky"]] == ["shaky"]
    assert comparison["flaky"][0]["counts"] == {"failed": 1, "trials": 5, "base_passed": 1, "base_trials": 1}


def test_a_flaky_case_trips_no_gate_on_regressions_but_all_others(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    plan(project, steady=[RIGHT], shaky=[WRONG, RIGHT], broken=[RIGHT])
    assert run(project).code == 0
    assert cases(project)["shaky"].confirmation

    plan(project, steady=[RIGHT], shaky=[WRONG, RIGHT], broken=[RIGHT])
    assert run(project, "--min-pass-rate", "1").code == 1


@pytest.mark.parametrize(("wrong", "code"), [(2, 0), (3, 1)])
def test_the_majority_of_all_trials_decides(tmp_path: Path, wrong: int, code: int) -> None:
    project = make_project(tmp_path)
    plan(project, steady=[RIGHT], shaky=[WRONG] * wrong + [RIGHT], broken=[RIGHT])
    assert run(project).code == code


def test_cases_beyond_the_largest_number_count_as_regressed(tmp_path: Path) -> None:
    project = make_project(tmp_path, confirm={"cases": 1, "trials": 2})
    plan(project, steady=[RIGHT], shaky=[WRONG, RIGHT], broken=[WRONG, RIGHT])
    assert run(project).code == 1
    assert sorted(asked(project).values()) == [1, 1, 3]


def test_fail_asks_no_case_again(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    plan(project, steady=[RIGHT], shaky=[WRONG, RIGHT], broken=[RIGHT])
    assert run(project, "--on-case-regression", "fail").code == 1
    assert asked(project)["shaky"] == 1
