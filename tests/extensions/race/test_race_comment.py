"""The leaderboard of `command: race` as one comment on the pull request."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from holodeck_action.github.sticky_comment import marker
from holodeck_action.reports.comment.changes import state_of
from holodeck_action.reports.comment.places import LinkContext
from holodeck_action.reports.comment.pull_request import render_markdown
from tests.action.step import Ended
from tests.commands.project import Project
from tests.extensions.race.track import answered, write
from tests.github.events import HEAD, MERGE
from tests.github.fake import FakeGitHub, Fault
from tests.github.workflow import BOT, READS, REPOSITORY, Workflow
from tests.llm.models import KEY, FakeModels
from tests.reports.parsing import check_structure, leaves, parses, rows

pytestmark = pytest.mark.models(answer=answered)
INPUTS = {"command": "race", "args": "--vary model=best-100\n--vary model=poor-40", "suite": "agent.yaml"}
SECRET = "topsecret-4f9d2c7b1e-of-the-job"
MARKER = re.compile(r"<!-- holodeck-action:race:[!-~]+ -->")
POST, PATCH = r"/issues/7/comments$", r"/issues/comments/\d+$"
HERE = re.compile(rf"https://github\.com/{REPOSITORY}/(commit/{HEAD}|actions/runs/\d+(#artifacts)?)")


@pytest.fixture
def repository(hub: FakeGitHub) -> Any:
    made = hub.add_repository(REPOSITORY)
    made.add_pull(7, head_sha=HEAD, head_repository=REPOSITORY, branch="topic", merge_sha=MERGE)
    return made


@pytest.fixture
def workflow(hub: FakeGitHub, repository: Any, project: Project, models: FakeModels) -> Workflow:
    write(project, models, 12)
    return Workflow(hub, project)


def run(workflow: Workflow, given: dict[str, str] | None = None, name: str = "pull_request", **options: Any) -> Ended:
    return workflow.job(name, {**INPUTS, **(given or {})}, OPENAI_API_KEY=KEY, **options)


def bodies(repository: Any) -> list[str]:
    return [item["body"] for item in repository.comments(7)]


def test_the_leaderboard_is_one_comment_that_every_push_updates(workflow: Workflow, repository: Any) -> None:
    first = run(workflow)
    assert first.code == 0, first.text
    (body,) = bodies(repository)
    assert MARKER.fullmatch(body.splitlines()[0])
    leaderboard = workflow.project.folder.joinpath("holodeck-results/leaderboard.md").read_text()
    assert leaderboard.rstrip() in body
    assert f"commit [`{HEAD[:7]}`]" in body
    url = repository.comments(7)[0]["html_url"]
    assert first.outputs["comment-url"] == url
    assert first.report == leaderboard.strip()
    assert f"| comment | [created]({url}) |" in first.summary
    assert f"comment: created: {url}" in first.text

    # Another push, and a comment of an evaluation with the same id.
    run_of_all = workflow.job("pull_request", {"suite": "agent.yaml", "check": "false"}, OPENAI_API_KEY=KEY)
    assert run_of_all.outputs["comment-url"] != url
    pushed = "b" * 40
    repository.push(7, head_sha=pushed)
    second = run(workflow, payload={"pull_request.head.sha": pushed})
    assert f"comment: updated: {url}" in second.text
    assert len(bodies(repository)) == 2
    assert f"commit [`{pushed[:7]}`]" in bodies(repository)[0]


def test_a_race_of_another_id_has_its_own_comment_and_subject(workflow: Workflow, repository: Any) -> None:
    for name in ("eu", "us @octocat", "eu"):
        run(workflow, {"comment-id": name})
    assert [body.splitlines()[2] for body in bodies(repository)] == ["**eu**", "**us `@octocat`**"]


def test_a_commit_that_a_newer_push_replaced_is_not_reported(workflow: Workflow, repository: Any) -> None:
    repository.push(7, head_sha="b" * 40)
    ended = run(workflow)
    assert ended.code == 0
    assert not repository.comments(7)
    assert "has a newer commit" in ended.text


def test_another_checkout_is_not_reported_as_the_pull_requests(workflow: Workflow, repository: Any) -> None:
    ended = run(workflow, name="workflow_dispatch", payload={"inputs": {"pr-number": "7"}}, checkout="e" * 40)
    assert ended.code == 2
    assert not repository.comments(7)
    assert "so nothing is published for it" in ended.text
    assert run(workflow, name="workflow_dispatch", payload={"inputs": {"pr-number": "7"}}, checkout=HEAD).code == 0
    assert len(bodies(repository)) == 1


@pytest.mark.parametrize(
    ("given", "made"),
    [({"comment": "off"}, 0), ({"comment": "failures"}, 0), ({"comment": "changes"}, 1)],
    ids=["off", "failures", "changes"],
)
def test_inputs_of_the_comment(workflow: Workflow, repository: Any, given: dict[str, str], made: int) -> None:
    assert run(workflow, given).code == 0
    assert len(bodies(repository)) == made
    before = list(bodies(repository))
    assert run(workflow, given).code == 0
    assert bodies(repository) == before


def test_a_plan_and_an_event_without_a_pull_request_comment_nothing(workflow: Workflow, repository: Any) -> None:
    planned = run(workflow, {"args": f"{INPUTS['args']}\n--dry-run"})
    assert planned.code == 0
    assert "comment" not in planned.summary
    dispatched = run(workflow, name="workflow_dispatch", payload={"inputs": {}})
    assert "workflow_dispatch was given no input `pr-number`" in dispatched.text
    assert not repository.comments(7)


def test_a_race_that_cannot_run_replaces_an_older_leaderboard(workflow: Workflow, repository: Any) -> None:
    run(workflow)
    ended = run(workflow, {"args": "--vary model=best-100"})
    assert ended.code == 2
    (body,) = bodies(repository)
    assert "a race needs at least 2 variants" in body


def test_a_limit_that_fails_the_race_is_a_failure(workflow: Workflow, repository: Any) -> None:
    ended = run(workflow, {"args": f"{INPUTS['args']}\n--max-p95-ms 0.001", "comment": "failures"})
    assert ended.code == 1
    assert "**over_limit**" in bodies(repository)[0]


HOSTILE = (
    "@octocat a | b ![x](https://e.example/p.png)",
    "</details><img src=x onerror=y> #1 octo/shop#2 GH-3",
    "`` ` ``` [link](javascript:x) <!-- x -->\n\n# heading\n@everyone",
)


def test_names_of_variants_break_nothing_and_mention_nobody(workflow: Workflow, repository: Any) -> None:
    names = {name: {"temperature": at / 10} for at, name in enumerate(HOSTILE)}
    workflow.project.write("variants.yaml", json.dumps(names))
    ended = run(workflow, {"args": "--variants variants.yaml\n--objective @octocat|<b>", "comment-id": HOSTILE[0]})
    assert ended.code == 2  # There is no such metric: a comment about what is wrong.
    suite = workflow.project.folder / "agent.yaml"
    metric = {"type": "contains", "value": "yes", "name": "@octocat|<b>"}
    suite.write_text(
        json.dumps({**json.loads(suite.read_text()), "evaluations": {"metrics": [metric]}}), encoding="utf-8"
    )
    ended = run(workflow, {"args": "--variants variants.yaml\n--objective @octocat|<b>", "comment-id": HOSTILE[0]})
    assert ended.code == 0, ended.text
    (body,) = bodies(repository)

    def ours(line: str) -> object:
        return MARKER.fullmatch(line) or line.startswith(("<!-- holodeck-action:state:", "<details>", "</details>"))

    check_structure(body, "octocat", ours=ours, link=HERE, prose=True)
    for tokens in parses(body):
        # The head, and a row of each variant.
        assert [len(row) for row in rows(tokens)] == [8] * 4
        assert not [token for token in leaves(tokens) if token.type == "image"]


def test_a_secret_in_a_variant_is_redacted(workflow: Workflow, repository: Any, models: FakeModels) -> None:
    workflow.project.write("variants.yaml", json.dumps({f"with {SECRET}": {}, "poor": {"model": "poor-40"}}))
    ended = run(workflow, {"args": "--variants variants.yaml"}, SHOP_API_KEY=SECRET)
    assert ended.code == 0, ended.text
    (body,) = bodies(repository)
    assert SECRET not in body + ended.summary
    assert "with " in body
    assert all(SECRET not in str(call.body) for call in workflow.hub.requests)


def test_the_token_of_a_fork_reads_only(workflow: Workflow, repository: Any) -> None:
    ended = run(workflow, name="pull_request.fork", permissions=READS)
    assert ended.code == 0, ended.text
    assert not repository.comments(7)
    assert "the token of a pull_request run for a fork is read-only" in ended.text
    assert "model=best-100" in ended.summary


def test_without_a_token_only_the_summary_is_written(workflow: Workflow, repository: Any) -> None:
    ended = run(workflow, {"github-token": ""}, **{"INPUT_GITHUB-TOKEN": ""})
    assert ended.code == 0, ended.text
    assert "note: comment skipped: there is no token" in ended.text
    assert "model=best-100" in ended.summary
    assert not repository.comments(7)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault("POST", POST, status=502, times=None), "whether the comment was made is unknown"),
        (
            Fault("POST", POST, status=403, body={"message": "Resource not accessible by integration"}, times=None),
            "add `pull-requests: write` to the `permissions:` of the job",
        ),
        (Fault("GET", POST, status=500, times=None), "the comments could not be read"),
    ],
    ids=["502", "403", "unreadable"],
)
def test_trouble_of_github_is_said_and_changes_no_exit_code(workflow: Workflow, fault: Fault, said: str) -> None:
    workflow.hub.fail(fault)
    ended = run(workflow)
    assert ended.code == 0, ended.text
    assert said in ended.text
    assert said in ended.summary
    required = run(workflow, {"args": f"{INPUTS['args']}\n--require-publish"})
    assert (required.code, required.outputs["verdict"]) == (5, "passed"), required.text


def test_an_update_that_github_refuses_leaves_the_comment(workflow: Workflow, repository: Any) -> None:
    run(workflow)
    workflow.hub.fail(Fault("PATCH", PATCH, status=502, times=None))
    ended = run(workflow)
    assert ended.code == 0, ended.text
    assert "comment failed" in ended.text
    assert len(bodies(repository)) == 1


def test_a_long_report_is_cut_where_nothing_stays_open() -> None:
    rows = "".join(f"| row {at} | {'x' * 300} |\n" for at in range(300))
    text = f"### Report\n\n<details><summary>All</summary>\n\n| a | b |\n| - | - |\n{rows}\n</details>\n"
    place = LinkContext("https://github.com", REPOSITORY, HEAD, f"https://github.com/{REPOSITORY}/actions/runs/7")
    line = marker("long", "race")
    body = render_markdown(text, line, place, state_of((), 0, HEAD, "7/1", ("leader",)))
    assert body.splitlines()[0] == line
    assert 60_000 < len(body.encode()) <= 65_000
    assert body.count("<details>") == body.count("</details>")
    assert "The report was cut here: for the rest see [the run]" in body


def test_two_races_of_one_run_do_not_take_turns(workflow: Workflow, repository: Any) -> None:
    run(workflow)
    # Equal comments of two steps would be left as they are.
    ended = run(workflow, {"args": "--vary model=best-100\n--vary model=poor-50"}, GITHUB_RUN_ID="4243")
    assert "two steps of this run write the same comment" in ended.text
    # A race writes no check run.
    assert "give each step its own `comment-id`" in ended.text
    assert "--check-name" not in ended.text
    assert marker("x", "race") != marker("x")
    assert [item["user"]["login"] for item in repository.comments(7)] == [BOT]
