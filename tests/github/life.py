"""A scripted life of a pull request, told once for this machine's Python and once for the image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.commands.project import Project
from tests.github.events import AFTER, HEAD, MERGE, RUN
from tests.github.fake import FakeGitHub, Repository
from tests.github.workflow import BOT, READS, REPOSITORY, Start, Workflow

FIXED = "b" * 40
WORSE = "e" * 40
FILES = [{"filename": "agent.yaml", "status": "modified", "patch": "@@ -1,2 +1,3 @@\n a\n+b\n c"}]
HERE = {"GITHUB_SHA": MERGE}


def suite(project: Project, *wrong: str, name: str = "shop", target: str = "answers.jsonl") -> None:
    """Three questions of a shop, some answered wrongly; `target` is the file of the answers."""
    truths = {"refund": "30 days", "shipping": "2 days", "warranty": "1 year"}
    project.suite(
        [{"name": case, "input": f"How long is the {case}?", "ground_truth": truth} for case, truth in truths.items()],
        name=name,
    )
    project.answers(
        [{"case": case, "response": "no idea" if case in wrong else truth} for case, truth in truths.items()],
        target,
    )
    project.policy(target=f"recorded:{target}")


def ours(repository: Repository, number: int = 7) -> list[dict[str, Any]]:
    """The comments of the workflow that nobody has hidden, oldest first."""
    hidden = {note.node_id for note in repository.notes() if note.minimized}
    return [
        comment
        for comment in repository.comments(number)
        if comment["user"]["login"] == BOT and comment["node_id"] not in hidden
    ]


def only_comment(repository: Repository, number: int = 7) -> str:
    """The body of the one comment there is."""
    comments = ours(repository, number)
    assert len(comments) == 1, [comment["body"][:200] for comment in comments]
    body: str = comments[0]["body"]
    return body


def latest_check(repository: Repository, sha: str, name: str = "holodeck-action: agent.yaml") -> dict[str, Any]:
    """The newest check run of a name; all of them are concluded."""
    runs = [run for run in repository.check_runs(sha) if run["name"] == name]
    assert runs
    assert all(run["status"] == "completed" for run in runs)
    return max(runs, key=lambda run: run["id"])


def head(sha: str) -> Mapping[str, Any]:
    """The payload's fields of a pull request at a commit."""
    return {"pull_request.head.sha": sha}


def whole_life(hub: FakeGitHub, project: Project, start: Start) -> None:
    """Open, fix, break, re-run, hide, fork, Dependabot, merge queue and matrix."""
    repository = hub.add_repository(REPOSITORY)
    repository.add_pull(7, head_sha=HEAD, head_repository=REPOSITORY, branch="topic", merge_sha=MERGE, files=FILES)
    workflow = Workflow(hub, project, start)

    opened(repository, workflow, project)
    url = ours(repository)[0]["html_url"]
    fixed(repository, workflow, project)
    broken_after_120_comments(repository, workflow, project)
    assert ours(repository)[0]["html_url"] == url
    one_job_runs_again(repository, workflow)
    a_slow_run_of_an_old_commit(repository, workflow)
    an_invalid_suite(repository, workflow, project)
    hidden_comment(repository, workflow, project)
    merge_queue(repository, workflow)
    read_only_token(repository, workflow, "pull_request.fork")
    read_only_token(repository, workflow, "pull_request.dependabot")
    matrix_of_two_suites(repository, workflow, project)
    assert hub.violations == []


def opened(repository: Repository, workflow: Workflow, project: Project) -> None:
    suite(project, "refund")
    ended = workflow.job()

    assert (ended.code, ended.outputs["verdict"]) == (1, "failed")
    body = only_comment(repository)
    assert "❌" in body
    assert f"https://github.com/octo/shop/blob/{HEAD}/agent.yaml#L" in body
    assert HEAD[:7] in body
    assert "#artifacts)" in body
    check = latest_check(repository, HEAD)
    assert check["conclusion"] == "failure"
    assert [(mark["path"], mark["annotation_level"]) for mark in check["annotations"]] == [("agent.yaml", "failure")]
    lines = project.folder.joinpath("agent.yaml").read_text(encoding="utf-8").splitlines()
    assert '"refund"' in "".join(lines[check["annotations"][0]["start_line"] - 1 :][:2])
    assert ended.outputs["comment-url"] == ours(repository)[0]["html_url"]
    assert ended.outputs["check-url"] == check["html_url"]
    # The check run has the annotations: the log has only why the step fails.
    assert [command.name for command in ended.meant if command.name in ("error", "warning", "notice")] == ["error"]
    assert ours(repository)[0]["html_url"] in ended.summary


