"""The fake against an independent client, and against everything that it has to refuse."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
import requests
from github import Auth, Github, GithubException, InputGitTreeElement
from github.GithubRetry import GithubRetry
from hypothesis import given
from hypothesis import strategies as st

from scripts.slice_openapi import OPERATIONS, SliceError, cut_description
from tests.github.fake import FakeGitHub, Fault, Repository, Token
from tests.github.fake.contract import SLICE, contract, description
from tests.github.fake.diff import places
from tests.github.fake.operations import served
from tests.github.fake.permissions import NEEDS, Permissions
from tests.workers.support import wait_until

HEAD, NEXT = "a" * 40, "b" * 40
PATCH = "@@ -1,3 +1,4 @@\n name: shop\n-model: old\n+model: new\n+seed: 1\n cases:\n@@ -20,2 +21,2 @@\n x\n y"
FILES = [
    {"filename": "agent.yaml", "status": "modified", "patch": PATCH},
    {"filename": "logo.png", "status": "added"},
]
BOT = "github-actions[bot]"
ALL: Permissions = {"checks": "write", "pull_requests": "write", "issues": "write", "contents": "read"}
OUTPUT: dict[str, str | list[dict[str, str | int]]] = {"title": "Evaluation", "summary": "text"}
NOTE = {"path": "agent.yaml", "start_line": 2, "end_line": 2, "annotation_level": "failure", "message": "score 0.3"}
CASES = "query($ids: [ID!]!) { viewer { login } nodes(ids: $ids) { __typename id ... on Comment { author { login } \
viewerDidAuthor } ... on Minimizable { isMinimized minimizedReason viewerCanMinimize } } }"


@pytest.fixture
def repo(hub: FakeGitHub) -> Repository:
    hub.add_token("ghs_all", Token(BOT, permissions=ALL))
    repository = hub.add_repository("octo/shop")
    repository.add_pull(7, head_sha=HEAD, branch="topic", merge_sha="e" * 40, files=FILES)
    return repository


@pytest.fixture
def client(hub: FakeGitHub, repo: Repository) -> Iterator[Github]:
    with Github(
        auth=Auth.Token("ghs_all"), base_url=hub.url, retry=None, per_page=100, timeout=30, seconds_between_requests=0,
        seconds_between_writes=0,
    ) as github:  # fmt: skip
        yield github


@pytest.fixture
def call(hub: FakeGitHub, repo: Repository) -> Iterator[Callable[..., requests.Response]]:
    with requests.Session() as session:

        def send(method: str, path: str, body: Any = None, token: str | None = "ghs_all", **more: Any) -> Any:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return session.request(method, hub.url + path, json=body, headers=headers, timeout=30, **more)

        yield send


# A pull request's life, by a client that knows nothing of us.


def test_comments_are_listed_edited_and_deleted(repo: Repository, client: Github) -> None:
    for number in range(119):
        repo.add_comment(7, author="alice", body=f"comment {number}")
    issue = client.get_repo("octo/shop").get_pull(7)
    comment = issue.create_issue_comment("ours")
    bodies = [item.body for item in issue.get_issue_comments()]
    assert bodies == [*(f"comment {number}" for number in range(119)), "ours"]
    assert (comment.user.login, comment.user.type) == (BOT, "Bot")
    assert comment.html_url == f"https://github.com/octo/shop/pull/7#issuecomment-{comment.id}"
    comment.edit("ours, edited")
    assert repo.comments(7)[-1]["body"] == "ours, edited"
    comment.delete()
    assert len(repo.comments(7)) == 119


def test_pages_lead_through_the_list(call: Any, repo: Repository) -> None:
    for number in range(65):
        repo.add_comment(7, author="alice", body=str(number))
    answer = call("GET", "/repos/octo/shop/issues/7/comments")
    assert len(answer.json()) == 30
    assert sorted(answer.links) == ["last", "next"]
    middle = requests.get(answer.links["next"]["url"], headers={"Authorization": "token ghs_all"}, timeout=60)
    assert sorted(middle.links) == ["first", "last", "next", "prev"]
    last = call("GET", "/repos/octo/shop/issues/7/comments?per_page=30&page=3")
    assert [item["body"] for item in last.json()] == ["60", "61", "62", "63", "64"]
    assert sorted(last.links) == ["first", "prev"]
    assert call("GET", "/repos/octo/shop/issues/7/comments?page=4").json() == []


def test_a_check_run_grows_by_its_annotations(repo: Repository, client: Github) -> None:
    repository = client.get_repo("octo/shop")
    run = repository.create_check_run("eval", HEAD, status="in_progress", external_id="1/1", output=OUTPUT)
    notes = [NOTE | {"start_line": line, "end_line": line} for line in range(1, 121)]
    for start in (0, 50):
        run.edit(output={**OUTPUT, "annotations": notes[start : start + 50]})
    last = {"title": "1 failed", "summary": "s", "annotations": notes[100:]}
    run.edit(status="completed", conclusion="failure", output=last)
    [made] = repo.check_runs(HEAD)
    assert made["annotations"] == [
        note | {"blob_href": f"https://github.com/octo/shop/blob/{HEAD}/agent.yaml"}
        | dict.fromkeys(("start_column", "end_column", "title", "raw_details"))
        for note in notes
    ]  # fmt: skip
    assert (made["status"], made["conclusion"], made["output"]["title"]) == ("completed", "failure", "1 failed")
    assert made["completed_at"] is not None
    assert len(list(run.get_annotations())) == 120
    assert repository.get_check_run(run.id).output.annotations_count == 120


def test_check_runs_of_a_commit(call: Any, repo: Repository) -> None:
    for name in ("eval", "eval", "lint"):
        assert call("POST", "/repos/octo/shop/check-runs", {"name": name, "head_sha": HEAD}).status_code == 201
    path = f"/repos/octo/shop/commits/{HEAD}/check-runs"
    latest = call("GET", path).json()
    assert [run["name"] for run in latest["check_runs"]] == ["lint", "eval"]
    first, second, _ = repo.check_runs(HEAD)
    assert latest["check_runs"][1]["id"] == second["id"]
    found = call("GET", f"{path}?check_name=eval&filter=all").json()
    assert (found["total_count"], [run["id"] for run in found["check_runs"]]) == (2, [second["id"], first["id"]])
    assert [pull["number"] for pull in found["check_runs"][0]["pull_requests"]] == [7]


def test_a_review_stands_on_the_diff(hub: FakeGitHub, repo: Repository, client: Github) -> None:
    pull = client.get_repo("octo/shop").get_pull(7)
    comments: Any = [{"path": "agent.yaml", "line": line, "side": "RIGHT", "body": f"line {line}"} for line in (1, 3)]
    review = pull.create_review(body="two", event="COMMENT", comments=comments)
    assert (review.state, review.commit_id, review.user.login) == ("COMMENTED", HEAD, BOT)
    first, second = pull.get_review_comments()
    assert (first.line, first.position, second.line, second.position) == (1, 1, 3, 4)
    assert second.pull_request_review_id == review.id
    assert second.diff_hunk.endswith("+seed: 1")
    second.edit("edited")
    assert client.requester.requestJsonAndCheck("PUT", f"{pull.url}/reviews/{review.id}", input={"body": "new"})[1][
        "body"
    ] == "new"  # fmt: skip
    repo.push(7, head_sha=NEXT, files=[{"filename": "agent.yaml", "patch": "@@ -1 +1,2 @@\n name: shop\n+a"}])
    first, second = pull.get_review_comments()
    # PyGithub types neither a line that is outdated nor a deleted repository as None.
    assert (first.line, first.commit_id, cast("int | None", second.line), second.body) == (1, NEXT, None, "edited")
    assert repo.review_comments(7)[1]["original_line"] == 3
    assert repo.reviews(7)[0]["body"] == "new"


def test_pull_requests_are_found(hub: FakeGitHub, repo: Repository, client: Github) -> None:
    repo.add_pull(8, head_sha="c" * 40, head_repository="eve/shop", branch="topic")
    repo.add_pull(9, head_sha="d" * 40, head_repository=None, branch="gone")
    repo.add_pull(10, head_sha=HEAD, state="closed", branch="topic")
    upstream = hub.add_repository("up/shop")
    upstream.add_pull(1, head_sha=HEAD, head_repository="octo/shop", branch="topic")
    repository = client.get_repo("octo/shop")
    assert [pull.number for pull in repository.get_pulls()] == [9, 8, 7]
    assert [pull.number for pull in repository.get_pulls(head="eve:topic")] == [8]
    assert [pull.number for pull in repository.get_pulls(state="all", head="octo:topic")] == [10, 7]
    _, found = client.requester.requestJsonAndCheck("GET", f"{repository.url}/commits/{HEAD}/pulls")
    assert [(item["base"]["repo"]["full_name"], item["number"], item["state"]) for item in found] == [
        ("octo/shop", 7, "open"), ("octo/shop", 10, "closed"), ("up/shop", 1, "open"),
    ]  # fmt: skip
    fork, deleted = repository.get_pull(8), repository.get_pull(9)
    assert (fork.head.repo.full_name, fork.head.repo.fork, fork.base.repo.full_name) == ("eve/shop", True, "octo/shop")
    assert cast("object", deleted.head.repo) is None
    assert repository.get_pull(7).merge_commit_sha == "e" * 40
    repo.push(7, head_sha=NEXT, merge_sha="f" * 40)
    moved = repository.get_pull(7)
    assert (moved.head.sha, moved.merge_commit_sha, moved.commits) == (NEXT, "f" * 40, 2)
    repo.close(7)
    assert repository.get_pull(7).state == "closed"


def test_the_other_calls(hub: FakeGitHub, call: Any, client: Github) -> None:
    files = list(client.get_repo("octo/shop").get_pull(7).get_files())
    assert [(file.filename, file.patch, file.additions) for file in files] == [
        ("agent.yaml", PATCH, 2), ("logo.png", None, 0),
    ]  # fmt: skip
    hub.add_token("ghp_alice", Token("alice", "classic", {"pull_requests": "read"}))
    assert call("GET", "/user", token="ghp_alice").json()["login"] == "alice"
    for path in ("/meta", "/rate_limit", "/repos/octo/shop", "/repos/octo/shop/issues/7"):
        assert call("GET", path).status_code == 200


def test_graphql_tells_whose_and_whether_hidden(hub: FakeGitHub, repo: Repository, client: Github) -> None:
    pull = client.get_repo("octo/shop").get_pull(7)
    pull.create_issue_comment("ours")
    repo.add_comment(7, author="alice", body="theirs")
    on_line = {"path": "agent.yaml", "line": 1, "body": "inline"}
    repo.add_review(7, author=BOT, author_type="Bot", body="review", comments=[on_line])
    ours, theirs = (comment["node_id"] for comment in repo.comments(7))
    review, inline = repo.reviews(7)[0]["node_id"], repo.review_comments(7)[0]["node_id"]
    repo.minimize(ours)
    _, answer = client.requester.graphql_query(CASES, {"ids": [ours, theirs, review, inline]})
    # REST gives a bot's login another end.
    assert answer["data"]["viewer"] == {"login": BOT}
    nodes = answer["data"]["nodes"]
    assert [node["__typename"] for node in nodes] == [
        "IssueComment", "IssueComment", "PullRequestReview", "PullRequestReviewComment",
    ]  # fmt: skip
    assert [node["author"]["login"] for node in nodes] == [
        "github-actions",
        "alice",
        "github-actions",
        "github-actions",
    ]
    assert [node["viewerDidAuthor"] for node in nodes] == [True, False, True, True]
    assert [node["isMinimized"] for node in nodes] == [True, False, False, False]
    assert nodes[0]["minimizedReason"] == "outdated"
    assert repo.comments(7)[0]["minimized"] == {"reason": "outdated"}


def test_graphql_says_what_is_gone_and_what_is_not_to_be_seen(hub: FakeGitHub, repo: Repository, call: Any) -> None:
    node = repo.add_comment(7, author="alice", body="theirs")["node_id"]
    hub.add_token("ghs_none", Token(BOT))
    for token, ident, kind in (("ghs_all", "IC_none", "NOT_FOUND"), ("ghs_none", node, "FORBIDDEN")):
        answer = call("POST", "/graphql", {"query": CASES, "variables": {"ids": [ident]}}, token)
        assert answer.json()["data"]["nodes"] == [None]
        assert answer.json()["errors"][0]["type"] == kind


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"query": "{ viewer { name } }"}, "Cannot query field 'name'"),
        ({"query": "{ viewer "}, "Syntax Error"),
        ({"query": CASES, "variables": {"ids": ["x"] * 101}}, "more than 100 node ids"),
        ({"query": CASES, "variables": {}}, "$ids"),
        ({}, "A query attribute"),
    ],
)
def test_wrong_queries_are_violations(hub: FakeGitHub, call: Any, body: Any, said: str) -> None:
    answer = call("POST", "/graphql", body)
    assert said in answer.json()["errors"][0]["message"]
    [violation] = hub.take_violations()
    assert said in violation


def test_an_enterprise_server_has_its_api_below_a_path(hub: FakeGitHub, repo: Repository) -> None:
    for number in range(3):
        repo.add_comment(7, author="alice", body=str(number))
    with Github(
        auth=Auth.Token("ghs_all"), base_url=hub.enterprise_url, retry=None, per_page=2, seconds_between_requests=0
    ) as client:
        pull = client.get_repo("octo/shop").get_pull(7)
        assert len(list(pull.get_issue_comments())) == 3
        assert pull.url == f"{hub.enterprise_url}/repos/octo/shop/pulls/7"
        assert client.requester.graphql_query("{ viewer { login } }", {})[1]["data"]["viewer"]["login"] == BOT


# What it refuses.

COMMENTS, CHECKS, REVIEWS = ("/repos/octo/shop/issues/7/comments", "/repos/octo/shop/check-runs",
                             "/repos/octo/shop/pulls/7/reviews")  # fmt: skip


def check(**fields: Any) -> dict[str, Any]:
    return {"name": "eval", "head_sha": HEAD, **fields}


def noted(**fields: Any) -> dict[str, Any]:
    note = {name: value for name, value in {**NOTE, **fields}.items() if value is not None}
    return check(output={**OUTPUT, "annotations": [note]})


def inline(**fields: Any) -> dict[str, Any]:
    comment = {"path": "agent.yaml", "line": 1, "body": "text", **fields}
    return {"body": "text", "event": "COMMENT", "comments": [{k: v for k, v in comment.items() if v is not None}]}


BAD = {
    "comment without a body": (COMMENTS, {}, "'body' is a required property"),
    "comment with an empty body": (COMMENTS, {"body": ""}, "blank"),
    "comment with a blank body": (COMMENTS, {"body": " \n"}, "blank"),
    "comment with another type": (COMMENTS, {"body": 1}, "is not of type 'string'"),
    "comment with an unknown field": (COMMENTS, {"body": "a", "text": "b"}, "'text' was unexpected"),
    "comment too long": (COMMENTS, {"body": "a" * 65_537}, "Body is too long (maximum is 65536 characters)"),
    "no JSON object": (COMMENTS, ["body"], "is not of type 'object'"),
    "check without a name": (CHECKS, {"head_sha": HEAD}, "'name' is a required property"),
    "check with a blank name": (CHECKS, check(name=" "), "Name cannot be blank"),
    "check of no commit": (CHECKS, check(head_sha="main"), "No commit found for SHA"),
    "check completed without conclusion": (CHECKS, check(status="completed"), "Conclusion is required"),
    "check ended without conclusion": (CHECKS, check(completed_at="2026-11-02T10:00:00Z"), "Conclusion is required"),
    "check with another conclusion": (CHECKS, check(conclusion="passed"), "is not one of"),
    "check with GitHub's conclusion": (CHECKS, check(conclusion="stale"), "Only GitHub"),
    "check in progress and concluded": (CHECKS, check(status="in_progress", conclusion="success"), "completed"),
    "check with another status": (CHECKS, check(status="running"), "is not one of"),
    "check with another time": (CHECKS, check(started_at="yesterday"), "is not a 'date-time'"),
    "check with a bad link": (CHECKS, check(details_url="javascript:alert(1)"), "must use http or https"),
    "output without title": (CHECKS, check(output={"summary": "s"}), "'title' is a required property"),
    "output without summary": (CHECKS, check(output={"title": "s"}), "'summary' is a required property"),
    "output with an empty summary": (CHECKS, check(output={"title": "s", "summary": ""}), "summary cannot be blank"),
    "summary too long": (CHECKS, check(output={"title": "s", "summary": "a" * 65_536}), "is too long"),
    "text too long": (CHECKS, check(output={**OUTPUT, "text": "a" * 65_536}), "is too long"),
    "51 annotations": (CHECKS, check(output={**OUTPUT, "annotations": [NOTE] * 51}), "too long"),
    "annotation without message": (CHECKS, noted(message=None), "'message' is a required property"),
    "annotation with an empty message": (CHECKS, noted(message=""), "cannot be blank"),
    "annotation at line 0": (CHECKS, noted(start_line=0), "start at 1"),
    "annotation ending before": (CHECKS, noted(end_line=1), "before start_line"),
    "annotation with columns over lines": (CHECKS, noted(end_line=3, start_column=1), "only support columns"),
    "annotation at column 0": (CHECKS, noted(start_column=0), "Column numbers start at 1"),
    "annotation ending a column before": (CHECKS, noted(start_column=4, end_column=3), "before start_column"),
    "annotation level of the log": (CHECKS, noted(annotation_level="error"), "is not one of"),
    "annotation with a long title": (CHECKS, noted(title="a" * 256), "maximum is 255"),
    "annotation with a large message": (CHECKS, noted(message="ä" * 32_769), "maximum is 64 KB"),
    "annotation with large details": (CHECKS, noted(raw_details="a" * 65_537), "maximum is 64 KB"),
    "annotation of an absolute path": (CHECKS, noted(path="/tree/agent.yaml"), "relative"),
    "annotation of no path": (CHECKS, noted(path=""), "relative"),
    "annotation above the repository": (CHECKS, noted(path="../agent.yaml"), "relative"),
    "review without a body": (REVIEWS, {"event": "COMMENT"}, "blank"),
    "review of nothing": (REVIEWS, {}, "Review cannot be empty"),
    "review with another event": (REVIEWS, {"event": "LIKE", "body": "a"}, "is not one of"),
    "review too long": (REVIEWS, {"event": "COMMENT", "body": "a" * 65_537}, "too long"),
    "review of another commit": (REVIEWS, {"event": "COMMENT", "body": "a", "commit_id": NEXT}, "not part of"),
    "inline comment outside the hunks": (REVIEWS, inline(line=10), "Line could not be resolved"),
    "inline comment on a removed line": (REVIEWS, inline(line=25), "Line could not be resolved"),
    "inline comment on another file": (REVIEWS, inline(path="other.yaml"), "Path could not be resolved"),
    "inline comment on a binary file": (REVIEWS, inline(path="logo.png"), "Line could not be resolved"),
    "inline comment with a position": (REVIEWS, inline(line=None, position=1), "closing down"),
    "inline comment without a line": (REVIEWS, inline(line=None), "closing down"),
    "inline comment without a body": (REVIEWS, inline(body=None), "'body' is a required property"),
    "inline comment with an empty body": (REVIEWS, inline(body=""), "blank"),
    "inline comment too long": (REVIEWS, inline(body="a" * 65_537), "too long"),
    "inline comment that ends before": (REVIEWS, inline(start_line=3), "Start line could not be resolved"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_are_refused(hub: FakeGitHub, repo: Repository, call: Any, name: str) -> None:
    path, body, said = BAD[name]
    answer = call("POST", path, body)
    assert answer.status_code == 422
    [violation] = hub.take_violations()
    assert violation.startswith(f"POST {path}: ")
    assert said in violation
    assert (repo.comments(7), repo.check_runs(HEAD), repo.reviews(7)) == ([], [], [])


@pytest.mark.full
def test_what_is_just_within_the_limits_is_done(call: Any) -> None:
    note = NOTE | {"title": "a" * 255, "message": "ä" * 32_768, "raw_details": "a" * 65_536, "start_column": 1,
                   "end_column": 1}  # fmt: skip
    output = {"title": "t", "summary": "ä" * 65_535, "text": "a" * 65_535, "annotations": [note] * 50}
    assert call("POST", CHECKS, check(output=output, conclusion="neutral")).status_code == 201
    for body in ("a" * 65_536, "\U0001f600" * 65_536):
        assert call("POST", COMMENTS, {"body": body}).status_code == 201
    for line in (1, 2, 3, 4, 21, 22):
        assert call("POST", REVIEWS, inline(line=line)).status_code == 200
    assert call("POST", REVIEWS, inline(line=2, side="LEFT")).status_code == 200


@pytest.mark.parametrize("body", [{"status": "completed"}, {"output": {"title": "t"}}, {"conclusion": "stale"},
                                  {"output": {"summary": "s", "annotations": [NOTE | {"end_line": 1}]}},
                                  {"annotations": [NOTE]}])  # fmt: skip
def test_bad_updates_of_a_check_are_refused(hub: FakeGitHub, repo: Repository, call: Any, body: Any) -> None:
    run = call("POST", CHECKS, check(status="in_progress", output=OUTPUT)).json()
    assert call("PATCH", f"{CHECKS}/{run['id']}", body).status_code == 422
    assert len(hub.take_violations()) == 1
    [left] = repo.check_runs(HEAD)
    assert (left["status"], left["annotations"]) == ("in_progress", [])


def test_bad_updates_of_comments_are_refused(hub: FakeGitHub, repo: Repository, call: Any) -> None:
    comment = call("POST", COMMENTS, {"body": "a"}).json()["id"]
    review = call("POST", REVIEWS, inline()).json()["id"]
    inner = repo.review_comments(7)[0]["id"]
    for method, path in (
        ("PATCH", f"/repos/octo/shop/issues/comments/{comment}"),
        ("PUT", f"{REVIEWS}/{review}"),
        ("PATCH", f"/repos/octo/shop/pulls/comments/{inner}"),
    ):
        for body in ({}, {"body": ""}, {"body": "a" * 65_537}):
            assert call(method, path, body).status_code == 422
            assert len(hub.take_violations()) == 1


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/repos/octo/shop/pulls?per_page=101", 422),
        ("/repos/octo/shop/pulls?per_page=many", 422),
        ("/repos/octo/shop/pulls?page=0", 422),
        ("/repos/octo/shop/pulls?perpage=100", 422),
        ("/repos/octo/shop/pulls?state=merged", 422),
        ("/repos/octo/shop/pulls/seven", 422),
        ("/repos/octo/shop/nothing", 404),
        ("/repos/octo/shop/contents/agent.yaml", 404),
        ("/graphql", 404),
    ],
)
def test_bad_reads_are_violations(hub: FakeGitHub, call: Any, path: str, status: int) -> None:
    assert call("GET", path).status_code == status
    assert len(hub.take_violations()) == 1


def test_what_is_not_json_is_refused(hub: FakeGitHub, repo: Repository) -> None:
    for data in (b"{", b'{"body": "\\ud800"}', b'{"body": "\xff"}'):
        headers = {"Authorization": "Bearer ghs_all", "Content-Type": "application/json"}
        assert requests.post(hub.url + COMMENTS, data=data, headers=headers, timeout=60).status_code == 400
        assert len(hub.take_violations()) == 1
    assert repo.comments(7) == []


def test_what_is_not_there(call: Any) -> None:
    for path in ("/repos/octo/other", "/repos/octo/shop/pulls/8", "/repos/octo/shop/issues/8/comments",
                 "/repos/octo/shop/issues/comments/1", "/repos/octo/shop/pulls/comments/1", f"{CHECKS}/1",
                 f"{REVIEWS}/1"):  # fmt: skip
        assert call("GET", path).status_code == 404


# Tokens.

READ, WRITE = "Resource not accessible by integration", "You must authenticate via a GitHub App."
FINE = "Resource not accessible by personal access token"


@pytest.mark.parametrize(
    ("kind", "permissions", "method", "path", "status", "said"),
    [
        ("installation", {"checks": "write"}, "POST", CHECKS, 201, None),
        ("installation", {"checks": "read"}, "POST", CHECKS, 403, READ),
        ("installation", {}, "POST", CHECKS, 403, READ),
        ("classic", ALL, "POST", CHECKS, 403, WRITE),
        ("fine-grained", ALL, "POST", CHECKS, 403, WRITE),
        ("fine-grained", ALL, "GET", f"/repos/octo/shop/commits/{HEAD}/check-runs", 403, FINE),
        ("installation", {"issues": "write"}, "POST", COMMENTS, 201, None),
        ("installation", {"pull_requests": "write"}, "POST", COMMENTS, 201, None),
        ("fine-grained", {"pull_requests": "write"}, "POST", COMMENTS, 201, None),
        ("classic", {"pull_requests": "write"}, "POST", COMMENTS, 201, None),
        ("installation", {"pull_requests": "read", "issues": "read"}, "POST", COMMENTS, 403, READ),
        ("fine-grained", {"issues": "read"}, "POST", COMMENTS, 403, FINE),
        ("classic", {}, "POST", COMMENTS, 404, "Not Found"),
        ("installation", {"issues": "read"}, "GET", COMMENTS, 200, None),
        ("installation", {"contents": "read"}, "GET", COMMENTS, 403, READ),
        ("installation", {"pull_requests": "read"}, "GET", "/repos/octo/shop/pulls/7", 200, None),
        ("installation", {"issues": "write"}, "GET", "/repos/octo/shop/pulls/7", 403, READ),
        ("installation", {"issues": "write"}, "POST", REVIEWS, 403, READ),
        ("installation", ALL, "GET", "/user", 403, READ),
        ("installation", {}, "GET", "/rate_limit", 200, None),
    ],
)
def test_tokens_do_what_they_may(
    hub: FakeGitHub, call: Any, kind: Any, permissions: Any, method: str, path: str, status: int, said: str | None
) -> None:
    login = BOT if kind == "installation" else "alice"
    hub.add_token("given", Token(login, kind, permissions))
    bodies = {CHECKS: check(), COMMENTS: {"body": "a"}, REVIEWS: {"event": "COMMENT", "body": "a"}}
    answer = call(method, path, bodies[path] if method == "POST" else None, "given")
    assert answer.status_code == status
    assert said is None or answer.json()["message"] == said
    if status == 201 and path == COMMENTS:
        assert answer.json()["user"]["login"] == login


@pytest.mark.parametrize(("token", "said"), [(None, "Requires authentication"), ("ghs_other", "Bad credentials")])
def test_unknown_tokens_do_nothing(call: Any, token: str | None, said: str) -> None:
    for path, body in (
        ("/repos/octo/shop", None),
        (COMMENTS, {"body": "a"}),
        ("/graphql", {"query": "{viewer{login}}"}),
    ):
        answer = call("POST" if body else "GET", path, body, token)
        assert (answer.status_code, answer.json()["message"]) == (401, said)


@pytest.mark.parametrize(("permission", "status"), [("issues", 410), ("pull_requests", 403)])
def test_a_repository_without_issues_takes_no_comments(
    hub: FakeGitHub, call: Any, permission: str, status: int
) -> None:
    closed = hub.add_repository("octo/closed", issues=False)
    closed.add_pull(7, head_sha=HEAD)
    hub.add_token("given", Token(BOT, permissions={permission: "write"}))
    path = "/repos/octo/closed/issues/7/comments"
    assert call("GET", path, token="given").status_code == status
    assert call("POST", path, {"body": "a"}, token="given").status_code == status


def test_another_apps_check_run_is_not_ours(hub: FakeGitHub, call: Any) -> None:
    hub.add_token("other", Token("other-app[bot]", permissions=ALL))
    run = call("POST", CHECKS, check(), "other").json()
    answer = call("PATCH", f"{CHECKS}/{run['id']}", {"conclusion": "success"})
    assert answer.status_code == 403


# Trouble.


def test_faults_are_used_up_in_their_order(hub: FakeGitHub, repo: Repository, call: Any) -> None:
    hub.fail(Fault("POST", r"/comments$", status=502, body="<html>Bad gateway</html>"))
    hub.fail(Fault("POST", r"/comments$", status=403, body={"message": "limit"}, headers={"Retry-After": "7"}, times=2))
    hub.fail(Fault("GET", r"/comments$", query=r"page=2", status=500, body={"message": "boo"}, times=None))
    answers = [call("POST", COMMENTS, {"body": "a"}) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [502, 403, 403, 201]
    assert answers[0].text == "<html>Bad gateway</html>"
    assert answers[1].headers["Retry-After"] == "7"
    assert len(repo.comments(7)) == 1
    assert [call("GET", f"{COMMENTS}?page=2").status_code for _ in range(3)] == [500, 500, 500]
    assert call("GET", COMMENTS).status_code == 200
    hub.heal()
    assert call("GET", f"{COMMENTS}?page=2").status_code == 200


@pytest.mark.parametrize(("drop", "left"), [("before", 0), ("after", 1)])
def test_connections_are_dropped(hub: FakeGitHub, repo: Repository, call: Any, drop: Any, left: int) -> None:
    hub.fail(Fault("POST", COMMENTS, drop=drop))
    with pytest.raises(requests.ConnectionError):
        call("POST", COMMENTS, {"body": "a"})
    assert len(repo.comments(7)) == left
    assert call("POST", COMMENTS, {"body": "a"}).status_code == 201


def test_a_late_answer_comes_after_the_deed(hub: FakeGitHub, repo: Repository, call: Any) -> None:
    hub.fail(Fault("POST", COMMENTS, delay=600))
    with pytest.raises(requests.Timeout):
        requests.post(
            hub.url + COMMENTS, json={"body": "a"}, headers={"Authorization": "Bearer ghs_all"}, timeout=(5, 0.03)
        )
    assert wait_until(lambda: len(repo.comments(7)) == 1)


def test_graphql_fails_as_other_calls(hub: FakeGitHub, call: Any) -> None:
    hub.fail(Fault("POST", "/graphql$", status=404, body={"message": "Not Found"}))
    query = {"query": "{ viewer { login } }"}
    assert [call("POST", "/graphql", query).status_code for _ in range(2)] == [404, 200]


def test_a_request_that_meets_a_fault_is_judged_all_the_same(hub: FakeGitHub, call: Any) -> None:
    hub.fail(Fault("*", "", status=500, body={"message": "boo"}))
    assert call("POST", COMMENTS, {}).status_code == 500
    assert len(hub.take_violations()) == 1


def test_the_client_meets_the_faults(hub: FakeGitHub, client: Github) -> None:
    hub.fail(Fault("PATCH", r"/issues/comments/", status=422, body={"message": "Validation Failed"}))
    comment = client.get_repo("octo/shop").get_pull(7).create_issue_comment("a")
    with pytest.raises(GithubException) as caught:
        comment.edit("b")
    assert (caught.value.status, caught.value.message) == (422, "Validation Failed")


def test_reads_are_retried_by_the_client(hub: FakeGitHub, repo: Repository) -> None:
    hub.fail(Fault("GET", r"/pulls/7$", status=502, body={"message": "bad gateway"}))
    retry = GithubRetry(total=2, backoff_factor=0)
    with Github(auth=Auth.Token("ghs_all"), base_url=hub.url, retry=retry, seconds_between_requests=0) as client:
        assert client.get_repo("octo/shop").get_pull(7).number == 7
    assert [call.path for call in hub.requests] == ["/repos/octo/shop", *["/repos/octo/shop/pulls/7"] * 2]


# The server.


def test_requests_are_remembered(hub: FakeGitHub, call: Any) -> None:
    call("GET", f"{COMMENTS}?per_page=100&page=2")
    call("POST", COMMENTS, {"body": "a"}, None)
    first, second = hub.requests
    assert (first.method, first.path, first.query, first.body, first.token) == (
        "GET", COMMENTS, {"per_page": "100", "page": "2"}, None, "ghs_all",
    )  # fmt: skip
    assert (second.method, second.body, second.token) == ("POST", {"body": "a"}, None)


def test_it_ends_at_once_with_calls_under_way() -> None:
    with FakeGitHub() as hub, requests.Session() as session, ThreadPoolExecutor(1) as threads:
        url = f"{hub.url}/meta"
        assert session.get(url, timeout=60).status_code == 401
        hub.fail(Fault("GET", "/meta", delay=600))
        late = threads.submit(requests.get, url, timeout=300)
        assert wait_until(lambda: len(hub.requests) == 2)
        hub.close()
        # Both an idle connection and one that waits for its answer.
        with pytest.raises(requests.ConnectionError):
            session.get(url, timeout=60)
        assert isinstance(late.exception(timeout=60), requests.ConnectionError)


# Commits, Git objects and artifacts.


def test_commits_are_compared_and_branches_moved(hub: FakeGitHub, repo: Repository, client: Github) -> None:
    hub.add_token("ghs_all", Token(BOT, permissions={"contents": "write"}))
    git = repo.git
    first = git.commit({"agent.yaml": "0", "prompts/a.md": "a"})
    main, topic = git.commit({"agent.yaml": "1"}, first), git.commit({"new": "x"}, first)
    git.refs |= {"refs/heads/main": main, "refs/heads/feature/topic": topic}
    shop = client.get_repo("octo/shop")
    compared = shop.compare("main", "feature/topic")
    assert (compared.merge_base_commit.sha, compared.ahead_by, compared.behind_by) == (first, 1, 1)
    assert [commit.sha for commit in shop.get_commits(sha="main")] == [main, first]
    assert [entry.path for entry in shop.get_git_tree(main).tree] == ["agent.yaml", "prompts"]

    blob = shop.create_git_blob("text", "utf-8")
    element = InputGitTreeElement("deep/file.txt", "100644", "blob", sha=blob.sha)
    tree = shop.create_git_tree([element], shop.get_git_tree(main))
    commit = shop.create_git_commit("add", tree, [shop.get_git_commit(main)])
    reference = shop.get_git_ref("heads/feature/topic")
    with pytest.raises(GithubException, match="Update is not a fast forward"):
        reference.edit(commit.sha)
    reference.edit(commit.sha, force=True)
    assert git.read("feature/topic", "deep/file.txt") == b"text"
    assert git.read("feature/topic", "agent.yaml") == b"1"
    with pytest.raises(GithubException, match="Reference already exists"):
        shop.create_git_ref("refs/heads/main", first)


def test_names_of_objects_are_those_of_git(repo: Repository) -> None:
    git = repo.git
    assert git.write_blob(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert git.write_tree({}) == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def test_artifacts_lead_to_a_storage_that_takes_no_token(
    hub: FakeGitHub, repo: Repository, call: Callable[..., requests.Response]
) -> None:
    hub.add_token("ghs_all", Token(BOT, permissions={"actions": "read"}))
    run = repo.actions.add_run("a" * 40)
    artifact, expired = (repo.actions.upload(run, {"results.json": b"{}"}) for _ in range(2))
    expired.expired = True
    listed = call("GET", "/repos/octo/shop/actions/artifacts?name=holodeck-results").json()["artifacts"]
    assert [(item["id"], item["expired"]) for item in listed] == [(expired.id, True), (artifact.id, False)]
    path = "/repos/octo/shop/actions/artifacts/{}/zip"
    assert call("GET", path.format(expired.id)).status_code == 410
    moved = call("GET", path.format(artifact.id), allow_redirects=False)
    assert (moved.status_code, moved.content) == (302, b"{}")
    storage = moved.headers["Location"].removeprefix(hub.url)
    assert call("GET", storage, token=None).content == artifact.archive
    assert call("GET", storage.partition("?")[0], token=None).status_code == 403
    assert call("GET", storage).status_code == 400
    assert hub.take_violations() == [f"GET {storage.partition('?')[0]}: a token was sent to the storage"]


# The contract.


def test_the_slice_is_what_the_script_cuts() -> None:
    spec = description()
    assert {path: {name for name in item if name != "parameters"} for path, item in spec["paths"].items()} == {
        path: set(methods) for path, methods in OPERATIONS.items()
    }
    assert cut_description(spec) == spec
    text = json.dumps(cut_description(spec), separators=(",", ":")).encode()
    assert gzip.decompress(SLICE.read_bytes()) == text


def test_the_script_names_what_the_description_lost() -> None:
    spec = dict(description())
    with pytest.raises(SliceError, match=r"check-runs: the description has no post"):
        cut_description({**spec, "paths": {**spec["paths"], "/repos/{owner}/{repo}/check-runs": {}}})
    with pytest.raises(SliceError, match="the description refers to it and does not have it"):
        cut_description({**spec, "components": {**spec["components"], "schemas": {}}})


def test_every_call_that_is_carried_out_is_described_and_needs_something() -> None:
    described = {(method.upper(), path) for path, methods in OPERATIONS.items() for method in methods}
    assert served() <= described
    assert served() == NEEDS.keys()


def test_answers_are_judged() -> None:
    operation = contract().find("GET", "/repos/octo/shop/issues/7/comments")
    assert operation is not None
    assert contract().answer_problems(operation, "/repos/octo/shop/issues/7/comments", 200, [{"id": 1}]) != []
    assert contract().answer_problems(operation, "/repos/octo/shop/issues/7/comments", 200, []) == []


@given(
    st.lists(
        st.tuples(st.integers(1, 30), st.lists(st.sampled_from([" a", "-b", "+c"]), min_size=1, max_size=6)), max_size=4
    )
)
def test_lines_of_a_diff(hunks: list[tuple[int, list[str]]]) -> None:
    """Every line of every hunk has its place, and no other line has one."""
    left = right = 1
    text: list[str] = []
    expected: set[tuple[str, int]] = set()
    for gap, lines in hunks:
        left, right = left + gap, right + gap
        text.append(f"@@ -{left} +{right} @@ def f():")
        for line in lines:
            if line[0] in " -":
                expected.add(("LEFT", left))
                left += 1
            if line[0] in " +":
                expected.add(("RIGHT", right))
                right += 1
            text.append(line)
        text.append("\\ No newline at end of file")
    assert places("\n".join(text)).keys() == expected
    assert places(None) == {}


def test_positions_count_the_headers_of_later_hunks() -> None:
    found = places(PATCH)
    assert (found["RIGHT", 4].position, found["RIGHT", 21].position) == (5, 7)
    assert found["RIGHT", 21].hunk == "@@ -20,2 +21,2 @@\n x"
