"""The calls to GitHub: what they ask, what they make of the answers, and that no answer is more than an `ApiError`."""

from __future__ import annotations

import gzip
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from github.CheckRun import CheckRun
from github.File import File
from github.IssueComment import IssueComment
from github.PullRequest import PullRequest
from github.Requester import Requester
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holodeck_action import __version__
from holodeck_action.github.channels import first_line
from holodeck_action.github.lookup import read_pull
from holodeck_action.github.rest.api import Api, Ownership, connect, every, page_url, reading
from holodeck_action.github.rest.objects import ApiError, Pull
from tests.github import calls
from tests.github.fake import FakeGitHub, Fault, Repository, Token
from tests.github.fake.permissions import Permissions
from tests.github.raw import answer, serving

TOKEN = "ghs_0123456789abcdef"
SHA = "a" * 40
PATCH = "@@ -1,2 +1,3 @@\n a\n+b\n c"
ALL: Permissions = {"checks": "write", "pull_requests": "write", "issues": "write", "contents": "read"}


@pytest.fixture
def repository(hub: FakeGitHub) -> Repository:
    return hub.add_repository("octo/shop")


@pytest.fixture
def api(hub: FakeGitHub, repository: Repository) -> Iterator[Api]:
    hub.add_token(TOKEN, Token(login="github-actions[bot]", kind="installation", permissions=ALL))
    files = [
        {"filename": "agent.yaml", "status": "modified", "patch": PATCH},
        {"filename": "logo.png", "status": "added"},
    ]
    repository.add_pull(7, head_sha=SHA, merge_sha="c" * 40, files=files)
    repository.add_pull(8, head_sha="d" * 40, head_repository=None)
    repository.add_pull(9, head_sha="e" * 40, head_repository="eve/shop", branch="topic", state="closed")
    repository.add_pull(10, head_sha="f" * 40, head_repository="eve/shop", branch="topic")
    with connect(TOKEN, hub.url, "octo/shop", pause=refuse) as api:
        yield api


def refuse(seconds: float) -> None:
    raise AssertionError(f"nothing is to be waited for, not {seconds} s")


def test_pull(api: Api) -> None:
    assert calls.pull(api, 7) == Pull(7, "open", SHA, "octo/shop", "octo/shop", "c" * 40)


def test_pull_of_a_deleted_fork(api: Api) -> None:
    assert calls.pull(api, 8) == Pull(8, "open", "d" * 40, None, "octo/shop", None)


def test_comment_is_made_and_changed(api: Api, hub: FakeGitHub) -> None:
    made = calls.create_comment(api, 7, "first ✓")
    assert (made.body, made.user.type) == ("first ✓", "Bot")
    assert page_url(made).startswith("http")
    changed = calls.update_comment(api, made.id, "second")
    assert (changed.id, changed.body) == (made.id, "second")
    assert [item.body for item in calls.comments(api, 7)] == ["second"]
    assert {call.token for call in hub.requests} == {TOKEN}


