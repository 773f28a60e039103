"""On events that are not known to be safe, only a checkout that is shown to be the repository's own is opened."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.workers.permission import CHECKOUT_EVIDENCE, SAFE_EVENTS
from tests.action.step import ROOT
from tests.commands.project import Finished, Project
from tests.github import events
from tests.github.fake import FakeGitHub, Token
from tests.github.repositories import branch_here, commit, repository
from tests.github.test_merge_base import git
from tests.github.workflow import REPOSITORY, TOKEN, WRITES, Workflow

FORK = {"full_name": "evil/shop", "fork": True}
MADE: Mapping[str, Mapping[str, Any]] = {
    "repository_dispatch.slash-command": {
        "action": "evaluate-command",
        "client_payload": {"pull_request": {"number": 7, "head": {"ref": "x", "repo": FORK}}},
    },
    "workflow_dispatch.pr": {"inputs": {"pr": "7"}},
    "workflow_dispatch.pull_request": {"inputs": {"pull_request": "7"}},
    "workflow_dispatch.ref": {"inputs": {"ref": "refs/pull/7/head"}},
    "check_suite": {"check_suite": {"head_branch": None, "head_sha": events.HEAD, "pull_requests": []}},
    "check_run": {"check_run": {"head_sha": events.HEAD, "pull_requests": []}},
    "status": {"sha": events.HEAD, "state": "success", "branches": []},
    "deployment": {"deployment": {"sha": events.HEAD, "ref": "topic"}},
    "deployment_status": {"deployment": {"sha": events.HEAD}, "deployment_status": {"state": "success"}},
    "discussion_comment": {"comment": {"body": "/evaluate"}, "discussion": {"number": 3}},
    "issues": {"action": "opened", "issue": {"number": 9, "body": "/evaluate"}},
    "watch": {"action": "started"},
    "an_event_of_the_future": {},
}
"""Payloads of events that the folder has none of, cut to what could lead a workflow to a fork's code."""
REFUSED_AT_ONCE = ("pull_request_target.fork", "workflow_run.fork", "workflow_run.deleted-fork")
"""Payloads that say that the code is a fork's."""


@dataclass
class World:
    """A repository on GitHub and clones of it.

    Attributes:
        hub: GitHub.
        clone: a clone, whose states are checked out in copies.
        commits: by name: of `main`, an older one of it, of a branch, and of a fork.
    """

    hub: FakeGitHub
    clone: Project
    commits: dict[str, str]

    def checkout(self, state: str, folder: Path) -> Project:
        """Return a checkout: `COMMIT` or `COMMIT CHANGE`."""
        name, _, change = state.partition(" ")
        shop = self.clone.copy_to(folder)
        if name == "none":
            shutil.rmtree(shop.folder / ".git")
            return shop
        git(shop.folder, "checkout", "--quiet", "--detach", self.commits[name])
        match change:
            case "edited":
                shop.write("agent.yaml", (shop.folder / "agent.yaml").read_text() + "\n# of a fork\n")
            case "edited, hidden":
                git(shop.folder, "update-index", "--assume-unchanged", "agent.yaml")
                shop.write("agent.yaml", (shop.folder / "agent.yaml").read_text() + "\n# of a fork\n")
            case "added":
                shop.write("conftest.py", "")
            case "added, excluded":
                shop.write(".git/info/exclude", "conftest.py\n")
                shop.write("conftest.py", "")
            case "with results":
                for file in (
                    "out/results.json",
                    "out/previous/report.md",
                    ".holodeck/last/verdict.json",
                    "ignored.txt",
                ):
                    shop.write(file, "")
            case "added, named as a report":
                shop.write("report.py", "")
            case "sparse":
                (shop.folder / "notes.md").unlink()
        return shop

    def validate(self, shop: Project, event: str, **variables: str) -> Finished:
        """Open the suite in a step of a workflow."""
        file = shop.folder.with_name(f"{shop.folder.name}.json")
        name = event if event in events.names() else "schedule"
        content = events.payload(name) if event not in MADE else {**events.payload(name), **MADE[event]}
        file.write_text(json.dumps(content), encoding="utf-8")
        environ = {
            **events.variables(name),
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": events.event_of(event),
            "GITHUB_EVENT_PATH": str(file),
            "GITHUB_SHA": self.commits["main"],
            "GITHUB_API_URL": self.hub.url,
            "GITHUB_TOKEN": TOKEN,
        }
        return shop.run("validate", **{**environ, **variables})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    clone = repository(Project(tmp_path_factory.mktemp("world")))
    clone.numbered(1)
    clone.write("notes.md", "notes\n")
    clone.write(".gitignore", "ignored.txt\n")
    commits = {"older": commit(clone)}
    clone.write("notes.md", "more notes\n")
    commits["main"] = commit(clone)
    clone.write("notes.md", "notes of a branch\n")
    commits["branch"] = commit(clone, "topic")
    clone.write("notes.md", "notes of a fork\n")
    commits["fork"] = commit(clone, "of-a-fork")
    branch_here(clone, "main")
    with FakeGitHub() as hub:
        there = hub.add_repository(REPOSITORY)
        parents: tuple[str, ...] = ()
        for name in ("older", "main", "branch", "fork"):
            # GitHub has the commits of forks, too.
            there.git.commit({}, *parents, sha=commits[name])
            parents = (commits[name],)
        there.git.refs.update({"refs/heads/main": commits["main"], "refs/heads/topic": commits["branch"]})
        there.add_pull(7, head_sha=events.HEAD, head_repository=REPOSITORY, branch="other")
        hub.add_token(TOKEN, Token(login="github-actions[bot]", kind="installation", permissions=dict(WRITES)))
        yield World(hub, clone, commits)


