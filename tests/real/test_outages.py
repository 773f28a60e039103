"""A server that loads its model, and one that is killed while it answers: the agent gets no verdict for either."""

from __future__ import annotations

import pytest

from holodeck_action.record.result_files import read_record
from tests.commands.project import Project
from tests.real.runs import ANY_ANSWER
from tests.real.server import LOADING, Server

pytestmark = [pytest.mark.real, pytest.mark.races, pytest.mark.timeout(900)]


def write(project: Project, server: Server, count: int, max_tokens: int) -> None:
    cases = [{"name": f"case {n}", "input": f"Count from {n} to one hundred, please."} for n in range(count)]
    project.suite(cases, [ANY_ANSWER], model=server.model(max_tokens=max_tokens))


def finish(project: Project, code: int, said: str) -> None:
    """Check that a run repeated its calls during an outage, and answer what it left open."""
    assert code in (0, 3), said
    record = read_record(project.out / "results.json")
    assert record.run.model_calls is not None
    assert record.run.model_calls.requests > record.run.model_calls.calls
    for turn in record.turns:
        assert (turn.error is None) == all(each.score == 1 for each in turn.evaluations), turn
    if code == 3:
        ended = project.run("run", "-o", "out", "--concurrency", "1", "--resume")
        assert ended.code == 0, ended.stdout + ended.stderr


def test_a_model_that_loads_is_waited_for(project: Project, other: Server) -> None:
    write(project, other, 1, 2)
    other.start(LOADING)
    assert other.health() == 503
    early = project.run("run", "-o", "out")
    other.wait()
    finish(project, early.code, early.stdout)


def test_a_server_that_is_killed_and_started_again(project: Project, other: Server) -> None:
    write(project, other, 3, 40)
    other.start()
    other.wait()
    with project.start("run", "-o", "out", "--concurrency", "1") as running:
        project.wait_until(lambda: other.tokens()[1] > 0, 300)
        other.kill()
        other.start()
        stdout, _ = running.communicate(timeout=600)
    other.wait()
    finish(project, running.wait(), stdout)