def test_half_a_character_does_not_cost_the_comment(api: Api) -> None:
    assert calls.create_comment(api, 7, "cut \ud83d off \U0001f389").body == "cut ? off \U0001f389"


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 250])
def test_all_pages_of_comments(api: Api, hub: FakeGitHub, repository: Repository, count: int) -> None:
    for number in range(count):
        repository.add_comment(7, author="alice", body=f"comment {number}")
    found = calls.comments(api, 7)
    assert [comment.body for comment in found] == [f"comment {number}" for number in range(count)]
    assert len(hub.requests) == max(1, -(-count // 100))
    assert all(call.query["per_page"] == "100" for call in hub.requests)


def test_check_run(api: Api) -> None:
    made = calls.create_check(api, SHA, "holodeck", "run/1")
    assert (made.external_id, made.output.annotations_count) == ("run/1", 0)
    annotation = {"path": "agent.yaml", "start_line": 2, "end_line": 2, "annotation_level": "failure", "message": "no"}
    for count in (50, 1):
        calls.annotate(api, made.id, [annotation] * count)
    assert calls.annotation_count(api, made.id) == 51
    assert [run.id for run in calls.checks(api, SHA, "holodeck")] == [made.id]
    assert calls.checks(api, SHA, "another") == ()


def test_older_check_runs_of_a_name_are_found(api: Api) -> None:
    made = {calls.create_check(api, SHA, "holodeck", str(number)).id for number in range(3)}
    assert {run.id for run in calls.checks(api, SHA, "holodeck")} == made


def test_files(api: Api) -> None:
    files = every(api.repository.get_pull(7).get_files(), "filename", "patch")
    assert [(file.filename, file.patch) for file in files] == [("agent.yaml", PATCH), ("logo.png", None)]


def test_review(api: Api, repository: Repository) -> None:
    made = calls.create_review(api, 7, SHA, "one case fails", [("agent.yaml", 2, "here")])
    assert (made.body, made.user.type) == ("one case fails", "Bot")
    assert calls.update_review(api, 7, made.id, "none fails").body == "none fails"
    assert [review.body for review in api.repository.get_pull(7).get_reviews()] == ["none fails"]
    (inline,) = calls.review_comments(api, 7)
    (shown,) = repository.review_comments(7)
    assert (shown["path"], shown["line"], inline.id, inline.body) == ("agent.yaml", 2, shown["id"], "here")
    inline.edit("passes now")
    assert [item.body for item in calls.review_comments(api, 7)] == ["passes now"]


def test_inline_comment_whose_line_is_gone(api: Api, repository: Repository) -> None:
    calls.create_review(api, 7, SHA, "look", [("agent.yaml", 2, "here")])
    repository.push(7, head_sha="b" * 40, files=[])
    (inline,) = calls.review_comments(api, 7)
    assert inline.body == "here"


def test_ownership(api: Api, repository: Repository) -> None:
    own, hidden = calls.create_comment(api, 7, "own"), calls.create_comment(api, 7, "hidden")
    repository.minimize(hidden.node_id)
    foreign = repository.add_comment(7, author="alice", body="foreign")["node_id"]
    namesake = repository.add_comment(7, author="github-actions", body="a person", author_type="User")["node_id"]
    review = calls.create_review(api, 7, SHA, "look", [("agent.yaml", 2, "here")])
    inline = calls.review_comments(api, 7)[0]
    ids = [own.node_id, hidden.node_id, foreign, namesake, review.node_id, inline.node_id, "IC_gone", own.node_id]
    assert api.ownership(ids) == {
        own.node_id: Ownership(own=True, minimized=False),
        hidden.node_id: Ownership(own=True, minimized=True),
        foreign: Ownership(own=False, minimized=False),
        namesake: Ownership(own=False, minimized=False),
        review.node_id: Ownership(own=True, minimized=False),
        inline.node_id: Ownership(own=True, minimized=False),
    }
    assert api.ownership([]) == {}


def test_ownership_of_many(api: Api, hub: FakeGitHub, repository: Repository) -> None:
    ids = [repository.add_comment(7, author="alice", body=f"{number}")["node_id"] for number in range(201)]
    assert len(api.ownership(ids)) == 201
    assert [len(call.body["variables"]["ids"]) for call in hub.requests] == [100, 100, 1]


@pytest.mark.parametrize(
    ("viewer", "kind", "author", "own"),
    [
        ("app[bot]", "Bot", "app", True),
        ("app[bot]", "User", "app", False),
        ("app[bot]", "Bot", "app[bot]", True),
        ("app[bot]", "Bot", "other", False),
        ("alice", "User", "alice", True),
        ("alice", "Bot", "alice[bot]", False),
    ],
)
def test_whose_a_comment_is_when_github_does_not_say(
    api: Api, hub: FakeGitHub, viewer: str, kind: str, author: str, own: bool
) -> None:
    node = {"id": "IC_1", "viewerDidAuthor": False, "author": {"__typename": kind, "login": author}}
    hub.fail(Fault("POST", "/graphql", body={"data": {"viewer": {"login": viewer}, "nodes": [node, None]}}, status=200))
    assert api.ownership(["IC_1", "IC_2"]) == {"IC_1": Ownership(own=own, minimized=False)}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"errors": [{"type": "FORBIDDEN", "message": "no"}], "data": {"viewer": None}}, "denied"),
        ({"errors": [{"type": "RATE_LIMITED", "message": "no"}]}, "rate_limited"),
        ({"errors": [{"type": "NOT_FOUND", "message": "no"}]}, "not_found"),
        ({"errors": [{"message": "Field 'viewer' doesn't exist"}]}, "invalid"),
        ({"errors": [17]}, "invalid"),
        ({"errors": [{"type": ["x"], "message": 3}]}, "invalid"),
        ({"data": None}, "unavailable"),
        ({"data": {"viewer": {"login": "x"}, "nodes": []}}, "unavailable"),
        ({"data": {"viewer": {"login": "x"}, "nodes": [{"id": 5}]}}, "unavailable"),
        ([], "unavailable"),
        ("<html>", "unavailable"),
    ],
)
@pytest.mark.usefixtures("api")
def test_graphql_that_does_not_tell(hub: FakeGitHub, body: Any, kind: str) -> None:
    hub.fail(Fault("POST", "/graphql", status=200, body=body, times=None))
    with (
        connect(TOKEN, hub.url, "octo/shop", pause=lambda seconds: None) as api,
        pytest.raises(ApiError) as caught,
    ):
        api.ownership(["IC_1"])
    assert (caught.value.kind, caught.value.accepted) == (kind, False)


