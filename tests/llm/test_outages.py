"""Servers that are away for a while or for ever, in time that runs ahead: no case is lost, or the run ends soon."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import httpx2
import pytest

from tests.commands.project import Project
from tests.llm.ahead import LATENCY_S, Service
from tests.llm.models import KEY, Answer, FakeModels, Fault, Request
from tests.llm.test_rate_limits import Ran, ran
from tests.targets.test_own import asking

TURN_S = 60.0
Away = Literal["refuses connections", "breaks connections off", "starts", "never answers"]


class Restarted(Service):
    """A service that is killed at a moment, and is back some seconds later."""

    def __init__(self, away: Away, killed_after_s: float, down_s: float) -> None:
        super().__init__(lambda service, text, now: None)
        self._away, self._after_s, self._down_s = away, killed_after_s, down_s
        self.failed = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        now = asyncio.get_running_loop().time()
        passed = now - (self.times[0] if self.times else now)
        if not self._after_s <= passed < self._after_s + self._down_s:
            return await super().handle_async_request(request)
        self.times.append(now)
        self.failed += 1
        if self._away == "refuses connections":
            raise httpx2.ConnectError("refused")
        if self._away == "starts":
            return httpx2.Response(503, headers={"content-type": "application/json"}, content=b"{}")
        await asyncio.sleep(0.01 if self._away == "breaks connections off" else 10_000)
        raise httpx2.ReadError("cut off")


def run_against(tmp_path: Path, service: Service, cases: int = 100, at_once: int = 10) -> Ran:
    result = ran(tmp_path, lambda *given: None, cases, at_once, turn_s=TURN_S, service=service)
    print(f"{result.seconds:.1f} s, {result.service.requests} requests, {len(result.errors)} errors")
    return result


@pytest.mark.parametrize("away", ["refuses connections", "breaks connections off", "starts"])
@pytest.mark.parametrize("down_s", [5.0, 20.0, 50.0])
@pytest.mark.parametrize("killed_after_s", [0.0, 3 * LATENCY_S])
@pytest.mark.parametrize("at_once", [1, 10])
def test_a_restarted_server_loses_no_case(
    tmp_path: Path, away: Away, down_s: float, killed_after_s: float, at_once: int
) -> None:
    service = Restarted(away, killed_after_s, down_s)
    result = run_against(tmp_path, service, 20, at_once)
    assert result.errors == []
    assert service.statuses[200] == 20
    assert result.outcome.stopped is None
    # It is tried by few, and used soon after it is back.
    assert service.failed <= 40 + 2 * down_s
    assert result.seconds <= down_s + 5 + 20 * LATENCY_S / at_once


@pytest.mark.parametrize("at_once", [1, 10])
@pytest.mark.parametrize("away", ["refuses connections", "breaks connections off", "starts", "never answers"])
@pytest.mark.parametrize("killed_after_s", [0.0, 3 * LATENCY_S])
def test_a_dead_server_ends_the_run_within_the_time_of_two_turns(
    tmp_path: Path, away: Away, at_once: int, killed_after_s: float
) -> None:
    result = run_against(tmp_path, Restarted(away, killed_after_s, 1e9), 1_000, at_once)
    assert result.seconds <= 2 * TURN_S + 1
    assert result.outcome.stopped is not None
    assert "openai (models.example) has given no answer for" in result.outcome.stopped
    assert "--resume" in result.outcome.stopped
    # What had no answer is not kept, so that it runs again.
    assert result.errors == [] or away == "never answers"
    assert len(result.errors) <= 2 * at_once


def test_a_run_that_an_outage_ended_is_resumed_and_pays_no_answer_again(project: Project, models: FakeModels) -> None:
    cases = [{"name": f"c{at}", "input": f"ping {at}", "ground_truth": f"echo: ping {at}"} for at in range(6)]
    asking(project, models, cases)
    project.policy(limits={"turn_timeout_s": 1, "concurrency": 1})
    given: list[str] = []

    def answer(request: Request) -> Answer | Fault:
        if len(given) == 3:
            return Fault(wire="reset")
        given.append(request.text)
        return Answer(f"echo: {request.text}")

    models.answer(answer)
    ended = project.run("run", "-o", "out", OPENAI_API_KEY=KEY)
    assert ended.code == 4, ended.stdout + ended.stderr
    assert (ended.stdout + ended.stderr).count("has given no answer for") == 1
    models.answer(lambda request: Answer(f"echo: {request.text}"))
    before = len(models.requests)
    resumed = project.run("run", "-o", "out", "--resume", OPENAI_API_KEY=KEY)
    assert resumed.code == 0, resumed.stdout + resumed.stderr
    assert len(models.requests) - before == 3


class HangingOnce(Service):
    """A service that never answers the first request of some questions."""

    def __init__(self) -> None:
        super().__init__(lambda service, text, now: None)
        self.hung: set[str] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        text = request.content.decode()
        if '3"' in text and text not in self.hung:
            self.hung.add(text)
            await asyncio.sleep(10_000)
        return await super().handle_async_request(request)


def test_a_request_that_hangs_is_sent_once_more_after_a_third_of_the_turn(tmp_path: Path) -> None:
    service = HangingOnce()
    result = run_against(tmp_path, service)
    assert result.errors == []
    assert (len(service.hung), service.statuses[200]) == (10, 100)
    assert TURN_S / 3 <= result.seconds <= TURN_S / 2
