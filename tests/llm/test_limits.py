"""The limit that each account finds for itself: speed, politeness, fairness."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from holodeck_action.llm.calls import Answer, Call, CallContext, Meter, WireError
from holodeck_action.llm.limits.limits import AccountLimit
from holodeck_action.llm.limits.window import FAILURES_IN_A_ROW, MAX_BACKOFF_S, Window
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
        await asyncio.sleep(0.1)
        assert len(line.under_way) == 100
        while line.under_way:
            await line.finish(next(iter(line.under_way)))
        await asyncio.gather(*jobs)

    run_ahead(work)


class _Line:
    """A limit on a sender that the test answers by hand."""

    def __init__(self, most: int, start: int | None = None) -> None:
        self.under_way: dict[str, asyncio.Future[tuple[int, tuple[tuple[str, str], ...]]]] = {}
        self.limit = AccountLimit(
            self._send,
            "openai (x)",
            Window(most, 300.0, start=start),
            monotonic=clock(),
            pause=asyncio.sleep,
            now=lambda: STARTED_AT,
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
    await asyncio.sleep(0.02)


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


def test_a_window_that_begins_small_grows_while_nothing_is_refused_until_answers_become_slower() -> None:
    async def work() -> None:
        line = _Line(400, 10)
        jobs = [line.start(str(index)) for index in range(400)]
        sizes = []
        for wait_s in (0.01, 0.25, 0.25):
            await asyncio.sleep(wait_s)
            sizes.append(len(line.under_way))
        assert sizes[0] == 10
        # No answer is needed to see that nothing is refused.
        assert 1.5 * sizes[0] < sizes[1] < sizes[2] / 1.5 < 40
        first = [*line.under_way]
        for key in first[:10]:
            line.under_way[key].set_result((200, ()))
        await asyncio.sleep(0.3)
        await line.finish(first[10])
        slow = len(line.under_way)
        assert sizes[2] < slow < 400
        await asyncio.sleep(2)
        assert len(line.under_way) == slow
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    run_ahead(work)


def test_all_that_may_be_sent_is_under_way_within_a_second_if_nothing_is_refused() -> None:
    async def work() -> None:
        line = _Line(100, 10)
        jobs = [line.start(str(index)) for index in range(130)]
        await asyncio.sleep(1)
        assert len(line.under_way) == 100
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    run_ahead(work)


def test_refusals_above_a_number_under_way_are_explained_by_it_and_a_few_below_it_are_not_evidence() -> None:
    async def work() -> None:
        line = _Line(100)
        jobs = [line.start(str(index)) for index in range(20)]
        await asyncio.sleep(0.1)
        for index in range(8, 20):
            await line.finish(str(index), 429)
        assert line.limit.window.size == 8
        for index in range(2):
            await line.finish(str(index))
            await line.once(f"by chance {index}", 429)
        assert line.limit.window.size == 8
        while line.under_way:
            await line.finish(next(iter(line.under_way)))
        await asyncio.gather(*jobs)

    run_ahead(work)


def test_a_worker_of_a_cluster_has_a_fixed_share() -> None:
    async def work() -> None:
        line = _Line(9)
        line.limit.share(3)
        jobs = [line.start(str(index)) for index in range(9)]
        await settled()
        assert len(line.under_way) == 3
        line.limit.share(2)
        await settled()
        assert len(line.under_way) == 4
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
            windows.append(line.limit.window.size)
        await asyncio.gather(*jobs)
        assert sum(windows) / len(windows) > START

    run_ahead(work)


def test_a_call_that_hangs_gives_its_place_away_once() -> None:
    async def work() -> None:
        line = _Line(20)
        wave = [line.start(f"wave {index}") for index in range(20)]
        await asyncio.sleep(0.1)
        for index in range(8, 20):
            await line.finish(f"wave {index}", 429)
        for index in range(8):
            await line.finish(f"wave {index}")
        await asyncio.gather(*wave)
        jobs = [line.start(f"then {index}") for index in range(20)]
        await asyncio.sleep(0.1)
        before = len(line.under_way)
        assert before == line.limit.window.size < 10
        await asyncio.sleep(4)
        assert len(line.under_way) >= 2 * before
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


@pytest.mark.parametrize("end", ["cancelled", "cancelled before it was sent", "malformed"])
def test_a_trial_that_shows_nothing_is_followed_by_another_trial(end: str) -> None:
    async def work() -> None:
        line = _Line(1)
        for at in range(FAILURES_IN_A_ROW):
            await line.once(str(at), 503)
        jobs = {name: line.start(name) for name in ("trial", "next")}
        await settled()
        assert not line.under_way
        if end == "cancelled before it was sent":
            line.limit.window.allow_trials()
            line.limit.share(1)
        else:
            await asyncio.sleep(MAX_BACKOFF_S)
            assert list(line.under_way) == ["trial"]
        if end == "malformed":
            line.under_way["trial"].set_exception(WireError("not JSON", end))
        else:
            jobs["trial"].cancel()
        await asyncio.sleep(MAX_BACKOFF_S)
        assert list(line.under_way) == ["next"]
        await line.finish("next")
        await asyncio.gather(*jobs.values(), return_exceptions=True)
        await line.limit.close()

    run_ahead(work)
