"""The runner cancels a step: SIGINT, later SIGTERM; what GitHub shows is right all the same."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.action.step import start_process
from tests.commands.forked import Forked, to_bytes
from tests.commands.project import Project
from tests.github.events import HEAD
from tests.github.fake import FakeGitHub, Fault
from tests.github.life import suite
from tests.github.steps import ALL, Scene, check_no_token, is_published, rows
from tests.workers.support import wait_until

pytestmark = [pytest.mark.full, pytest.mark.races]

SLOW = """
import time

def answer(messages):
    if "refund" in messages[-1]["content"]:
        return "30 days"
    open("waiting", "w").close()
    time.sleep(600)
"""


def _wait_for(happened: Callable[[], bool], process: Forked) -> None:
    assert wait_until(lambda: happened() or process.poll() is not None)
    assert process.poll() is None, process.communicate()


@dataclass(frozen=True)
class Cancelled:
    """Runs a step as a process and sends it signals, each once something has happened; `sent` is set after the last."""

    signals: tuple[tuple[Callable[[], bool], signal.Signals], ...]
    sent: threading.Event = field(default_factory=threading.Event)

    def __call__(self, environ: Mapping[str, str], workspace: Path, files: Path) -> tuple[int, bytes, bytes]:
        """Run the step as `tests.github.workflow.process` does."""
        known = {"PATH": os.environ["PATH"], "HOME": str(files / "home"), **environ}
        with start_process(known, workspace) as process:
            try:
                for happened, number in self.signals:
                    _wait_for(happened, process)
                    process.send_signal(number)
                self.sent.set()
                output, errors = process.communicate(timeout=60)
            finally:
                process.kill()
            return process.wait(), to_bytes(output), to_bytes(errors)


@pytest.fixture
def scene(hub: FakeGitHub, project: Project) -> Scene:
    """Three cases, the agent answers the first and waits with the others."""
    made = Scene(hub, Project(project.folder / "workspace"))
    suite(made.project)
    made.project.write("agent.py", SLOW)
    made.project.policy(target="python:agent:answer")
    made.show_diff()
    return made


def asked(scene: Scene, method: str, part: str) -> Callable[[], bool]:
    """Tell later whether a request was made."""
    return lambda: any(call.method == method and part in call.path for call in scene.hub.requests)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_cancelled_is_shown_as_stopped(scene: Scene, number: signal.Signals) -> None:
    waiting = scene.project.folder / "waiting"
    scene.workflow.start = Cancelled(((waiting.exists, number),))
    ended = scene.step()

    assert (ended.code, ended.outputs["verdict"]) == (4, "stopped")
    assert (scene.project.folder / ended.outputs["results-path"]).is_file()
    (run,) = scene.repository.check_runs(HEAD)
    assert (run["status"], run["conclusion"]) == ("completed", "failure")
    assert number.name in run["output"]["summary"]
    (comment,) = scene.comments()
    assert "o verdict: the run " in comment["body"]
    assert number.name in comment["body"]
    assert comment["html_url"] in rows(ended.summary)["comment"]
    check_no_token(scene, ended)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_is_cancelled_before_anything_ran_is_shown_as_stopped(scene: Scene, number: signal.Signals) -> None:
    scene.workflow.start = cancelled = Cancelled(((asked(scene, "POST", "/check-runs"), number),))
    # GitHub keeps the step waiting where the check run is made.
    scene.hub.fail(Fault("POST", r"/check-runs$", until=cancelled.sent))
    ended = scene.step()

    assert ended.code == 4
    (run,) = scene.repository.check_runs(HEAD)
    assert (run["status"], run["conclusion"]) == ("completed", "failure")
    assert is_published(rows(ended.summary)["check"])
    (comment,) = scene.comments()
    assert "o verdict: the run " in comment["body"]


def test_one_that_is_cancelled_says_that_a_check_run_may_stay_in_progress(scene: Scene) -> None:
    cancelled = Cancelled(((asked(scene, "POST", "/check-runs"), signal.SIGINT),))
    scene.hub.fail(Fault("POST", r"/check-runs$", until=cancelled.sent))
    scene.hub.fail(Fault("GET", r"/check-runs$", status=403, body={"message": "Resource not accessible"}, times=None))
    scene.workflow.start = cancelled
    ended = scene.step()

    assert ended.code == 4
    assert "may stay in progress" in rows(ended.summary)["check"]
    assert len(scene.comments()) == 1


@pytest.mark.parametrize(
    ("method", "part", "path"),
    [
        ("PATCH", "/check-runs/", r"/check-runs/\d+$"),
        ("POST", "/issues/7/comments", r"/issues/7/comments$"),
        ("POST", "/pulls/7/reviews", r"/pulls/7/reviews$"),
    ],
)
def test_what_is_being_published_is_published_to_the_end(scene: Scene, method: str, part: str, path: str) -> None:
    suite(scene.project, "refund")
    here = asked(scene, method, part)
    scene.workflow.start = cancelled = Cancelled(((here, signal.SIGINT), (here, signal.SIGTERM)))
    scene.hub.fail(Fault(method, path, until=cancelled.sent))
    ended = scene.step(ALL)

    assert (ended.code, ended.outputs["verdict"]) == (1, "failed")
    assert all(is_published(row) for row in rows(ended.summary).values())
    (run,) = scene.repository.check_runs(HEAD)
    assert (run["status"], run["conclusion"], len(run["annotations"])) == ("completed", "failure", 1)
    assert len(scene.comments()) == 1
    assert len(scene.repository.review_comments(7)) == 1
    check_no_token(scene, ended)


def test_a_second_signal_while_the_run_stops_leaves_no_check_run_that_is_green(scene: Scene) -> None:
    waiting = scene.project.folder / "waiting"
    scene.workflow.start = Cancelled(((waiting.exists, signal.SIGINT), (waiting.exists, signal.SIGINT)))
    ended = scene.step()
    assert ended.code == 4
    (run,) = scene.repository.check_runs(HEAD)
    assert (run["status"], run["conclusion"]) == ("completed", "failure")
