"""What is asked again, how often, and after which waits: the rules of docs/github.md, against a real server."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.github.rest.api import Api, connect
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.github.rest.retry import TOTAL_WAIT_S, is_repeatable, rate_limit_wait, retry_after
from tests.action.step import ROOT
from tests.github import calls
from tests.github.fake import FakeGitHub, Fault, Repository, Token
from tests.github.fake.permissions import Permissions
from tests.github.raw import answer, serving
from tests.tables import sides
from tests.targets.attachments.site import Site, certified

TOKEN = "ghs_0123456789abcdef"
SHA = "a" * 40
NOW = 1_800_000_000.0
SECONDARY = {"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}
PRIMARY = {"message": "API rate limit exceeded for installation ID 1."}
PATCH_FILE = {"filename": "agent.yaml", "status": "modified", "patch": "@@ -1,1 +1,2 @@\n a\n+b"}
ANNOTATION = {"path": "agent.yaml", "start_line": 1, "end_line": 1, "annotation_level": "failure", "message": "low"}


@dataclass
class Stage:
    """A pull request with a comment, a review and a check run of ours, and the waits that were asked for."""

    hub: FakeGitHub
    api: Api
    waits: list[float]
    repository: Repository
    ids: dict[str, int] = field(default_factory=dict)
    node: str = ""
    made_before: int = 0

    def calls(self, method: str) -> int:
        return sum(call.method == method for call in self.hub.requests[self.made_before :])


@pytest.fixture
def stage(hub: FakeGitHub) -> Iterator[Stage]:
    with staged(hub) as stage:
        yield stage


@contextmanager
def staged(hub: FakeGitHub) -> Iterator[Stage]:
    everything: Permissions = {"checks": "write", "pull_requests": "write", "issues": "write", "contents": "read"}
    hub.add_token(TOKEN, Token(login="github-actions[bot]", kind="installation", permissions=everything))
    repository = hub.add_repository("octo/shop")
    repository.add_pull(7, head_sha=SHA, files=[PATCH_FILE])
    waits: list[float] = []
    with connect(TOKEN, hub.url, "octo/shop", pause=waits.append, clock=lambda: NOW) as api:
        stage = Stage(hub, api, waits, repository)
        comment = calls.create_comment(api, 7, "first")
        stage.node = comment.node_id
        stage.ids["comment"] = comment.id
        stage.ids["review"] = calls.create_review(api, 7, SHA, "first", ()).id
        stage.ids["check"] = calls.create_check(api, SHA, "evaluation", "1").id
        stage.made_before = len(hub.requests)
        yield stage


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    run: Callable[[Stage], Any]
    writes: bool


REPEATABLE = {
    "read": Operation("GET", r"/pulls/7$", lambda stage: calls.pull(stage.api, 7), False),
    "list": Operation("GET", r"/issues/7/comments", lambda stage: calls.comments(stage.api, 7), False),
    "query": Operation("POST", r"/graphql$", lambda stage: stage.api.ownership([stage.node]), False),
    "edit": Operation(
        "PATCH", r"/issues/comments/", lambda stage: calls.update_comment(stage.api, stage.ids["comment"], "new"), True
    ),
    "edit review": Operation(
        "PUT", r"/reviews/", lambda stage: calls.update_review(stage.api, 7, stage.ids["review"], "new"), True
    ),
}
ONCE = {
    "comment": Operation("POST", r"/issues/7/comments$", lambda stage: calls.create_comment(stage.api, 7, "new"), True),
    "review": Operation("POST", r"/reviews$", lambda stage: calls.create_review(stage.api, 7, SHA, "new", ()), True),
    "check": Operation(
        "POST",
        r"/check-runs$",
        lambda stage: calls.create_check(stage.api, SHA, "other", "2"),
        True,
    ),
    "annotate": Operation(
        "PATCH",
        r"/check-runs/",
        lambda stage: calls.annotate(stage.api, stage.ids["check"], [ANNOTATION]),
        True,
    ),
}
ALL = REPEATABLE | ONCE


def each(operations: dict[str, Operation]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("operation", operations.values(), ids=operations.keys())


def each_with(operations: dict[str, Operation], name: str, values: Sequence[Any]) -> pytest.MarkDecorator:
    """Each operation with the first value, and the first operation with each: what is done with an answer depends on
    the value, and on whether the operation reads, may be repeated, or neither."""
    pairs = sides(list(operations.items()), values)
    return pytest.mark.parametrize(
        ("operation", name), [pytest.param(operation, value, id=key) for (key, operation), value in pairs]
    )


@each_with(REPEATABLE, "status", [502, 500, 503, 504])
def test_server_error_once(stage: Stage, operation: Operation, status: int) -> None:
    stage.hub.fail(Fault(operation.method, operation.path, status=status, body="<html>Unicorn!</html>"))
    operation.run(stage)
    assert stage.waits == [1.0]
    assert stage.calls(operation.method) == 2


@each(REPEATABLE)
def test_server_error_always(stage: Stage, operation: Operation) -> None:
    stage.hub.fail(Fault(operation.method, operation.path, status=502, body="<html>Unicorn!</html>", times=None))
    with pytest.raises(ApiError) as caught:
        operation.run(stage)
    assert (caught.value.kind, caught.value.status, caught.value.accepted) == ("unavailable", 502, operation.writes)
    assert stage.waits == [1.0, 2.0, 4.0, 8.0]
    assert stage.calls(operation.method) == 5
    assert "Bad Gateway" in str(caught.value)


@each_with(ONCE, "status", [502, 500, 503])
def test_what_may_have_been_done_is_not_asked_again(stage: Stage, operation: Operation, status: int) -> None:
    stage.hub.fail(Fault(operation.method, operation.path, status=status, body={"message": "Server Error"}))
    with pytest.raises(ApiError) as caught:
        operation.run(stage)
    assert (caught.value.kind, caught.value.status, caught.value.accepted) == ("unavailable", status, True)
    assert stage.waits == []
    assert stage.calls(operation.method) == 1


RATE: list[tuple[int, Any, dict[str, str], float]] = [
    (403, SECONDARY, {}, 60.0),
    (403, SECONDARY, {"Retry-After": "7"}, 7.0),
    (403, {"message": "no"}, {"Retry-After": "7"}, 7.0),
    (403, "<html>busy</html>", {"Retry-After": "7"}, 7.0),
    (403, PRIMARY, {}, 60.0),
    (403, PRIMARY, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{NOW + 30:.0f}"}, 31.0),
    (403, PRIMARY, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{NOW - 30:.0f}"}, 1.0),
    (429, {"message": "slow down"}, {}, 60.0),
    (429, SECONDARY, {"Retry-After": "7"}, 7.0),
    (429, "<html>busy</html>", {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{NOW + 9:.0f}"}, 10.0),
    (429, {"message": "slow down"}, {"Retry-After": "soon"}, 60.0),
    (429, {"message": "slow down"}, {"Retry-After": "9" * 400}, 60.0),
    (429, {"message": "slow down"}, {"Retry-After": "0"}, 1.0),
    (429, {"message": "slow down"}, {"Retry-After": formatdate(NOW + 11, usegmt=True)}, 11.0),
]


@each_with(ALL, "refusal", RATE)
def test_refused_for_the_rate_once(
    stage: Stage, operation: Operation, refusal: tuple[int, Any, dict[str, str], float]
) -> None:
    status, body, headers, wait = refusal
    stage.hub.fail(Fault(operation.method, operation.path, status=status, body=body, headers=headers))
    operation.run(stage)
    assert stage.waits == [wait]
    assert stage.calls(operation.method) == 2


@each_with(ALL, "status", [403, 429])
def test_secondary_limit_always(stage: Stage, operation: Operation, status: int) -> None:
    stage.hub.fail(Fault(operation.method, operation.path, status=status, body=SECONDARY, times=None))
    with pytest.raises(ApiError, match=r"takes requests again at 08:04:00 UTC, in 240 seconds") as caught:
        operation.run(stage)
    assert (caught.value.kind, caught.value.status, caught.value.accepted) == ("rate_limited", status, False)
    assert stage.waits == [60.0, 120.0]


@pytest.mark.parametrize(
    ("headers", "again"),
    [
        ({"Retry-After": "181"}, "at 08:03:01 UTC, in 181 seconds; of the 180 seconds .* only 180 are left"),
        ({"Retry-After": "9" * 30}, "in more than a day"),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{NOW + 1800:.0f}"}, "at 08:30:01 UTC, in 1,801 seconds"),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9" * 30}, "in more than a day"),
    ],
)
def test_limit_longer_than_we_wait(stage: Stage, headers: dict[str, str], again: str) -> None:
    stage.hub.fail(Fault("POST", r"/comments$", status=403, body=PRIMARY, headers=headers, times=None))
    with pytest.raises(ApiError, match=again) as caught:
        calls.create_comment(stage.api, 7, "new")
    assert caught.value.kind == "rate_limited"
    assert stage.waits == []
    assert len(stage.repository.comments(7)) == 1


def test_waits_of_all_calls_together(stage: Stage) -> None:
    """What one call has waited is not there for the next, which then ends at once and says so."""
    limited = Fault("POST", r"/comments$", status=429, headers={"Retry-After": "100"})
    stage.hub.fail(limited)
    calls.create_comment(stage.api, 7, "new")
    stage.hub.fail(limited)
    with pytest.raises(
        ApiError, match="in 100 seconds; of the 180 seconds that calls to GitHub may wait, only 80 are left"
    ):
        calls.create_comment(stage.api, 7, "another")
    assert stage.waits == [100.0]
    stage.hub.fail(Fault("POST", r"/comments$", status=429, headers={"Retry-After": "80"}))
    calls.create_comment(stage.api, 7, "a third")
    assert stage.waits == [100.0, 80.0]
    for operation in REPEATABLE.values():
        stage.hub.fail(Fault(operation.method, operation.path, status=502))
        with pytest.raises(ApiError, match="of the 180 seconds that calls to GitHub may wait, none are left"):
            operation.run(stage)
    stage.hub.fail(Fault("GET", r"/pulls/7$", drop="before"))
    with pytest.raises(ApiError, match="ended early before the answer; of the 180 seconds"):
        calls.pull(stage.api, 7)
    assert sum(stage.waits) == TOTAL_WAIT_S
    # Who is not refused is served as ever.
    assert calls.pull(stage.api, 7).number == 7
    assert f"share {TOTAL_WAIT_S:.0f} seconds for waiting" in (ROOT / "docs" / "github.md").read_text("utf-8")


def test_waits_of_all_pages_together(stage: Stage) -> None:
    for number in range(120):
        stage.repository.add_comment(7, author="alice", body=f"comment {number}")
    for page in PAGES:
        stage.hub.fail(Fault("GET", r"/comments$", query=page, status=429, headers={"Retry-After": "100"}))
    with pytest.raises(ApiError, match="rate limit"):
        calls.comments(stage.api, 7)
    assert stage.waits == [100.0]


NO_JSON = ["<html>Please sign in</html>", "", '{"number": 7, "head": {"sh']
OTHER_JSON: list[Any] = [{"id": "x", "data": None}, [{"message": "ok"}], {}]
PAGES = "^per_page=100$", r"\bpage=2"
"""Matches the first and the second page of a list."""
READS = {name: operation for name, operation in REPEATABLE.items() if not operation.writes}
WRITES = {name: operation for name, operation in ALL.items() if operation.writes}


def each_with_junk(operations: dict[str, Operation]) -> pytest.MarkDecorator:
    """Each operation knows its own shape; what is not JSON has none."""
    pairs = [(operation, body) for operation in operations.values() for body in OTHER_JSON]
    return pytest.mark.parametrize(("operation", "body"), [*pairs, *sides(list(operations.values()), NO_JSON)])


@each_with_junk(READS)
def test_junk_once_is_asked_again(stage: Stage, operation: Operation, body: Any) -> None:
    expected = operation.run(stage)
    stage.hub.fail(Fault(operation.method, operation.path, status=200, body=body))
    assert operation.run(stage) == expected
    assert stage.waits == [1.0]
    assert stage.calls(operation.method) == 3


@each(READS)
def test_junk_always(stage: Stage, operation: Operation) -> None:
    for body in (NO_JSON[2], OTHER_JSON[0], NO_JSON[0]):
        stage.hub.fail(Fault(operation.method, operation.path, status=200, body=body, times=2))
    with pytest.raises(ApiError, match=r"answer to (GET|POST) .* cannot be used: it is not JSON$") as caught:
        operation.run(stage)
    assert (caught.value.kind, caught.value.status, caught.value.accepted) == ("unavailable", 200, False)
    assert stage.waits == [1.0, 2.0, 4.0, 8.0]
    assert stage.calls(operation.method) == 5


@each_with_junk(WRITES)
def test_junk_does_not_repeat_a_write(stage: Stage, operation: Operation, body: Any) -> None:
    """Its channel looks whether it was done, edits included: nobody is notified twice."""
    stage.hub.fail(Fault(operation.method, operation.path, status=200, body=body))
    with pytest.raises(ApiError, match="cannot be used") as caught:
        operation.run(stage)
    assert (caught.value.kind, caught.value.accepted) == ("unavailable", True)
    assert stage.waits == []
    assert stage.calls(operation.method) == 1


def test_repeats_are_counted_for_each_page(stage: Stage) -> None:
    for number in range(120):
        stage.repository.add_comment(7, author="alice", body=f"comment {number}")
    for page in PAGES:
        stage.hub.fail(Fault("GET", r"/comments$", query=page, status=502, times=4))
    assert len(calls.comments(stage.api, 7)) == 121
    assert stage.waits == [1.0, 2.0, 4.0, 8.0] * 2


@each_with(ALL, "headers", [{"Retry-After": "5"}, {}, {"X-RateLimit-Remaining": "0"}])
def test_missing_permission(stage: Stage, operation: Operation, headers: dict[str, str]) -> None:
    body = {"message": "Resource not accessible by integration"}
    stage.hub.fail(Fault(operation.method, operation.path, status=403, body=body, headers=headers, times=None))
    with pytest.raises(ApiError, match="Resource not accessible by integration") as caught:
        operation.run(stage)
    assert (caught.value.kind, caught.value.status, caught.value.accepted) == ("denied", 403, False)
    assert stage.waits == []
    assert stage.calls(operation.method) == 1


def test_retry_after_of_a_server_error(stage: Stage) -> None:
    stage.hub.fail(Fault("GET", r"/pulls/7$", status=503, headers={"Retry-After": "20"}))
    calls.pull(stage.api, 7)
    assert stage.waits == [20.0]
    stage.hub.fail(Fault("GET", r"/pulls/7$", status=503, headers={"Retry-After": "999"}))
    with pytest.raises(ApiError) as caught:
        calls.pull(stage.api, 7)
    assert (caught.value.kind, stage.waits) == ("unavailable", [20.0])


def test_not_yet_computed(stage: Stage) -> None:
    stage.hub.fail(Fault("GET", r"/pulls/7$", status=202, body={}))
    assert calls.pull(stage.api, 7).number == 7
    assert stage.waits == [1.0]
    stage.hub.fail(Fault("GET", r"/pulls/7$", status=202, body={}, times=None))
    with pytest.raises(ApiError) as caught:
        calls.pull(stage.api, 7)
    assert (caught.value.kind, caught.value.status) == ("unavailable", 202)
    assert stage.waits == [1.0, 1.0, 2.0, 4.0, 8.0]


@each(REPEATABLE)
@pytest.mark.parametrize("drop", ["before", "after"])
def test_dropped_once(stage: Stage, operation: Operation, drop: Any) -> None:
    stage.hub.fail(Fault(operation.method, operation.path, drop=drop))
    operation.run(stage)
    assert stage.waits == [1.0]


@each(ONCE)
@pytest.mark.parametrize("drop", ["before", "after"])
def test_dropped_when_it_may_have_been_done(stage: Stage, operation: Operation, drop: Any) -> None:
    stage.hub.fail(Fault(operation.method, operation.path, drop=drop))
    with pytest.raises(ApiError, match="ended early") as caught:
        operation.run(stage)
    assert (caught.value.kind, caught.value.status, caught.value.accepted) == ("unavailable", None, True)
    assert stage.waits == []
    assert stage.calls(operation.method) == 1


def test_annotations_are_never_added_twice(stage: Stage) -> None:
    stage.hub.fail(Fault("PATCH", r"/check-runs/", drop="after"))
    with pytest.raises(ApiError):
        ONCE["annotate"].run(stage)
    assert calls.annotation_count(stage.api, stage.ids["check"]) == 1


@each(ALL)
def test_timeout(hub: FakeGitHub, stage: Stage, operation: Operation) -> None:
    with connect(TOKEN, hub.url, "octo/shop", pause=stage.waits.append, clock=lambda: NOW, timeout_s=0.15) as api:
        hub.fail(Fault(operation.method, operation.path, delay=600, times=None))
        with pytest.raises(ApiError, match="did not arrive in time") as caught:
            operation.run(replace(stage, api=api))
        repeated = operation in REPEATABLE.values()
        assert (caught.value.kind, caught.value.accepted) == ("unavailable", operation.writes)
        # No more than once: each timeout has been waited for already.
        assert stage.waits == ([1.0] if repeated else [])
        assert stage.calls(operation.method) == (2 if repeated else 1)


@each(ALL)
def test_nobody_listens(hub: FakeGitHub, operation: Operation) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    waits: list[float] = []
    with connect(TOKEN, f"http://127.0.0.1:{port}", "octo/shop", pause=waits.append) as api:
        ids = {"comment": 1, "review": 1, "check": 1}
        stage = Stage(hub, api, waits, hub.add_repository("octo/shop"), ids, "IC_1")
        with pytest.raises(ApiError, match="no connection could be made") as caught:
            operation.run(stage)
    assert (caught.value.kind, caught.value.status, caught.value.accepted) == ("unavailable", None, False)
    assert waits == [1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize("encoded", [False, True], ids=["short", "no gzip"])
def test_body_that_breaks_off(encoded: bool) -> None:
    broken = answer("no gzip", "Content-Encoding: gzip") if encoded else answer('{"number": ', length=9999)
    with serving(lambda count, text: [broken]) as (url, requests):
        waits: list[float] = []
        with connect(TOKEN, url, "octo/shop", pause=waits.append) as api:
            with pytest.raises(ApiError) as read:
                calls.pull(api, 7)
            assert (read.value.kind, waits, len(requests)) == ("unavailable", [1.0, 2.0, 4.0, 8.0], 5)
            with pytest.raises(ApiError) as written:
                calls.create_comment(api, 7, "new")
            assert (written.value.accepted, len(waits), len(requests)) == (True, 4, 6)


def test_body_that_broke_off_once() -> None:
    whole = answer([{"filename": "agent.yaml", "status": "added"}])
    with serving(lambda count, text: [answer("[", length=99) if count == 0 else whole]) as (url, requests):
        waits: list[float] = []
        with connect(TOKEN, url, "octo/shop", pause=waits.append) as api:
            assert [file.filename for file in api.repository.get_pull(7).get_files()] == ["agent.yaml"]
        assert (waits, len(requests)) == ([1.0], 2)


def test_untrusted_certificate_is_no_passing_trouble(tmp_path: Path) -> None:
    waits: list[float] = []
    tls, _ = certified(tmp_path, "localhost")
    with (
        closing(Site(tls)) as site,
        connect(TOKEN, f"https://localhost:{site.port}", "octo/shop", pause=waits.append) as api,
        pytest.raises(ApiError, match="certificate is not trusted here") as caught,
    ):
        calls.create_comment(api, 7, "new")
    assert (caught.value.kind, caught.value.accepted, waits) == ("unavailable", False, [])


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/repos/o/r/check-runs/1", True),
        ("HEAD", "/", True),
        ("PUT", "/repos/o/r/pulls/1/reviews/2", True),
        ("DELETE", "/repos/o/r/issues/comments/1", True),
        ("PATCH", "/repos/o/r/issues/comments/1", True),
        ("PATCH", "/api/v3/repos/o/r/check-runs/1", False),
        ("POST", "/repos/o/r/check-runs", False),
        ("POST", "/api/graphql", True),
        ("POST", "/repos/graphql/r/issues/1/comments", False),
    ],
)
def test_repeatable(method: str, path: str, expected: bool) -> None:
    assert is_repeatable(method, path) is expected


TEXTS = st.one_of(st.text(max_size=40), st.integers().map(str), st.floats().map(str), st.just("0"))


@given(
    status=st.sampled_from([403, 429]),
    headers=st.dictionaries(st.sampled_from(["Retry-After", "X-RateLimit-Remaining", "X-RateLimit-Reset"]), TEXTS),
    message=st.one_of(st.text(max_size=40), st.sampled_from([SECONDARY["message"], PRIMARY["message"]])),
    before=st.integers(0, 4),
)
def test_any_header_gives_a_wait(status: int, headers: dict[str, str], message: str, before: int) -> None:
    wait = rate_limit_wait(status, headers, message, NOW, before)
    assert wait is None or (math.isfinite(wait) and wait >= 1.0)
    if status == 429 and not message.lower().startswith("resource not accessible"):
        assert wait is not None


@given(TEXTS)
def test_any_retry_after(value: str) -> None:
    seconds = retry_after(value, NOW)
    assert seconds is None or (math.isfinite(seconds) and seconds >= 0.0)
