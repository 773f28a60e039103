"""Inline comments on the lines of the diff that fail: made once, kept up to date, whatever GitHub answers."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holodeck_action.decide.decision import decide
from holodeck_action.github.case_annotations import annotate
from holodeck_action.github.channels import Access, Failed, Outcome, Published, Skipped
from holodeck_action.github.rest.api import connect
from holodeck_action.github.review import (
    MOST_INLINE,
    Markers,
    failing_text,
    is_passing_text,
    passing_text,
    publish_review,
    review_text,
)
from holodeck_action.record.evaluation import ErrorInfo
from holodeck_action.reports.comment.size_limit import COMMENT
from holodeck_action.reports.report_building import build_report
from holodeck_action.reports.report_views import Report
from tests.action.runner import read_log
from tests.github.fake import FakeGitHub, Fault, Token
from tests.github.reports import at, case_at, metric, placed, report_of
from tests.record.records import turn
from tests.reports.hostile import FRAGMENTS, hostile_case, hostile_record, storable_texts
from tests.reports.parsing import check_inert, leaves, parses

REPOSITORY = "octo/shop"
BOT = "github-actions[bot]"
HEAD, NEXT = "a" * 40, "b" * 40
MARKERS = Markers("shop")
REVIEWS, REVIEW, INLINE = r"/pulls/7/reviews$", r"/pulls/7/reviews/\d+$", r"/pulls/comments/\d+$"
DENIED = {"message": "Resource not accessible by integration"}


def _file(*ranges: tuple[int, int], name: str = "shop/agent.yaml") -> dict[str, str]:
    """A changed file whose diff shows these lines, both ends included."""
    hunks = []
    for first, last in ranges:
        added = "\n".join(f"+line {number}" for number in range(first, last + 1))
        hunks.append(f"@@ -{first - 1},0 +{first},{last - first + 1} @@\n{added}")
    return {"filename": name, "status": "modified", "patch": "\n".join(hunks)}


@pytest.fixture
def repo(hub: FakeGitHub) -> Any:
    hub.add_token("ghs_job", Token(login=BOT, kind="installation", permissions={"pull_requests": "write"}))
    hub.add_token("ghs_read", Token(login=BOT, kind="installation", permissions={"pull_requests": "read"}))
    hub.add_token("ghs_none", Token(login=BOT, kind="installation", permissions={"contents": "read"}))
    hub.add_token("ghp_alice", Token(login="alice", kind="classic", permissions={"pull_requests": "write"}))
    repository = hub.add_repository(REPOSITORY)
    repository.add_pull(7, head_sha=HEAD, head_repository=REPOSITORY, files=[_file((10, 39))])
    return repository


def _suite(*scores: float, first: int = 10, **changes: Any) -> Report:
    """A suite whose cases stand on line 10, 20, 30 and so on."""
    return report_of(*(case_at(first + 10 * place, metric(score)) for place, score in enumerate(scores)), **changes)


def _publish(
    hub: FakeGitHub, *reports: Report, sha: str = HEAD, token: str = "ghs_job", review_id: str = "shop", **options: Any
) -> Outcome:
    options = {"pause": lambda seconds: None, **options}
    with connect(token, hub.url, REPOSITORY, pause=lambda seconds: None) as api:
        return publish_review(Access(api, **options), 7, sha, review_id, reports, annotate(reports))


def _inline(repo: Any) -> list[tuple[str, int | None, str]]:
    return [(item["path"], item["line"], item["body"]) for item in repo.review_comments(7)]


def _writes(hub: FakeGitHub) -> list[str]:
    return [call.method for call in hub.requests if call.method != "GET" and not call.path.endswith("/graphql")]


# What is made


def test_failing_cases_on_lines_of_the_diff_get_one_review(hub: FakeGitHub, repo: Any) -> None:
    ended = _publish(hub, _suite(0.3, 0.9, 0.1, 0.2))
    (review,) = repo.reviews(7)
    assert ended == Published("2 inline comments made", review["html_url"])
    assert review["state"] == "COMMENTED"
    assert review["commit_id"] == HEAD
    assert review["body"] == (
        "<!-- holodeck-action:review:shop -->\n"
        "**holodeck-action**: 2 failures on lines of this pull request.\n\n"
        "1 failure on lines that the diff does not show: see the report of the run."
    )
    assert [(path, line) for path, line, _ in _inline(repo)] == [("shop/agent.yaml", 30), ("shop/agent.yaml", 10)]
    body = _inline(repo)[0][2]
    assert re.match(
        r"<!-- holodeck-action:case:shop:[0-9a-f]{16} -->\n❌ `FAILED case-2 · bleu 0.10, needs 0.50: compared`\n\n```",
        body,
    )
    assert "run it alone: holodeck-action run shop/agent.yaml --case=case-2" in body
    assert body.endswith("\n```")


def test_nothing_on_lines_of_the_diff_is_nothing_to_publish(hub: FakeGitHub, repo: Any) -> None:
    for report in (_suite(0.9), _suite(0.1, first=50), _suite(0.1, folder=None), _suite(0.1, folder="other")):
        ended = _publish(hub, report)
        assert isinstance(ended, Skipped)
        assert not ended.requested
        assert "no failing case is on a line of the diff" in ended.reason
    assert _writes(hub) == []


def test_errors_and_quarantined_cases_are_left_to_annotations(hub: FakeGitHub, repo: Any) -> None:
    crashed = turn(source=at(10), response=None, error=ErrorInfo("AgentError", "it crashed", "crashed"))
    ended = _publish(hub, report_of(placed(10, crashed), placed(20, trials=())))
    assert isinstance(ended, Skipped)
    assert repo.reviews(7) == []


def test_nothing_evaluated_leaves_everything_as_it_is(hub: FakeGitHub, repo: Any) -> None:
    _publish(hub, _suite(0.3))
    before = _inline(repo), len(hub.requests)
    ended = _publish(hub)
    assert ended == Skipped("nothing was evaluated, so the review stays as it is", requested=False)
    assert (_inline(repo), len(hub.requests)) == before


def test_files_without_a_patch_and_files_that_are_gone_take_no_comment(hub: FakeGitHub, repo: Any) -> None:
    files = [{"filename": "shop/agent.yaml", "status": "modified"}, _file((1, 99), name="shop/other.yaml")]
    repo.push(7, head_sha=NEXT, files=files)
    assert isinstance(_publish(hub, _suite(0.3), sha=NEXT), Skipped)


# Re-runs


def test_a_rerun_writes_nothing_twice(hub: FakeGitHub, repo: Any) -> None:
    report = _suite(0.3, 0.2)
    first = _publish(hub, report)
    before = _inline(repo)
    again = _publish(hub, report)
    assert isinstance(first, Published)
    assert again == Published("unchanged", first.url)
    assert _inline(repo) == before
    assert _writes(hub) == ["POST"]


def test_what_fails_differently_is_edited(hub: FakeGitHub, repo: Any) -> None:
    _publish(hub, _suite(0.3, 0.2))
    ended = _publish(hub, _suite(0.3, 0.4), sha=HEAD)
    assert isinstance(ended, Published)
    assert ended.detail == "1 inline comment updated"
    assert len(repo.reviews(7)) == 1
    assert sorted("0.40, needs 0.50" in body for _, _, body in _inline(repo)) == [False, True]


def test_what_holds_now_says_so_and_is_not_rewritten(hub: FakeGitHub, repo: Any) -> None:
    _publish(hub, _suite(0.3, 0.2))
    repo.push(7, head_sha=NEXT)
    ended = _publish(hub, _suite(0.9, 0.2), sha=NEXT)
    assert isinstance(ended, Published)
    assert ended.detail == "1 inline comment marked as passing, review updated"
    bodies = [body for _, _, body in _inline(repo)]
    (passing,) = (body for body in bodies if is_passing_text(body))
    assert passing.splitlines()[1] == "✅ passes now (commit `bbbbbbb`)"
    assert passing.splitlines()[0].startswith("<!-- holodeck-action:case:shop:")
    third = "c" * 40
    repo.push(7, head_sha=third)
    writes = len(_writes(hub))
    assert isinstance(_publish(hub, _suite(0.9, 0.2), sha=third), Published)
    assert len(_writes(hub)) == writes
    ended = _publish(hub, _suite(0.9, 0.9), sha=third)
    assert isinstance(ended, Published)
    assert repo.reviews(7)[0]["body"].endswith("the newest run found no failure on a line of this pull request.")


def test_what_fails_again_takes_its_comment_back(hub: FakeGitHub, repo: Any) -> None:
    _publish(hub, _suite(0.3))
    _publish(hub, _suite(0.9))
    ended = _publish(hub, _suite(0.2))
    assert isinstance(ended, Published)
    assert ended.detail == "1 inline comment updated, review updated"
    ((_, _, body),) = _inline(repo)
    assert "0.20, needs 0.50" in body
    assert not is_passing_text(body)


@pytest.mark.parametrize("how", ["error", "skipped", "gone"])
def test_what_was_not_judged_keeps_its_comment(hub: FakeGitHub, repo: Any, how: str) -> None:
    _publish(hub, _suite(0.3, 0.9))
    before = _inline(repo)
    crashed = turn(source=at(10), response=None, error=ErrorInfo("AgentError", "it crashed", "crashed"))
    case = {"error": placed(10, crashed), "skipped": placed(10, trials=())}.get(how)
    report = report_of(case, case_at(20, metric(0.9))) if case else report_of(folder="elsewhere")
    _publish(hub, report)
    assert _inline(repo) == before
    if case:
        assert "⚠️ 1 case was not judged" in repo.reviews(7)[0]["body"]


def test_new_failures_come_in_a_review_of_their_own(hub: FakeGitHub, repo: Any) -> None:
    _publish(hub, _suite(0.3, 0.9))
    repo.push(7, head_sha=NEXT)
    ended = _publish(hub, _suite(0.3, 0.1), sha=NEXT)
    first, second = repo.reviews(7)
    assert ended == Published("1 inline comment made", second["html_url"])
    assert [item["pull_request_review_id"] for item in repo.review_comments(7)] == [first["id"], second["id"]]
    assert second["body"].splitlines()[1] == "**holodeck-action**: 2 failures on lines of this pull request."


def test_a_comment_whose_line_left_the_diff_is_still_the_same(hub: FakeGitHub, repo: Any) -> None:
    _publish(hub, _suite(0.3))
    repo.push(7, head_sha=NEXT, files=[_file((100, 120))])
    moved = _suite(0.2, first=110)
    ended = _publish(hub, moved, sha=NEXT)
    assert isinstance(ended, Published)
    ((_, line, body),) = _inline(repo)
    assert line is None
    assert "0.20, needs 0.50" in body


def test_ids_keep_reviews_of_several_steps_apart(hub: FakeGitHub, repo: Any) -> None:
    _publish(hub, _suite(0.3))
    _publish(hub, _suite(0.3), review_id="shop--2 -->")
    assert len(repo.reviews(7)) == 2
    _publish(hub, _suite(0.9))
    assert [is_passing_text(body) for _, _, body in _inline(repo)] == [True, False]


def test_a_comment_that_was_hidden_is_not_made_again(hub: FakeGitHub, repo: Any) -> None:
    _publish(hub, _suite(0.3))
    repo.minimize(repo.review_comments(7)[0]["node_id"], "RESOLVED")
    _publish(hub, _suite(0.2))
    assert len(_inline(repo)) == 1


# Whose they are


def _forge(repo: Any, author: str, author_type: str = "User") -> list[tuple[str, int | None, str]]:
    """Somebody writes our markers into a review of theirs."""
    (mark,) = annotate([_suite(0.3)])
    body = f"{MARKERS.case(mark.key)}\nnothing fails here"
    comment = {"path": mark.path, "line": 11, "body": body}
    repo.add_review(7, author=author, author_type=author_type, body=f"{MARKERS.review}\nfine", comments=[comment])
    return _inline(repo)


@pytest.mark.parametrize(("author", "author_type"), [("mallory", "User"), ("evil[bot]", "Bot")])
def test_markers_of_others_are_neither_edited_nor_believed(
    hub: FakeGitHub, repo: Any, author: str, author_type: str
) -> None:
    forged = _forge(repo, author, author_type)
    ended = _publish(hub, _suite(0.3))
    assert isinstance(ended, Published)
    assert _inline(repo)[:1] == forged
    assert len(_inline(repo)) == 2
    _publish(hub, _suite(0.9))
    assert _inline(repo)[:1] == forged
    assert repo.reviews(7)[0]["body"] == f"{MARKERS.review}\nfine"


def test_a_person_who_quotes_ours_is_not_ours(hub: FakeGitHub, repo: Any) -> None:
    _publish(hub, _suite(0.3))
    quoted = repo.review_comments(7)[0]["body"]
    repo.add_review(7, author="bob", body="see", comments=[{"path": "shop/agent.yaml", "line": 10, "body": quoted}])
    _publish(hub, _suite(0.9))
    assert [is_passing_text(body) for _, _, body in _inline(repo)] == [True, False]


@pytest.mark.parametrize(
    "fault",
    [
        Fault("POST", "/graphql", status=404, body={"message": "Not Found"}, times=None),
        Fault("POST", "/graphql", status=403, body=DENIED, times=None),
        Fault("POST", "/graphql", status=200, body={"errors": [{"message": "broken"}]}, times=None),
    ],
)
def test_without_graphql_a_bots_is_ours_and_a_persons_never(hub: FakeGitHub, repo: Any, fault: Fault) -> None:
    hub.fail(fault)
    forged = _forge(repo, "mallory")
    assert isinstance(_publish(hub, _suite(0.3)), Published)
    again = _publish(hub, _suite(0.2))
    assert isinstance(again, Published)
    assert again.detail == "1 inline comment updated"
    assert _inline(repo)[:1] == forged
    assert len(_inline(repo)) == 2


def test_without_graphql_a_persons_token_makes_no_second_comment(hub: FakeGitHub, repo: Any) -> None:
    assert isinstance(_publish(hub, _suite(0.3), token="ghp_alice", app=False), Published)
    hub.fail(Fault("POST", "/graphql", status=404, body={"message": "Not Found"}, times=None))
    ended = _publish(hub, _suite(0.2), token="ghp_alice", app=False)
    assert isinstance(ended, Failed)
    assert "it is unknown whether inline comments with our marker are ours" in ended.reason
    assert len(_inline(repo)) == 1


def test_a_persons_token_keeps_its_own_up_to_date(hub: FakeGitHub, repo: Any) -> None:
    _publish(hub, _suite(0.3), token="ghp_alice", app=False)
    ended = _publish(hub, _suite(0.9), token="ghp_alice", app=False)
    assert isinstance(ended, Published)
    ((_, _, body),) = _inline(repo)
    assert is_passing_text(body)


# Limits


def _many(repo: Any, count: int) -> None:
    repo.push(7, head_sha=NEXT, files=[_file((1, 10 * count + 20))])


def test_at_most_twenty_inline_comments_the_worst_first_and_the_rest_named(hub: FakeGitHub, repo: Any) -> None:
    _many(repo, 30)
    scores = [number / 100 for number in range(30)]
    ended = _publish(hub, _suite(*scores), sha=NEXT)
    assert isinstance(ended, Published)
    assert [line for _, line, _ in _inline(repo)] == [10 + 10 * place for place in range(MOST_INLINE)]
    (review,) = repo.reviews(7)
    assert "30 failures on lines of this pull request." in review["body"]
    named = re.findall(r"^- `shop/agent.yaml:(\d+)`: `FAILED", review["body"], re.MULTILINE)
    assert named == [str(10 + 10 * place) for place in range(MOST_INLINE, 30)]
    # Half of them hold now: their places are free again.
    ended = _publish(hub, _suite(*(0.9 if place < 10 else score for place, score in enumerate(scores))), sha=NEXT)
    assert isinstance(ended, Published)
    assert ended.detail == "10 inline comments made, 10 inline comments marked as passing"
    failing = [body for _, _, body in _inline(repo) if not is_passing_text(body)]
    assert len(failing) == MOST_INLINE


@pytest.mark.full
def test_hundreds_of_failing_cases_with_hostile_answers_are_one_review(hub: FakeGitHub, repo: Any) -> None:
    # No comment shows 8,000 characters of one.
    made = hostile_record(300, 10_000)
    cases = tuple(
        replace(
            case,
            source=at(10 + place),
            trials=tuple(
                replace(trial, turns=tuple(replace(item, source=at(10 + place)) for item in trial.turns))
                for trial in case.trials
            ),
        )
        for place, case in enumerate(made.cases)
    )
    made = replace(made, cases=cases, provenance=replace(made.provenance, folder="shop"))
    report = build_report(made, decide(made))
    repo.push(7, head_sha=NEXT, files=[_file((1, 400))])
    ended = _publish(hub, report, sha=NEXT)
    assert isinstance(ended, Published), ended
    (review,) = repo.reviews(7)
    assert len(review["body"].encode()) <= COMMENT.bytes
    assert re.search(r"^- … and [\d,]+ more$", review["body"], re.MULTILINE)
    assert len(_inline(repo)) == MOST_INLINE
    assert sum(len(body) for _, _, body in _inline(repo)) <= 20 * 8000
    again = _publish(hub, report, sha=NEXT)
    assert isinstance(again, Published)
    assert again.detail == "unchanged"


# Hostile text


@given(storable_texts)
def test_hostile_text_is_code_and_nothing_else(text: str) -> None:
    report = report_of(hostile_case(f"{text} sentinel", source=at(3)))
    for mark in annotate([report]):
        body = failing_text(MARKERS, mark)
        assert len(body) <= 8000
        _check(body, 1)
        _check(review_text(MARKERS, [report], [], [mark], 3), 1)


def _check(body: str, hidden: int) -> None:
    lines = body.split("\n")
    assert all(re.fullmatch(r"<!-- holodeck-action:\w+:[\w:]+ -->", line) for line in lines[:hidden])
    for tokens in parses(body):
        blocks = [token.content for token in tokens if token.type == "html_block"]
        assert blocks == [lines[0] + "\n"] or blocks == [lines[0]]
        assert not [token for token in leaves(tokens) if token.type in ("link_open", "image", "html_inline")]
    check_inert("\n".join(lines[hidden:]), "sentinel")
    assert read_log(body.encode()).commands == ()


@pytest.mark.parametrize("shift", range(0, len(FRAGMENTS), 12))
def test_the_hostile_corpus_goes_through_the_api_as_code(hub: FakeGitHub, repo: Any, shift: int) -> None:
    case = hostile_case("".join(FRAGMENTS[shift : shift + 12]), source=at(10))
    (trial,) = case.trials
    trial = replace(trial, turns=tuple(replace(item, source=at(10)) for item in trial.turns))
    assert isinstance(_publish(hub, report_of(replace(case, trials=(trial,)))), Published)
    (review,) = repo.reviews(7)
    _check(review["body"], 1)
    for _, _, body in _inline(repo):
        _check(body, 1)


@given(st.text(max_size=40), st.text(alphabet="0123456789abcdef", min_size=16, max_size=16))
def test_markers_tell_their_id_and_key_and_no_other(review_id: str, key: str) -> None:
    markers = Markers(review_id)
    assert markers.key_of(f"{markers.case(key)}\r\ntext") == key
    assert markers.key_of(passing_text(markers, key, HEAD)) == key
    assert markers.is_review(f"{markers.review}\ntext")
    other = Markers(f"{review_id}:{key}")
    assert other.key_of(markers.case(key)) is None
    assert markers.key_of(other.case(key)) is None
    assert not other.is_review(markers.review)
    for body in (f"text\n{markers.case(key)}", key, f"{key} -->", markers.case(key).removesuffix(" -->")):
        assert markers.key_of(body) is None
    for line in (markers.review, markers.case(key)):
        assert "\n" not in line
        assert "--" not in line.removeprefix("<!--").removesuffix("-->")


@given(st.text(max_size=200))
def test_any_body_is_read(body: str) -> None:
    assert MARKERS.key_of(body) is None
    assert not MARKERS.is_review(body)
    assert is_passing_text(body) == ("\n✅ passes now" in body)


# Trouble


def _expect_once(hub: FakeGitHub, repo: Any, ended: Outcome) -> None:
    assert isinstance(ended, Published), ended
    assert len(repo.reviews(7)) == 1
    assert len(_inline(repo)) == 2


@pytest.mark.parametrize(
    "fault",
    [
        Fault("POST", REVIEWS, drop="after"),
        Fault("POST", REVIEWS, drop="before"),
        Fault("POST", REVIEWS, status=502, body="<html>Bad Gateway</html>"),
        Fault("GET", r"/pulls/7/(files|comments|reviews)$", status=502, body="<html>", times=2),
    ],
    ids=lambda fault: f"{fault.method} {fault.status or fault.drop}",
)
def test_trouble_that_passes_leaves_one_review(hub: FakeGitHub, repo: Any, fault: Fault) -> None:
    hub.fail(fault)
    _expect_once(hub, repo, _publish(hub, _suite(0.3, 0.2)))


def test_a_review_that_shows_late_is_not_made_again(hub: FakeGitHub, repo: Any) -> None:
    hub.fail(Fault("POST", REVIEWS, drop="after"))
    # Not yet among the inline comments when they are looked at first.
    hub.fail(Fault("GET", r"/pulls/7/comments$", status=200, body=[]))
    hub.fail(Fault("GET", r"/pulls/7/comments$", status=200, body=[]))
    waits: list[float] = []
    _expect_once(hub, repo, _publish(hub, _suite(0.3, 0.2), pause=waits.append))
    assert waits == [1.0, 4.0]


def test_a_review_of_which_nothing_can_be_told_is_not_sent_again(hub: FakeGitHub, repo: Any) -> None:
    waits: list[float] = []

    def lose(seconds: float) -> None:
        waits.append(seconds)
        hub.fail(Fault("GET", r"/pulls/7/comments$", status=500, body={"message": "no"}, times=None))

    hub.fail(Fault("POST", REVIEWS, drop="after"))
    ended = _publish(hub, _suite(0.3, 0.2), pause=lose)
    assert isinstance(ended, Failed)
    assert "was not sent again; the next run brings it up to date" in ended.reason
    hub.heal()
    assert len(repo.reviews(7)) == 1
    _expect_once(hub, repo, _publish(hub, _suite(0.3, 0.2)))


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault("POST", REVIEWS, status=502, body="<html>", times=None), Failed),
        (Fault("POST", REVIEWS, status=422, body={"message": "Unprocessable Entity"}, times=None), Failed),
        (Fault("POST", REVIEWS, status=404, body={"message": "Not Found"}, times=None), Failed),
        (Fault("POST", REVIEWS, status=403, body=DENIED, times=None), Skipped),
        (Fault("GET", r"/pulls/7/comments$", status=403, body=DENIED, times=None), Skipped),
        (Fault("GET", r"/pulls/7/files$", status=500, body={"message": "no"}, times=None), Failed),
        (Fault("GET", r"/pulls/7/comments$", status=401, body={"message": "Bad credentials"}, times=None), Skipped),
    ],
    ids=lambda value: f"{value.method} {value.path} {value.status or value.drop}" if isinstance(value, Fault) else "",
)
def test_trouble_for_good_is_said_and_nothing_is_made(
    hub: FakeGitHub, repo: Any, fault: Fault, kind: type[Failed] | type[Skipped]
) -> None:
    hub.fail(fault)
    ended = _publish(hub, _suite(0.3, 0.2), read_only_reason="Dependabot's token is read-only.")
    assert isinstance(ended, kind), ended
    assert "review could not be" in ended.reason or "is unknown" in ended.reason
    assert "ghs_job" not in ended.reason
    assert repo.reviews(7) == []
    if isinstance(ended, Skipped):
        assert ended.requested
    if fault.body == DENIED:
        assert ended.reason.startswith("Dependabot's token is read-only; ")
        assert "add `pull-requests: " in ended.reason


@pytest.mark.parametrize(("token", "permission"), [("ghs_read", "write"), ("ghs_none", "read")])
def test_a_token_that_may_not_names_the_permission(hub: FakeGitHub, repo: Any, token: str, permission: str) -> None:
    ended = _publish(hub, _suite(0.3), token=token)
    assert isinstance(ended, Skipped)
    assert ended.requested
    assert f"add `pull-requests: {permission}` to the `permissions:` of the job" in ended.reason


def test_a_head_that_moved_in_between_is_said(hub: FakeGitHub, repo: Any) -> None:
    ended = _publish(hub, _suite(0.3), sha="c" * 40)
    assert isinstance(ended, Failed)
    assert hub.take_violations()
    assert repo.reviews(7) == []


@pytest.mark.parametrize("status", [404, 500])
def test_an_inline_comment_that_is_gone_stops_nothing(hub: FakeGitHub, repo: Any, status: int) -> None:
    _publish(hub, _suite(0.3, 0.2))
    hub.fail(Fault("PATCH", INLINE, status=status, body={"message": "no"}))
    ended = _publish(hub, _suite(0.4, 0.1))
    assert isinstance(ended, Published)
    assert ended.detail == f"{'1 inline comment' if status == 404 else '2 inline comments'} updated"


def test_an_edit_that_fails_for_good_says_how_far_it_came(hub: FakeGitHub, repo: Any) -> None:
    _publish(hub, _suite(0.3, 0.2))
    first = repo.review_comments(7)[0]["id"]
    other = repo.review_comments(7)[1]["id"]
    hub.fail(Fault("PATCH", rf"/pulls/comments/({first}|{other})$", status=422, body={"message": "Spammed"}))
    ended = _publish(hub, _suite(0.4, 0.1, 0.0))
    assert isinstance(ended, Failed)
    assert "Spammed" in ended.reason
    hub.fail(Fault("PUT", REVIEW, status=500, body={"message": "no"}, times=None))
    ended = _publish(hub, _suite(0.9, 0.9))
    assert isinstance(ended, Failed)
    assert "the review could not be updated" in ended.reason
