"""`drift --issue`: one issue that is open while something is worse."""

from __future__ import annotations

import io
import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.github.marked_issue import IssueRequest, post_issue
from holodeck_action.github.sticky_comment import marker
from holodeck_action.run.caller import Caller
from tests.action.step import Ended
from tests.commands.project import Project
from tests.extensions.traces.spans import exchange
from tests.extensions.traces.test_drift import CHECK, answers, judge
from tests.extensions.traces.test_trace_target import night, suite, trace
from tests.github.fake import FakeGitHub, Fault, Repository, Token
from tests.github.fake.permissions import Permissions
from tests.github.fake.records import Issue
from tests.github.workflow import BOT, REPOSITORY, TOKEN, Workflow
from tests.reports.parsing import check_structure, parses

MARKER = marker("Evaluate/evaluate/tested", "issue")
CLOSED = "<!-- holodeck-action:closed -->"
WRITES: Permissions = {"contents": "read", "issues": "write"}
ISSUES, ISSUE = r"/repos/octo/shop/issues$", r"/issues/\d+$"
DENIED = {"message": "Resource not accessible by integration"}
SECRET = "topsecret-4f9d2c7b1e-of-the-job"
HOSTILE = (
    "octocat @octocat @octo/team #1 octo/shop#2 GH-3 fixes #4 `` ` ``` ~~~ </details><img src=x onerror=y> "
    "[link](https://e.example) ![x](https://e.example/p.png) <!-- holodeck-action:closed --> | a | b | www.e.example "
    f"{SECRET} \n\n# heading\n> [!CAUTION]\n- [ ] task"
)
OURS = re.compile(r"<!-- holodeck-action:issue:[!-~]+ -->|</?details( open)?>|<summary>[^<>@]*</summary>")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Nights: `weeks` before, a `good` one, one whose pass rate is worse, one that fails its gate, one with `few`."""
    project = Project(tmp_path_factory.mktemp("nights"))
    suite(project, CHECK)
    project.policy(gates={"min_pass_rate": 0.5})
    dice = random.Random(1)
    nights = {"weeks": (120, 0.9), "good": (60, 0.9), "worse": (60, 0.6), "broken": (60, 0.1), "few": (9, 1.0)}
    for at, (name, (count, rate)) in enumerate(nights.items()):
        judge(project, name, 1000 * at + 1, answers(dice, count, rate))
    night(project, *(exchange(trace(9000 + at), HOSTILE, HOSTILE, at=at) for at in range(60)), name="hostile.jsonl")
    done = project.run("run", "-o", "nights/hostile", "--target", "traces:hostile.jsonl", "--no-html")
    assert done.code == 1, done.stderr
    return project


@pytest.fixture
def repository(hub: FakeGitHub) -> Repository:
    return hub.add_repository(REPOSITORY)


@pytest.fixture
def workflow(hub: FakeGitHub, repository: Repository, judged: Project, project: Project) -> Workflow:
    shutil.copytree(judged.folder / "nights", project.folder / "nights")
    return Workflow(hub, project, permissions=WRITES)


def run(workflow: Workflow, name: str, args: str = "", **options: Any) -> Ended:
    lines = f"nights/{name}\n--before nights/weeks\n--issue\n{args}"
    return workflow.job(
        "schedule",
        {"command": "drift", "args": lines, **options.pop("inputs", {})},
        GITHUB_WORKFLOW="Evaluate",
        GITHUB_JOB="evaluate",
        **options,
    )


def states(repository: Repository) -> list[tuple[str, str | None]]:
    return [(issue.state, issue.state_reason) for issue in repository.issues_here()]


def newest(repository: Repository) -> Issue:
    return repository.issues_here()[-1]


@pytest.mark.full
def test_an_issue_lives(workflow: Workflow, repository: Repository) -> None:
    fine = run(workflow, "good")
    assert fine.code == 0, fine.text
    assert "issue skipped: nothing is wrong, and no issue of an earlier run is open" in fine.text
    assert not repository.issues_here()

    worse = run(workflow, "worse")
    assert (worse.code, worse.outputs["verdict"]) == (1, "failed"), worse.text
    issue = newest(repository)
    assert f"issue: opened: https://github.com/octo/shop/issues/{issue.number}" in worse.text
    assert f"| issue | [opened](https://github.com/octo/shop/issues/{issue.number}) |" in worse.summary
    assert "| number | before | now |" in worse.summary
    assert issue.title == "`tested`: conversations of production need attention"
    assert issue.body.splitlines()[0] == MARKER
    assert "### ❌ tested · worse than before: pass rate" in issue.body
    assert f"[The last run](https://github.com/octo/shop/actions/runs/{4242 + workflow.number})" in issue.body
    assert "| `pass rate` | 0.9" in issue.body

    # A person gave it a better name; the next night is worse still, and its gate fails.
    issue.title = "The shop"
    broken = run(workflow, "broken")
    assert broken.code == 1
    assert "issue: updated" in broken.text
    assert "the verdict is not passed" in issue.body
    assert issue.title == "The shop"

    good = run(workflow, "good")
    assert good.code == 0
    assert "issue: closed" in good.text
    assert states(repository) == [("closed", "completed")]
    assert issue.body.splitlines()[:2] == [MARKER, CLOSED]
    assert "### ✅ tested · nothing is worse" in issue.body

    again = run(workflow, "worse")
    assert "issue: opened again" in again.text
    assert states(repository) == [("open", "reopened")]
    assert CLOSED not in issue.body
    assert [call.method for call in workflow.hub.requests if call.path.endswith("/comments")] == []


def test_an_issue_that_a_person_closed_stays_closed(workflow: Workflow, repository: Repository) -> None:
    run(workflow, "worse")
    newest(repository).state = "closed"
    run(workflow, "worse")
    assert [state for state, _ in states(repository)] == ["closed", "open"]


@pytest.mark.parametrize("opened", [True, False])
def test_too_few_conversations_neither_open_nor_close(workflow: Workflow, repository: Repository, opened: bool) -> None:
    if opened:
        run(workflow, "worse")
    before = [(issue.state, issue.body) for issue in repository.issues_here()]
    few = run(workflow, "few")
    assert (few.code, few.outputs["verdict"]) == (3, "incomplete")
    assert "no issue is opened, updated or closed: too few conversations" in few.text
    assert [(issue.state, issue.body) for issue in repository.issues_here()] == before
    # Before the first night, the folder of earlier ones is empty.
    (workflow.project.folder / "nights/none").mkdir()
    first = run(workflow, "few", "--before nights/none")
    assert first.code == 3, first.text


def test_a_night_without_verdict_neither_opens_nor_closes(workflow: Workflow, repository: Repository) -> None:
    run(workflow, "worse")
    calls = len(workflow.hub.requests)
    file = workflow.project.folder / "nights/good/results.json"
    file.write_bytes(b"{}")
    ended = run(workflow, "good")
    assert ended.code == 2
    assert len(workflow.hub.requests) == calls


def test_a_failed_gate_is_enough_without_earlier_nights(workflow: Workflow, repository: Repository) -> None:
    (workflow.project.folder / "nights/none").mkdir()
    ended = workflow.job("schedule", {"command": "drift", "args": "nights/broken\n--before nights/none\n--issue"})
    assert ended.code == 1, ended.text
    assert "the verdict is not passed" in newest(repository).body


def test_without_the_flag_nothing_is_called(workflow: Workflow) -> None:
    ended = workflow.job("schedule", {"command": "drift", "args": "nights/broken\n--before nights/weeks"})
    assert ended.code == 1
    assert not workflow.hub.requests
    assert ended.report.startswith("| number | before | now |")


@pytest.mark.proves("drift: --issue")
def test_the_command_line_does_the_same(workflow: Workflow, repository: Repository, hub: FakeGitHub) -> None:
    run(workflow, "good")
    environ = {"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": hub.url, "GITHUB_REPOSITORY": REPOSITORY}
    weeks = ("--before", "nights/weeks", "--issue")
    done = workflow.project.run("drift", "nights/worse", *weeks, **environ)
    assert done.code == 1, done.stderr
    assert "issue: opened" in done.stderr
    assert newest(repository).body.splitlines()[0] == marker("tested", "issue")
    lost = workflow.project.run("drift", "nights/worse", *weeks)
    assert lost.code == 1
    assert "issue skipped: there is no token" in lost.stderr


# Finding


@pytest.mark.full
def test_the_issue_is_found_behind_others_pulls_and_copies(workflow: Workflow, repository: Repository) -> None:
    run(workflow, "worse")
    ours = newest(repository)
    for number in range(130):
        repository.add_issue(author=BOT, author_type="Bot", body=f"> {MARKER}\nalert {number}")
        repository.add_issue(author="mallory", body=ours.body)
    repository.add_issue(author="evil[bot]", author_type="Bot", body=ours.body)
    for number in range(500, 650):
        repository.add_pull(number, head_sha="a" * 40, author=BOT)
    before = len(repository.issues_here())
    assert "issue: updated" in run(workflow, "broken").text
    assert "issue: closed" in run(workflow, "good").text
    assert ours.state == "closed"
    assert len(repository.issues_here()) == before
    assert all(issue.state == "open" for issue in repository.issues_here()[1:])


@pytest.mark.parametrize("status", [404, 502])
def test_without_graphql_a_bot_is_us_and_a_person_never(
    workflow: Workflow, repository: Repository, status: int
) -> None:
    copied = repository.add_issue(author="mallory", body=f"{MARKER}\n\ncopied")
    workflow.hub.fail(Fault("POST", "/graphql", status=status, times=None))
    assert "issue: opened" in run(workflow, "worse").text
    assert "issue: updated" in run(workflow, "broken").text
    assert len(repository.issues_here()) == 2
    assert copied.body == f"{MARKER}\n\ncopied"


def test_of_two_open_issues_the_newest_is_updated_and_both_are_closed(
    workflow: Workflow, repository: Repository
) -> None:
    for _ in range(2):
        repository.add_issue(author=BOT, author_type="Bot", body=f"{MARKER}\n\nold")
    assert "updated; 2 open issues have this marker" in run(workflow, "worse").text
    assert [issue.body.endswith("old") for issue in repository.issues_here()] == [True, False]
    run(workflow, "good")
    assert states(repository) == [("closed", "completed")] * 2


# Faults


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault("GET", ISSUES, status=500, times=None), "the issues could not be read"),
        (Fault("GET", ISSUES, status=403, body=DENIED, times=None), "add `issues: read` to the `permissions:`"),
        (Fault("POST", ISSUES, status=502, times=None), "whether the issue was opened is unknown"),
        (Fault("POST", ISSUES, drop="before", times=None), "whether the issue was opened is unknown"),
        (Fault("POST", ISSUES, status=422, body={"message": "no"}, times=None), "GitHub answered 422"),
    ],
)
def test_trouble_of_github_is_said_and_changes_no_exit_code(
    workflow: Workflow, repository: Repository, fault: Fault, said: str
) -> None:
    workflow.hub.fail(fault)
    ended = run(workflow, "worse")
    assert ended.code == 1
    assert said in ended.text
    assert said in ended.summary
    assert not repository.issues_here()
    workflow.hub.heal()
    assert run(workflow, "good").code == 0


@pytest.mark.parametrize("status", [502, 403])
def test_an_update_that_is_refused_leaves_the_issue(workflow: Workflow, repository: Repository, status: int) -> None:
    run(workflow, "worse")
    body = newest(repository).body
    workflow.hub.fail(Fault("PATCH", ISSUE, status=status, body=DENIED, times=None))
    ended = run(workflow, "good")
    assert ended.code == 0
    assert "the issue could not be written" in ended.text
    assert (newest(repository).body, states(repository)) == (body, [("open", None)])


def test_an_answer_that_got_lost_makes_no_second_issue(workflow: Workflow, repository: Repository) -> None:
    workflow.hub.fail(Fault("POST", ISSUES, drop="after"))
    assert "issue: opened" in run(workflow, "worse").text
    assert len(repository.issues_here()) == 1


def test_a_missing_permission_is_one_sentence_with_the_way_out(workflow: Workflow, repository: Repository) -> None:
    ended = run(workflow, "worse", permissions={"contents": "read", "issues": "read"})
    assert ended.code == 1
    found = [line for line in ended.text.splitlines() if "issues: write" in line]
    assert found == [
        "note: issue skipped: the issue could not be written: GitHub answered 403 to POST /repos/octo/shop/issues: "
        "Resource not accessible by integration; add `issues: write` to the `permissions:` of the job"
    ]
    assert not repository.issues_here()
    assert "issues: write" in run(workflow, "worse", permissions={"contents": "read"}).text


def test_a_repository_without_issues(workflow: Workflow, repository: Repository) -> None:
    repository.issues = False
    ended = run(workflow, "worse")
    assert ended.code == 1
    assert "GitHub answered 410" in ended.text
    assert "turn issues on in the settings" in ended.text


# Text


def test_text_of_traces_breaks_nothing_and_mentions_nobody(workflow: Workflow, repository: Repository) -> None:
    ended = run(workflow, "hostile", SHOP_API_KEY=SECRET)
    assert ended.code == 1, ended.text
    body = newest(repository).body
    assert "octocat" in body
    assert SECRET not in body + ended.summary + ended.text
    link = re.compile(r"https://github\.com/octo/shop/(actions/runs/\d+|issues/\d+)")
    check_structure(body, "octocat", ours=OURS.fullmatch, link=link, prose=True)
    assert body.splitlines()[1] == ""


def test_the_name_of_a_suite_breaks_nothing(workflow: Workflow, repository: Repository) -> None:
    project = workflow.project
    for path in project.folder.glob("nights/*/results.json"):
        shutil.rmtree(path.parent)
    name = f"@octocat `|` #1 <b> {SECRET}"
    suite(project, CHECK, name=name)
    for at, folder in enumerate(("weeks", "worse")):
        judge(project, folder, 1000 * at + 1, ["In Leeds." if folder == "weeks" else "No."] * 60)
    ended = run(workflow, "worse", SHOP_API_KEY=SECRET)
    assert ended.code == 1, ended.text
    issue = newest(repository)
    assert SECRET not in issue.title + issue.body
    assert issue.title.startswith("`` @octocat `")
    link = re.compile(r"https://github\.com/octo/shop/actions/runs/\d+")
    check_structure(issue.body, "octocat", ours=OURS.fullmatch, link=link, prose=True)


def test_a_long_body_is_cut_where_nothing_stays_open(hub: FakeGitHub, repository: Repository, tmp_path: Path) -> None:
    hub.add_token(TOKEN, Token(BOT, permissions=WRITES))
    environ = {"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": hub.url, "GITHUB_REPOSITORY": REPOSITORY}
    caller = Caller(environ, tmp_path, io.StringIO(), io.StringIO(), io.StringIO(), pause=lambda seconds: None)
    text = (
        "### Head\n\n<details><summary>All</summary>\n\n````text\n" + ("𝕏" * 100 + "\n") * 300 + "````\n\n</details>\n"
    )
    with caller.job() as job:
        done = post_issue(job, tmp_path, IssueRequest("long", "t" * 500, text, wrong=True))
    issue = newest(repository)
    assert done.name == "issue"
    assert 60_000 < len(issue.body.encode()) <= 65_000
    assert len(issue.title) <= 256
    for tokens in parses(issue.body):
        assert all(token.content.endswith("\n") for token in tokens if token.type == "fence")
    assert issue.body.count("</details>") == 1
    assert "The report was cut here" in issue.body


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("--before nights/weeks", "args: Missing argument 'RESULTS'"),
        ("nights/good", "args: Missing option '--before'"),
        ("nights/good\n--before nights/weeks\n--isue", "args: No such option"),
        ("nights/nowhere\n--before nights/weeks", "nights/nowhere"),
    ],
)
def test_what_a_step_cannot_compare_is_refused(workflow: Workflow, args: str, said: str) -> None:
    ended = workflow.job("schedule", {"command": "drift", "args": args})
    assert ended.code == 2
    assert said in ended.text
    refused = workflow.job("schedule", {"command": "drift", "args": args, "comment": "off"})
    assert "input comment: cannot be combined with command drift, which does not use it" in refused.text


def test_json_of_the_command_is_as_before(workflow: Workflow) -> None:
    done = workflow.project.run("drift", "nights/worse", "--before", "nights/weeks", "--format", "json")
    assert [each["state"] for each in json.loads(done.stdout)] == ["worse", "worse"]
