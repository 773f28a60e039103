"""The limit that each account finds for itself: speed, politeness, fairness; against real HTTP."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import pytest

from holodeck_action.llm.calls import Answer, Call, CallContext, Meter
from holodeck_action.llm.limits import DECREASE, START, AccountLimit
from holodeck_action.llm.wire import WireSettings
from tests.llm.models import FakeModels, Fault
from tests.llm.wiring import Clock, account, chat, opened, post, run


@pytest.mark.parametrize("retry_after", [None, "1"])
def test_a_provider_that_takes_twenty_at_once_is_used_well_and_not_stormed(retry_after: str | None) -> None:
    cases, most, latency = 400, 20, 0.1

    async def work() -> None:
        with FakeModels(latency=latency) as models:
            models.limit(most, retry_after=retry_after)
            clock = Clock()
            # Real waits, but short: what matters is that the work goes on.
            async with opened(WireSettings(max_in_flight=100, max_retries=8), clock) as wire:
                who = account(models.openai_url)
                started = time.monotonic()
                answers = await asyncio.gather(*(post(wire, who, chat(str(index))) for index in range(cases)))
                took = time.monotonic() - started
            print(f"{took:.2f} s, {len(models.requests)} requests, gates {sum(clock.waits):.1f} s")
            assert [answer.status_code for answer in answers] == [200] * cases
            assert len(models.requests) <= 1.3 * cases
            assert took <= 1.3 * cases / most * latency + 0.8  # and a slow machine's own work

    run(work)


def test_the_most_is_never_exceeded_and_reached() -> None:
    async def work() -> None:
        with FakeModels(latency=0.03) as models:
            async with opened(WireSettings(max_in_flight=30)) as wire:
                who = account(models.openai_url)
                await asyncio.gather(*(post(wire, who, chat(str(index))) for index in range(200)))
            assert START < models.peak <= 30

    run(work)


def test_accounts_do_not_hold_each_other_back() -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.fail(Fault("rate_limit", retry_after="50", about=lambda request: request.key == "sk-a", times=1))
            clock = Clock()
            async with opened(WireSettings(max_retries=0), clock) as wire:
                assert (await post(wire, account(models.openai_url, key="sk-a"), chat("1"))).status_code == 429
                assert (await post(wire, account(models.openai_url, key="sk-b"), chat("2"))).status_code == 200
                assert clock.waits == []
                assert (await post(wire, account(models.openai_url, key="sk-a"), chat("3"))).status_code == 200
                assert sum(clock.waits) == pytest.approx(50, abs=1)

    run(work)


class _Line:
    """A limit on a sender that the test answers by hand."""

    def __init__(self, most: int) -> None:
        self.clock = Clock()
        self.under_way: dict[str, asyncio.Future[int]] = {}
        self.limit = AccountLimit(
            self._send,
            "openai (x)",
            most,
            monotonic=self.clock.monotonic,
            pause=self.clock.pause,
            now=lambda: datetime.now(UTC),
        )

    async def _send(self, call: Call) -> Answer:
        future = self.under_way[call.key] = asyncio.get_running_loop().create_future()
        try:
            status = await future
        finally:
            del self.under_way[call.key]
        return Answer(status, (), b"", None, 0.0)

    def call(self, key: str) -> Call:
        return Call(account("http://x"), None, CallContext("agent", 0, None, Meter()), None, key)  # type: ignore[arg-type]

    def start(self, key: str) -> asyncio.Task[Answer]:
        return asyncio.create_task(self.limit(self.call(key)))

    async def finish(self, key: str, status: int = 200) -> None:
        self.under_way[key].set_result(status)
        await settled()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_first_come_first_served_and_who_was_sent_before_goes_first() -> None:
    async def work() -> None:
        line = _Line(1)
        tried = line.call("tried")
        again = asyncio.create_task(line.limit(tried))
        await settled()
        waiting = [line.start(name) for name in ("a", "b")]
        await settled()
        await line.finish("tried", 500)
        assert list(line.under_way) == ["a"]
        await again
        second = asyncio.create_task(line.limit(tried))
        await settled()
        await line.finish("a")
        assert list(line.under_way) == ["tried"]
        await line.finish("tried")
        await line.finish("b")
        await asyncio.gather(second, *waiting)

    run(work)


def test_a_cancelled_call_gives_its_place_away_waiting_or_sent() -> None:
    async def work() -> None:
        line = _Line(1)
        sent, waiting, last = (line.start(name) for name in ("sent", "waiting", "last"))
        await settled()
        waiting.cancel()
        await settled()
        sent.cancel()
        await settled()
        assert list(line.under_way) == ["last"]
        # Woken and cancelled in the same moment: the place must not be lost.
        next_one = line.start("next")
        await settled()
        line.under_way["last"].set_result(200)
        await asyncio.sleep(0)
        next_one.cancel()
        await settled()
        free = line.start("free")
        await settled()
        assert list(line.under_way) == ["free"]
        await line.finish("free")
        await asyncio.gather(free, last)

    run(work)


def test_one_wave_of_refusals_lowers_the_window_to_a_half_at_most_and_never_below_one() -> None:
    async def work() -> None:
        line = _Line(100)
        jobs = [line.start(str(index)) for index in range(START)]
        await settled()
        assert len(line.under_way) == START
        await line.finish("0", 429)
        lowered = line.limit.window
        assert 1 <= lowered < START
        for index in range(1, START):
            await line.finish(str(index), 429)
            assert line.limit.window <= lowered
        assert line.limit.window == int(START / 2 * DECREASE)
        await asyncio.gather(*jobs)
        for index in range(20):
            job = line.start(f"more {index}")
            await settled()
            await line.finish(f"more {index}", 429)
            await job
        assert line.limit.window == 1

    run(work)


def test_a_window_grows_back_and_probes_above_its_ceiling_later() -> None:
    async def work() -> None:
        line = _Line(100)
        jobs = [line.start(f"first {index}") for index in range(START)]
        await settled()
        await line.finish("first 0", 429)
        ceiling = START - 1

        async def busy(rounds: int) -> None:
            for index in range(rounds):
                jobs.append(line.start(f"{line.clock.monotonic()} {index}"))
                await settled()
                await line.finish(next(iter(line.under_way)))

        for index in range(20):
            jobs.append(line.start(f"queued {index}"))
        await busy(10)
        assert line.limit.window == ceiling
        await line.clock.pause(11)
        await busy(3)
        assert line.limit.window == ceiling + 1
        while line.under_way:
            await line.finish(next(iter(line.under_way)))
        await asyncio.gather(*jobs)

    run(work)
