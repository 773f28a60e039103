"""One comment on a pull request, whatever GitHub answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holodeck_action.github.channels import Access, Failed, Outcome, Published, Skipped
from holodeck_action.github.rest.api import connect
from holodeck_action.github.sticky_comment import CommentRequest, Mode, marker, publish_comment
from tests.github.fake import FakeGitHub, Fault, Token

REPOSITORY = "octo/shop"
LINE = marker("agent.yaml")
BOT = "github-actions[bot]"
POST = r"/issues/7/comments$"
PATCH = r"/issues/comments/\d+$"
SECONDARY = {"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}
DENIED = {"message": "Resource not accessible by integration"}
_NUMBERS = re.compile(r"run=(\S+) failing=(\d+)")


@pytest.fixture
def repo(hub: FakeGitHub) -> Any:
    hub.add_token("ghs_job", Token(login=BOT, kind="installation", permissions={"pull_requests": "write"}))
    hub.add_token("ghs_read", Token(login=BOT, kind="installation", permissions={"pull_requests": "read"}))
    hub.add_token("ghs_none", Token(login=BOT, kind="installation", permissions={"contents": "read"}))
    hub.add_token("ghp_alice", Token(login="alice", kind="classic", permissions={"pull_requests": "write"}))
    repository = hub.add_repository(REPOSITORY)
    repository.add_pull(7, head_sha="a" * 40, head_repository=REPOSITORY, branch="topic")
    return repository


def _body(failing: int, run: str = "1/1", line: str = LINE) -> str:
    return f"{line}\nrun={run} failing={failing}\n\n| a | b |\n| - | - |\n"


def _told(body: str) -> tuple[str, int]:
    found = _NUMBERS.search(body)
    assert found is not None, body
    return found[1], int(found[2])


def _wanted(failing: int, mode: Mode = "always", run: str = "1/1") -> CommentRequest:
    return CommentRequest(
        mode=mode,
        failed=failing > 0,
        render=lambda previous: _body(failing, run),
        changed=lambda body: _told(body)[1] != failing,
        clash=lambda body: _told(body)[0] == run,
        worse=lambda body: _told(body)[1] > failing,
        check=True,
    )


def _silent(seconds: float) -> None:
    pass


def _publish(hub: FakeGitHub, wanted: CommentRequest, token: str = "ghs_job", **options: Any) -> Outcome:
    with connect(token, hub.url, REPOSITORY, pause=_silent, monotonic=hub.monotonic) as api:
        return publish_comment(Access(api, **{"pause": _silent, **options}), 7, LINE, wanted).outcome


def _writes(hub: FakeGitHub, method: str) -> int:
    return sum(call.method == method and "/comments" in call.path for call in hub.requests)


def _bodies(repo: Any) -> list[str]:
    return [comment["body"] for comment in repo.comments(7)]


# Marker


IDS = st.one_of(st.text(max_size=30), st.text(alphabet="-%-a>2D", max_size=12), st.characters(categories=["Cs"]))


@given(IDS)
def test_a_marker_is_one_html_comment_and_tells_its_id(comment_id: str) -> None:
    line = marker(comment_id)
    inner = line.removeprefix("<!-- holodeck-action:report:").removesuffix(" -->")
    assert line == f"<!-- holodeck-action:report:{inner} -->"
    assert line.isascii()
    assert "--" not in inner
    assert not re.search(r"[\s<>]", inner)
    if len(inner) < 200 and "=" not in inner:
        assert unquote_to_bytes(inner) == comment_id.encode("utf-8", "surrogatepass")


@given(IDS, IDS)
def test_two_ids_have_two_markers(one: str, other: str) -> None:
    assert (marker(one) == marker(other)) == (one == other)


def test_a_plain_id_stays_readable_and_a_long_one_is_hashed() -> None:
    assert marker("suites/shop.yaml:eu-west") == "<!-- holodeck-action:report:suites/shop.yaml:eu-west -->"
    assert marker("a--b c") == "<!-- holodeck-action:report:a-%2Db%20c -->"
    long = marker("x" * 5000)
    assert len(long) < 120
    assert long != marker("x" * 5001)
    # Nobody can name a comment so that it stands for a long id's.
    assert marker(long.removeprefix("<!-- holodeck-action:report:").removesuffix(" -->")) != long


# Finding


def test_the_comment_is_made_once_and_then_kept_up_to_date(hub: FakeGitHub, repo: Any) -> None:
    first = _publish(hub, _wanted(2))
    assert isinstance(first, Published)
    assert first.detail == "created"
    url = repo.comments(7)[0]["html_url"]
    assert first.url == url
    assert _publish(hub, _wanted(2)) == Published("unchanged", url)
    assert _writes(hub, "PATCH") == 0
    assert _publish(hub, _wanted(0, run="2/1")) == Published("updated", url)
    assert _bodies(repo) == [_body(0, "2/1")]


def test_the_same_text_with_other_line_ends_is_unchanged(hub: FakeGitHub, repo: Any) -> None:
    repo.add_comment(7, author=BOT, author_type="Bot", body=_body(1).replace("\n", "\r\n").rstrip())
    outcome = _publish(hub, _wanted(1))
    assert isinstance(outcome, Published)
    assert outcome.detail == "unchanged"
    assert _writes(hub, "PATCH") == 0


def test_the_comment_is_found_behind_120_others(hub: FakeGitHub, repo: Any) -> None:
    for number in range(120):
        repo.add_comment(7, author="alice", author_type="User", body=f"comment {number}")
    _publish(hub, _wanted(2))
    assert _publish(hub, _wanted(1, run="2/1")).detail == "updated"  # type: ignore[union-attr]
    assert len(repo.comments(7)) == 121
    assert _bodies(repo)[-1] == _body(1, "2/1")


@pytest.mark.parametrize("ours_first", [True, False])
def test_a_marker_that_others_write_is_left_alone(hub: FakeGitHub, repo: Any, ours_first: bool) -> None:
    if ours_first:
        _publish(hub, _wanted(2))
    forged = f"{LINE}\nrun=9/9 failing=0"
    for _ in range(130):
        repo.add_comment(7, author="mallory", author_type="User", body=forged)
    repo.add_comment(7, author="evil[bot]", author_type="Bot", body=forged)
    outcome = _publish(hub, _wanted(1, run="2/1"))
    assert isinstance(outcome, Published)
    assert outcome.detail == ("updated" if ours_first else "created")
    bodies = _bodies(repo)
    assert bodies.count(forged) == 131
    assert [body for body in bodies if body != forged] == [_body(1, "2/1")]


def test_a_marker_that_is_not_the_first_line_is_none(hub: FakeGitHub, repo: Any) -> None:
    repo.add_comment(7, author=BOT, author_type="Bot", body=f"> quoted\n{_body(3)}")
    repo.add_comment(7, author=BOT, author_type="Bot", body=_body(3, line=marker("agent.yaml.bak")))
    outcome = _publish(hub, _wanted(1))
    assert isinstance(outcome, Published)
    assert outcome.detail == "created"
    assert len(repo.comments(7)) == 3


def test_a_hidden_comment_is_not_brought_back(hub: FakeGitHub, repo: Any) -> None:
    _publish(hub, _wanted(2))
    repo.minimize(repo.comments(7)[0]["node_id"])
    outcome = _publish(hub, _wanted(1, run="2/1"))
    assert isinstance(outcome, Published)
    assert outcome.detail == "created"
    assert _bodies(repo) == [_body(2), _body(1, "2/1")]


def test_of_two_comments_the_newest_is_kept_up_to_date(hub: FakeGitHub, repo: Any) -> None:
    repo.add_comment(7, author=BOT, author_type="Bot", body=_body(5, "1/1"))
    repo.add_comment(7, author=BOT, author_type="Bot", body=_body(4, "2/1"))
    outcome = _publish(hub, _wanted(1, run="3/1"))
    assert isinstance(outcome, Published)
    assert outcome.detail.startswith("updated; 2 comments have this marker")
    assert _bodies(repo) == [_body(5, "1/1"), _body(1, "3/1")]


NO_GRAPHQL = [
    Fault("POST", "/graphql", status=404, body={"message": "Not Found"}, times=None),
    Fault("POST", "/graphql", status=403, body=DENIED, times=None),
    Fault("POST", "/graphql", status=502, body="<html>", times=None),
    Fault("POST", "/graphql", status=200, body={"errors": [{"message": "broken"}]}, times=None),
]


@pytest.mark.parametrize("fault", NO_GRAPHQL, ids=["404", "403", "502", "errors"])
def test_without_graphql_a_bot_is_us_and_a_person_never(hub: FakeGitHub, repo: Any, fault: Fault) -> None:
    forged = f"{LINE}\nrun=9/9 failing=0"
    repo.add_comment(7, author="mallory", author_type="User", body=forged)
    hub.fail(fault)
    assert _publish(hub, _wanted(2)).detail == "created"  # type: ignore[union-attr]
    assert _publish(hub, _wanted(1, run="2/1")).detail == "updated"  # type: ignore[union-attr]
    assert _bodies(repo) == [forged, _body(1, "2/1")]


def test_a_persons_token_finds_its_comment_and_makes_no_second_one_without_graphql(hub: FakeGitHub, repo: Any) -> None:
    assert _publish(hub, _wanted(2), "ghp_alice", app=False).detail == "created"  # type: ignore[union-attr]
    assert _publish(hub, _wanted(3, run="2/1"), "ghp_alice", app=False).detail == "updated"  # type: ignore[union-attr]
    hub.fail(NO_GRAPHQL[0])
    outcome = _publish(hub, _wanted(1, run="3/1"), "ghp_alice", app=False)
    assert isinstance(outcome, Failed)
    assert "the job's own token" in outcome.reason
    assert _bodies(repo) == [_body(3, "2/1")]


# Modes and clashes


@pytest.mark.parametrize(
    ("mode", "before", "failing", "expected"),
    [
        ("off", None, 1, None),
        ("off", 0, 1, 0),
        ("always", None, 0, 0),
        ("always", 1, 0, 0),
        ("changes", None, 0, 0),
        ("changes", 1, 0, 0),
        ("changes", 0, 1, 1),
        ("failures", None, 1, 1),
        ("failures", None, 0, None),
        ("failures", 1, 0, 0),
        ("failures", 0, 1, 1),
    ],
)
def test_modes(hub: FakeGitHub, repo: Any, mode: Mode, before: int | None, failing: int, expected: int | None) -> None:
    if before is not None:
        repo.add_comment(7, author=BOT, author_type="Bot", body=_body(before))
    outcome = _publish(hub, _wanted(failing, mode, run="2/1"))
    assert [_told(body)[1] for body in _bodies(repo)] == ([] if expected is None else [expected])
    if mode == "off" or expected is None:
        assert isinstance(outcome, Skipped)
        assert not outcome.requested
    else:
        assert isinstance(outcome, Published)
    assert mode != "off" or not hub.requests


def test_the_same_result_of_another_run_is_not_written_in_mode_changes(hub: FakeGitHub, repo: Any) -> None:
    repo.add_comment(7, author=BOT, author_type="Bot", body=_body(2))
    outcome = _publish(hub, _wanted(2, "changes", run="2/1"))
    assert isinstance(outcome, Published)
    assert outcome.detail == "unchanged"
    assert _bodies(repo) == [_body(2)]
    assert _writes(hub, "PATCH") == 0


@pytest.mark.parametrize("mode", ["always", "changes", "failures"])
@pytest.mark.parametrize(("theirs", "ours"), [(3, 0), (0, 3)])
def test_of_two_steps_with_one_comment_the_worse_verdict_stays(
    hub: FakeGitHub, repo: Any, mode: Mode, theirs: int, ours: int
) -> None:
    repo.add_comment(7, author=BOT, author_type="Bot", body=_body(theirs))
    outcome = _publish(hub, _wanted(ours, mode))
    assert isinstance(outcome, Failed)
    assert "`comment-id`" in outcome.reason
    assert _bodies(repo) == [_body(3)]


def test_two_steps_with_one_comment_and_equal_results_are_told_too(hub: FakeGitHub, repo: Any) -> None:
    other = _body(2) + "written by the other step\n"
    repo.add_comment(7, author=BOT, author_type="Bot", body=other)
    outcome = _publish(hub, _wanted(2, "changes"))
    assert isinstance(outcome, Failed)
    assert "`comment-id`" in outcome.reason


# Trouble


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(
    "fault",
    [
        Fault("*", "/comments", status=502, body="<html>"),
        Fault("*", "/comments", drop="before"),
        Fault("*", "/comments", drop="after"),
    ],
    ids=["502", "dropped-before", "dropped-after"],
)
def test_passing_trouble_leaves_one_comment(hub: FakeGitHub, repo: Any, there: bool, fault: Fault) -> None:
    if there:
        repo.add_comment(7, author=BOT, author_type="Bot", body=_body(4))
    hub.fail(Fault("PATCH" if there else "POST", fault.path, status=fault.status, body=fault.body, drop=fault.drop))
    outcome = _publish(hub, _wanted(1, run="2/1"))
    assert isinstance(outcome, Published), outcome
    assert outcome.detail == ("updated" if there else "created")
    assert _bodies(repo) == [_body(1, "2/1")]


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (404, {"message": "Not Found"}, "may not see it"),
        (422, {"message": "Validation Failed: Body is too long (maximum is 65536 characters)"}, "too long"),
        (502, "<html>", ""),
    ],
)
def test_lasting_trouble_fails_and_posts_at_most_twice(
    hub: FakeGitHub, repo: Any, there: bool, status: int, body: Any, told: str
) -> None:
    if there:
        repo.add_comment(7, author=BOT, author_type="Bot", body=_body(4))
    hub.fail(Fault("POST", POST, status=status, body=body, times=None))
    hub.fail(Fault("PATCH", PATCH, status=status, body=body, times=None))
    outcome = _publish(hub, _wanted(1, run="2/1"))
    assert isinstance(outcome, Failed)
    assert told in outcome.reason
    assert _bodies(repo) == ([_body(4)] if there else [])
    if status >= 500:
        assert _writes(hub, "POST") == (0 if there else 2)


def test_a_comment_that_cannot_be_read_is_never_guessed(hub: FakeGitHub, repo: Any) -> None:
    hub.fail(Fault("GET", POST, status=500, body={"message": "Server Error"}, times=None))
    outcome = _publish(hub, _wanted(1))
    assert isinstance(outcome, Failed)
    assert "could not be read" in outcome.reason
    assert _writes(hub, "POST") == 0


@pytest.mark.parametrize("drop", ["before", "after"])
def test_a_post_that_may_have_been_done_is_not_repeated_blindly(hub: FakeGitHub, repo: Any, drop: Any) -> None:
    hub.fail(Fault("POST", POST, drop=drop))
    # The first look is before the post.
    hub.fail(Fault("GET", POST))
    hub.fail(Fault("GET", POST, status=502, body="<html>", times=None))
    outcome = _publish(hub, _wanted(1))
    assert isinstance(outcome, Failed)
    assert "is unknown" in outcome.reason
    assert _writes(hub, "POST") == 1
    assert len(repo.comments(7)) == (drop == "after")


def test_a_post_that_comes_too_late_is_found(hub: FakeGitHub, repo: Any) -> None:
    hub.fail(Fault("POST", POST, late=True))
    waits: list[float] = []
    outcome = _publish(hub, _wanted(1), pause=waits.append)
    assert outcome == Published("created", repo.comments(7)[0]["html_url"])
    assert _bodies(repo) == [_body(1)]
    assert waits


def test_a_comment_that_shows_late_is_not_made_twice(hub: FakeGitHub, repo: Any) -> None:
    """GitHub gave up waiting for its own work, which was done between our two looks."""
    hub.fail(Fault("POST", POST, status=502, body="<html>"))
    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            repo.add_comment(7, author=BOT, author_type="Bot", body=_body(1))

    outcome = _publish(hub, _wanted(1), pause=pause)
    assert isinstance(outcome, Published)
    assert outcome.detail == "created"
    assert _writes(hub, "POST") == 1


@pytest.mark.parametrize(("theirs", "ours"), [(3, 0), (0, 3)])
def test_another_step_that_was_faster_keeps_or_gets_the_worse_verdict(
    hub: FakeGitHub, repo: Any, theirs: int, ours: int
) -> None:
    hub.fail(Fault("POST", POST, drop="before"))

    def pause(seconds: float) -> None:
        if not repo.comments(7):
            repo.add_comment(7, author=BOT, author_type="Bot", body=_body(theirs))

    outcome = _publish(hub, _wanted(ours), pause=pause)
    assert isinstance(outcome, Failed)
    assert "`comment-id`" in outcome.reason
    assert _bodies(repo) == [_body(3)]


def test_an_edit_that_was_done_without_an_answer_is_found(hub: FakeGitHub, repo: Any) -> None:
    repo.add_comment(7, author=BOT, author_type="Bot", body=_body(4))
    hub.fail(Fault("PATCH", PATCH, drop="after", times=None))
    outcome = _publish(hub, _wanted(1, run="2/1"))
    assert isinstance(outcome, Published)
    assert outcome.detail == "updated"
    assert _bodies(repo) == [_body(1, "2/1")]


def test_a_comment_that_was_deleted_in_between_is_made_anew(hub: FakeGitHub, repo: Any) -> None:
    listed = repo.add_comment(7, author=BOT, author_type="Bot", body=_body(4))

    def render(previous: str | None) -> str:
        if previous is not None:
            repo.delete_comment(listed["id"])
        return _body(1, "2/1")

    outcome = _publish(hub, replace(_wanted(1, run="2/1"), render=render))
    assert isinstance(outcome, Published)
    assert outcome.detail == "created"
    assert _bodies(repo) == [_body(1, "2/1")]


@pytest.mark.parametrize("listing", [200, 502])
def test_a_comment_that_github_says_is_gone_and_that_may_stand_there_gets_no_second(
    hub: FakeGitHub, repo: Any, listing: int
) -> None:
    repo.add_comment(7, author=BOT, author_type="Bot", body=_body(4))
    hub.fail(Fault("PATCH", PATCH, status=404, body={"message": "Not Found"}, times=None))
    if listing != 200:
        hub.fail(Fault("GET", POST))
        hub.fail(Fault("GET", POST, status=listing, body={"message": "Bad Gateway"}, times=None))
    outcome = _publish(hub, _wanted(1, run="2/1"))
    assert isinstance(outcome, Failed)
    assert "404" in outcome.reason
    assert _bodies(repo) == [_body(4)]


# Permissions


WHY = "a pull request from a fork has a token that only reads: see docs/github.md#pull-requests-from-forks."


@pytest.mark.parametrize(
    ("token", "told"),
    [
        ("ghs_read", "add `pull-requests: write` to the `permissions:` of the job"),
        ("ghs_none", "add `pull-requests: read` to the `permissions:` of the job (`pull-requests: write` to write"),
        ("ghs_unknown", "give `github-token` a token that is valid"),
    ],
)
def test_a_token_that_cannot_is_told_what_is_missing(hub: FakeGitHub, repo: Any, token: str, told: str) -> None:
    outcome = _publish(hub, _wanted(1), token)
    assert isinstance(outcome, Skipped)
    assert outcome.requested
    assert told in outcome.reason
    assert token not in outcome.reason
    assert repo.comments(7) == []


def test_why_a_token_cannot_write_comes_first(hub: FakeGitHub, repo: Any) -> None:
    outcome = _publish(hub, _wanted(1), "ghs_read", read_only_reason=WHY)
    assert isinstance(outcome, Skipped)
    assert outcome.reason.startswith(WHY.rstrip("."))
    assert "`pull-requests: write`" in outcome.reason


def test_a_body_without_its_marker_is_never_posted(hub: FakeGitHub, repo: Any) -> None:
    broken: Callable[[str | None], str] = lambda previous: "no marker"  # noqa: E731
    wanted = _wanted(1)
    with pytest.raises(ValueError, match="marker"):
        _publish(hub, CommentRequest("always", True, broken, wanted.changed, wanted.clash, wanted.worse, check=True))
    assert repo.comments(7) == []