OWN = ("main", "older", "branch", "main with results", "main sparse")
ADDED = ("main added", "main added, excluded", "main added, named as a report")
FOREIGN = ("fork", "none", "main edited", "main edited, hidden", *ADDED)


@pytest.mark.full
def test_every_event_opens_the_repositorys_own_checkout_and_no_other(world: World, tmp_path: Path) -> None:
    checkouts = {state: world.checkout(state, tmp_path / state) for state in ("main", "branch", "fork", "main edited")}
    for event in (*events.names(), *MADE):
        is_safe = events.event_of(event) in SAFE_EVENTS
        for state, shop in checkouts.items():
            finished = world.validate(shop, event)
            is_open = is_safe or (state in OWN and event not in REFUSED_AT_ONCE)
            assert finished.code == (0 if is_open else 2), (event, state, finished.stderr)
            assert ("so nothing was evaluated" in finished.stderr) == (not is_open)


@pytest.mark.full
@pytest.mark.parametrize("state", [*OWN, *FOREIGN])
def test_what_shows_that_a_checkout_is_own(world: World, tmp_path: Path, state: str) -> None:
    shop = world.checkout(state, tmp_path / "shop")
    finished = world.validate(shop, "repository_dispatch.slash-command")
    assert finished.code == (0 if state in OWN else 2), finished.stderr
    accepted = shop.run("validate", "--allow-unsafe-forks", GITHUB_ACTIONS="true", GITHUB_EVENT_NAME="status")
    assert accepted.code == 0, accepted.stderr
    assert shop.run("validate").code == 0


def test_github_sha_of_a_deployment_and_a_missing_permission_show_nothing(world: World, tmp_path: Path) -> None:
    shop = world.checkout("fork", tmp_path / "shop")
    of_fork = {"GITHUB_SHA": world.commits["fork"], "GITHUB_REF": ""}
    told = world.validate(shop, "deployment_status", **of_fork)
    short = world.commits["fork"][:12]
    assert told.code == 2
    assert f"commit {short} is neither the head of a branch of this repository nor in its default" in told.stderr
    assert "check out a commit of this repository and change no file, or read docs/security.md" in told.stderr
    unknown = world.validate(shop, "deployment_status", **of_fork, GITHUB_TOKEN="")
    assert unknown.code == 2
    assert f"it is unknown whose commit {short} is: there is no token" in unknown.stderr
    # GITHUB_SHA of a branch needs no call.
    assert world.validate(world.checkout("main", tmp_path / "own"), "status", GITHUB_TOKEN="").code == 0


@pytest.mark.parametrize(("state", "code"), [("main", 0), ("fork", 2), ("main added", 2)])
def test_the_step_of_a_workflow_has_the_same_rule(world: World, tmp_path: Path, state: str, code: int) -> None:
    shop = world.checkout(state, tmp_path / "shop")
    ended = Workflow(world.hub, shop).job("workflow_dispatch", checkout=None, GITHUB_SHA=world.commits["main"])
    assert ended.code == code, ended.text


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    _, _, rest = text.partition("| event | why any checkout may run |\n|---|---|\n")
    rows = re.findall(r"^\| `(.*)` \| (.*) \|$", rest.partition("\n\n")[0], re.MULTILINE)
    assert dict(rows) == dict(SAFE_EVENTS)
    _, _, rest = text.partition("The commit is the repository's own if one of these holds:\n\n")
    lines = re.findall(r"^\d\. (.*)$", rest.partition("\n\n")[0], re.MULTILINE)
    assert lines == [*CHECKOUT_EVIDENCE]
