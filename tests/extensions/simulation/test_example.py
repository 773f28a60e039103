"""The example `refunds` does what its README says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.commands.project import Project

EXAMPLE = Path(__file__).parents[3] / "examples" / "refunds"
REPLAY = ("--replay", "cassette")
LOOPBACK = "http://localhost/v1"


@pytest.fixture
def refunds(project: Project) -> Project:
    shutil.copytree(EXAMPLE, project.folder, dirs_exist_ok=True)
    return project


@pytest.mark.full
def test_three_customers_are_replayed(refunds: Project) -> None:
    finished, record = refunds.evaluate(*REPLAY, OPENAI_BASE_URL=LOOPBACK)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert [len(case.trials[0].turns) for case in record.cases] == [3, 3, 3]
    ends = [case.trials[0].user.ended for case in record.cases if case.trials[0].user is not None]
    assert ends == [
        "the check expected_tools of stop holds",
        "the user gives up",
        "the user says that the goal is met",
    ]
    # Nobody but the tools knows what was ordered.
    suite = (refunds.folder / "agent.yaml").read_text() + (refunds.folder / "instructions.md").read_text()
    assert "30 euros" not in suite
    again = refunds.run("run", "-o", "again", *REPLAY, OPENAI_BASE_URL=LOOPBACK)
    assert again.code == 0


@pytest.mark.full
def test_the_grader_checks_the_books(refunds: Project) -> None:
    graders = refunds.folder / "graders.py"
    graders.write_text(graders.read_text().replace('{("C-9", "cup")}', '{("C-9", "teapot")}'))
    finished, _ = refunds.evaluate(*REPLAY, OPENAI_BASE_URL=LOOPBACK)
    assert finished.code == 1
    assert "refunded [('C-9', 'cup')], right is [('C-9', 'teapot')]" in finished.stdout
