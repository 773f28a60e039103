"""One account's limit across workers, in time that runs ahead: as for one process, whoever is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import httpx2
import pytest

from holodeck_action.llm.calls import WireError
from holodeck_action.llm.limits.leases import LEASE_S, Leases
from holodeck_action.llm.limits.shared_limits import SharedLimit, SharedLimits
from holodeck_action.llm.wire import Wire, WireSettings
from tests.llm.ahead import (
    LATENCY_S,
    Says,
    Service,
    at_most_at_once,
    at_most_per_second,
    from_a_bucket,
    run_ahead,
    shut_for,
    wire_ahead,
)
from tests.llm.wiring import account, chat, post

UNDER_WAY_S = 0.01
"""Seconds that a message takes between coordinator and worker."""


class Lingering(Service):
    """A service that answers on when whoever has asked is gone, as providers do."""

    def __init__(self, says: Says) -> None:
        super().__init__(says)
        self.peak = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answering = asyncio.create_task(super().handle_async_request(request))
        await asyncio.sleep(0)
        self.peak = max(self.peak, self.at_once)
        return await asyncio.shield(answering)


class Worker:
    """A wire whose places are leased, and the messages between it and the coordinator."""

    def __init__(self, name: str, service: Service, limits: SharedLimits, most: int, longest_wait_s: float) -> None:
        clock = asyncio.get_running_loop().time
        self.name, self._limits, self._changed = name, limits, asyncio.Event()
        self.leases = Leases(self._changed.set, clock)
        settings = WireSettings(max_in_flight=most, rate_limit_wait_s=longest_wait_s)
        self.wire = Wire(settings, monotonic=clock, network=service, uniform=Random(7).uniform, leases=self.leases)
        self.speaking = asyncio.create_task(self._speak())
        self.jobs: set[asyncio.Task[httpx2.Response]] = set()

    async def _speak(self) -> None:
        while True:
            try:
                async with asyncio.timeout(LEASE_S / 5):
                    await self._changed.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(UNDER_WAY_S)
            self._changed.clear()
            # As it is sent, as JSON.
            report = json.loads(json.dumps(self.leases.report()))
            await asyncio.sleep(UNDER_WAY_S)
            self._limits.apply_report(self.name, report, asyncio.get_running_loop().time())

    def ask(self, text: str) -> asyncio.Task[httpx2.Response]:
        job = asyncio.create_task(post(self.wire, account("http://models"), chat(text)))
        self.jobs.add(job)
        job.add_done_callback(self.jobs.discard)
        return job

    async def die(self) -> None:
        self.speaking.cancel()
        for job in list(self.jobs):
            job.cancel()
        await asyncio.gather(self.speaking, *self.jobs, return_exceptions=True)

    async def close(self) -> None:
        await self.die()
        await self.wire.close()


class Cluster:
    """Workers that share the limit of an account; a sender passes news on."""

    def __init__(self, service: Service, most: int, workers: int = 3, longest_wait_s: float = 300.0) -> None:
        self.limits = SharedLimits(most, longest_wait_s)
        self._service, self._most, self._longest_wait_s = service, most, longest_wait_s
        self._made = 0
        self.workers = [self.add() for _ in range(workers)]
        self._telling = asyncio.create_task(self._tell())

    def add(self) -> Worker:
        self._made += 1
        name = f"worker {self._made}"
        return Worker(name, self._service, self.limits, self._most, self._longest_wait_s)

    async def _tell(self) -> None:
        while True:
            news = self.limits.move_slots(asyncio.get_running_loop().time())
            await asyncio.sleep(UNDER_WAY_S)
            for worker in self.workers:
                if worker.name in news:
                    worker.leases.apply_update(json.loads(json.dumps(news[worker.name])))

    async def lose(self, number: int) -> None:
        """Kill a worker and begin another one; its calls are asked again by whoever has asked."""
        lost = self.workers[number]
        self.workers[number] = self.add()
        await lost.die()
        self.limits.remove_worker(lost.name, asyncio.get_running_loop().time())

    async def ask(self, texts: list[str], sessions: int) -> None:
        """Ask everything, so many at a time, again where a worker was lost."""
        left, turn = list(reversed(texts)), Random(3)

        async def session() -> None:
            while left:
                text = left.pop()
                while True:
                    try:
                        response = await turn.choice(self.workers).ask(text)
                    except asyncio.CancelledError:
                        continue
                    assert response.status_code == 200
                    break

        async with asyncio.TaskGroup() as group:
            for _ in range(sessions):
                group.create_task(session())

    async def close(self) -> None:
        self._telling.cancel()
        for worker in self.workers:
            await worker.close()


def asked(service: Service, most: int, count: int, *, losing_every_s: float | None = None) -> float:
    """Ask so many questions of a cluster; return the seconds that it took."""

    async def work() -> None:
        cluster = Cluster(service, most)

        async def losing(every_s: float) -> None:
            for number in range(10_000):
                await asyncio.sleep(every_s)
                await cluster.lose(number % 3)

        killing = None if losing_every_s is None else asyncio.create_task(losing(losing_every_s))
        await cluster.ask([f"question {number}" for number in range(count)], most)
        if killing is not None:
            killing.cancel()
        await cluster.close()

    return run_ahead(work)[1]


def alone(service: Service, most: int, count: int) -> float:
    """Do the same in one process."""

    async def work() -> None:
        wire, left = wire_ahead(service, most), [f"question {number}" for number in range(count)]

        async def session() -> None:
            while left:
                await post(wire, account("http://models"), chat(left.pop()))

        async with asyncio.TaskGroup() as group:
            for _ in range(most):
                group.create_task(session())
        await wire.close()

    return run_ahead(work)[1]


@pytest.mark.full
def test_the_most_is_never_exceeded_though_workers_are_lost_every_second() -> None:
    """Calls of lost workers go on at the account; nobody else has their places until they have ended."""
    service = Lingering(lambda service, text, now: None)
    took = asked(service, 30, 1_500, losing_every_s=1.0)
    assert service.peak == 30
    assert service.statuses.keys() == {200}
    # A loss costs what was under way and hardly more: each place is free when the request at it must have ended.
    again = service.requests - 1_500
    undisturbed = asked(Service(lambda service, text, now: None), 30, 1_500)
    assert again > 0
    assert took < undisturbed + (1.2 * again + 30) * LATENCY_S / 30


@pytest.mark.full
def test_an_undisturbed_cluster_is_as_fast_as_one_process_but_for_the_messages() -> None:
    many = asked(Service(lambda service, text, now: None), 30, 1_500)
    one = alone(Service(lambda service, text, now: None), 30, 1_500)
    assert many < one * (1 + 6 * UNDER_WAY_S / LATENCY_S)


def test_a_cluster_makes_as_many_calls_at_once_as_were_asked_for_from_the_first_second() -> None:
    service = Lingering(lambda service, text, now: None)
    assert asked(service, 100, 100) < LATENCY_S + 6 * UNDER_WAY_S
    assert service.peak == 100


def test_a_cluster_s_first_wave_that_was_too_much_is_refused_once() -> None:
    service = Service(at_most_at_once(20, "1"), 0.004)
    asked(service, 100, 400)
    assert service.statuses[429] <= 90


@pytest.mark.full
@pytest.mark.parametrize("asks", ["", "1"])
def test_a_limit_below_the_most_is_found_as_one_process_finds_it(asks: str) -> None:
    """What one worker is refused lowers the places of all: hardly more is refused than to one process."""
    cluster, single = Lingering(at_most_at_once(20, asks)), Service(at_most_at_once(20, asks))
    asked(cluster, 64, 2_000)
    alone(single, 64, 2_000)
    assert cluster.peak == 20
    refused, expected = cluster.statuses[429] / cluster.requests, single.statuses[429] / single.requests
    assert refused <= max(0.04, 1.5 * expected)


@pytest.mark.full
@pytest.mark.parametrize(
    ("says", "refusals"),
    [
        (lambda: at_most_per_second(20, ""), 70),
        (lambda: at_most_per_second(20, "1"), 70),
        (lambda: from_a_bucket(20, 5, "1"), 70),
        # A full bucket gives more at first than its rate, which refusals must tell.
        (lambda: from_a_bucket(20, 20, ""), 120),
    ],
)
def test_a_rate_a_second_is_kept_by_all_workers_together(says: Callable[[], Says], refusals: int) -> None:
    """A place is for one request then: hardly more is refused than to one process, and it takes as long."""
    cluster, single = Service(says(), 0.004), Service(says(), 0.004)
    together, one = asked(cluster, 64, 300), alone(single, 64, 300)
    print(f"{cluster.statuses[429]} refusals in {together:.1f} s, alone {single.statuses[429]} in {one:.1f} s")
    assert cluster.statuses[429] <= refusals
    assert together <= 1.1 * one


def test_a_pace_outlives_the_loss_of_workers() -> None:
    service = Service(at_most_per_second(20, "1"), 0.004)
    took = asked(service, 64, 300, losing_every_s=3.0)
    assert service.statuses[429] <= 110
    assert took <= 1.3 * 300 / 20


def test_an_account_that_refuses_everything_is_given_up_by_all_workers() -> None:
    service = Service(shut_for(1e9, "5"))

    async def work() -> None:
        cluster = Cluster(service, 10, longest_wait_s=30.0)
        jobs = [worker.ask(f"{worker.name} {number}") for worker in cluster.workers for number in range(20)]
        for ended in await asyncio.gather(*jobs, return_exceptions=True):
            if isinstance(ended, BaseException):
                assert isinstance(ended, WireError)
                assert ended.code == "rate_limited"
            else:
                assert ended.status_code == 429
        await cluster.close()

    _, took = run_ahead(work)
    assert 30 <= took < 90
    # While it is shut a few calls try it, not all.
    assert service.requests < 120


def test_an_account_that_opens_again_is_used_again() -> None:
    service = Service(shut_for(8.0, "2"))
    took = asked(service, 20, 400)
    assert service.statuses[200] == 400
    assert took < 8 + 3 * 400 * LATENCY_S / 20 + 10


@pytest.mark.full
def test_a_worker_that_does_not_hear_of_the_coordinator_sends_nothing_more() -> None:
    service = Service(lambda service, text, now: None)

    async def work() -> None:
        cluster = Cluster(service, 10, workers=2)
        deaf, other = cluster.workers
        await asyncio.gather(*(deaf.ask(f"first {number}") for number in range(20)))
        cluster.workers.remove(deaf)
        deaf.speaking.cancel()
        jobs = [deaf.ask(f"then {number}") for number in range(2_000)]
        await asyncio.sleep(LEASE_S + 1)
        before = service.requests
        await asyncio.sleep(LEASE_S)
        assert service.requests == before
        assert not all(job.done() for job in jobs)
        # Its places are the other's.
        await asyncio.gather(*(other.ask(f"last {number}") for number in range(50)))
        assert service.at_once == 0
        await cluster.close()
        await deaf.close()

    run_ahead(work)


def report(number: int, **said: Any) -> Mapping[str, Any]:
    lease = {"seen": 0, "returned": 0, "waiting": 0, "idle": 0, "hanging": 0, "ages": [], "outcomes": [], **said}
    return {"number": number, "accounts": {"a": lease}}


def test_a_report_that_comes_twice_or_late_counts_once() -> None:
    limits = SharedLimits(8, 300.0)
    limits.apply_report("w", report(1, waiting=5), 0.0)
    assert limits.move_slots(0.0)["w"]["accounts"]["a"]["granted"] == 5
    limits.apply_report("w", report(1, waiting=5), 0.1)
    assert limits.move_slots(0.1) == {}
    limits.apply_report("w", report(3, seen=5, returned=5), 0.2)
    limits.apply_report("w", report(2, waiting=5), 0.3)
    assert limits.move_slots(0.3) == {}


def test_who_comes_back_after_it_was_taken_for_lost_gives_its_places_back_first() -> None:
    limit = SharedLimit(4, 300.0)
    limit.apply_report("w", report(1, waiting=4)["accounts"]["a"], 0.0)
    limit.move_slots(0.0)
    limit.remove_worker("w", 1.0)
    limit.move_slots(100.0)
    assert limit.held_count == 0
    limit.apply_report("w", report(2, seen=4, waiting=1)["accounts"]["a"], 101.0)
    limit.move_slots(101.0)
    assert limit.state_for("w", 101.0)["recalled"] == 4
    assert limit.held_count <= 4


def test_a_request_that_hangs_takes_one_place_from_its_worker() -> None:
    limit = SharedLimit(8, 300.0)
    limit.apply_report("w", report(1, waiting=8)["accounts"]["a"], 0.0)
    limit.move_slots(0.0)
    limit.apply_report("w", report(2, seen=8, hanging=1)["accounts"]["a"], 1.0)
    limit.move_slots(1.0)
    assert limit.state_for("w", 1.0)["recalled"] == 1


def lost_at(ages: list[float], took: list[float], *, granted: int) -> SharedLimit:
    """Return the limit of a worker that reported requests of these ages, and was lost a tenth of a second later."""
    limit = SharedLimit(granted, 300.0)
    limit.apply_report("w", report(1, waiting=granted)["accounts"]["a"], 0.0)
    for number in range(2, 10):
        limit.move_slots(0.0)
        outcomes = [[seconds, False, None, True, True] for seconds in took]
        said = report(number, seen=limit.state_for("w", 0.0)["granted"], waiting=granted, ages=ages, outcomes=outcomes)
        limit.apply_report("w", said["accounts"]["a"], 10.0)
    limit.move_slots(10.0)
    assert limit.held_count == granted
    limit.remove_worker("w", 10.1)
    return limit


def held(limit: SharedLimit, now: float) -> int:
    limit.move_slots(now)
    return limit.held_count


def test_places_of_a_lost_worker_are_free_one_by_one_when_their_requests_must_have_ended() -> None:
    limit = lost_at([0.0, 0.3, 0.8], [1.0, 1.1], granted=4)
    # After the longest answer; the one without a request may have got one at the last moment.
    assert [held(limit, 10.1 + after) for after in (0.0, 0.1, 0.25, 0.65, 0.75, 0.95, 1.05, 1.15)] == [
        *(4, 4, 3, 3, 2, 2, 1, 0)
    ]


def test_a_request_that_may_have_been_answered_since_may_have_been_followed_by_another() -> None:
    limit = lost_at([0.0, 0.3, 0.8], [0.5, 2.0], granted=3)
    # The third one is older than the shortest answer.
    assert [held(limit, 10.1 + after) for after in (1.15, 1.55, 1.65, 1.85, 1.95, 2.05)] == [3, 3, 2, 2, 1, 0]


@pytest.mark.full
def test_who_comes_gets_its_share_although_the_others_have_no_idle_place() -> None:
    """Two workers whose requests never cease do not keep all places."""

    async def work() -> None:
        cluster = Cluster(Service(lambda service, text, now: None), 12, workers=2)
        for worker in cluster.workers:
            for number in range(500):
                worker.ask(f"{worker.name} {number}")
        await asyncio.sleep(10 * LATENCY_S)
        cluster.workers.append(cluster.add())
        for number in range(500):
            cluster.workers[-1].ask(f"late {number}")
        await asyncio.sleep(10 * LATENCY_S)
        shares = [lease["idle"] + len(lease["ages"]) for lease in map(only_lease, cluster.workers)]
        assert sum(shares) == 12
        assert max(shares) - min(shares) <= 2
        await cluster.close()

    run_ahead(work)


def only_lease(worker: Worker) -> Mapping[str, Any]:
    (lease,) = worker.leases.report()["accounts"].values()
    return dict(lease)
