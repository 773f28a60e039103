"""Code of a fork runs nowhere near secrets, and a run of the default branch turns no pull request green."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.action.step import Ended
from tests.commands.project import Project
from tests.github.events import BASE, HEAD, MERGE, event_environ
from tests.github.fake import FakeGitHub, Repository
from tests.github.fake.permissions import Permissions
from tests.github.life import FILES, latest_check, only_comment
from tests.github.workflow import REPOSITORY, Workflow
from tests.workers.installing import NO_INDEX, wheel, with_uv

NOT_ABOUT_FORKS: Permissions = {"checks": "write"}
"""Permissions of a token that cannot read pull requests."""

AGENT = """
from pathlib import Path

Path("imported").touch()


def answer(conversation):
    Path("called").touch()
    return "30 days"
"""


def _suite(project: Project, answer: str = "30 days") -> None:
    """A suite whose agent leaves a trace as soon as it is imported."""
    project.suite([{"name": "refund", "input": "How long?", "ground_truth": answer}], name="shop")
    project.policy(target="python:agent:answer")
    project.write("agent.py", AGENT)


def _traces(project: Project) -> list[str]:
    return sorted(path.name for path in project.folder.rglob("*") if path.name in ("imported", "called"))


def _hub(hub: FakeGitHub, head_repository: str | None, head: str = HEAD) -> Repository:
    repository = hub.add_repository(REPOSITORY)
    repository.add_pull(7, head_sha=head, head_repository=head_repository, branch="topic", merge_sha=MERGE, files=FILES)
    return repository


EVENTS_ABOUT_FORKS: Mapping[str, Mapping[str, Any]] = {
    "pull_request_target.fork": {},
    "workflow_run.fork": {},
    "workflow_run.deleted-fork": {},
    "issue_comment": {},
    "workflow_dispatch.pull-request": {},
}


def _refused(ended: Ended, project: Project, repository: Repository, said: str) -> None:
    assert (ended.code, ended.outputs["verdict"]) == (2, "invalid"), ended.text
    assert _traces(project) == []
    assert not (project.folder / "holodeck-results").exists()
    (error,) = [command for command in ended.meant if command.name == "error"]
    assert said in error.data
    assert "`--allow-unsafe-forks` (in a workflow step" in error.data
    # Code blocks are wrapped.
    assert said in " ".join(ended.summary.split())
    assert [run for run in repository.check_runs(HEAD) if run["conclusion"] == "success"] == []


@pytest.mark.parametrize("event", EVENTS_ABOUT_FORKS)
def test_code_of_a_fork_does_not_run_where_secrets_are(hub: FakeGitHub, project: Project, event: str) -> None:
    repository = _hub(hub, None if event.endswith("deleted-fork") else "mallory/shop")
    workspace = Project(project.folder / "workspace")
    _suite(workspace)
    ended = Workflow(hub, workspace).job(event, checkout=HEAD)

    _refused(ended, workspace, repository, "would give a fork's code the secrets and a token that can write")


@pytest.mark.parametrize("event", EVENTS_ABOUT_FORKS)
def test_whoever_has_read_about_it_can_let_it_run(hub: FakeGitHub, project: Project, event: str) -> None:
    _hub(hub, None if event.endswith("deleted-fork") else "mallory/shop")
    workspace = Project(project.folder / "workspace")
    _suite(workspace)
    ended = Workflow(hub, workspace).job(event, {"allow-unsafe-forks": "true"}, checkout=HEAD)

    assert (ended.code, ended.outputs["verdict"]) == (0, "passed"), ended.text
    assert _traces(workspace) == ["called", "imported"]


@pytest.mark.parametrize("event", ["issue_comment", "workflow_dispatch.pull-request"])
def test_a_pull_request_that_cannot_be_read_is_taken_for_a_forks(hub: FakeGitHub, project: Project, event: str) -> None:
    repository = _hub(hub, REPOSITORY)
    workspace = Project(project.folder / "workspace")
    _suite(workspace)
    ended = Workflow(hub, workspace).job(event, checkout=HEAD, permissions=NOT_ABOUT_FORKS)

    _refused(ended, workspace, repository, f"it is unknown whose commit {HEAD[:12]} is: ")


@pytest.mark.parametrize("event", ["issue_comment", "workflow_dispatch.pull-request"])
def test_without_a_token_it_is_taken_for_a_forks(hub: FakeGitHub, project: Project, event: str) -> None:
    repository = _hub(hub, REPOSITORY)
    workspace = Project(project.folder / "workspace")
    _suite(workspace)
    ended = Workflow(hub, workspace).job(event, {"github-token": ""}, checkout=HEAD)

    _refused(ended, workspace, repository, f"it is unknown whose commit {HEAD[:12]} is: there is no token")
    assert hub.requests == []


@pytest.mark.parametrize("event", ["pull_request_target", "issue_comment"])
def test_an_event_that_cannot_be_read_is_not_trusted(hub: FakeGitHub, project: Project, event: str) -> None:
    repository = _hub(hub, "mallory/shop")
    workspace = Project(project.folder / "workspace")
    _suite(workspace)
    nowhere = str(project.folder / "nowhere.json")
    ended = Workflow(hub, workspace).job(event, checkout=HEAD, GITHUB_EVENT_PATH=nowhere)

    assert (ended.code, ended.outputs["verdict"]) == (2, "invalid"), ended.text
    assert _traces(workspace) == []
    assert repository.comments(7) == []


EVENTS_OF_THE_DEFAULT_BRANCH = (
    "pull_request_target",
    "workflow_run",
    "issue_comment",
    "workflow_dispatch.pull-request",
)


@pytest.mark.parametrize(("answer", "code"), [("30 days", 0), ("60 days", 1)])
@pytest.mark.parametrize("event", EVENTS_OF_THE_DEFAULT_BRANCH)
def test_a_checkout_of_the_default_branch_says_nothing_of_the_pull_request(
    hub: FakeGitHub, project: Project, event: str, answer: str, code: int
) -> None:
    repository = _hub(hub, REPOSITORY)
    workspace = Project(project.folder / "workspace")
    _suite(workspace, answer)
    ended = Workflow(hub, workspace).job(event, checkout=BASE)

    assert (ended.code, ended.outputs["exit-code"]) == (code, str(code))
    assert repository.comments(7) == []
    assert repository.check_runs(HEAD) == repository.check_runs(BASE) == []
    for text in (ended.text, ended.summary):
        assert f"commit {BASE[:12]} was evaluated" in text
        assert "give actions/checkout" in text
    required = Workflow(hub, workspace, number=1).job(event, {"require-publish": "true"}, checkout=BASE)
    assert required.code == (code or 5)


@pytest.mark.parametrize("event", EVENTS_OF_THE_DEFAULT_BRANCH)
def test_an_unknown_commit_is_not_evaluated(hub: FakeGitHub, project: Project, event: str) -> None:
    repository = _hub(hub, REPOSITORY)
    workspace = Project(project.folder / "workspace")
    _suite(workspace)
    ended = Workflow(hub, workspace).job(event, checkout=None)

    _refused(ended, workspace, repository, "workspace is not a checkout of a known commit")


# The payload of pull_request_target has the test merge of an earlier push: only the head itself is sure there.
PUBLISHED = [(event, HEAD) for event in EVENTS_OF_THE_DEFAULT_BRANCH]
PUBLISHED += [(event, MERGE) for event in EVENTS_OF_THE_DEFAULT_BRANCH[1:]]


@pytest.mark.parametrize(("event", "checkout"), PUBLISHED)
def test_a_checkout_of_the_pull_request_is_published(
    hub: FakeGitHub, project: Project, event: str, checkout: str
) -> None:
    repository = _hub(hub, REPOSITORY)
    workspace = Project(project.folder / "workspace")
    _suite(workspace)
    ended = Workflow(hub, workspace).job(event, checkout=checkout)

    assert ended.code == 0, ended.text
    assert "✅" in only_comment(repository)
    assert latest_check(repository, HEAD)["conclusion"] == "success"


def test_one_suite_of_another_commit_keeps_all_from_being_published(hub: FakeGitHub, project: Project) -> None:
    repository = _hub(hub, REPOSITORY)
    workspace = Project(project.folder / "workspace")
    for folder, commit in (("head", HEAD), ("base", BASE)):
        inner = Project(workspace.folder / folder)
        _suite(inner)
        inner.write(".git/HEAD", f"{commit}\n")
    ended = Workflow(hub, workspace).job("issue_comment", {"suite": "head\nbase"}, checkout=HEAD)

    assert ended.code == 0, ended.text
    assert repository.comments(7) == []
    assert repository.check_runs(HEAD) == []
    assert f"commit {BASE[:12]} was evaluated" in ended.summary


@pytest.mark.parametrize("event", ["pull_request_target.fork", "issue_comment"])
def test_packages_of_a_fork_are_not_installed_where_secrets_are(hub: FakeGitHub, project: Project, event: str) -> None:
    """Neither by the Action nor by the program in a step of its own; what is built would run."""
    repository = _hub(hub, "mallory/shop")
    workspace = Project(project.folder / "workspace")
    _suite(workspace)
    workspace.policy(target="python:agent:answer", environment={"requirements": "requirements.txt"})
    workspace.write("requirements.txt", f"{NO_INDEX}./lib\n")
    workspace.write("lib/setup.py", f"open({str(workspace.folder / 'imported')!r}, 'w')\n")
    uv = with_uv(workspace.folder)
    ended = Workflow(hub, workspace).job(event, checkout=HEAD, PATH=uv["PATH"], UV_OFFLINE="1")

    _refused(ended, workspace, repository, "would give a fork's code the secrets and a token that can write")
    environ = {**event_environ(event, project.folder, overrides={}), "GITHUB_ACTIONS": "true", **uv}
    for command in ("run", "validate"):
        found = workspace.run(command, **environ)
        assert found.code == 2
        assert "so nothing was evaluated: " in found.stderr
    assert _traces(workspace) == []
    assert not [*workspace.folder.rglob("environments")]


@pytest.mark.parametrize(("event", "allowed"), [("pull_request", "false"), ("pull_request_target.fork", "true")])
def test_the_action_installs_packages(hub: FakeGitHub, project: Project, event: str, allowed: str) -> None:
    _hub(hub, "mallory/shop" if allowed == "true" else REPOSITORY)
    workspace = Project(project.folder / "workspace")
    _suite(workspace)
    wheel(workspace.folder / "wheels", "shop", "1.0", "")
    workspace.write("packages.txt", f"{NO_INDEX}shop\n")
    workspace.write("agent.py", f"import shop\n{AGENT}")
    inputs = {"requirements": "packages.txt", "allow-unsafe-forks": allowed}
    path = with_uv(workspace.folder)["PATH"]
    ended = Workflow(hub, workspace).job(event, inputs, checkout=HEAD, PATH=path, UV_OFFLINE="1")
    assert (ended.code, ended.outputs["verdict"]) == (0, "passed"), ended.text
    assert "note: installing packages.txt in " in ended.text
