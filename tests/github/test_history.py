"""The history in a workflow: runs of the default branch are added, all others read it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.commands.project import Project
from tests.github.baselines import OUTPUT, READER, WRITER, Shop
from tests.github.fake import FakeGitHub
from tests.github.life import FILES, only_comment, suite
from tests.github.workflow import REPOSITORY, WRITES

pytestmark = pytest.mark.needs("history")
BRANCH = "branch:holodeck-data"
LENIENT = {"min-pass-rate": "0.5"}


class Kept(Shop):
    """A shop with a history."""

    def lines(self) -> list[dict[str, Any]]:
        """The lines on the data branch."""
        if "refs/heads/holodeck-data" not in self.git.refs:
            return []
        content = self.git.read("holodeck-data", "history.jsonl")
        assert content is not None
        return [json.loads(line) for line in content.splitlines()]

    def written(self, seen: int = 0) -> list[str]:
        """The requests that change what stands on GitHub, after the first so many requests."""
        return [call.path for call in self.hub.requests[seen:] if call.method != "GET"]


@pytest.fixture
def shop(hub: FakeGitHub, project: Project) -> Kept:
    return Kept(hub, project, BRANCH)


def test_runs_of_main_are_added_to_the_branch_that_others_are_compared_with(shop: Kept) -> None:
    for wrong in ((), ("refund",), ()):
        before = shop.main
        shop.merge(*wrong)
        ended = shop.push(before, inputs=LENIENT, permissions=WRITER)
        assert "not added" not in ended.text
    found = shop.lines()
    assert [line["commit"] for line in found] == [commit.sha for commit in shop.git.ancestors(shop.main)][2::-1]
    assert [line["failing"] for line in found] == [[], ["refund"], []]
    assert shop.base().commit == found[1]["commit"]

    # A pull request shows it, adds nothing, and asks for nothing that it must not.
    seen = len(shop.hub.requests)
    head = shop.branch_off("refund")
    shop.repository.add_pull(7, head_sha=head, head_repository=REPOSITORY, branch="topic", files=FILES)
    ended = shop.pull(head, inputs={**LENIENT, "comment": "always"}, permissions={**WRITES, "contents": "write"})
    assert len(shop.lines()) == 3
    assert not [path for path in shop.written(seen) if "/git/" in path]
    assert "last 4 runs: pass rate `█▁█▁` 66.7 %" in only_comment(shop.repository)
    assert "| pass rate | `█▁█▁` | 0.67 |" in ended.summary


@pytest.mark.parametrize("event", ["push", "schedule", "workflow_dispatch"])
@pytest.mark.parametrize("ref", ["refs/heads/main", "refs/heads/topic"])
def test_only_events_of_the_default_branch_are_added(shop: Kept, event: str, ref: str) -> None:
    suite(shop.project)
    after = {"before": "0" * 40, "after": shop.main, "ref": ref} if event == "push" else {}
    shop.step(event, shop.main, after, GITHUB_REF=ref, GITHUB_SHA=shop.main, permissions=WRITER)
    assert len(shop.lines()) == (ref == "refs/heads/main")


@pytest.mark.parametrize("event", ["pull_request", "pull_request_target", "merge_group", "issue_comment"])
def test_other_events_are_not_added(shop: Kept, event: str) -> None:
    shop.step(event, shop.main, permissions=WRITER, inputs={"allow-unsafe-forks": "true"})
    assert shop.written() == []


def test_another_commit_than_the_events_is_not_added(shop: Kept) -> None:
    head = shop.branch_off("refund")
    shop.git.refs["refs/heads/refund"] = head
    ended = shop.step("workflow_dispatch", head, GITHUB_SHA=shop.main, permissions=WRITER)
    assert shop.written() == []
    assert f"not added to the history: commit {head[:12]} was evaluated, and the workflow runs for" in ended.text


def test_a_branch_can_be_a_history_alone(shop: Kept) -> None:
    shop.source = ""
    for _ in range(2):
        ended = shop.push(inputs={"history": BRANCH}, permissions=WRITER)
    assert ended.code == 0
    assert len(shop.lines()) == 2
    report = json.loads((shop.project.folder / OUTPUT / "verdict.json").read_bytes())
    assert report["comparison"] is None
    assert "history of 2 runs" in ended.text
    assert len(shop.git.ancestors(shop.git.refs["refs/heads/holodeck-data"])) == 2


def test_a_token_that_cannot_write_changes_no_verdict(shop: Kept) -> None:
    ended = shop.push(permissions=READER)
    assert ended.code == 0
    assert shop.lines() == []
    assert "the run was not added to the history: the branch holodeck-data" in ended.text
    assert "add contents: write to the permissions: of the job" in ended.text


def test_a_branch_that_cannot_be_read_is_no_history(shop: Kept) -> None:
    shop.source = ""
    ended = shop.pull(shop.branch_off(), inputs={"history": BRANCH}, permissions={"checks": "write"})
    assert ended.code == 0
    assert "note: the history cannot be shown: the branch holodeck-data" in ended.text


def test_a_folder_is_added_to_by_the_same_events(shop: Kept) -> None:
    shop.source = ""
    file = shop.project.folder / "past" / "history.jsonl"
    shop.pull(shop.branch_off(), inputs={"history": "past"})
    assert not file.exists()
    shop.push(inputs={"history": "past"})
    assert len(file.read_text().splitlines()) == 1
    ended = shop.push(inputs={"history": "../past"})
    assert (ended.code, "input history: '../past' is outside the workspace" in ended.text) == (2, True)


def test_on_a_laptop_a_branch_is_only_read(shop: Kept) -> None:
    shop.push(permissions=WRITER)
    environ = {
        "GITHUB_API_URL": shop.hub.url,
        "GITHUB_TOKEN": "ghs_token-of-the-job",
        "GITHUB_REPOSITORY": REPOSITORY,
    }
    seen = len(shop.hub.requests)
    finished = shop.project.run("run", "--history", BRANCH, **environ)
    assert finished.code == 0
    assert "history of 2 runs" in finished.stdout
    assert shop.written(seen) == []
    refused = shop.project.run("run", "--history", "branch:a b")
    assert (refused.code, "branch:NAME" in refused.stderr) == (2, True)
