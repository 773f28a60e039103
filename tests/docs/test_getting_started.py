"""A new user comes to a green job by docs/getting-started.md alone, with the wheel and LangGraph from an index."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holodeck_action.results.result_files import read_record
from tests.docs.beginner import KEY, Beginner, of_the_machine, shop
from tests.docs.pages import ROOT
from tests.github.events import HEAD
from tests.github.fake import FakeGitHub
from tests.github.workflow import InProcess
from tests.llm.models import FakeModels
from tests.usercode.installing import uv

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]


@pytest.fixture
def models() -> Iterator[FakeModels]:
    with FakeModels(keys=[KEY]) as models:
        models.answer(shop)
        yield models
        assert models.violations == []


@pytest.fixture
def hub() -> Iterator[FakeGitHub]:
    with FakeGitHub() as hub:
        yield hub
        assert hub.violations == []


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with the wheel as it is published."""
    folder = tmp_path / "packages"
    subprocess.run([uv(), "build", "--quiet", "--out-dir", folder, ROOT], check=True, timeout=300)
    return folder


def test_every_command_works_and_the_job_is_green(
    tmp_path: Path, packages: Path, models: FakeModels, hub: FakeGitHub
) -> None:
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
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "docker").symlink_to("/bin/true")
    beginner = Beginner(tmp_path, environ)
    typed = beginner.follow()
    assert len([command for command in typed if command.startswith("uvx holodeck-action ")]) == 5
    record = read_record(beginner.folder / ".holodeck/last/results.json")
    [call] = record.cases[0].trials[0].turns[0].tool_invocations or ()
    assert (call.name, call.args, call.result) == ("find_order", {"order": "A-17"}, "A-17 arrives on Thursday")

    ended, repository = beginner.pull_request(hub, InProcess(), **environ)
    assert ended.code == 0, ended.text
    assert (ended.outputs["verdict"], ended.outputs["passed"]) == ("passed", "2")
    [check] = repository.check_runs(HEAD)
    assert check["conclusion"] == "success"
    assert ended.outputs["comment-url"] == repository.comments(7)[0]["html_url"]
