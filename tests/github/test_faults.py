"""Faults at every call of a step: the verdict stands, nothing is there twice, and the summary says what happened.

The calls are those that a run without faults makes, so that a new call is covered by itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from holodeck_action.commands.publish import read_runs
from holodeck_action.github.channel_options import channel_options_from
from holodeck_action.github.channels import POLL_PAUSES_S, Access, Channel, Published
from holodeck_action.github.event import named_destination
from holodeck_action.github.publisher import Connection, Findings, Publisher
from holodeck_action.github.rest.api import connect
from holodeck_action.github.rest.retry import TOTAL_WAIT_S
from holodeck_action.reports.comment.places import LinkContext as Where
from holodeck_action.text.redaction import Redactor
from tests.action.step import Ended
from tests.commands.project import Project
from tests.github.events import HEAD
from tests.github.fake import FakeGitHub, Fault
from tests.github.life import suite
from tests.github.steps import ALL, CHANNELS, Place, Scene, check_no_token, is_published, naming, places, rows
from tests.github.workflow import BOT, REPOSITORY, TOKEN

DENIED = {"message": "Resource not accessible by integration"}
SECONDARY = {"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}
TOO_LONG = {
    "message": "Validation Failed",
    "errors": [
        {
            "resource": "IssueComment",
            "code": "unprocessable",
            "field": "data",
            "message": "Body is too long (maximum is 65536 characters)",
        }
    ],
}
UNICORN = "<html><body>Unicorn! github_pat_looking <img src=x></body></html>"

TROUBLE: Mapping[str, Mapping[str, Any]] = {
    "403 read-only": {"status": 403, "body": DENIED},
    "403 secondary limit": {"status": 403, "body": SECONDARY},
    "403 secondary limit with Retry-After": {"status": 403, "body": SECONDARY, "headers": {"Retry-After": "7"}},
    "403 limit used up until 2100": {
        "status": 403,
        "body": {"message": "API rate limit exceeded for installation ID 1."},
        "headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "4102444800"},
    },
    "404": {"status": 404, "body": {"message": "Not Found"}},
    "422 too long": {"status": 422, "body": TOO_LONG},
    "429": {"status": 429, "body": {"message": "Too many requests"}},
    "500": {"status": 500, "body": {"message": "Server Error"}},
    "502": {"status": 502, "body": UNICORN},
    "200 of a proxy": {"status": 200, "body": UNICORN},
    "200 of another shape": {"status": 200, "body": {"id": "x", "data": None}},
    "dropped before": {"drop": "before"},
    "dropped after": {"drop": "after"},
}

OUTCOMES = ["403 read-only", "404", "422 too long", "200 of another shape", "dropped after"]
"""One trouble of each kind that the channels tell apart: denied, not found, refused, and without a usable answer, where
a write is done or is not. What makes it that kind is shown in test_retry."""

_DURATION = re.compile(r"\d[\d.,]* (?:ms|s)\b")

ALL_POLLS_S = 6 * sum(POLL_PAUSES_S)
"""Seconds of looks for what an unanswered write has done, in one run: no channel looks more than three times in a row,
and none but one meets the fault's call more than twice."""


def matters(place: Place, trouble: str) -> bool:
    """Tell whether a trouble is one of its own at a request.

    What reads is refused in one way and does nothing; what makes something new finds nothing that is gone.
    """
    reads = place.method == "GET" or place.path == "/graphql"
    return {"404": reads or place.method != "POST", "422 too long": not reads, "dropped after": not reads}.get(
        trouble, True
    )


def first_run(scene: Scene) -> None:
    """Nothing of ours stands on GitHub yet."""
    suite(scene.project, "refund", "shipping")
    scene.show_diff()
    scene.keep()


def second_run(scene: Scene) -> None:
    """Comment, review and inline comments stand there and are to be changed; the check run is new in every run."""
    scene.interest = "comments|reviews|graphql"
    first_run(scene)
    scene.step()
    suite(scene.project, "refund")
    answers = scene.project.folder / "answers.jsonl"
    answers.write_text(answers.read_text(encoding="utf-8").replace("no idea", "who knows"), encoding="utf-8")
    scene.keep()


