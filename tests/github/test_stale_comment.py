"""A comment of an earlier commit that a run cannot replace: check run and job summary begin with that."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.action.step import Ended
from tests.commands.project import Project
from tests.github.events import HEAD
from tests.github.fake import FakeGitHub, Fault
from tests.github.life import FIXED, head, suite
from tests.github.steps import Scene, is_published, naming, places, rows
from tests.github.test_faults import DENIED, OUTCOMES, TROUBLE, matters
from tests.github.workflow import BOT, READS, REPOSITORY

LINK = f"[`{HEAD[:7]}`](https://github.com/octo/shop/commit/{HEAD})"
ABOUT = f"⚠️ **The comment on this pull request is about {LINK} and is out of date:** this run could not replace it."
AGAIN = "⚠️ **The comment on this pull request is of an earlier run and is out of date:** this run could not replace it."
PERHAPS = "⚠️ **The comment on this pull request may be out of date:** this run could not replace it."
WAS = (
    f"⚠️ **The comment on this pull request was about {LINK} and may be out of date:** "
    "it is unknown whether this run replaced it."
)
CANNOT = Fault("PATCH", r"/issues/comments/\d+$", status=403, body=DENIED, times=None)
UNREADABLE = Fault("GET", r"/issues/7/comments$", status=502, body="<html>", times=None)
_STALE = re.compile(r"⚠️ \*\*(The|A) comment on ")


@pytest.fixture
def scene(hub: FakeGitHub, project: Project) -> Scene:
    """A comment of HEAD with a failing case stands there; FIXED, in which all pass, is the head now."""
    made = Scene(hub, Project(project.folder / "workspace"))
    suite(made.project, "refund")
    made.show_diff()
    made.step({})
    suite(made.project)
    made.repository.push(7, head_sha=FIXED, files=[])
    made.keep()
    return made


def run(scene: Scene, inputs: Mapping[str, str] | None = None, **options: Any) -> Ended:
    """Run the step on the new head."""
    return scene.step(inputs or {}, name="pull_request.synchronize", payload=head(FIXED), **options)


def begins(scene: Scene, ended: Ended, sha: str = FIXED) -> tuple[str, str]:
    """The first lines of the newest check run's summary and of the job summary."""
    checks = scene.repository.check_runs(sha)
    shown = max(checks, key=lambda run: run["id"])["output"]["summary"] if checks else ""
    return str(shown).split("\n")[0], ended.summary.split("\n")[0]


def test_a_comment_that_is_replaced_is_no_news(scene: Scene) -> None:
    ended = run(scene)
    assert is_published(rows(ended.summary)["comment"])
    assert not any(_STALE.match(line) for line in begins(scene, ended))


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (CANNOT, ABOUT),
        (Fault("PATCH", CANNOT.path, status=404, body={"message": "Not Found"}, times=None), ABOUT),
        (Fault("PATCH", CANNOT.path, status=422, body={"message": "too long"}, times=None), ABOUT),
        (Fault("PATCH", CANNOT.path, status=502, body="<html>", times=None), ABOUT),
        (UNREADABLE, PERHAPS),
        (Fault("GET", UNREADABLE.path, status=403, body=DENIED, times=None), PERHAPS),
        (Fault("GET", UNREADABLE.path, drop="before", times=None), PERHAPS),
    ],
    ids=["denied", "gone", "too-long", "down", "unreadable", "unreadable-denied", "unreachable"],
)
def test_check_and_summary_begin_with_what_stands_there(scene: Scene, fault: Fault, line: str) -> None:
    scene.hub.fail(fault)
    ended = run(scene)
    assert not is_published(rows(ended.summary)["comment"])
    assert begins(scene, ended) == (line, line)
    (check,) = scene.repository.check_runs(FIXED)
    assert (check["status"], check["conclusion"]) == ("completed", "success")
    # What the check run says otherwise follows.
    assert "✅" in check["output"]["summary"]
    assert scene.hub.violations == []


def test_annotations_stand_once_although_the_check_run_is_written_again(scene: Scene) -> None:
    suite(scene.project, "refund", "shipping")
    scene.hub.fail(CANNOT)
    ended = run(scene)
    (check,) = scene.repository.check_runs(FIXED)
    assert begins(scene, ended) == (ABOUT, ABOUT)
    assert (check["conclusion"], len(check["annotations"])) == ("failure", 2)


