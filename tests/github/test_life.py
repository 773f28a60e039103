"""The life of a pull request, job by job: one right comment, the right checks, annotations and exit codes."""

from __future__ import annotations

import pytest

from tests.commands.project import Project
from tests.github.fake import FakeGitHub
from tests.github.life import whole_life
from tests.github.workflow import InProcess


@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_pull_request_lives(hub: FakeGitHub, project: Project) -> None:
    whole_life(hub, project, InProcess())