def many_annotations(scene: Scene) -> None:
    """The check run is concluded with the second request; all else is as in the first run."""
    scene.interest = r"/check-runs/"
    scene.project.numbered(60, frozenset(range(55)))
    scene.show_diff(first=1, last=1)
    scene.keep()


SCENES = {"first run": first_run, "second run": second_run, "many annotations": many_annotations}


@pytest.fixture(params=SCENES)
def scene(request: pytest.FixtureRequest, hub: FakeGitHub, project: Project) -> Scene:
    """A scene; what it is about is prepared."""
    made = Scene(hub, Project(project.folder / "workspace"))
    SCENES[request.param](made)
    return made


def clean(scene: Scene, **options: Any) -> tuple[Ended, list[Any]]:
    """Run without faults."""
    ended: list[Ended] = []
    calls = scene.calls(lambda: ended.append(scene.step(**options)))
    scene.restore()
    return ended[0], calls


def check_same_verdict(scene: Scene, ended: Ended, without: Ended) -> None:
    """Check that the verdict and what tells of it are those of a run without faults."""
    urls = {f"{channel}-url" for channel in CHANNELS}
    assert ended.code == without.code
    assert {name: ended.outputs[name] for name in ended.outputs.keys() - urls} == {
        name: without.outputs[name] for name in without.outputs.keys() - urls
    }
    assert {"verdict", "exit-code", "results-path"} <= ended.outputs.keys() - urls
    assert (scene.project.folder / ended.outputs["results-path"]).is_file()
    assert _DURATION.sub("", ended.report) == _DURATION.sub("", without.report)


def check_nothing_twice(scene: Scene) -> None:
    """Check that every thing stands on GitHub once."""
    assert len(scene.comments()) <= 1
    assert len([item for item in scene.repository.reviews(7) if item["user"]["login"] == BOT]) <= 1
    inline = [(item["path"], item["line"]) for item in scene.repository.review_comments(7)]
    assert len(set(inline)) == len(inline)
    runs = scene.repository.check_runs(HEAD)
    assert len({run["external_id"] for run in runs}) == len(runs)
    for run in runs:
        marks = Counter(
            (mark["path"], mark["start_line"], mark["title"], mark["message"]) for mark in run["annotations"]
        )
        assert not [mark for mark, count in marks.items() if count > 1]


def check_told(scene: Scene, ended: Ended, without: Ended, place: Place) -> None:
    """Check that the summary says of every channel how it stands, and of what is missing why."""
    told, expected = rows(ended.summary), rows(without.summary)
    for channel in CHANNELS:
        url = ended.outputs[f"{channel}-url"]
        if is_published(told[channel]):
            assert bool(url) == bool(without.outputs[f"{channel}-url"])
        elif is_published(expected[channel]) or told[channel] != expected[channel]:
            assert url == ""
            # Ids differ from run to run.
            stem = place.path.rstrip("0123456789")
            assert f"{place.method} {stem}" in told[channel], told[channel]
    log = [line for line in ended.log.text if line.startswith(("check", "comment", "review", "note: "))]
    assert len(log) >= len(CHANNELS)
    check_check(scene, ended, told["check"], without)


def check_check(scene: Scene, ended: Ended, row: str, without: Ended) -> None:
    """Check that no check run is left in progress without a word, and that annotations are shown somewhere."""
    before = {item.id for item in scene.kept_checks()}
    runs = [run for run in scene.repository.check_runs(HEAD) if run["id"] not in before]
    assert len(runs) <= 1
    for run in runs:
        if run["status"] != "completed":
            assert "may stay in progress" in row or "is unknown" in row, row
        elif is_published(row):
            assert run["conclusion"] == ("failure" if without.code else "success")
            assert run["output"]["summary"] != "The result will appear here."
    located = [command for command in ended.meant if "file" in command.properties]
    if is_published(row):
        (run,) = runs
        assert run["status"] == "completed"
        assert located == []
        assert len(run["annotations"]) == int(without.outputs["failed"])
    else:
        # At most ten errors of a step are shown: one says why it fails, and of more the last how many are hidden.
        assert len(located) == min(int(without.outputs["failed"]), 8 if int(without.outputs["failed"]) > 9 else 9)


