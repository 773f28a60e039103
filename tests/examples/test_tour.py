"""The tour: its patches apply, its files are valid, and its steps end as the story expects."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.tour.checkout import Checkout
from scripts.tour.pages import write_pages
from scripts.tour.story import Mark, Run, read_story
from scripts.tour.tour import EXAMPLE, play
from tests.commands.project import Project
from tests.github.fake import FakeGitHub
from tests.github.workflow import REPOSITORY, InProcess
from tests.llm.models import KEY

pytestmark = pytest.mark.full

STORY = read_story(EXAMPLE / "tour.yaml")


def test_a_regression_and_its_fix_end_as_the_story_expects(tmp_path: Path) -> None:
    """The first steps; `make tour` plays all of them, as processes."""
    played = list(play(STORY[:4], tmp_path, InProcess()))
    assert [step.problems for step in played] == [()] * 4
    regression, fix = played[2].runs[0], played[3].runs[0]
    assert (regression.code, fix.code) == (1, 0)
    assert regression.comment.splitlines()[0] == fix.comment.splitlines()[0]

    write_pages(played, tmp_path)
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    for file in ("comment.html", "comment.md", "report.html"):
        assert (tmp_path / regression.folder / file).is_file()
        assert f'href="{regression.folder}/{file}"' in index
    assert "not as expected" not in index


def test_an_outcome_that_is_not_the_expected_one_is_named(tmp_path: Path) -> None:
    (step,) = STORY[:1]
    (run,) = step.runs
    assert isinstance(run, Run)
    wrong = replace(run, exit=1, summary=("14 of 15 passed",), annotations=(Mark("agent.yaml", "name", "failed"),))
    (played,) = play([replace(step, runs=(wrong,))], tmp_path, InProcess())
    assert played.problems == (
        "exit code 0, expected 1",
        'the job summary does not have "14 of 15 passed"',
        'no annotation "failed" on the line "name" of agent.yaml',
        "0 annotations, expected 1: []",
    )


@pytest.mark.needs("presets", "simulation")
def test_the_patches_make_a_repository_with_valid_suites(tmp_path: Path) -> None:
    patches = sorted(path.name for path in (EXAMPLE / "patches").iterdir())
    assert [step.patch for step in STORY if step.patch] == patches
    with FakeGitHub() as hub:
        checkout = Checkout(tmp_path / "shop", hub.add_repository(REPOSITORY))
        checkout.begin(EXAMPLE / "shop")
        for step in STORY:
            if step.patch:
                checkout.apply(EXAMPLE / "patches" / step.patch, step.branch)
                if any(isinstance(run, Run) and run.event == "push" for run in step.runs):
                    checkout.merge()
    assert checkout.number == len({step.branch for step in STORY if step.branch})
    for arguments in (("agent.yaml",), ("production/agent.yaml", "--allow-empty")):
        done = Project(checkout.folder).run("validate", *arguments, OPENAI_API_KEY=KEY)
        assert done.code == 0, done.stderr