def test_a_write_of_which_nothing_is_known(scene: Scene) -> None:
    scene.hub.fail(Fault("PATCH", CANNOT.path, drop="after", times=None))
    scene.hub.fail(Fault("GET", UNREADABLE.path))
    scene.hub.fail(UNREADABLE)
    ended = run(scene)
    assert not is_published(rows(ended.summary)["comment"])
    assert begins(scene, ended) == (WAS, WAS)


def test_an_earlier_run_of_the_same_commit(scene: Scene) -> None:
    run(scene)
    suite(scene.project, "refund")
    scene.hub.fail(CANNOT)
    ended = run(scene)
    assert begins(scene, ended) == (AGAIN, AGAIN)


def test_a_comment_whose_hidden_data_was_changed(scene: Scene) -> None:
    (comment,) = scene.repository.all_comments.values()
    lines = comment.body.split("\n")
    comment.body = "\n".join([lines[0], "<!-- changed -->", *lines[2:]])
    scene.hub.fail(CANNOT)
    assert begins(scene, run(scene)) == (AGAIN, AGAIN)


@pytest.mark.parametrize("event", ["pull_request.fork", "pull_request.dependabot"])
def test_a_token_that_only_reads(scene: Scene, event: str) -> None:
    ended = scene.step({}, name=event, payload=head(FIXED), permissions=READS)
    # It can write no check run either.
    assert scene.repository.check_runs(FIXED) == []
    assert ended.summary.split("\n")[0] == ABOUT


def test_without_a_comment_of_ours_there_is_nothing_to_say(hub: FakeGitHub, project: Project) -> None:
    scene = Scene(hub, Project(project.folder / "workspace"))
    suite(scene.project, "refund")
    scene.show_diff()
    scene.repository.add_comment(7, author="alice", author_type="User", body="Nice.")
    hub.fail(Fault("POST", r"/issues/7/comments$", status=403, body=DENIED, times=None))
    ended = scene.step({})
    assert not is_published(rows(ended.summary)["comment"])
    assert not any(_STALE.match(line) for line in begins(scene, ended, HEAD))


@pytest.mark.parametrize(
    ("inputs", "event"),
    [({"comment": "off"}, "pull_request.synchronize"), ({}, "merge_group"), ({}, "schedule")],
    ids=["off", "queue", "schedule"],
)
def test_where_no_comment_is_to_be_written_none_is_out_of_date(
    scene: Scene, inputs: Mapping[str, str], event: str
) -> None:
    scene.hub.fail(Fault("*", "/issues/", status=502, body="<html>", times=None))
    ended = scene.step(inputs, name=event, payload=head(FIXED) if event.startswith("pull") else None)
    assert not _STALE.match(ended.summary)


def test_a_slow_run_of_an_old_commit_says_nothing_of_the_newer_comment(scene: Scene) -> None:
    run(scene)
    ended = scene.step({}, name="pull_request.synchronize", payload=head(HEAD))
    assert "newer commit" in ended.summary
    assert not any(_STALE.match(line) for line in begins(scene, ended, HEAD))


def test_the_comment_of_another_step_of_this_run_is_not_out_of_date(scene: Scene) -> None:
    suite(scene.project, "refund", "shipping")
    run(scene, GITHUB_RUN_ID="777")
    suite(scene.project)
    ended = run(scene, GITHUB_RUN_ID="777")
    assert "two steps of this run write the same comment" in ended.summary
    assert "its own `--check-name`" in ended.summary
    assert not any(_STALE.match(line) for line in begins(scene, ended))


def test_a_suite_that_cannot_be_read_leaves_the_old_verdict_standing_and_says_so(scene: Scene) -> None:
    scene.project.write("agent.yaml", "name: [broken\n")
    scene.hub.fail(CANNOT)
    ended = run(scene)
    assert ended.code == 2
    assert begins(scene, ended) == (ABOUT, ABOUT)


