"""The life of a pull request, and the workflows of docs/github.md, with the step in its container."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.commands.project import Project
from tests.github.fake import FakeGitHub
from tests.github.life import whole_life
from tests.github.stages import both_stages, evaluate_workflow
from tests.image.conftest import IMAGE, WORKSPACE, Engine

pytestmark = [pytest.mark.image, pytest.mark.timeout(900)]

FILES = "/github/file_commands"
EVENT = "/github/workflow"
MOVED = ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")


class Container:
    """Starts the step with the runner's mounts and variables (actions/runner, `ContainerActionHandler`)."""

    def __init__(self, engine: Engine, mounts: Mapping[Path, str] | None = None) -> None:
        self.engine = engine
        self.mounts = mounts or {}

    def __call__(self, environ: Mapping[str, str], workspace: Path, files: Path) -> tuple[int, bytes, bytes]:
        home = files / "home"
        home.mkdir()
        inside = {
            **environ,
            "HOME": "/github/home",
            "GITHUB_WORKSPACE": WORKSPACE,
            "GITHUB_EVENT_PATH": f"{EVENT}/event.json",
            **{name: f"{FILES}/{Path(environ[name]).name}" for name in MOVED},
        }
        mounts = {workspace: WORKSPACE, home: "/github/home", files: FILES, **self.mounts}
        command = [self.engine.program, "run", "--rm", "--network=host", f"--workdir={WORKSPACE}"]
        command += [f"--env={name}={value}" for name, value in inside.items()]
        command += [f"--volume={folder}:{place}" for folder, place in mounts.items()]
        command += [f"--volume={files / 'event.json'}:{EVENT}/event.json", IMAGE]
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False)
        return ended.returncode, ended.stdout, ended.stderr


@pytest.fixture
def container(engine: Engine) -> Container:
    """What starts the step."""
    return Container(engine)


def test_a_pull_request_lives(container: Container, hub: FakeGitHub, project: Project) -> None:
    whole_life(hub, project, container)


def test_the_workflow_of_the_documentation(container: Container, hub: FakeGitHub, project: Project) -> None:
    evaluate_workflow(hub, project, container)


def test_the_two_stages_of_the_documentation(container: Container, hub: FakeGitHub, project: Project) -> None:
    both_stages(hub, project, container)
