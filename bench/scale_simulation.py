"""Simulates a large run event by event: machines, cases, calls, limits, refusals, losses, coordinator and merge.

The program's own `Window` and `refusal_wait` decide which calls are sent and how long a refused call waits. The
simulation covers latencies of models, limits of the account, failing calls, CPU time (one core for the main process,
one for the judges'), lost and replaced machines, and the coordinator. All times are in seconds.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from bench.scale_model import Costs, Plan, coordinator_seconds, main_seconds, merge_seconds, start_seconds
from bench.scale_stations import Account, Core
from holodeck_action.llm.limits.evidence import Sent
from holodeck_action.llm.limits.window import Window, backoff_s
from holodeck_action.llm.retries import refusal_wait

REFUSED_S = 0.02
"""Seconds until a refusal arrives."""
PATIENT_S = 600.0
"""Seconds of nothing but refusals before the run gives up: the default of `limits.rate_limit_wait_s`."""


@dataclass(frozen=True)
class SimulationResult:
    """The result of a simulation; `shares` is the share of time that each station worked."""

    wall_s: float
    asking_s: float
    """Seconds from the first request to the last."""
    calls: int
    refused: int
    failed: int
    lost: int
    """Number of lost machines."""
    repeated: int
    """Number of cases that ran again because of lost machines."""
    shares: dict[str, float]


class Simulation:
    """One run of a plan."""

    def __init__(self, costs: Costs, plan: Plan, seed: int = 0) -> None:
        """Create the machines and limits at time 0."""
        self.costs, self.plan = costs, plan
        self.random = Random(seed)
        self.now = 0.0
        self.account = Account(plan.provider, plan.load.tokens_in + plan.load.tokens_out)
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        load, fleet = plan.load, plan.fleet
        variance = math.log(1 + load.spread**2)
        self._spread = math.sqrt(variance)
        self._center = math.log(load.latency_s) - variance / 2 if load.latency_s else None
        self.cluster = fleet.kind == "cluster"
        self.waiting = load.cases if self.cluster else 0
        """Cases that no worker of the cluster has."""
        self.coordinator = Core()
        # A cluster has one window for all workers.
        shared = Limit(self, fleet.machines * fleet.at_once) if self.cluster else None
        self.machines = [
            _Machine(
                self,
                shared or Limit(self, fleet.at_once),
                0 if self.cluster else load.cases // fleet.machines + (number < load.cases % fleet.machines),
            )
            for number in range(fleet.machines)
        ]
        self.calls = self.failed = self.lost = self.repeated = self.done = 0
        self.end = self.last = 0.0
        self.first: float | None = None

    def run(self) -> SimulationResult:
        """Run all events and return the result."""
        for machine in self.machines:
            machine.boot()
        while self._events and not self.is_over:
            self.now, _, action, arguments = heapq.heappop(self._events)
            action(*arguments)
        if not self.is_over:
            raise RuntimeError(f"{self.plan.load.cases - self.done} cases were never done")
        busy = self.end or 1.0
        merging = merge_seconds(self.costs, self.plan)
        stations = {
            "main process": sum(machine.main.busy_s for machine in self.machines) / len(self.machines) / busy,
            "judges' process": sum(machine.judges.busy_s for machine in self.machines) / len(self.machines) / busy,
            "coordinator": self.coordinator.busy_s / busy,
            **self.account.used_shares(busy),
        }
        return SimulationResult(
            self.end + merging,
            self.last - (self.first or 0.0),
            self.calls,
            self.account.refused,
            self.failed,
            self.lost,
            self.repeated,
            {name: share for name, share in stations.items() if share},
        )

    @property
    def is_over(self) -> bool:
        """Whether all cases are done."""
        return self.done >= self.plan.load.cases

    def schedule(self, time: float, action: Callable[..., None], *arguments: Any) -> None:
        """Schedule an action for a time."""
        self._count += 1
        heapq.heappush(self._events, (time, self._count, action, arguments))

    def draw_latency(self) -> float:
        """Return a random latency in seconds: log-normal like those of models, or constant without spread."""
        if self._center is None:
            return 0.0
        return self.random.lognormvariate(self._center, self._spread) if self._spread else math.exp(self._center)

    def count_finished(self) -> None:
        """Count a case whose result is safely stored."""
        self.done += 1
        if self.is_over:
            self.end = self.now


@dataclass(slots=True)
class _Call:
    """A call of a case, or its next attempt."""

    case: _Case
    judge: bool
    refusals: int = 0
    faults: int = 0
    queue_position: int | None = None


@dataclass(slots=True, eq=False)
class _Case:
    """A case in progress: the agent's calls in sequence, then the judges' calls in parallel."""

    machine: _Machine
    life: int
    asked: int = 0
    graded: int = 0
    away: bool = field(default=False)


class Limit:
    """Decides which calls are sent, like `AccountLimit`, in simulated time."""

    def __init__(self, simulation: Simulation, most: int) -> None:
        """Start with an empty window of at most `most` calls."""
        self._simulation = simulation
        self.window = Window(most, PATIENT_S)
        self._queue: list[tuple[int, int, _Call]] = []
        self._positions = 0
        self._opening = False
        self._waking = math.inf

    def ask(self, call: _Call) -> None:
        """Queue a call and send it when it is its turn; retries go before new calls."""
        self._positions += 1
        if call.queue_position is None:
            call.queue_position = self._positions
        heapq.heappush(self._queue, (call.queue_position, self._positions, call))
        self._send_waiting()

    def _send_waiting(self) -> None:
        now = self._simulation.now
        while self._queue and (wait := self.window.seconds_to_wait(now)) <= 0:
            _, _, call = heapq.heappop(self._queue)
            if call.case.machine.runs(call.case):
                self._send(call)
        if self._queue and now + wait < self._waking:
            self._waking = now + wait
            self._simulation.schedule(self._waking, self._wake)

    def _wake(self) -> None:
        self._waking = math.inf
        self._send_waiting()

    def _send(self, call: _Call) -> None:
        simulation = self._simulation
        simulation.calls += 1
        simulation.last = simulation.now
        if simulation.first is None:
            simulation.first = simulation.now
        sent, started = self.window.note_sent(simulation.now), simulation.now
        if simulation.account.admits(started):
            simulation.account.under_way += 1
            failing = simulation.plan.provider.faults and simulation.random.random() < simulation.plan.provider.faults
            simulation.schedule(started + simulation.draw_latency(), self._receive_answer, call, sent, bool(failing))
        else:
            simulation.schedule(started + REFUSED_S, self._receive_refusal, call, sent)

    def _receive_answer(self, call: _Call, sent: Sent, failing: bool) -> None:
        simulation, machine = self._simulation, call.case.machine
        simulation.account.under_way -= 1
        if not machine.runs(call.case):
            self.window.busy -= 1
            self._send_waiting()
            return
        # The event loop processes an answer after all earlier work.
        simulation.schedule(
            machine.main.work(simulation.now, machine.call_s(call)), self._process_answer, call, sent, failing
        )

    def _process_answer(self, call: _Call, sent: Sent, failing: bool) -> None:
        simulation = self._simulation
        self.window.busy -= 1
        if failing:
            simulation.failed += 1
            call.faults += 1
            wait = simulation.random.uniform(0.0, backoff_s(call.faults))
            simulation.schedule(simulation.now + wait, self.ask, call)
        else:
            self.window.note_answer(sent, simulation.now)
            call.case.machine.continue_case(call)
        self._send_waiting()

    def _receive_refusal(self, call: _Call, sent: Sent) -> None:
        simulation = self._simulation
        self.window.busy -= 1
        asked = simulation.plan.provider.retry_after_s
        self.window.note_refusal(sent, simulation.now, asked, None)
        if self.window.is_open and not self._opening:
            self._opening = True
            self._close_breaker()
        if call.case.machine.runs(call.case):
            call.refusals += 1
            wait = refusal_wait(call.refusals, asked, simulation.random.uniform)
            call.case.machine.lend(call.case)
            simulation.schedule(simulation.now + wait, self._retry, call)
        self._send_waiting()

    def _retry(self, call: _Call) -> None:
        if call.case.machine.runs(call.case):
            call.case.machine.take_back(call.case)
            self.ask(call)

    def _close_breaker(self) -> None:
        wait = self.window.seconds_to_trial(self._simulation.now)
        if wait > 0:
            self._simulation.schedule(self._simulation.now + wait, self._close_breaker)
            return
        self._opening = False
        if self.window.is_open:
            self.window.allow_trials()
        self._send_waiting()


class _Machine:
    """One machine: a number of sessions, twice as many cases under way, and two cores."""

    def __init__(self, simulation: Simulation, limit: Limit, cases: int) -> None:
        self._simulation, self._limit = simulation, limit
        self._share = self._pending = cases
        costs, load = simulation.costs, simulation.plan.load
        self._agent_s, self._judge_s, self._process_s = costs.call_s, costs.judge_s, costs.judge_process_s
        self._case_s = main_seconds(costs, load) - load.agent_calls * costs.call_s - load.judge_calls * costs.judge_s
        self._slots = simulation.plan.fleet.at_once
        self.main, self.judges = Core(), Core()
        self._life = 0
        self._reset()

    def _reset(self) -> None:
        self._ready = False
        self._free, self._lendable, self._owed = self._slots, self._slots, 0
        self._under_way: set[_Case] = set()
        self._unasked: deque[_Case] = deque()

    def boot(self) -> None:
        """Boot, for the first time or as a replacement."""
        simulation = self._simulation
        self._life += 1
        simulation.schedule(simulation.now + start_seconds(simulation.costs, simulation.plan), self._begin, self._life)
        if rate := simulation.plan.fleet.losses_per_hour / 3600:
            simulation.schedule(simulation.now + simulation.random.expovariate(rate), self._lose, self._life)

    def runs(self, case: _Case) -> bool:
        """Return whether a case still runs on this machine, which may have been replaced since."""
        return case.life == self._life

    def _begin(self, life: int) -> None:
        if life == self._life:
            self._ready = True
            self._start_cases()

    def _lose(self, life: int) -> None:
        simulation = self._simulation
        if life != self._life or (not self._under_way and not self._pending and not simulation.waiting):
            return
        simulation.lost += 1
        simulation.repeated += len(self._under_way)
        if simulation.cluster:
            simulation.waiting += len(self._under_way)
        else:
            self._pending += len(self._under_way)
            if not simulation.plan.fleet.keeps_disk:
                finished = self._share - self._pending
                simulation.done -= finished
                simulation.repeated += finished
                self._pending = self._share
        self._reset()
        self.main, self.judges = Core(self.main.busy_s), Core(self.judges.busy_s)
        self.boot()
        for machine in simulation.machines:
            machine._start_cases()

    def _start_cases(self) -> None:
        simulation = self._simulation
        while self._ready and len(self._under_way) < 2 * self._slots:
            if simulation.cluster:
                if not simulation.waiting:
                    break
                simulation.waiting -= 1
            elif not self._pending:
                break
            else:
                self._pending -= 1
            case = _Case(self, self._life)
            self._under_way.add(case)
            self._unasked.append(case)
        self._start_sessions()

    def _start_sessions(self) -> None:
        while self._free and self._unasked:
            self._free -= 1
            case = self._unasked.popleft()
            if self._simulation.plan.load.agent_calls:
                self._limit.ask(_Call(case, judge=False))
            else:
                self._score(case)

    def lend(self, case: _Case) -> None:
        """Free this case's session for another one while its call waits."""
        if not case.away and case.asked < self._simulation.plan.load.agent_calls and self._lendable:
            case.away = True
            self._lendable -= 1
            self._give_back()

    def take_back(self, case: _Case) -> None:
        """Take the session back: the next one that ends is not reused."""
        if case.away:
            case.away = False
            self._lendable += 1
            self._owed += 1

    def _give_back(self) -> None:
        if self._owed:
            self._owed -= 1
        else:
            self._free += 1
            self._start_sessions()

    def call_s(self, call: _Call) -> float:
        """Return the CPU seconds of a call in the main process."""
        return self._judge_s if call.judge else self._agent_s

    def continue_case(self, call: _Call) -> None:
        """Continue a case after an answer."""
        case, load = call.case, self._simulation.plan.load
        if call.judge:
            done = self.judges.work(self._simulation.now, self._process_s)
            self._simulation.schedule(done, self._count_graded, case)
            return
        case.asked += 1
        if case.asked < load.agent_calls:
            self._limit.ask(_Call(case, judge=False))
        else:
            self._score(case)

    def _score(self, case: _Case) -> None:
        self._give_back()
        if not self._simulation.plan.load.judge_calls:
            self._finish(case)
        for _ in range(self._simulation.plan.load.judge_calls):
            self._limit.ask(_Call(case, judge=True))

    def _count_graded(self, case: _Case) -> None:
        if not self.runs(case):
            return
        case.graded += 1
        if case.graded == self._simulation.plan.load.judge_calls:
            self._finish(case)

    def _finish(self, case: _Case) -> None:
        self._simulation.schedule(self.main.work(self._simulation.now, self._case_s), self._store_result, case)

    def _store_result(self, case: _Case) -> None:
        simulation = self._simulation
        if not self.runs(case):
            return
        if simulation.cluster:
            # Until the coordinator has the result, a loss of the worker loses it.
            done = simulation.coordinator.work(simulation.now, coordinator_seconds(simulation.costs))
            simulation.schedule(done, self._complete_case, case)
        else:
            self._complete_case(case)

    def _complete_case(self, case: _Case) -> None:
        if self.runs(case):
            self._under_way.discard(case)
            self._simulation.count_finished()
            self._start_cases()


