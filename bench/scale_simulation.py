"""A large run event by event: machines, cases, calls, limits, refusals, losses, the coordinator, the merge.

The program's own `Window`, `Gate` and `refusal_wait` decide who may ask and how long a refused call waits. Simulated
are the models' latencies, the account's limits, calls that fail, processor time (one core for the main process, one for
the judges'), machines that are lost and come again, and the coordinator. All times are in seconds.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from bench.scale_model import Costs, Plan, coordinator_s, main_s, merge_s, start_s
from bench.scale_stations import Account, Core
from holodeck_action.llm.limits.gate import Gate, backed_off
from holodeck_action.llm.limits.limits import Window
from holodeck_action.llm.retries import refusal_wait

REFUSED_S = 0.02
"""Seconds until a refusal is there."""
PATIENT_S = 600.0
"""How long an account may refuse all calls before it is given up: the default of `limits.rate_limit_wait_s`."""


@dataclass(frozen=True)
class Simulated:
    """How it went; `shares` says how much of the time each station worked."""

    wall_s: float
    asking_s: float
    """From the first request to the last."""
    calls: int
    refused: int
    failed: int
    lost: int
    """Machines that were lost."""
    repeated: int
    """Cases that ran again because of that."""
    shares: dict[str, float]


class Simulation:
    """One run of a plan."""

    def __init__(self, costs: Costs, plan: Plan, seed: int = 0) -> None:
        """Prepare; nothing has happened yet."""
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
        # A cluster has one window for all of its workers.
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

    def run(self) -> Simulated:
        """Let it all happen."""
        for machine in self.machines:
            machine.boot()
        while self._events and not self.over:
            self.now, _, action, arguments = heapq.heappop(self._events)
            action(*arguments)
        if not self.over:
            raise RuntimeError(f"{self.plan.load.cases - self.done} cases were never done")
        busy = self.end or 1.0
        merging = merge_s(self.costs, self.plan)
        stations = {
            "main process": sum(machine.main.busy_s for machine in self.machines) / len(self.machines) / busy,
            "judges' process": sum(machine.judges.busy_s for machine in self.machines) / len(self.machines) / busy,
            "coordinator": self.coordinator.busy_s / busy,
            **self.account.shares(busy),
        }
        return Simulated(
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
    def over(self) -> bool:
        """Whether all cases are done."""
        return self.done >= self.plan.load.cases

    def at(self, time: float, action: Callable[..., None], *arguments: Any) -> None:
        """Do something at a time."""
        self._count += 1
        heapq.heappush(self._events, (time, self._count, action, arguments))

    def latency(self) -> float:
        """Draw the seconds of an answer: log-normal, as latencies of models are, or constant."""
        if self._center is None:
            return 0.0
        return self.random.lognormvariate(self._center, self._spread) if self._spread else math.exp(self._center)

    def finished(self) -> None:
        """Count a case whose result is kept for good."""
        self.done += 1
        if self.over:
            self.end = self.now


@dataclass(slots=True)
class _Call:
    """A call of a case, or the next try of one."""

    case: _Case
    judge: bool
    refusals: int = 0
    faults: int = 0
    place: int | None = None


@dataclass(slots=True, eq=False)
class _Case:
    """A case on its way: agent's calls one after the other, then the judges', all at once."""

    machine: _Machine
    life: int
    asked: int = 0
    graded: int = 0
    away: bool = field(default=False)


class Limit:
    """Who may ask: what `AccountLimit` does, in simulated time."""

    def __init__(self, simulation: Simulation, most: int) -> None:
        """Begin with an empty window of at most so many calls."""
        self._simulation = simulation
        self.window = Window(most)
        self._gate = Gate(PATIENT_S)
        self._queue: list[tuple[int, int, _Call]] = []
        self._taken = self._places = 0
        self._opening = False

    def ask(self, call: _Call) -> None:
        """Send a call when it is its turn; who was sent before goes first."""
        self._places += 1
        if call.place is None:
            call.place = self._places
        heapq.heappush(self._queue, (call.place, self._places, call))
        self._wake()

    def _wake(self) -> None:
        gate = self._gate
        while self._queue and self._taken < self.window.size and (not gate.shut or gate.tries):
            _, _, call = heapq.heappop(self._queue)
            if not call.case.machine.has(call.case):
                continue
            gate.tries -= bool(gate.tries)
            self._taken += 1
            self._send(call)

    def _send(self, call: _Call) -> None:
        simulation = self._simulation
        simulation.calls += 1
        simulation.last = simulation.now
        if simulation.first is None:
            simulation.first = simulation.now
        busy, started = self._taken, simulation.now
        if simulation.account.takes(started):
            simulation.account.under_way += 1
            failing = simulation.plan.provider.faults and simulation.random.random() < simulation.plan.provider.faults
            simulation.at(started + simulation.latency(), self._answered, call, started, busy, bool(failing))
        else:
            simulation.at(started + REFUSED_S, self._refused, call, started, busy)

    def _answered(self, call: _Call, started: float, busy: int, failing: bool) -> None:
        simulation, machine = self._simulation, call.case.machine
        simulation.account.under_way -= 1
        if not machine.has(call.case):
            self._taken -= 1
            self._wake()
            return
        # The event loop sees an answer when it has done what came before.
        simulation.at(machine.main.take(simulation.now, machine.call_s(call)), self._seen, call, started, busy, failing)

    def _seen(self, call: _Call, started: float, busy: int, failing: bool) -> None:
        simulation = self._simulation
        full = bool(self._queue) or self._taken >= self.window.size
        self._taken -= 1
        if failing:
            simulation.failed += 1
            call.faults += 1
            wait = simulation.random.uniform(0.0, backed_off(call.faults))
            simulation.at(simulation.now + wait, self.ask, call)
        else:
            self._gate.answered()
            self.window.answered(started, simulation.now, max(1, busy), full=full)
            call.case.machine.answered(call)
        self._wake()

    def _refused(self, call: _Call, started: float, busy: int) -> None:
        simulation, gate = self._simulation, self._gate
        self._taken -= 1
        asked = simulation.plan.provider.retry_after_s
        if gate.among_answers:
            self.window.refused(started, simulation.now, max(1, busy), asked)
        gate.refused(simulation.now, asked)
        if gate.shut and not self._opening:
            self._opening = True
            self._open()
        if call.case.machine.has(call.case):
            call.refusals += 1
            wait = refusal_wait(call.refusals, asked, simulation.random.uniform)
            call.case.machine.lend(call.case)
            simulation.at(simulation.now + wait, self._again, call)
        self._wake()

    def _again(self, call: _Call) -> None:
        if call.case.machine.has(call.case):
            call.case.machine.take_back(call.case)
            self.ask(call)

    def _open(self) -> None:
        wait = self._gate.wait(self._simulation.now)
        if wait > 0:
            self._simulation.at(self._simulation.now + wait, self._open)
            return
        self._opening = False
        if self._gate.shut:
            self._gate.open_a_little()
        self._wake()


class _Machine:
    """One run: so many sessions at a time, twice as many cases under way, and two cores."""

    def __init__(self, simulation: Simulation, limit: Limit, cases: int) -> None:
        self._simulation, self._limit = simulation, limit
        self._share = self._pending = cases
        costs, load = simulation.costs, simulation.plan.load
        self._agent_s, self._judge_s, self._process_s = costs.call_s, costs.judge_s, costs.judge_process_s
        self._case_s = main_s(costs, load) - load.agent_calls * costs.call_s - load.judge_calls * costs.judge_s
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
        """Come up, for the first time or in place of a lost one."""
        simulation = self._simulation
        self._life += 1
        simulation.at(simulation.now + start_s(simulation.costs, simulation.plan), self._begin, self._life)
        if rate := simulation.plan.fleet.losses_per_hour / 3600:
            simulation.at(simulation.now + simulation.random.expovariate(rate), self._lose, self._life)

    def has(self, case: _Case) -> bool:
        """Whether a case is still run here."""
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
        self._grant()

    def _grant(self) -> None:
        while self._free and self._unasked:
            self._free -= 1
            case = self._unasked.popleft()
            if self._simulation.plan.load.agent_calls:
                self._limit.ask(_Call(case, judge=False))
            else:
                self._score(case)

    def lend(self, case: _Case) -> None:
        """Let another session work while the call of this one waits."""
        if not case.away and case.asked < self._simulation.plan.load.agent_calls and self._lendable:
            case.away = True
            self._lendable -= 1
            self._give_back()

    def take_back(self, case: _Case) -> None:
        """Let one session less work from now on."""
        if case.away:
            case.away = False
            self._lendable += 1
            self._owed += 1

    def _give_back(self) -> None:
        if self._owed:
            self._owed -= 1
        else:
            self._free += 1
            self._grant()

    def call_s(self, call: _Call) -> float:
        """CPU seconds of a call in the main process."""
        return self._judge_s if call.judge else self._agent_s

    def answered(self, call: _Call) -> None:
        """Go on with a case after an answer."""
        case, load = call.case, self._simulation.plan.load
        if call.judge:
            done = self.judges.take(self._simulation.now, self._process_s)
            self._simulation.at(done, self._graded, case)
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

    def _graded(self, case: _Case) -> None:
        if not self.has(case):
            return
        case.graded += 1
        if case.graded == self._simulation.plan.load.judge_calls:
            self._finish(case)

    def _finish(self, case: _Case) -> None:
        self._simulation.at(self.main.take(self._simulation.now, self._case_s), self._finished, case)

    def _finished(self, case: _Case) -> None:
        simulation = self._simulation
        if not self.has(case):
            return
        if simulation.cluster:
            # Until the coordinator has it, the worker's loss would lose it.
            done = simulation.coordinator.take(simulation.now, coordinator_s(simulation.costs))
            simulation.at(done, self._kept, case)
        else:
            self._kept(case)

    def _kept(self, case: _Case) -> None:
        if self.has(case):
            self._under_way.discard(case)
            self._simulation.finished()
            self._start_cases()


def simulate(costs: Costs, plan: Plan, seed: int = 0) -> Simulated:
    """Run a plan in simulated time."""
    return Simulation(costs, plan, seed).run()


def smaller(costs: Costs, plan: Plan, times: int) -> tuple[Costs, Plan]:
    """A plan that takes as long as another, with so many times fewer machines and cases.

    The account's limits are divided, too, and the coordinator and the merge take so many times longer for a case. What
    is lost is only how unlike many machines are.

    Raises:
        ValueError: it has not so many machines, or not a multiple.
    """
    load, fleet, provider = plan.load, plan.fleet, plan.provider
    if fleet.machines % times:
        raise ValueError(f"{fleet.machines} machines cannot be divided by {times}")

    def divided(limit: float | None) -> float | None:
        return None if limit is None else limit / times

    slower = replace(costs, load_s=costs.load_s * times, merge_s=costs.merge_s * times, dask_s=costs.dask_s * times)
    return slower, Plan(
        replace(load, cases=load.cases // times),
        replace(fleet, machines=fleet.machines // times, bytes_per_s=fleet.bytes_per_s / times),
        replace(
            provider,
            requests_per_minute=divided(provider.requests_per_minute),
            tokens_per_minute=divided(provider.tokens_per_minute),
        ),
    )