def test_github_without_graphql(api: Api, hub: FakeGitHub) -> None:
    hub.fail(Fault("POST", "/graphql", status=404, body={"message": "Not Found"}))
    with pytest.raises(ApiError) as caught:
        api.ownership(["IC_1"])
    assert caught.value.kind == "not_found"


def test_enterprise_server(api: Api, hub: FakeGitHub) -> None:
    with connect(TOKEN, hub.enterprise_url, "octo/shop", pause=refuse) as api:
        comment = calls.create_comment(api, 7, "on our own server")
        assert api.ownership([comment.node_id])[comment.node_id].own
    assert [call.path for call in hub.requests] == ["/api/v3/repos/octo/shop/issues/7/comments", "/api/graphql"]


def test_urls_of_an_enterprise_server_are_requested_from_it(hub: FakeGitHub, api: Api, repository: Repository) -> None:
    """Comments, check runs and further pages are requested by URLs of answers."""
    for number in range(100):
        repository.add_comment(7, author="alice", body=f"{number}")
    ours = calls.create_comment(api, 7, "first").id
    before = len(hub.requests)
    with connect(TOKEN, hub.enterprise_url, "octo/shop", pause=refuse) as there:
        (comment,) = (item for item in calls.comments(there, 7) if item.id == ours)
        comment.edit("changed")
        calls.annotate(there, calls.create_check(there, SHA, "holodeck", "1").id, [])
        assert there.repository.default_branch == "main"
    assert len(hub.requests) == before + 6
    assert all(call.path.startswith("/api/v3/repos/octo/shop") for call in hub.requests[before:])
    assert calls.comments(api, 7)[-1].body == "changed"


def test_a_server_whose_answers_have_another_name_is_asked_by_ours() -> None:
    """As behind a proxy; and an answer cannot send the token elsewhere."""
    comment = COMMENT | {"url": "https://github.example/api/v3/repos/octo/shop/issues/comments/1"}
    with (
        serving(lambda number, text: [answer(comment if number else [comment])]) as (url, requests),
        connect(TOKEN, f"{url}/api/v3", "octo/shop", pause=refuse) as api,
    ):
        calls.comments(api, 7)[0].edit("changed")
    assert requests[1].startswith("PATCH /api/v3/repos/octo/shop/issues/comments/1 ")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid"),
        (401, "denied"),
        (403, "denied"),
        (404, "not_found"),
        (408, "unavailable"),
        (409, "invalid"),
        (410, "not_found"),
        (413, "invalid"),
        (422, "invalid"),
        (500, "unavailable"),
        (599, "unavailable"),
    ],
)
def test_kinds_of_errors(api: Api, hub: FakeGitHub, status: int, kind: str) -> None:
    hub.fail(Fault("POST", "/comments$", status=status, body={"message": "Not this way"}))
    with pytest.raises(ApiError) as caught:
        calls.create_comment(api, 7, "new")
    assert (caught.value.kind, caught.value.status) == (kind, status)
    assert caught.value.accepted is (kind == "unavailable")
    assert str(caught.value) == f"GitHub answered {status} to POST /repos/octo/shop/issues/7/comments: Not this way"