def simulate(costs: Costs, plan: Plan, seed: int = 0) -> SimulationResult:
    """Run a plan in simulated time."""
    return Simulation(costs, plan, seed).run()


def scale_down(costs: Costs, plan: Plan, times: int) -> tuple[Costs, Plan]:
    """Return costs and a plan that takes as long as this one, with `times` fewer machines and cases.

    The account's limits are divided, too, and the coordinator and the merge take `times` longer per case. Only the
    variation between many machines is lost.

    Raises:
        ValueError: the number of machines is not a multiple of `times`.
    """
    load, fleet, provider = plan.load, plan.fleet, plan.provider
    if fleet.machines % times:
        raise ValueError(f"{fleet.machines} machines cannot be divided by {times}")

    def divide(limit: float | None) -> float | None:
        return None if limit is None else limit / times

    slower = replace(costs, load_s=costs.load_s * times, merge_s=costs.merge_s * times, dask_s=costs.dask_s * times)
    return slower, Plan(
        replace(load, cases=load.cases // times),
        replace(fleet, machines=fleet.machines // times, bytes_per_s=fleet.bytes_per_s / times),
        replace(
            provider,
            requests_per_minute=divide(provider.requests_per_minute),
            tokens_per_minute=divide(provider.tokens_per_minute),
        ),
    )