def fixed(repository: Repository, workflow: Workflow, project: Project) -> None:
    suite(project)
    repository.push(7, head_sha=FIXED, files=FILES)
    ended = workflow.job("pull_request.synchronize", payload=head(FIXED))

    assert (ended.code, ended.outputs["verdict"]) == (0, "passed")
    body = only_comment(repository)
    assert "✅" in body
    assert FIXED[:7] in body
    assert latest_check(repository, FIXED)["conclusion"] == "success"
    assert latest_check(repository, HEAD)["conclusion"] == "failure"


def broken_after_120_comments(repository: Repository, workflow: Workflow, project: Project) -> None:
    for number in range(120):
        repository.add_comment(7, author="alice", body=f"comment {number}", author_type="User")
    suite(project, "refund", "shipping")
    repository.push(7, head_sha=WORSE, files=FILES)
    ended = workflow.job("pull_request.synchronize", payload=head(WORSE))

    assert ended.code == 1
    assert WORSE[:7] in only_comment(repository)
    assert len(latest_check(repository, WORSE)["annotations"]) == 2


def one_job_runs_again(repository: Repository, workflow: Workflow) -> None:
    before = only_comment(repository)
    ended = workflow.job("pull_request.synchronize", payload=head(WORSE), GITHUB_RUN_ID=RUN, GITHUB_RUN_ATTEMPT="2")

    assert ended.code == 1
    assert only_comment(repository).splitlines()[0] == before.splitlines()[0]
    assert len([run for run in repository.check_runs(WORSE) if run["name"] == "holodeck-action: agent.yaml"]) == 2


def a_slow_run_of_an_old_commit(repository: Repository, workflow: Workflow) -> None:
    before = only_comment(repository)
    ended = workflow.job("pull_request.synchronize", payload=head(HEAD))

    assert ended.code == 1
    assert only_comment(repository) == before
    assert "newer commit" in ended.summary


def an_invalid_suite(repository: Repository, workflow: Workflow, project: Project) -> None:
    project.write("agent.yaml", "name: [broken\n")
    ended = workflow.job("pull_request.synchronize", payload=head(WORSE))

    assert (ended.code, ended.outputs["verdict"]) == (2, "invalid")
    body = only_comment(repository)
    assert "✅" not in body
    assert "agent.yaml" in body
    suite(project, "refund")


def hidden_comment(repository: Repository, workflow: Workflow, project: Project) -> None:
    repository.minimize(ours(repository)[0]["node_id"])
    hidden = repository.comments(7)
    ended = workflow.job("pull_request.synchronize", payload=head(WORSE))

    assert ended.code == 1
    assert WORSE[:7] in only_comment(repository)
    assert repository.comments(7)[: len(hidden)] == hidden


def merge_queue(repository: Repository, workflow: Workflow) -> None:
    before = only_comment(repository)
    ended = workflow.job("merge_group", checkout=AFTER)

    assert ended.code == 1
    assert latest_check(repository, AFTER)["conclusion"] == "failure"
    assert only_comment(repository) == before


def read_only_token(repository: Repository, workflow: Workflow, event: str) -> None:
    """Forks and Dependabot: the verdict, the annotations and the summary are there, and how to publish."""
    before = repository.comments(7)
    ended = workflow.job(event, payload=head(WORSE), permissions=READS)

    assert (ended.code, ended.outputs["verdict"]) == (1, "failed")
    assert repository.comments(7) == before
    assert ended.outputs["comment-url"] == ended.outputs["check-url"] == ""
    assert "skipped" in ended.summary
    annotations = [command for command in ended.meant if command.name == "error"]
    assert [command.properties.get("file") for command in annotations] == ["agent.yaml", None]


def matrix_of_two_suites(repository: Repository, workflow: Workflow, project: Project) -> None:
    for folder, wrong in (("agents/one", ()), ("agents/two", ("refund",))):
        suite(Project(project.folder / folder), *wrong, name=folder)
    number = len(ours(repository))
    codes = [
        workflow.job(
            "pull_request.synchronize",
            {"suite": f"{folder}/agent.yaml"},
            payload=head(WORSE),
            GITHUB_RUN_ID="5151",
        ).code
        for folder in ("agents/one", "agents/two")
    ]

    assert codes == [0, 1]
    one, two = ours(repository)[number:]
    assert "✅" in one["body"]
    assert "agents/one" in one["body"]
    assert "❌" in two["body"]
    assert "agents/two" in two["body"]
    names = [f"holodeck-action: agents/{name}/agent.yaml" for name in ("one", "two")]
    assert [latest_check(repository, WORSE, name)["conclusion"] for name in names] == ["success", "failure"]
