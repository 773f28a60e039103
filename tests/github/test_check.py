"""A check run is concluded with every annotation exactly once, whatever GitHub answers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from math import ceil
from typing import Any

import pytest
from github.CheckRun import CheckRun
from hypothesis import given, settings
from hypothesis import strategies as st

from holodeck_action.github.channels import Access, Failed, Outcome, Published, Skipped
from holodeck_action.github.check_run import (
    conclude,
    conclusion_of,
    end_state,
    find_started,
    start_check,
    token_can_check,
)
from holodeck_action.github.rest.api import connect
from tests.github.fake import FakeGitHub, Fault, Token

REPOSITORY = "octo/shop"
SHA = "a" * 40
BOT = "github-actions[bot]"
NOW = datetime(2026, 11, 21, 5, 0, 0, tzinfo=UTC)
RUN_URL = "https://github.com/octo/shop/actions/runs/1"
POST = r"/check-runs$"
PATCH = r"/check-runs/\d+$"
WHY = "a pull request from a fork has a token that only reads: see docs/github.md#pull-requests-from-forks."
NOTHING = Fault("PATCH", PATCH)
"""Lets one request through."""


@pytest.fixture
def repo(hub: FakeGitHub) -> Any:
    return _stocked(hub)


def _stocked(hub: FakeGitHub) -> Any:
    hub.add_token("ghs_job", Token(login=BOT, kind="installation", permissions={"checks": "write"}))
    hub.add_token("ghs_read", Token(login=BOT, kind="installation", permissions={"checks": "read"}))
    hub.add_token("ghp_alice", Token(login="alice", kind="classic", permissions={"checks": "write"}))
    repository = hub.add_repository(REPOSITORY)
    repository.add_pull(7, head_sha=SHA, head_repository=REPOSITORY, branch="topic")
    return repository


def _silent(seconds: float) -> None:
    pass


def _start(hub: FakeGitHub, token: str = "ghs_job", **options: Any) -> CheckRun | Outcome:
    why = options.pop("why", "")
    given = {"name": "holodeck-action", "external_id": "1/1/f00d", "details_url": RUN_URL, **options}
    with connect(token, hub.url, REPOSITORY, pause=_silent) as api:
        return start_check(Access(api, why, pause=_silent), SHA, **given)


def _begun(hub: FakeGitHub) -> CheckRun:
    run = _start(hub)
    assert isinstance(run, CheckRun), run
    return run


def _conclude(hub: FakeGitHub, run: CheckRun, count: int, token: str = "ghs_job", **options: Any) -> Outcome:
    given: dict[str, Any] = {
        "conclusion": "failure",
        "title": "2 of 9 cases failed",
        "summary": "**FAILED**",
        "annotations": _annotations(count),
        "now": NOW,
        **options,
    }
    why = given.pop("why", "")
    with connect(token, hub.url, REPOSITORY, pause=_silent, monotonic=hub.monotonic) as api:
        annotations = given.pop("annotations")
        return conclude(Access(api, why, pause=_silent), run, end_state(**given), annotations)


def _annotations(count: int) -> list[dict[str, Any]]:
    return [
        {
            "path": "agent.yaml",
            "start_line": number + 1,
            "end_line": number + 1,
            "annotation_level": "failure",
            "title": f"FAILED case {number}",
            "message": f"message {number}",
        }
        for number in range(count)
    ]


def _lines(run: dict[str, Any]) -> list[int]:
    return [annotation["start_line"] for annotation in run["annotations"]]


def _calls(hub: FakeGitHub, method: str) -> list[Any]:
    return [call for call in hub.requests if call.method == method and "/check-runs" in call.path]


# Tables


@pytest.mark.parametrize(
    ("token", "can"),
    [
        ("ghs_abc", True),
        ("v1.0123abc", True),
        ("something-else", True),
        ("ghp_abc", False),
        ("gho_abc", False),
        ("ghu_abc", False),
        ("github_pat_abc", False),
        ("0123456789abcdef0123456789abcdef01234567", False),
    ],
)
def test_a_persons_token_is_not_tried(token: str, can: bool) -> None:
    reason = token_can_check(token)
    assert (reason is None) == can
    assert reason is None or (token not in reason and "`check: false`" in reason)


def test_conclusions() -> None:
    codes = range(-1, 9)
    assert {code: conclusion_of(code, "violation") for code in codes} == {
        code: "success" if code == 0 else "failure" for code in codes
    }
    never = {0: "success", 1: "neutral", 3: "neutral", 4: "neutral"}
    assert {code: conclusion_of(code, "never") for code in codes} == {
        code: never.get(code, "failure") for code in codes
    }


# A life


@pytest.mark.parametrize("count", [0, 1, 49, 50, 51, 100, 120])
def test_annotations_come_in_batches_and_the_last_one_concludes(hub: FakeGitHub, repo: Any, count: int) -> None:
    run = _begun(hub)
    (before,) = repo.check_runs(SHA)
    assert (before["status"], before["external_id"], before["details_url"]) == ("in_progress", "1/1/f00d", RUN_URL)
    outcome = _conclude(hub, run, count)
    assert outcome == Published(f"failure, {count} annotation{'' if count == 1 else 's'}", run.html_url)
    (after,) = repo.check_runs(SHA)
    assert (after["status"], after["conclusion"]) == ("completed", "failure")
    assert after["completed_at"] == "2026-11-21T05:00:00Z"
    assert (after["output"]["title"], after["output"]["summary"]) == ("2 of 9 cases failed", "**FAILED**")
    assert _lines(after) == list(range(1, count + 1))
    sent = [call.body for call in _calls(hub, "PATCH")]
    assert len(sent) == max(1, ceil(count / 50))
    assert [body["status"] for body in sent] == ["in_progress"] * (len(sent) - 1) + ["completed"]


def test_the_end_is_given_in_utc(hub: FakeGitHub, repo: Any) -> None:
    run = _begun(hub)
    _conclude(hub, run, 0, now=NOW.astimezone(timezone(timedelta(hours=5, minutes=30))))
    assert repo.check_runs(SHA)[0]["completed_at"] == "2026-11-21T05:00:00Z"


def test_names_and_titles_are_cut(hub: FakeGitHub, repo: Any) -> None:
    run = _start(hub, name=f" {'n' * 99} {'m' * 99}\n")
    assert isinstance(run, CheckRun)
    assert repo.check_runs(SHA)[0]["name"] == "n" * 99
    _conclude(hub, run, 0, title="u" * 300)
    assert repo.check_runs(SHA)[0]["output"]["title"] == "u" * 255


# Trouble on creation


@pytest.mark.parametrize(
    "fault",
    [
        Fault("POST", POST, drop="after"),
        Fault("POST", POST, drop="before"),
        Fault("POST", POST, status=502, body="<html>"),
    ],
    ids=["after", "before", "502"],
)
def test_passing_trouble_leaves_one_check_run(hub: FakeGitHub, repo: Any, fault: Fault) -> None:
    earlier = _start(hub, external_id="1/1/0000")
    hub.fail(fault)
    run = _begun(hub)
    assert isinstance(earlier, CheckRun)
    assert run.id != earlier.id
    assert sorted(check["external_id"] for check in repo.check_runs(SHA)) == ["1/1/0000", "1/1/f00d"]
    assert isinstance(_conclude(hub, run, 3), Published)


@pytest.mark.parametrize(
    ("fault", "posts"),
    [
        (Fault("POST", POST, status=502, body="<html>", times=None), 2),
        (Fault("POST", POST, drop="before", times=None), 2),
        (Fault("POST", POST, status=422, body={"message": "No commit found for SHA"}, times=None), 1),
        (Fault("POST", POST, status=404, body={"message": "Not Found"}, times=None), 1),
    ],
    ids=["502", "before", "422", "404"],
)
def test_lasting_trouble_makes_no_check_run(hub: FakeGitHub, repo: Any, fault: Fault, posts: int) -> None:
    hub.fail(fault)
    outcome = _start(hub)
    assert isinstance(outcome, Failed)
    assert repo.check_runs(SHA) == []
    assert len(_calls(hub, "POST")) == posts


def test_a_start_that_was_interrupted_is_found_by_its_id(hub: FakeGitHub, repo: Any) -> None:
    run = _begun(hub)
    _start(hub, external_id="2/1/f00d")
    with connect("ghs_job", hub.url, REPOSITORY, pause=_silent) as api:
        github = Access(api, pause=_silent)
        assert find_started(github, SHA, "holodeck-action", "1/1/f00d") == run
        missing = find_started(github, SHA, "holodeck-action", "3/1/f00d")
        hub.fail(Fault("GET", POST, status=502, body={"message": "Bad Gateway"}, times=None))
        unreported = find_started(github, SHA, "holodeck-action", "1/1/f00d")
    assert isinstance(missing, Skipped)
    assert isinstance(unreported, Failed)
    assert "may stay in progress" in unreported.reason


def test_a_check_run_that_may_have_been_made_is_not_made_blindly(hub: FakeGitHub, repo: Any) -> None:
    hub.fail(Fault("POST", POST, drop="after"))
    hub.fail(Fault("GET", "/check-runs", status=500, body={"message": "Server Error"}, times=None))
    outcome = _start(hub)
    assert isinstance(outcome, Failed)
    assert "is unknown" in outcome.reason
    assert len(repo.check_runs(SHA)) == 1


@pytest.mark.parametrize(
    ("token", "told"),
    [
        ("ghs_read", "add `checks: write` to the `permissions:` of the job"),
        ("ghp_alice", "You must authenticate via a GitHub App"),
        ("ghs_unknown", "give `github-token` a token that is valid"),
    ],
)
def test_a_token_that_cannot_is_told_what_is_missing(hub: FakeGitHub, repo: Any, token: str, told: str) -> None:
    outcome = _start(hub, token)
    assert isinstance(outcome, Skipped)
    assert outcome.requested
    assert told in outcome.reason
    assert token not in outcome.reason


def test_why_a_token_cannot_write_comes_first(hub: FakeGitHub, repo: Any) -> None:
    outcome = _start(hub, "ghs_read", why=WHY)
    assert isinstance(outcome, Skipped)
    assert outcome.reason.startswith(WHY.rstrip("."))
    assert "`checks: write`" in outcome.reason


# Trouble on the way to the conclusion


TROUBLE = {
    "after": Fault("PATCH", PATCH, drop="after"),
    "before": Fault("PATCH", PATCH, drop="before"),
    "502": Fault("PATCH", PATCH, status=502, body="<html>"),
}


@pytest.mark.parametrize("batch", [0, 1, 2])
@pytest.mark.parametrize("fault", TROUBLE.values(), ids=TROUBLE)
def test_passing_trouble_neither_loses_nor_repeats_an_annotation(
    hub: FakeGitHub, repo: Any, fault: Fault, batch: int
) -> None:
    run = _begun(hub)
    for _ in range(batch):
        hub.fail(NOTHING)
    hub.fail(fault)
    outcome = _conclude(hub, run, 120)
    assert isinstance(outcome, Published), outcome
    (after,) = repo.check_runs(SHA)
    assert (after["status"], after["conclusion"]) == ("completed", "failure")
    assert _lines(after) == list(range(1, 121))


def test_a_batch_that_is_answered_too_late_is_not_repeated(hub: FakeGitHub, repo: Any) -> None:
    run = _begun(hub)
    hub.fail(Fault("PATCH", PATCH, late=True))
    outcome = _conclude(hub, run, 60)
    assert isinstance(outcome, Published), outcome
    assert _lines(repo.check_runs(SHA)[0]) == list(range(1, 61))


STEPS = st.lists(st.sampled_from(["through", "after", "before", "502"]), max_size=12)


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[FakeGitHub, Any]]:
    with FakeGitHub() as hub:
        yield hub, _stocked(hub)
        assert hub.violations == []


@pytest.mark.full
@settings(max_examples=40, deadline=None)
@given(steps=STEPS, count=st.sampled_from([0, 1, 50, 51, 130]), blind=st.integers(0, 20))
def test_no_order_of_trouble_repeats_an_annotation(
    shared: tuple[FakeGitHub, Any], steps: list[str], count: int, blind: int
) -> None:
    hub, repo = shared
    run = _begun(hub)
    hub.heal()
    for step in steps:
        hub.fail(NOTHING if step == "through" else TROUBLE[step])
    if blind < 3:
        for _ in range(blind):
            hub.fail(Fault("GET", PATCH))
        hub.fail(Fault("GET", PATCH, status=500, body={"message": "Server Error"}, times=None))
    outcome = _conclude(hub, run, count)
    hub.heal()
    after = next(check for check in repo.check_runs(SHA) if check["id"] == run.id)
    lines = _lines(after)
    assert lines == list(range(1, len(lines) + 1))
    if isinstance(outcome, Published):
        assert len(lines) == count
        assert (after["status"], after["conclusion"]) == ("completed", "failure")
    else:
        assert isinstance(outcome, Failed)


def test_a_batch_that_is_refused_does_not_keep_the_check_in_progress(hub: FakeGitHub, repo: Any) -> None:
    run = _begun(hub)
    hub.fail(NOTHING)
    hub.fail(Fault("PATCH", PATCH, status=422, body={"message": "Invalid request: annotation 3"}))
    outcome = _conclude(hub, run, 120)
    assert isinstance(outcome, Failed)
    assert "only 50 of its 120 annotations are certain" in outcome.reason
    assert "Invalid request: annotation 3" in outcome.reason
    assert run.html_url in outcome.reason
    (after,) = repo.check_runs(SHA)
    assert (after["status"], after["conclusion"]) == ("completed", "failure")
    assert _lines(after) == list(range(1, 51))


def test_a_count_that_lags_behind_is_not_believed(hub: FakeGitHub, repo: Any) -> None:
    """GitHub counts fewer annotations than it has said it took: whether the last ones are there cannot be told."""
    run = _begun(hub)
    hub.fail(NOTHING)
    hub.fail(Fault("PATCH", PATCH, drop="after"))
    stale = {**repo.check_runs(SHA)[0]}
    annotations = stale.pop("annotations")
    assert annotations == []
    hub.fail(Fault("GET", PATCH, status=200, body=stale, times=None))
    outcome = _conclude(hub, run, 120)
    assert isinstance(outcome, Failed)
    assert "only 50 of its 120 annotations are certain" in outcome.reason
    (after,) = repo.check_runs(SHA)
    assert (after["status"], after["conclusion"]) == ("completed", "failure")
    assert _lines(after) == list(range(1, 101))


@pytest.mark.parametrize("count", [0, 3])
def test_an_end_that_takes_many_tries_is_published(hub: FakeGitHub, repo: Any, count: int) -> None:
    """All annotations stand there, only the end is refused again and again."""
    run = _begun(hub)
    if count:
        hub.fail(TROUBLE["after"])
    for _ in range(4):
        hub.fail(TROUBLE["502"])
    outcome = _conclude(hub, run, count)
    assert outcome == Published(f"failure, {count} annotations", run.html_url)
    (after,) = repo.check_runs(SHA)
    assert (after["status"], after["conclusion"]) == ("completed", "failure")
    assert _lines(after) == list(range(1, count + 1))


def test_a_batch_of_which_nothing_is_known_is_not_repeated(hub: FakeGitHub, repo: Any) -> None:
    run = _begun(hub)
    hub.fail(Fault("PATCH", PATCH, drop="after"))
    hub.fail(Fault("GET", PATCH, status=500, body={"message": "Server Error"}, times=None))
    outcome = _conclude(hub, run, 120)
    assert isinstance(outcome, Failed)
    (after,) = repo.check_runs(SHA)
    assert (after["status"], after["conclusion"]) == ("completed", "failure")
    assert _lines(after) == list(range(1, 51))


@pytest.mark.parametrize(
    ("fault", "most"),
    [
        (Fault("PATCH", PATCH, status=500, body={"message": "Server Error"}, times=None), 5),
        (Fault("PATCH", PATCH, drop="before", times=None), 5),
        (Fault("PATCH", PATCH, status=404, body={"message": "Not Found"}, times=None), 2),
        (Fault("PATCH", PATCH, status=422, body={"message": "Invalid request"}, times=None), 2),
    ],
    ids=["500", "before", "404", "422"],
)
def test_a_check_that_cannot_be_concluded_is_named(hub: FakeGitHub, repo: Any, fault: Fault, most: int) -> None:
    run = _begun(hub)
    hub.fail(fault)
    outcome = _conclude(hub, run, 120)
    assert isinstance(outcome, Failed)
    assert "may not be concluded and may stay in progress" in outcome.reason
    assert run.html_url in outcome.reason
    assert len(_calls(hub, "PATCH")) <= most


def test_a_token_that_lost_its_rights_is_told_what_is_missing(hub: FakeGitHub, repo: Any) -> None:
    run = _begun(hub)
    outcome = _conclude(hub, run, 3, "ghs_read", why=WHY)
    assert isinstance(outcome, Skipped)
    assert outcome.requested
    assert outcome.reason.startswith(WHY.rstrip("."))
    assert "`checks: write`" in outcome.reason
