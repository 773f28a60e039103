"""The tour: its patches apply, its files are valid, and its steps end as the story expects."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.tour.story import read_story
from scripts.tour.tour import EXAMPLE, play
from tests.github.workflow import InProcess

STORY = read_story(EXAMPLE / "tour.yaml")


@pytest.mark.slow
def test_a_regression_and_its_fix_end_as_the_story_expects(tmp_path: Path) -> None:
    """The first steps; `make tour` plays all of them, as processes."""
    played = list(play(STORY[:4], tmp_path, InProcess()))
    assert [step.problems for step in played] == [()] * 4
    regression, fix = played[2].runs[0], played[3].runs[0]
    assert (regression.code, fix.code) == (1, 0)
    assert regression.comment.splitlines()[0] == fix.comment.splitlines()[0]
    assert (tmp_path / regression.folder / "report.html").is_file()


def test_each_patch_is_played_once_and_in_its_order() -> None:
    patches = sorted(path.name for path in (EXAMPLE / "patches").iterdir())
    assert [step.patch for step in STORY if step.patch] == patches
