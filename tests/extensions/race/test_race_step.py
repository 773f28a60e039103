"""`command: race` of the Action."""

from __future__ import annotations

import pytest

from tests.action.step import Step
from tests.commands.project import Project
from tests.extensions.race.track import answered, outcome, write
from tests.llm.models import KEY, FakeModels

pytestmark = pytest.mark.models(answer=answered)
AXES = "--vary model=best-100\n--vary model=poor-40"


@pytest.fixture
def step(project: Project) -> Step:
    return Step(project)


def test_a_step_races_variants(step: Step, models: FakeModels) -> None:
    write(step.project, models, 60)
    given = {"command": "race", "output_dir": "out", "args": f"{AXES}\n--cheapest", "suite": "agent.yaml"}
    ended = step.run(given, OPENAI_API_KEY=KEY)
    assert ended.code == 0, ended.text
    assert outcome(step.project)["chosen"] == "model=best-100"
    assert ended.report == (step.project.out / "leaderboard.md").read_text().strip()
    assert "leader: model=best-100 is the best after" in ended.text
    found = {name: value for name, value in ended.outputs.items() if value}
    assert found == {
        "verdict": "passed",
        "exit-code": "0",
        "report-path": "out/leaderboard.md",
        "html-path": "out/report.html",
    }


@pytest.mark.parametrize(("fail_on", "code"), [("violation", 1), ("never", 0)])
def test_a_limit_fails_the_step(step: Step, models: FakeModels, fail_on: str, code: int) -> None:
    write(step.project, models, 12)
    lines = f"{AXES}\n--max-p95-ms 0.001"
    ended = step.run({"command": "race", "args": lines, "fail_on": fail_on}, OPENAI_API_KEY=KEY)
    assert (ended.code, ended.outputs["verdict"], ended.outputs["exit-code"]) == (code, "failed", "1"), ended.text
    if code:
        assert any("no variant that is left is within the limits" in found.data for found in ended.meant)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"args": "--vary model=a"}, "a race needs at least 2 variants"),
        ({"args": f"{AXES}\n--objectiv x"}, "args: No such option"),
        ({"args": f"{AXES}\nrest"}, "args: rest: each line is one option"),
        ({"args": f"--vary model={KEY}"}, "holds a secret"),
        (
            {"args": AXES, "baseline": "merge-base"},
            "input baseline: cannot be combined with command race, which does not",
        ),
        ({"args": AXES, "suite": "a.yaml\nb.yaml"}, "args: Got unexpected extra argument"),
    ],
)
def test_what_a_step_cannot_race_is_refused(step: Step, models: FakeModels, given: dict[str, str], said: str) -> None:
    write(step.project, models, 3)
    ended = step.run({"command": "race", **given}, OPENAI_API_KEY=KEY)
    assert ended.code == 2
    assert said in ended.text
    assert not models.requests


def test_a_plan_of_a_step(step: Step, models: FakeModels) -> None:
    write(step.project, models, 3)
    ended = step.run({"command": "race", "args": f"{AXES}\n--dry-run"}, OPENAI_API_KEY=KEY)
    assert ended.code == 0
    assert "race of 2 variants for the pass rate: 3 cases" in ended.text
    assert not models.requests
