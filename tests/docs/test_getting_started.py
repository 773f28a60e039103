"""A new user comes to a green job by docs/getting-started.md alone, without a key."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.action.composite import path_with
from tests.docs.beginner import Beginner, Remote, of_the_machine
from tests.docs.pages import ROOT
from tests.github.fake import FakeGitHub
from tests.github.workflow import InProcess
from tests.workers.installing import uv

PROGRAM = Path(sys.executable).with_name("holodeck-action")


def _follow(tmp_path: Path, hub: FakeGitHub, environ: dict[str, str]) -> None:
    # The image's own tests type the commands with Docker.
    path_with(tmp_path / "programs", ("docker", "#!/bin/sh\n"))
    beginner = Beginner(tmp_path, environ)
    typed = beginner.follow(Remote(hub, beginner, InProcess(), **environ))
    assert len([command for command in typed if command.startswith("uvx holodeck-action ")]) == 5
    beginner.check_last_run()


@pytest.mark.full
@pytest.mark.needs("start")
def test_every_command_works_without_a_key(tmp_path: Path, hub: FakeGitHub) -> None:
    path_with(tmp_path / "programs", ("uvx", f'#!/bin/sh\nshift\nexec {PROGRAM} "$@"\n'))
    _follow(tmp_path, hub, {"PATH": f"{tmp_path / 'programs'}:/usr/local/bin:/usr/bin:/bin"})


@pytest.mark.frameworks
@pytest.mark.timeout(900)
def test_every_command_works_with_the_wheel(tmp_path: Path, hub: FakeGitHub) -> None:
    packages = tmp_path / "packages"
    subprocess.run([uv(), "build", "--quiet", "--out-dir", packages, ROOT], check=True, timeout=300)
    # A machine of its own: nothing is installed but uv, git and Python.
    environ = {
        **of_the_machine(),
        "PATH": f"{tmp_path / 'programs'}:{uv().parent}:/usr/local/bin:/usr/bin:/bin",
        "UV_FIND_LINKS": str(packages),
        "UV_CACHE_DIR": str(tmp_path / "cache"),
    }
    _follow(tmp_path, hub, environ)