def test_what_the_token_may_not(hub: FakeGitHub) -> None:
    hub.add_token(TOKEN, Token(login="alice", kind="classic", permissions=ALL))
    hub.add_repository("octo/shop").add_pull(7, head_sha=SHA)
    with connect(TOKEN, hub.url, "octo/shop", pause=refuse) as api:
        with pytest.raises(ApiError, match="You must authenticate via a GitHub App") as check:
            calls.create_check(api, SHA, "holodeck", "1")
        assert check.value.kind == "denied"
        calls.create_comment(api, 7, "as myself")
    with connect("ghp_unknown", hub.url, "octo/shop", pause=refuse) as api, pytest.raises(ApiError) as unknown:
        calls.comments(api, 7)
    assert (unknown.value.kind, unknown.value.status) == ("denied", 401)


def test_reasons_are_shown(api: Api, hub: FakeGitHub) -> None:
    errors = [
        {"field": "body", "message": "Body is too long (maximum is 65536 characters)"},
        "and more",
        {"code": "x"},
        5,
    ]
    hub.fail(Fault("POST", "/comments$", status=422, body={"message": "Validation Failed", "errors": errors}))
    with pytest.raises(
        ApiError, match=r"Validation Failed; Body is too long \(maximum is 65536 characters\); and more"
    ):
        calls.create_comment(api, 7, "new")


@pytest.mark.parametrize(
    "message",
    [
        f"your token {TOKEN} is wrong",
        f"{'x' * 285}{TOKEN}{'x' * 290}",
        f"hidden: {TOKEN[:9]}\u200b{TOKEN[9:]}",
        "::error::stop\n::stop-commands::x\n##[error]\x1b[31m",
        "long " * 10_000,
    ],
)
def test_message_of_an_error_is_hostile(api: Api, hub: FakeGitHub, message: str) -> None:
    hub.fail(Fault("GET", "/pulls/7$", status=422, body={"message": message}))
    with pytest.raises(ApiError) as caught:
        calls.pull(api, 7)
    shown = str(caught.value)
    assert TOKEN not in shown
    assert TOKEN[:8] not in shown
    assert len(shown) < 450
    assert shown.isprintable()
    assert "##[" not in shown


def raising(
    script: Callable[[int, str], Iterable[bytes]], monotonic: Callable[[], float] = time.monotonic
) -> tuple[ApiError, ApiError, int]:
    """Return the error of a read and of a write to a server, and how many requests came."""
    with (
        serving(script) as (url, requests),
        connect(TOKEN, url, "octo/shop", pause=lambda seconds: None, monotonic=monotonic) as api,
    ):
        with pytest.raises(ApiError) as read:
            calls.comments(api, 7)
        with pytest.raises(ApiError) as written:
            calls.create_comment(api, 7, "new")
        for error in (read.value, written.value):
            assert TOKEN not in str(error)
            assert str(error).count("\n") == 0
        return read.value, written.value, len(requests)


COMMENT = {"id": 1, "node_id": "IC_1", "body": "b", "user": {"login": "a", "type": "User"}, "html_url": "https://h/1"}