def check_waits(scene: Scene) -> None:
    """Check that the step cannot stand still for ever: all its calls wait `TOTAL_WAIT_S` together."""
    assert sum(scene.start.waits) <= TOTAL_WAIT_S + ALL_POLLS_S


def check_run(scene: Scene, place: Place, fault: Fault, without: Ended) -> tuple[Ended, bool]:
    """Run with a fault and check all of it; return whether such a request was made more than once, too."""
    scene.restore()
    place.order(scene.hub, fault)
    before = len(scene.hub.requests)
    ended = scene.step()
    check_same_verdict(scene, ended, without)
    check_nothing_twice(scene)
    check_told(scene, ended, without, place)
    check_waits(scene)
    check_no_token(scene, ended)
    assert scene.hub.violations == []
    return ended, place.count(scene.hub.requests[before:]) > 1


def _kinds(ended: Ended) -> dict[str, bool]:
    return {channel: is_published(row) for channel, row in rows(ended.summary).items()}


@pytest.mark.full
@pytest.mark.parametrize("trouble", OUTCOMES)
@pytest.mark.parametrize("scene", ["first run", "second run"], indirect=True)
def test_trouble_at_every_call(scene: Scene, trouble: str) -> None:
    """Once at each, and for ever from the first of each kind on."""
    without, calls = clean(scene)
    assert all(is_published(row) or "no failing case" in row for row in rows(without.summary).values())
    assert scene.start.waits == []
    found = [place for place in scene.of_interest(places(calls, every=True)) if matters(place, trouble)]
    assert found
    for place in found:
        with naming((place, trouble, "once")):
            ended, again = check_run(scene, place, Fault("*", "", **TROUBLE[trouble]), without)
            if trouble.startswith("200"):
                # Junk once is never a reason to leave something out: reads are repeated, writes looked up.
                assert _kinds(ended) == _kinds(without)
        # A trouble for ever is one that happens once, unless there are later requests that it meets.
        if place.nth == 0 and again:
            with naming((place, trouble, "always")):
                check_run(scene, place, Fault("*", "", times=None, **TROUBLE[trouble]), without)


@pytest.mark.full
def test_trouble_at_all_calls_at_once(hub: FakeGitHub, project: Project) -> None:
    """A GitHub that does nothing right, or that nobody can reach."""
    scene = Scene(hub, Project(project.folder / "workspace"))
    first_run(scene)
    without, _ = clean(scene)
    for trouble, fault in TROUBLE.items():
        with naming(trouble):
            scene.restore()
            hub.fail(Fault("*", "", times=None, **fault))
            ended = scene.step()
            check_same_verdict(scene, ended, without)
            check_nothing_twice(scene)
            check_check(scene, ended, rows(ended.summary)["check"], without)
            assert not any(is_published(row) for row in rows(ended.summary).values())
            check_waits(scene)
            check_no_token(scene, ended)


def test_a_write_that_is_done_without_an_answer_and_cannot_be_looked_up(scene: Scene, hub: FakeGitHub) -> None:
    without, calls = clean(scene)
    writes = [call for call in calls if call.method != "GET" and call.path != "/graphql"]
    for place in scene.of_interest(places(writes, every=True)):
        with naming(place):
            scene.restore()
            place.order(hub, Fault("*", "", drop="after"))
            break_looks(scene, place)
            ended = scene.step()
            check_same_verdict(scene, ended, without)
            check_nothing_twice(scene)
            told = rows(ended.summary)
            check_check(scene, ended, told["check"], without)
            check_no_token(scene, ended)
            check_waits(scene)


