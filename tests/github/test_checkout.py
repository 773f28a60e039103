"""Whether what was evaluated is what the pull request holds: asked again when GitHub could not say so at first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.commands.project import Project
from tests.github.events import AFTER, HEAD, MERGE
from tests.github.fake import FakeGitHub, Fault, Repository
from tests.github.life import FILES, only_comment, ours, suite
from tests.github.workflow import REPOSITORY, Workflow, process

ABOUT = {"workflow_run.head_sha": HEAD, "workflow_run.head_branch": "topic"}
LATE = Fault(method="GET", path=r"/pulls/7$", status=404, body={"message": "Not Found"}, times=1)


@pytest.fixture
def repository(hub: FakeGitHub) -> Repository:
    """octo/shop with pull request 7 of its own."""
    made = hub.add_repository(REPOSITORY)
    made.add_pull(7, head_sha=HEAD, head_repository=REPOSITORY, branch="topic", merge_sha=MERGE, files=FILES)
    for name, sha in (("main", AFTER), ("topic", HEAD)):
        made.git.refs[f"refs/heads/{name}"] = made.git.commit({}, sha=sha)
    return made


def test_the_default_branch_turns_nothing_green_when_github_answers_late(
    hub: FakeGitHub, project: Project, repository: Repository
) -> None:
    suite(project)
    hub.fail(LATE)
    ended = Workflow(hub, project, process).job("workflow_run", checkout=AFTER, payload=ABOUT)

    assert (ended.code, ended.outputs["verdict"]) == (0, "passed")
    assert ours(repository) == []
    assert f"commit {AFTER[:12]} was evaluated" in ended.summary


def test_the_pull_request_is_published_when_github_answers_late(
    hub: FakeGitHub, project: Project, repository: Repository
) -> None:
    suite(project)
    # The first time it is asked whose the commit is, the second time what to publish.
    hub.fail(replace(LATE, times=2))
    ended = Workflow(hub, project, process).job("workflow_run", checkout=HEAD, payload=ABOUT)

    assert ended.code == 0
    assert "✅" in only_comment(repository)
    assert "the pull requests cannot be looked up" in ended.summary


def test_nothing_is_asked_where_nothing_is_published(hub: FakeGitHub, project: Project, repository: Repository) -> None:
    suite(project)
    inputs = {"comment": "off", "check": "false", "require-publish": "true"}
    ended = Workflow(hub, project, process).job("workflow_run", inputs, checkout=AFTER, payload=ABOUT, GITHUB_SHA=AFTER)

    assert ended.code == 0
    assert hub.requests == []
    assert repository.check_runs(HEAD) == []
