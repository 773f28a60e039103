"""PyGithub, the extra `github`: all requests go through it over our connection alone, and nothing else imports it."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import requests

from tests.commands.project import Project
from tests.github.baselines import Shop
from tests.github.fake import FakeGitHub
from tests.github.life import suite
from tests.github.steps import ALL, CHANNELS, Scene, is_published, rows
from tests.github.workflow import REPOSITORY, TOKEN

WAY_OUT = (
    "calls to GitHub need the Python package 'PyGithub', which is not installed; run pip install "
    "'holodeck-action[github]'"
)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without the extra."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "github"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "github", None)
    for name in ("requester", "retry"):
        monkeypatch.delitem(sys.modules, f"holodeck_action.github.rest.{name}", raising=False)


@pytest.fixture
def scene(hub: FakeGitHub, project: Project) -> Scene:
    """A pull request with a failing case on a changed line."""
    made = Scene(hub, Project(project.folder / "workspace"))
    suite(made.project, "refund")
    made.show_diff()
    return made


@pytest.mark.usefixtures("without")
def test_a_step_without_it_evaluates_and_says_what_publishing_needs(scene: Scene) -> None:
    ended = scene.step()
    assert (ended.code, ended.outputs["verdict"]) == (1, "failed")
    assert rows(ended.summary) == dict.fromkeys(CHANNELS, f"⏭️ skipped: `{WAY_OUT}`")
    assert scene.hub.requests == []


@pytest.mark.usefixtures("without")
def test_publish_without_it_says_so_in_one_sentence(hub: FakeGitHub, project: Project) -> None:
    suite(project)
    project.evaluate()
    where = ("--repository", REPOSITORY, "--pull-request", "7")
    given = {"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": hub.url}
    ended = project.run("publish", "out", *where, **given)
    assert (ended.code, ended.stderr) == (0, "")
    assert f"note: comment skipped: {WAY_OUT}\n" in ended.stdout
    assert project.run("publish", "out", *where, "--require-publish", **given).code == 5
    assert hub.requests == []


@pytest.mark.usefixtures("without")
def test_a_base_is_not_fetched_without_it(hub: FakeGitHub, project: Project) -> None:
    shop = Shop(hub, project, "artifact")
    shop.pull(shop.branch_off())
    assert shop.missing() == WAY_OUT
    assert hub.requests == []


def test_every_request_goes_over_our_connection(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("PyGithub opens a connection itself")

    monkeypatch.setattr(requests.Session, "send", refuse)
    ended = scene.step(ALL)
    assert all(map(is_published, rows(ended.summary).values()))
    assert len(scene.hub.requests) > 5


@pytest.mark.parametrize("arguments", [("--version",), ("validate",), ("run", "-o", "out")])
def test_what_publishes_nothing_does_not_import_it(project: Project, arguments: tuple[str, ...]) -> None:
    suite(project)
    trap = project.write("trap/github.py", "raise AssertionError('imported')\n")
    finished = project.run_process(*arguments, PYTHONPATH=str(trap.parent), GITHUB_TOKEN=TOKEN)
    assert finished.code == 0