@pytest.mark.parametrize(
    "bad",
    [
        answer("<!DOCTYPE html><title>Sign in</title>"),
        answer("null"),
        answer(""),
        answer(b"\xff\xfe\x00"),
        answer("[" * 100_000),
        answer('{"id": ' + "9" * 5_000 + "}"),
        answer("true"),
        answer("5"),
        answer({}),
        answer([1]),
        answer([None]),
        answer([COMMENT | {"id": "1"}]),
        answer([COMMENT | {"id": True}]),
        answer([COMMENT | {"id": 0}]),
        answer([COMMENT | {"body": {}}]),
        answer([{key: value for key, value in COMMENT.items() if key != "node_id"}]),
        answer(COMMENT | {"id": -1}),
        b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
        answer([COMMENT | {"id": None}], "X-RateLimit-Remaining: many", "X-RateLimit-Limit: 1e999"),
        answer("", "Location: https://elsewhere.example/", status=301),
        answer("", "Location: //elsewhere.example/repos/octo/shop", status=307),
        answer("", "Location: https://127.0.0.1/repos/octo/shop/issues/7/comments", status=308),
        answer("", "Location: http://[::1/", status=302),
        answer("", "Location: ", status=302),
        answer("", status=301),
        answer("", status=304),
    ],
)
def test_broken_answers(bad: bytes) -> None:
    read, written, count = raising(lambda number, text: [bad])
    assert (read.kind, read.accepted) == ("unavailable", False)
    assert (written.kind, written.accepted) == ("unavailable", True)
    assert count <= 8


@pytest.mark.parametrize("line", [b"", b"no HTTP at all\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"])
def test_what_is_no_answer(line: bytes) -> None:
    read, written, count = raising(lambda number, text: [line])
    assert (read.kind, read.accepted) == ("unavailable", False)
    assert (written.kind, written.accepted) == ("unavailable", True)
    assert count == 6


def test_redirects_are_followed_within_the_api() -> None:
    def script(number: int, text: str) -> list[bytes]:
        if text.startswith("POST /repositories/1/issues/7/comments "):
            return [answer(COMMENT, status=201)]
        return [answer("", "Location: /repositories/1/issues/7/comments", status=307)]

    with serving(script) as (url, requests), connect(TOKEN, url, "octo/shop", pause=refuse) as api:
        assert calls.create_comment(api, 7, "moved").id == 1
    assert len(requests) == 2
    assert all(text.endswith('{"body": "moved"}') for text in requests)


def test_redirects_in_a_circle() -> None:
    read, written, count = raising(
        lambda number, text: [answer("", f"Location: /repositories/{number % 2}", status=301)]
    )
    assert (read.kind, written.kind, count) == ("unavailable", "unavailable", 8)


def test_token_does_not_leave_the_host() -> None:
    with serving(lambda number, text: [answer([])]) as (elsewhere, stolen):
        moved = answer("", f"Location: {elsewhere}/repos/octo/shop/issues/7/comments", status=301)
        _, _, count = raising(lambda number, text: [moved])
    assert (stolen, count) == ([], 2)


PAGES = "/repos/octo/shop/issues/7/comments?page="


@pytest.mark.parametrize(
    ("link", "problem", "count"),
    [
        (f"<{PAGES}2>", "repeats a page", 2),
        (f"<https://elsewhere.example{PAGES}2>", "repeats a page", 2),
        ("</x?page=1>", "a URL outside of the API", 1),
        ("<https://elsewhere.example/>", "a URL outside of the API", 1),
    ],
)
def test_pages_that_lead_astray(link: str, problem: str, count: int) -> None:
    page = answer([COMMENT], f'Link: {link}; rel="next"')
    with (
        serving(lambda number, text: [page]) as (url, requests),
        connect(TOKEN, url, "octo/shop", pause=refuse) as api,
        pytest.raises(ApiError, match=problem),
    ):
        calls.comments(api, 7)
    assert len(requests) == count


def test_pages_without_end() -> None:
    def script(number: int, text: str) -> list[bytes]:
        return [answer([COMMENT | {"id": number + 1}], f'Link: <{PAGES}{number + 2}>; rel="next"')]

    with (
        serving(script) as (url, requests),
        connect(TOKEN, url, "octo/shop", pause=refuse) as api,
        pytest.raises(ApiError, match="more than 100 pages"),
    ):
        calls.comments(api, 7)
    assert len(requests) == 100