def break_looks(scene: Scene, place: Place) -> None:
    """Let the looks for what a write has done fail; those before it are answered."""
    looks = {"check-runs": r"/check-runs", "issues": r"/issues/7/comments$", "pulls": r"/pulls/7/comments$"}
    ((part, pattern),) = [pair for pair in looks.items() if f"/{pair[0]}" in place.path]
    if part != "check-runs":
        scene.hub.fail(Fault("GET", pattern))
    scene.hub.fail(Fault("GET", pattern, status=403, body=DENIED, times=None))


@pytest.mark.full
def test_what_must_be_published_fails_only_a_step_that_passed(hub: FakeGitHub, project: Project) -> None:
    scene = Scene(hub, Project(project.folder / "workspace"))
    first_run(scene)
    scene.step()
    suite(scene.project)
    scene.keep()
    asked = {**ALL, "require-publish": "true"}
    without, calls = clean(scene, inputs=asked)
    assert without.code == 0
    codes = set()
    for place in places(calls, every=False):
        with naming(place):
            scene.restore()
            place.order(hub, Fault("*", "", status=403, body=DENIED, times=None))
            ended = scene.step(asked)
            missing = [row for row in rows(ended.summary).values() if not is_published(row)]
            assert ended.code == (5 if missing else 0)
            # The outputs tell of the verdict, whatever became of publishing it.
            assert (ended.outputs["verdict"], ended.outputs["exit-code"]) == ("passed", "0")
            codes.add(ended.code)
    assert codes == {0, 5}
    suite(scene.project, "refund")
    scene.restore()
    hub.fail(Fault("*", "", status=403, body=DENIED, times=None))
    ended = scene.step(asked)
    assert (ended.code, ended.outputs["verdict"], ended.outputs["exit-code"]) == (1, "failed", "1")


class Late:
    """Publishes what a step has evaluated, with a client on the clock of the hub."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        ended = scene.step()
        self.done = read_runs([ended.outputs["results-path"]], scene.project.folder, Redactor(frozenset()))
        scene.restore()

    def publish(self, run: str) -> tuple[Channel, ...]:
        """Publish; a run of the name has not published before."""
        channel_options = channel_options_from({"review": "failures"}, ["agent.yaml"], {})
        place = Where("https://github.com", REPOSITORY, HEAD, None)
        pause = self.scene.start.waits.append
        hub = self.scene.hub
        with connect(TOKEN, hub.url, REPOSITORY, pause=pause, monotonic=hub.monotonic) as api:
            connection = Connection(Access(api, pause=pause))
            publisher = Publisher(named_destination(REPOSITORY, 7, HEAD), connection, channel_options, place, run, {})
            publisher.begin(None)
            shown = tuple(suite.report for suite in self.done.suites)
            found = Findings(self.done.exit_code, shown, (), None, lambda sentence: None)
            return publisher.finish(found).channels


@pytest.mark.full
@pytest.mark.parametrize("times", [1, None], ids=["once", "always"])
def test_answers_that_come_too_late(hub: FakeGitHub, project: Project, times: int | None) -> None:
    scene = Scene(hub, Project(project.folder / "workspace"))
    first_run(scene)
    late = Late(scene)
    calls = scene.calls(lambda: late.publish("9000/1"))
    assert len(calls) > 5
    for number, place in enumerate(places(calls, every=False)):
        with naming(place):
            scene.restore()
            scene.start.waits.clear()
            place.order(hub, Fault("*", "", late=True, times=times))
            channels = late.publish(f"{9001 + number}/1")
            check_nothing_twice(scene)
            assert [channel.name for channel in channels] == CHANNELS
            for channel in channels:
                known = isinstance(channel.outcome, Published) or "in time" in channel.outcome.reason
                assert known, channel
            for run in scene.repository.check_runs(HEAD):
                assert run["status"] == "completed" or "may stay in progress" in str(channels[0])
            check_waits(scene)
