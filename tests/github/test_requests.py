"""How many requests a step makes, as docs/github.md says."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from tests.commands.project import Project
from tests.github.fake import FakeGitHub
from tests.github.life import suite
from tests.github.steps import ALL, Scene

PAGE = Path(__file__).parents[2] / "docs" / "github.md"
SITUATIONS = {
    "first run, a case fails": ("refund",),
    "the same case fails again": ("refund",),
    "another case fails": ("shipping",),
    "all pass again": (),
}


@pytest.mark.full
def test_requests_of_a_step(hub: FakeGitHub, project: Project) -> None:
    section = PAGE.read_text(encoding="utf-8").partition("| situation | check run")[2]
    rows = re.findall(r"^\| ([a-z, ]+) \| (\d+) \| (\d+) \|$", section, re.MULTILINE)
    made = []
    for number, inputs in enumerate(({}, ALL)):
        scene = Scene(hub, Project(project.folder / f"workspace-{number}"))
        for wrong in SITUATIONS.values():
            suite(scene.project, *wrong)
            if not scene.workflow.number:
                scene.show_diff()
            made.append(str(len(scene.calls(partial(scene.step, inputs)))))
    assert rows == [*zip(SITUATIONS, made[:4], made[4:], strict=True)]