def test_entries_that_move_between_pages_are_there_once() -> None:
    more = f'Link: <{PAGES}2>; rel="next"'
    pages = [answer([COMMENT], more), answer([COMMENT | {"id": 2}, COMMENT])]
    with serving(lambda number, text: [pages[number]]) as (url, _), connect(TOKEN, url, "octo/shop") as api:
        assert [comment.id for comment in calls.comments(api, 7)] == [1, 2]


def test_huge_body() -> None:
    sent: list[int] = []

    def script(number: int, text: str) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
        for _ in range(200):
            yield b" " * 1024 * 1024
            sent.append(number)

    read, written, count = raising(script)
    assert "larger than" in str(read)
    assert (read.kind, written.accepted, count) == ("unavailable", True, 2)
    # The rest of the body is not read.
    assert max(sent.count(number) for number in range(count)) < 100


def test_body_that_is_huge_once_decompressed() -> None:
    bomb = gzip.compress(bytes(100 * 1024 * 1024), compresslevel=1)
    read, _, count = raising(lambda number, text: [answer(bomb, "Content-Encoding: gzip")])
    assert "larger than" in str(read)
    assert count == 2


@pytest.mark.parametrize("header", ["X-Plain: yes", "Content-Encoding: gzip"])
def test_error_without_end(header: str) -> None:
    def script(number: int, text: str) -> Iterator[bytes]:
        yield f"HTTP/1.1 502 Bad\r\nConnection: close\r\n{header}\r\n\r\n".encode()
        while True:
            yield b" " * 1024 * 1024

    read, _, count = raising(script)
    assert (read.kind, read.status, count) == ("unavailable", 502, 6)


