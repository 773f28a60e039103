"""`on_case_regression: confirm`: a case that got worse is asked again before the run fails for it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.record import CaseRecord
from holodeck_action.record.result_files import read_record
from tests.commands.project import Finished, Project
from tests.llm.models import KEY, Answer, FakeModels, Request

TARGET = '''
"""An agent whose n-th answer to a question is the n-th entry of a plan; the last one is repeated."""
import json
import time
from pathlib import Path


def answer(messages):
    question = messages[-1]["content"]
    plan, asked = Path(__file__).with_name("plan.json"), Path(__file__).with_name("asked.json")
    counts = json.loads(asked.read_text()) if asked.exists() else {}
    counts[question] = counts.get(question, 0) + 1
    asked.with_suffix(".new").write_text(json.dumps(counts))
    asked.with_suffix(".new").rename(asked)
    while counts[question] == 4 and Path(__file__).with_name("hold").exists():
        time.sleep(0.05)
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
    file = project.folder / "asked.json"
    found: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
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
    assert "1 case got worse than on the base (none allowed): broken; 1 more case failed, but" in result.stdout
    assert "flaky: shaky failed in 1 of 5 trials now, and passed in 1 of 1 on the base" in result.stdout
    assert result.stdout.count("passed on base/results.json, with the expected answer") == 2
    report = (project.out / "report.md").read_text()
    assert "flaky: shaky failed in 1 of 5 trials" in report
    assert report.count("passed on `base/results.json`, failed in 5 of 5 trials") == 1
    found = cases(project)
    assert [len(case.trials) for case in found.values()] == [1, 1, 1]
    assert [trial.index for trial in found["shaky"].confirmation] == [1, 2, 3, 4]
    comparison = project.verdict()["comparison"]
    assert [case["title"] for case in comparison["regressed"]] == ["broken"]
    assert [case["title"] for case in comparison["flaky"]] == ["shaky"]
    assert comparison["flaky"][0]["counts"] == {"failed": 1, "trials": 5, "base_passed": 1, "base_trials": 1}


@pytest.mark.full
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


@pytest.mark.proves("Baseline: confirm", "Confirmation: cases trials")
def test_cases_beyond_the_largest_number_count_as_regressed(tmp_path: Path) -> None:
    project = make_project(tmp_path, confirm={"cases": 1, "trials": 2})
    plan(project, steady=[RIGHT], shaky=[WRONG, RIGHT], broken=[WRONG, RIGHT])
    assert run(project).code == 1
    assert sorted(asked(project).values()) == [1, 1, 3]


def test_a_case_that_fails_only_in_trials_that_the_base_does_not_have_is_asked_again(tmp_path: Path) -> None:
    project = make_project(tmp_path, trials={"repeat": 5, "stop_when_decided": False})
    plan(project, steady=[RIGHT], shaky=[RIGHT] * 3 + [WRONG] * 2 + [RIGHT], broken=[RIGHT, *[WRONG] * 4, RIGHT])
    result = run(project)
    assert result.code == 0, result.stdout
    assert asked(project) == {"steady": 5, "shaky": 9, "broken": 9}
    assert "flaky: broken failed in 4 of 9 trials now, and passed in 1 of 1 on the base" in result.stdout
    assert "flaky: shaky failed in 2 of 9 trials now, and passed in 1 of 1 on the base" in result.stdout


def test_fail_asks_no_case_again(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    plan(project, steady=[RIGHT], shaky=[WRONG, RIGHT], broken=[RIGHT])
    assert run(project, "--on-case-regression", "fail").code == 1
    assert asked(project)["shaky"] == 1


@pytest.mark.full
@pytest.mark.races
def test_a_killed_run_continues_with_the_trials_that_are_left(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    plan(project, steady=[RIGHT], shaky=[WRONG, RIGHT], broken=[RIGHT])
    project.write("hold", "")
    with project.start("run", "-o", "out") as process:
        project.wait_until(lambda: asked(project).get("shaky", 0) >= 4)
        project.wait_until(lambda: (project.out / "journal.jsonl").read_text().count("\n") >= 6)
        process.kill()
        process.communicate(timeout=60)
    (project.folder / "hold").unlink()

    assert run(project, "--resume").code == 0
    # Only the trial that was not finished is asked twice.
    assert asked(project)["shaky"] == 6
    assert len(cases(project)["shaky"].confirmation) == 4


class Script:
    """Answers of models to each question in turn; the last one is repeated."""

    def __init__(self, **answers: list[str]) -> None:
        self.answers, self.asked = answers, Counter[str]()

    def __call__(self, request: Request) -> Answer:
        name = f"{request.model.replace('-', '_').replace('.', '_')}_{request.text}"
        self.asked[name] += 1
        answers = self.answers.get(name, [RIGHT])
        return Answer(answers[min(self.asked[name], len(answers)) - 1])


def model_project(folder: Path, models: FakeModels, script: Script) -> Project:
    project = Project(folder)
    models.answer(script)
    model = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url, "max_tokens": 100}
    project.suite([{"name": name, "input": name, "ground_truth": RIGHT} for name in ("steady", "shaky")], model=model)
    project.policy(gates={"min_pass_rate": 0.3}, baseline={"on_regressed": "ignore", "confirm": {"trials": 2}})
    return project


AGAINST = ("run", "-o", "out", "--against-model", "gpt-4.1", "--concurrency", "1")


def test_the_base_of_the_same_job_is_asked_again_too(tmp_path: Path, models: FakeModels) -> None:
    script = Script(gpt_4o_shaky=[WRONG], gpt_4_1_shaky=[RIGHT, WRONG])
    project = model_project(tmp_path, models, script)

    assert project.run(*AGAINST, OPENAI_API_KEY=KEY).code == 0
    assert script.asked == {"gpt_4o_steady": 1, "gpt_4_1_steady": 1, "gpt_4o_shaky": 3, "gpt_4_1_shaky": 3}
    counts = project.verdict()["comparison"]["flaky"][0]["counts"]
    assert counts == {"failed": 3, "trials": 3, "base_passed": 1, "base_trials": 3}
    # What confirms it is stored on both sides, and paid for.
    base = read_record(project.out / "base" / "results.json")
    assert [len(case.confirmation) for case in base.cases] == [0, 2]
    record = read_record(project.out / "results.json")
    assert record.run.model_calls is not None
    assert record.run.model_calls.calls == 4


def test_a_replay_and_rejudge_give_the_same_comparison(tmp_path: Path, models: FakeModels) -> None:
    project = model_project(tmp_path, models, Script(gpt_4o_shaky=[WRONG, RIGHT]))
    assert project.run(*AGAINST, "--record", "tape", OPENAI_API_KEY=KEY).code == 0
    recorded = canonical_json(read_record(project.out / "results.json"))
    assert project.verdict()["comparison"]["flaky"]

    models.answer(lambda request: pytest.fail("a replay calls no model"))
    assert project.run(*AGAINST, "--replay", "tape").code == 0
    assert canonical_json(read_record(project.out / "results.json")) == recorded

    baseline = {"source": "file:out/base/results.json", "on_regressed": "ignore", "confirm": {"trials": 2}}
    project.policy(gates={"min_pass_rate": 0.3}, baseline=baseline)
    assert project.run("rejudge", "out/results.json", "-o", "again").code == 0
    again = read_record(project.folder / "again" / "results.json")
    assert [len(case.confirmation) for case in again.cases] == [0, 2]


def test_a_case_counts_as_regressed_if_the_budget_ends_first(tmp_path: Path, models: FakeModels) -> None:
    project = model_project(tmp_path, models, Script(gpt_4o_shaky=[WRONG, RIGHT]))
    plan = project.run(*AGAINST, "--dry-run", OPENAI_API_KEY=KEY).stdout
    assert plan.count("at most 4 further trials, 2 for each of at most 2 cases that got worse (baseline.confirm)") == 2

    result = project.run(*AGAINST, "--max-tokens", "175", OPENAI_API_KEY=KEY)
    assert result.code == 1, result.stdout
    assert "1 of 2 cases got worse" in result.stdout


@pytest.mark.full
def test_shards_confirm_their_own_cases(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    plan(project, steady=[RIGHT], shaky=[WRONG, RIGHT], broken=[WRONG])
    for shard in ("1", "2"):
        assert project.run("run", "-o", shard, "--shard", f"{shard}/2").code == 0
    assert project.run("merge", "1", "2", "-o", "out").code == 1
    comparison = project.verdict()["comparison"]
    assert [case["title"] for case in comparison["regressed"]] == ["broken"]
    assert [case["title"] for case in comparison["flaky"]] == ["shaky"]
    assert asked(project) == {"steady": 1, "shaky": 5, "broken": 5}
