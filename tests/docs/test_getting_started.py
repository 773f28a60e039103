"""A new user comes to a green job by docs/getting-started.md alone, with the wheel and LangGraph from an index."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.action.composite import path_with
from tests.docs.beginner import Beginner, Remote, of_the_machine, shop_models
from tests.docs.pages import ROOT
from tests.github.fake import FakeGitHub
from tests.github.workflow import InProcess
from tests.llm.models import KEY
from tests.workers.installing import uv

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with the wheel as it is published."""
    folder = tmp_path / "packages"
    subprocess.run([uv(), "build", "--quiet", "--out-dir", folder, ROOT], check=True, timeout=300)
    return folder


def test_every_command_works_and_the_job_is_green(tmp_path: Path, packages: Path, hub: FakeGitHub) -> None:
    with shop_models() as models:
        # A machine of its own: nothing is installed but uv, git and Python.
        environ = {
            **of_the_machine(),
            "PATH": f"{tmp_path / 'programs'}:{uv().parent}:/usr/local/bin:/usr/bin:/bin",
            "UV_FIND_LINKS": str(packages),
            "UV_CACHE_DIR": str(tmp_path / "cache"),
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": models.openai_url,
        }
        # The image's own tests type the commands with Docker.
        path_with(tmp_path / "programs", ("docker", "#!/bin/sh\n"))
        beginner = Beginner(tmp_path, environ)
        typed = beginner.follow(Remote(hub, beginner, InProcess(), **environ))
        assert len([command for command in typed if command.startswith("uvx holodeck-action ")]) == 5
        beginner.check_last_run()