def test_body_in_drops() -> None:
    def script(number: int, text: str) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n["
        while True:
            yield b" "

    # Each part of the body takes a second.
    seconds = itertools.count(0.0)
    read, written, count = raising(script, monotonic=lambda: next(seconds))
    assert "did not arrive in time" in str(read)
    assert (written.accepted, count) == (True, 3)


def test_answer_with_unknown_author_and_link_is_read() -> None:
    hostile = COMMENT | {"user": None, "html_url": "javascript:alert(1)", "body": None}
    with serving(lambda number, text: [answer([hostile])]) as (url, _), connect(TOKEN, url, "octo/shop") as api:
        comment: Any = calls.comments(api, 7)[0]
        assert (comment.user, comment.body) == (None, None)
        assert (first_line(comment.body), page_url(comment)) == ("", "")


def test_text_that_is_not_all_unicode_is_read() -> None:
    data = json.dumps([COMMENT]).replace('"b"', '"b?"').encode().replace(b"b?", b"b\xff")
    with serving(lambda number, text: [answer(data)]) as (url, _), connect(TOKEN, url, "octo/shop") as api:
        assert [comment.body for comment in calls.comments(api, 7)] == ["b\ufffd"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def described(requester: Requester) -> dict[Callable[[Any], Any], Any]:
    side = {"sha": SHA, "repo": {"full_name": "octo/shop"}}
    fields = "id", "node_id", "body", "html_url", "user"
    return {
        (lambda data: read_pull(PullRequest(requester, {}, data, completed=True))): {
            "number": 7,
            "state": "open",
            "head": side,
            "base": side,
            "merge_commit_sha": SHA,
        },
        (lambda data: every([IssueComment(requester, {}, data, completed=True)], *fields)): COMMENT,
        (lambda data: CheckRun(requester, {}, data, completed=True).output.annotations_count): {
            "id": 1,
            "html_url": None,
            "external_id": "x",
            "output": {"annotations_count": 2},
        },
        (lambda data: every([File(requester, {}, data)], "filename", "patch")): {"filename": "f", "patch": None},
    }


@pytest.mark.parametrize("number", range(4))
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_json_is_read_or_refused(number: int, data: st.DataObject) -> None:
    with connect(TOKEN, "http://127.0.0.1:9", "octo/shop", pause=refuse) as api:
        read, whole = list(described(api.repository.requester).items())[number]
        read(whole)
        mangled = json.loads(json.dumps(whole))
        place = mangled
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = data.draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
                place = place[key]
                continue
            place[key] = data.draw(JSON)
            break
        with suppress(ApiError):
            reading(read)(mangled)


@pytest.mark.parametrize(
    ("token", "url", "repository"),
    [
        ("", "https://api.github.com", "octo/shop"),
        ("ghs_a\nX-Injected: 1", "https://api.github.com", "octo/shop"),
        ("ghs a", "https://api.github.com", "octo/shop"),
        ("ghs_é", "https://api.github.com", "octo/shop"),
        (TOKEN, "", "octo/shop"),
        (TOKEN, "api.github.com", "octo/shop"),
        (TOKEN, "file:///etc/passwd", "octo/shop"),
        (TOKEN, "https://", "octo/shop"),
        (TOKEN, "https://host:99999", "octo/shop"),
        (TOKEN, "https://[::1", "octo/shop"),
        (TOKEN, "https://host/\n", "octo/shop"),
        (TOKEN, "https://api.github.com", "shop"),
        (TOKEN, "https://api.github.com", "octo/.."),
        (TOKEN, "https://api.github.com", "../octo"),
        (TOKEN, "https://api.github.com", "octo/shop/issues"),
        (TOKEN, "https://api.github.com", "octo/shop?x=1"),
        (TOKEN, "https://api.github.com", "octo/shop\n"),
    ],
)
def test_what_cannot_be_connected_to(token: str, url: str, repository: str) -> None:
    with pytest.raises(ApiError) as caught:
        connect(token, url, repository)
    assert not caught.value.accepted
    assert not token or token not in str(caught.value)


def test_who_asks_and_how() -> None:
    nothing = answer({"total_count": 0, "check_runs": []})
    with serving(lambda number, text: [nothing]) as (url, requests), connect(TOKEN, url, "octo/shop") as api:
        calls.checks(api, SHA, "a/b & c")
    head = requests[0].lower()
    assert requests[0].startswith(f"GET /repos/octo/shop/commits/{SHA}/check-runs?check_name=a%2Fb+%26+c&filter=all")
    assert f"user-agent: holodeck-action/{__version__}" in head
    assert f"authorization: token {TOKEN}" in head
    assert "x-github-api-version" not in head
    assert head.count(TOKEN) == 1


def test_connection_is_kept() -> None:
    kept = answer(COMMENT, stays=True)
    refused = answer({"message": "no"}, status=422, stays=True)
    busy = answer({"message": "busy"}, "Retry-After: 1", status=429, stays=True)
    script = [kept, refused, busy, kept, kept]
    waits: list[float] = []
    with (
        serving(lambda number, text: [script[number]], one_connection=True) as (url, requests),
        connect(TOKEN, url, "octo/shop", pause=waits.append) as api,
    ):
        calls.create_comment(api, 7, "1")
        with pytest.raises(ApiError, match="422"):
            calls.create_comment(api, 7, "2")
        calls.create_comment(api, 7, "3")
        calls.create_comment(api, 7, "4")
    assert len(requests) == 5
    # Loopback needs no second between writes.
    assert waits == [1.0]


def test_proxy_of_the_environment_is_not_asked_for_loopback(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert calls.pull(api, 7).number == 7


@pytest.mark.parametrize(
    ("variable", "value"),
    [("HTTPS_PROXY", "gopher://127.0.0.1:9"), ("HTTPS_PROXY", "http://[::1"), ("SSL_CERT_FILE", "/no/such/file.pem")],
)
def test_proxy_or_certificates_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ApiError, match="the proxy or the certificates that the environment names cannot be used"):
        connect(TOKEN, "https://api.github.com", "octo/shop")


@pytest.mark.full
def test_http_is_loaded_only_to_connect() -> None:
    program = (
        "import sys; from holodeck_action.github import publisher;"
        "from holodeck_action.github.rest import api, objects;"
        "assert not {'github', 'httpx2'} & sys.modules.keys();"
        "api.connect('t', 'https://api.github.com', 'o/r').close(); assert {'github', 'httpx2'} <= sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
