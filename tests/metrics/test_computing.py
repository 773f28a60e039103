"""Daemon threads and the computations of a turn: order, isolation, time limits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

import pytest

from holodeck_action.scoring.computing import Job, JobResult, compute_all
from holodeck_action.workers.threads import DaemonThreads

LIMIT = 60.0


@pytest.fixture
def threads() -> Any:
    pool = DaemonThreads(2)
    yield pool
    pool.close()


def compute(threads: DaemonThreads, *jobs: Job[Any]) -> list[JobResult[Any]]:
    return asyncio.run(compute_all(threads, jobs))


def names_of_threads(job: Callable[[], object] = lambda: None) -> Callable[[], str]:
    def run() -> str:
        job()
        return threading.current_thread().name

    return run


def test_results_come_in_order_from_one_thread(threads: DaemonThreads) -> None:
    done = compute(threads, *[Job(names_of_threads(), LIMIT) for _ in range(5)])
    assert len({item.result for item in done}) == 1
    assert all(item.error is None and item.duration_ms is not None and item.duration_ms >= 0 for item in done)
    assert threading.current_thread().name not in {item.result for item in done}
    assert compute(threads) == []


def test_an_error_is_that_jobs_alone(threads: DaemonThreads) -> None:
    def broken() -> None:
        raise RecursionError("deep")

    first, second, third = compute(threads, Job(lambda: 1, LIMIT), Job(broken, LIMIT), Job(lambda: 3, LIMIT))
    assert (first.result, third.result) == (1, 3)
    assert isinstance(second.error, RecursionError)


def test_a_hanging_job_is_left_behind_and_the_rest_goes_on(threads: DaemonThreads) -> None:
    release = threading.Event()
    jobs: list[Job[Any]] = [
        Job(lambda: 1, LIMIT),
        Job(release.wait, 0.05),
        Job(lambda: 3, LIMIT),
        Job(release.wait, 0.05),
    ]
    try:
        done = compute(threads, *jobs, Job(lambda: 5, LIMIT))
        assert [item.result for item in done] == [1, None, 3, None, 5]
        assert [str(item.error) for item in done if item.error] == ["the evaluation took longer than 0.05 s"] * 2
        assert all(isinstance(item.error, TimeoutError | None) for item in done)
    finally:
        release.set()


def test_a_short_limit_holds_behind_a_long_job(threads: DaemonThreads) -> None:
    release, hang = threading.Event(), threading.Event()

    async def run() -> list[JobResult[Any]]:
        loop, started = asyncio.get_running_loop(), asyncio.Event()

        def long() -> bool:
            loop.call_soon_threadsafe(started.set)
            return release.wait(LIMIT)

        work = asyncio.create_task(compute_all(threads, [Job(long, 3600.0), Job(hang.wait, 0.02)]))
        await started.wait()
        release.set()
        return await work

    try:
        first, second = asyncio.run(run())
        assert first.result is True
        assert isinstance(second.error, TimeoutError)
    finally:
        hang.set()


def test_quick_jobs_need_no_thread_unless_their_limit_is_shorter_than_they_may_take(threads: DaemonThreads) -> None:
    def name() -> str:
        return threading.current_thread().name

    here, again = compute(threads, Job(name, LIMIT, quick=True), Job(name, LIMIT, quick=True))
    assert here.result == again.result == name()
    elsewhere: Future[str] = Future()
    compute(threads, Job(lambda: elsewhere.set_result(name()), 0.05, quick=True))
    assert elsewhere.result(LIMIT) != name()
    one, other = compute(threads, Job(name, LIMIT, quick=True), Job(name, LIMIT))
    assert one.result == other.result != name()


def test_waiting_for_a_thread_uses_no_time() -> None:
    threads, release = DaemonThreads(1), threading.Event()

    async def run() -> bool:
        blocker = asyncio.wrap_future(threads.submit(lambda: release.wait(LIMIT)))
        waiting = asyncio.create_task(compute_all(threads, [Job(lambda: "done", 0.02)]))
        late, _ = await asyncio.wait({waiting}, timeout=0.1)
        waiting.cancel()
        release.set()
        await blocker
        return not late

    assert asyncio.run(run())
    threads.close()


def test_more_hanging_jobs_than_threads_stop_nothing() -> None:
    threads, release = DaemonThreads(1), threading.Event()
    try:
        for _ in range(3):
            hung, fine = compute(threads, Job(release.wait, 0.02), Job(lambda: "fine", LIMIT))
            assert isinstance(hung.error, TimeoutError)
            assert fine.result == "fine"
    finally:
        release.set()


def test_cancelling_ends_the_batch(threads: DaemonThreads) -> None:
    release, ran = threading.Event(), threading.Event()

    async def run() -> None:
        loop, started = asyncio.get_running_loop(), asyncio.Event()

        def first() -> None:
            loop.call_soon_threadsafe(started.set)
            release.wait(LIMIT)

        work = asyncio.create_task(compute_all(threads, [Job(first, LIMIT), Job(ran.set, LIMIT)]))
        await started.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(run())
    release.set()
    # Both threads can only meet here when the batch has left its one.
    barrier = threading.Barrier(2)
    assert not wait([threads.submit(lambda: barrier.wait(LIMIT)) for _ in range(2)], timeout=LIMIT).not_done
    assert not ran.is_set()


def test_threads_are_reused_and_bounded(threads: DaemonThreads) -> None:
    barrier = threading.Barrier(2)
    together = [threads.submit(names_of_threads(lambda: barrier.wait(LIMIT))) for _ in range(2)]
    pair = {future.result(LIMIT) for future in together}
    assert len(pair) == 2
    futures = [threads.submit(names_of_threads()) for _ in range(200)]
    assert {future.result(LIMIT) for future in futures} <= pair
