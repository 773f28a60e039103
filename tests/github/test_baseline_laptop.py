"""A run on a laptop, in a real clone, compared with what GitHub keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.project import Project, run_here
from tests.github.baselines import OUTPUT, Shop
from tests.github.fake import FakeGitHub, Token
from tests.github.life import suite
from tests.github.test_merge_base import git

TOKEN = "github_pat_alice"


def clone_of(shop: Shop, folder: Path) -> Project:
    """A clone whose first commit has the results of a run on GitHub, and whose second is not pushed."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "remote", "add", "origin", "https://github.com/octo/shop.git")
    laptop = Project(folder)
    suite(laptop)
    laptop.write(".gitignore", "out\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "pushed")
    pushed = git(folder, "rev-parse", "HEAD")
    git(folder, "update-ref", "refs/remotes/origin/main", pushed)
    git(folder, "checkout", "-q", "-b", "topic")
    suite(laptop, "refund")
    git(folder, "commit", "-q", "-am", "topic")
    shop.git.refs["refs/heads/main"] = shop.git.commit({}, sha=pushed)
    return laptop


def test_a_laptop_asks_for_the_results_of_its_merge_base(hub: FakeGitHub, project: Project, tmp_path: Path) -> None:
    shop = Shop(hub, Project(project.folder / "workspace"), "artifact")
    laptop = clone_of(shop, tmp_path / "laptop")
    shop.push()
    shop.upload()
    hub.add_token(TOKEN, Token("alice", "fine-grained", {"contents": "read", "actions": "read"}))
    environ = laptop.environ(GITHUB_API_URL=hub.url, GITHUB_TOKEN=TOKEN)
    arguments = ("run", "-o", OUTPUT, "--min-pass-rate", "0.5", "--baseline")
    finished = run_here(laptop.folder, (*arguments, "artifact"), environ)

    assert finished.code == 1, finished.stderr
    assert "refund" in finished.stdout
    shop.project = laptop
    assert (shop.base().commit, shop.base().wanted, shop.base().distance) == (shop.main, shop.main, 0)
    assert TOKEN not in finished.stdout + finished.stderr

    without = laptop.environ(GITHUB_API_URL=hub.url)
    assert run_here(laptop.folder, (*arguments, "artifact"), without).code == 0
    assert "set GITHUB_TOKEN" in shop.missing()
    git(laptop.folder, "remote", "remove", "origin")
    assert run_here(laptop.folder, (*arguments, "artifact"), environ).code == 0
    assert "set GITHUB_REPOSITORY" in shop.missing()


@pytest.mark.parametrize("source", ["artifact:", "branch:", "branch:a b", "history", "http://x"])
def test_sources_that_there_are_not(hub: FakeGitHub, project: Project, source: str) -> None:
    suite(project)
    finished = run_here(project.folder, ("run", "--baseline", source), project.environ())
    assert finished.code == 2
    assert "baseline" in finished.stderr
    assert "branch:NAME" in finished.stderr