def test_inputs_that_cannot_be_used_leave_the_comment_as_it_is(scene: Scene) -> None:
    ended = run(scene, {"check": "maybe"})
    assert ended.code == 2
    assert ended.summary.split("\n")[0] == PERHAPS
    assert not _STALE.match(run(scene, {"check": "maybe", "comment": "off"}).summary)


def test_without_a_token(scene: Scene) -> None:
    ended = run(scene, {"github-token": ""}, GITHUB_TOKEN="")
    assert ended.summary.split("\n")[0] == PERHAPS


def test_each_of_several_pull_requests_is_named(scene: Scene) -> None:
    scene.repository.add_pull(8, head_sha=FIXED, head_repository=REPOSITORY, branch="topic", files=[])
    scene.hub.fail(CANNOT)
    ended = scene.step({}, name="push", payload={"after": FIXED}, GITHUB_SHA=FIXED, checkout=FIXED)
    named = ABOUT.replace("this pull request", "pull request #7")
    assert begins(scene, ended) == (named, named)


def test_pull_requests_that_cannot_be_looked_up(scene: Scene) -> None:
    scene.hub.fail(Fault("GET", r"/commits/[0-9a-f]+/pulls$", status=502, body="<html>", times=None))
    ended = scene.step({}, name="push", payload={"after": FIXED}, GITHUB_SHA=FIXED, checkout=FIXED)
    line = PERHAPS.replace("The comment on this pull request", "A comment on a pull request with this commit")
    assert begins(scene, ended) == (line, line)


@pytest.mark.full
def test_the_template_of_a_user_and_a_long_report_begin_with_it_too(scene: Scene) -> None:
    scene.project.write(
        "mine.j2", "{% for n in range(3000) %}Line {{ n }} of mine, which is long enough.\n{% endfor %}"
    )
    scene.hub.fail(CANNOT)
    ended = run(scene, {"template": "mine.j2"})
    assert begins(scene, ended) == (ABOUT, ABOUT)
    (check,) = scene.repository.check_runs(FIXED)
    assert len(check["output"]["summary"].encode()) <= 65_535
    assert ended.text.count("note: ") == ended.text.count("note: comment")


def test_a_check_run_that_cannot_be_written_again_says_so_in_the_summary(scene: Scene) -> None:
    scene.hub.fail(CANNOT)
    scene.hub.fail(Fault("PATCH", r"/check-runs/\d+$"))
    scene.hub.fail(Fault("PATCH", r"/check-runs/\d+$", status=422, body={"message": "no"}, times=None))
    ended = run(scene)
    assert ended.summary.split("\n")[0] == ABOUT
    row = rows(ended.summary)["check"]
    assert "is concluded (success), but its summary does not start with the notice about the outdated comment" in row


@pytest.mark.full
@pytest.mark.parametrize("trouble", OUTCOMES)
def test_whatever_goes_wrong_an_old_comment_is_replaced_or_named(scene: Scene, trouble: str) -> None:
    """Once at each request, and for ever from the first of each kind on."""
    calls = scene.calls(lambda: run(scene))
    found = places([call for call in calls if "/check-runs" not in call.path], every=True)
    for place in (place for place in found if matters(place, trouble)):
        with naming((place, trouble)):
            scene.restore()
            place.order(scene.hub, Fault("*", "", **TROUBLE[trouble]))
            made = scene.calls(lambda: check_told(scene, run(scene)))
            # A trouble for ever is one that happens once, unless there are later requests that it meets.
            if place.nth == 0 and place.count(made) > 1:
                scene.restore()
                place.order(scene.hub, Fault("*", "", times=None, **TROUBLE[trouble]))
                check_told(scene, run(scene))


def check_told(scene: Scene, ended: Ended) -> None:
    """Check that first lines speak of an old comment where one of ours stands, and only there."""
    bodies = [item["body"] for item in scene.repository.comments(7) if item["user"]["login"] == BOT]
    old = [body for body in bodies if f"commit [`{HEAD[:7]}`]" in body]
    lines = begins(scene, ended)
    if old and len(bodies) == 1:
        assert all(_STALE.match(line) for line in lines), lines
    if any(_STALE.match(line) for line in lines):
        assert not is_published(rows(ended.summary)["comment"])
    told: Callable[[str], bool] = lambda line: "is out of date" not in line or bool(old)  # noqa: E731
    assert all(map(told, lines))
