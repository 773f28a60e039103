"""The limit that each account finds for itself: speed, politeness, fairness."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from holodeck_action.llm.calls import Answer, Call, CallContext, Meter
from holodeck_action.llm.limits.limits import DECREASE, HOLD_FACTOR, AccountLimit
from holodeck_action.llm.limits.pace import REFUSALS_IN_A_ROW, Pace
from holodeck_action.llm.wire import WireSettings
from tests.llm.ahead import STARTED_AT, clock, run_ahead
from tests.llm.models import FakeModels
from tests.llm.wiring import account, chat, opened, post, run

START = 8
"""Requests at once that are asked for where a test says no other number."""


def test_the_most_is_never_exceeded_and_reached() -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.hold()
            async with opened(WireSettings(max_in_flight=30)) as wire:
                who = account(models.openai_url)
                answers = asyncio.gather(*(post(wire, who, chat(str(index))) for index in range(100)))
                await asyncio.to_thread(models.wait_for, lambda seen: seen.under_way >= 30)
                models.release()
                await answers
            assert models.peak == 30

    run(work)


def test_all_that_may_be_asked_at_once_is_under_way_before_the_first_answer() -> None:
    async def work() -> None:
        line = _Line(100)
        jobs = [line.start(str(index)) for index in range(130)]
        await settled()
        assert len(line.under_way) == 100
        while line.under_way:
            await line.finish(next(iter(line.under_way)))
        await asyncio.gather(*jobs)

    run_ahead(work)


class _Line:
    """A limit on a sender that the test answers by hand."""

    def __init__(self, most: int) -> None:
        self.under_way: dict[str, asyncio.Future[tuple[int, tuple[tuple[str, str], ...]]]] = {}
        self.limit = AccountLimit(
            self._send,
            "openai (x)",
            most,
            monotonic=clock(),
            pause=asyncio.sleep,
            now=lambda: STARTED_AT,
            longest_wait_s=300.0,
        )

    async def _send(self, call: Call) -> Answer:
        future = self.under_way[call.key] = asyncio.get_running_loop().create_future()
        try:
            status, headers = await future
        finally:
            del self.under_way[call.key]
        return Answer(status, headers, b"", None, 0.0)

    def call(self, key: str) -> Call:
        return Call(account("http://x"), None, CallContext("agent", 0, None, Meter()), key)  # type: ignore[arg-type]

    def start(self, key: str) -> asyncio.Task[Answer]:
        return asyncio.create_task(self.limit(self.call(key)))

    async def once(self, key: str, status: int = 200) -> None:
        """Send a call, and answer it."""
        job = self.start(key)
        await settled()
        await self.finish(key, status)
        await job

    async def finish(self, key: str, status: int = 200, retry_after: str | None = None) -> None:
        headers = () if retry_after is None else (("retry-after", retry_after),)
        self.under_way[key].set_result((status, headers))
        await settled()


async def settled() -> None:
    """Let all tasks get to where they wait for an answer; a moment passes."""
    await asyncio.sleep(0.001)


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

    run_ahead(work)


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
        line.under_way["last"].set_result((200, ()))
        await asyncio.sleep(0)
        next_one.cancel()
        await settled()
        free = line.start("free")
        await settled()
        assert list(line.under_way) == ["free"]
        await line.finish("free")
        await asyncio.gather(free, last)

    run_ahead(work)


def test_one_wave_of_refusals_lowers_the_window_to_a_half_at_most() -> None:
    async def work() -> None:
        line = _Line(100)
        await line.once("usual")
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

    run_ahead(work)


def test_a_row_of_refusals_with_no_more_under_way_than_were_answered_paces_the_account() -> None:
    async def work() -> None:
        line = _Line(100)
        await line.once("usual")
        for index in range(3):
            await line.once(f"refused {index}", 429)
        # It is not about how many are under way, so all may be; they leave one after the other.
        assert line.limit.window == 100
        assert line.limit.rate == 1.0
        jobs = [line.start(f"then {index}") for index in range(3)]
        await settled()
        assert not line.under_way
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await line.limit.close()

    run_ahead(work)


@pytest.mark.parametrize("second_began", [0.5, 1.0])
def test_as_many_requests_as_overlapped_when_they_were_answered_are_not_too_many_at_once(second_began: float) -> None:
    """Refused two at a time, an account that answered two at a time limits the rate; any other one may not."""
    pace = Pace()
    pace.note_answer(0.0, 1.0, [second_began], first=True, full=False)
    pace.note_answer(second_began, 1.2, [], first=True, full=False)
    for _ in range(REFUSALS_IN_A_ROW):
        pace.note_refusal(1.3, 1.4, [], 2)
    assert (pace.rate is not None) == (second_began < 1.0)


@pytest.mark.parametrize("retry_after", [None, "0", "3"])
def test_a_window_grows_back_and_tries_more_than_its_ceiling_later(retry_after: str | None) -> None:
    async def work() -> None:
        line = _Line(100)
        await line.once("usual")
        jobs = [line.start(f"first {index}") for index in range(START)]
        await settled()
        await line.finish("first 0", 429, retry_after)
        ceiling = START - 1
        most = 0

        async def busy(rounds: int) -> None:
            nonlocal most
            for _ in range(rounds):
                jobs.append(line.start(f"then {len(jobs)}"))
                await settled()
                await line.finish(next(iter(line.under_way)))
                most = max(most, line.limit.window)

        for index in range(20):
            jobs.append(line.start(f"queued {index}"))
        await busy(ceiling)
        assert most == ceiling
        await busy(4 * ceiling)
        if retry_after == "3":
            # Standing still for so long again is worth it later only.
            assert most == ceiling
            while line.under_way:
                await line.finish(next(iter(line.under_way)))
            await asyncio.sleep(HOLD_FACTOR * 3)
            jobs += [line.start(f"later {index}") for index in range(20)]
            await busy(ceiling)
        assert most > ceiling
        while line.under_way:
            await line.finish(next(iter(line.under_way)))
        await asyncio.gather(*jobs)

    run_ahead(work)


@pytest.mark.full
def test_refusals_that_have_nothing_to_do_with_the_number_under_way_do_not_keep_an_account_small() -> None:
    async def work() -> None:
        line = _Line(32)
        random = Random(5)
        jobs = [line.start(str(index)) for index in range(3000)]
        windows = []
        while line.under_way or not all(job.done() for job in jobs):
            await settled()
            await line.finish(random.choice(list(line.under_way)), 429 if random.random() < 0.03 else 200)
            windows.append(line.limit.window)
        await asyncio.gather(*jobs)
        assert sum(windows) / len(windows) > START

    run_ahead(work)


def test_a_call_that_hangs_gives_its_place_away_once() -> None:
    async def work() -> None:
        line = _Line(8)
        await line.once("usual")
        wave = [line.start(f"wave {index}") for index in range(8)]
        await settled()
        for index in range(1, 8):
            await line.finish(f"wave {index}", 429)
        await line.finish("wave 0")
        await asyncio.gather(*wave)
        assert line.limit.window == int(8 / 2 * DECREASE)
        jobs = [line.start(name) for name in ("first", "second", "third", "fourth")]
        await settled()
        before = len(line.under_way)
        assert before < 4
        await asyncio.sleep(4)
        assert len(line.under_way) == min(4, 2 * before)
        while line.under_way:
            await line.finish(next(iter(line.under_way)))
        await asyncio.gather(*jobs)
        # All places are back, and not one too many.
        window = line.limit.window
        jobs = [line.start(f"then {index}") for index in range(20)]
        await settled()
        assert len(line.under_way) == window
        while line.under_way:
            await line.finish(next(iter(line.under_way)))
        await asyncio.gather(*jobs)

    run_ahead(work)


def test_calls_that_hang_count_against_the_most() -> None:
    async def work() -> None:
        line = _Line(2)
        await line.once("usual")
        jobs = [line.start(str(index)) for index in range(3)]
        await asyncio.sleep(4)
        assert list(line.under_way) == ["0", "1"]
        await line.finish("0")
        assert list(line.under_way) == ["1", "2"]
        await line.finish("1")
        await line.finish("2")
        await asyncio.gather(*jobs)

    run_ahead(work)
