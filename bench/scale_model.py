"""The cost of a large run in closed form: its slowest station sets the pace.

A case passes stations that work in parallel: the models, the account's limits, the main process of its machine, the
process of the judges and, in a cluster, the coordinator. The run is as fast as the slowest station.
`bench/scale_simulation.py` checks these formulas event by event.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from holodeck_action.run.journal import FLUSH_INTERVAL_S

OVERHEAD_BYTES = 2_000
"""Bytes of a request and its answer besides their texts (headers, JSON, TLS), an estimate."""
PAGE_BYTES = 100e6
"""Most bytes of a page that a browser opens in a few seconds: twice the largest measured page."""
TOKEN_BYTES = 4.0
"""Bytes per token of English text."""


@dataclass(frozen=True)
class Costs:
    """Costs measured on this machine: CPU seconds, and bytes of files and of memory.

    A recorded case costs `case_s + turns · (turn_s + metrics · metric_s)`, its files likewise. A call of its model adds
    `call_s`, one of a judge `judge_s` in the main process and `judge_process_s` in that of the judges.
    """

    start_s: float
    live_start_s: float
    judged_start_s: float
    load_s: float
    load_bytes: float
    case_s: float
    turn_s: float
    metric_s: float
    call_s: float
    judge_s: float
    judge_process_s: float
    case_bytes: float
    turn_bytes: float
    metric_bytes: float
    record_bytes: float
    page_bytes: float
    other_shards_bytes: float
    peak_bytes: float
    merge_s: float
    merge_bytes: float
    sync_s: float
    dask_s: float = 0.001
    """Seconds of Dask's scheduler per task, from its documentation, not measured."""


@dataclass(frozen=True)
class Load:
    """The load of a run; tokens are per call, the same for the agent and for judges."""

    cases: int
    turns: int = 1
    metrics: int = 1
    judged: int = 0
    """Number of the metrics that a judge grades, with one call per turn."""
    recorded: bool = False
    latency_s: float = 2.0
    spread: float = 0.5
    """Standard deviation of the latency, as a share of its mean."""
    tokens_in: int = 1_000
    tokens_out: int = 150

    @property
    def agent_calls(self) -> int:
        """Number of the agent's calls per case."""
        return 0 if self.recorded else self.turns

    @property
    def judge_calls(self) -> int:
        """Number of judges' calls per case."""
        return self.turns * self.judged

    @property
    def calls(self) -> int:
        """Number of calls per case."""
        return self.agent_calls + self.judge_calls

    @property
    def evaluations(self) -> int:
        """Number of evaluations: metrics × turns of all cases."""
        return self.cases * self.turns * self.metrics


@dataclass(frozen=True)
class Provider:
    """One account: its limits (None: no limit), the share of calls that fail and are retried, US dollars per token."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    at_once: int | None = None
    """Most requests under way that the account accepts."""
    retry_after_s: float | None = 1.0
    """The `Retry-After` of a refusal in seconds; None without one."""
    faults: float = 0.0
    dollars_in: float = 0.0
    dollars_out: float = 0.0


@dataclass(frozen=True)
class Fleet:
    """Machines, each with one run (a shard, or a worker of a cluster) and a separate core for each process."""

    kind: Literal["shards", "cluster"] = "shards"
    machines: int = 1
    at_once: int = 64
    """Most calls under way on one machine."""
    boot_s: float = 60.0
    losses_per_hour: float = 0.0
    """Losses of each machine per hour."""
    keeps_disk: bool = True
    """Whether the replacement of a lost machine finds its journal."""
    dollars_per_hour: float = 0.10
    memory_bytes: float = 8e9
    bytes_per_s: float = 50e6
    """Bandwidth for fetching results to merge."""
    hours_of_a_job: float | None = None
    """Time limit of a job."""


@dataclass(frozen=True)
class Plan:
    """A load on a fleet."""

    load: Load
    fleet: Fleet
    provider: Provider


@dataclass(frozen=True)
class Forecast:
    """The cost of a plan; `used` is the utilisation of each station, `sizes` that of each size limit (1 is all)."""

    wall_s: float
    used: Mapping[str, float]
    sizes: Mapping[str, float]
    disk_bytes: float
    network_bytes: float
    model_dollars: float
    machine_dollars: float

    @property
    def pace(self) -> str:
        """The station that sets the pace."""
        return max(self.used, key=self.used.__getitem__)

    @property
    def first(self) -> str:
        """The size limit that is exceeded first."""
        return max(self.sizes, key=self.sizes.__getitem__)


def main_seconds(costs: Costs, load: Load) -> float:
    """Return the CPU seconds of a case in the main process."""
    recorded = costs.case_s + load.turns * (costs.turn_s + load.metrics * costs.metric_s)
    return recorded + load.agent_calls * costs.call_s + load.judge_calls * costs.judge_s


def coordinator_seconds(costs: Costs) -> float:
    """Return the coordinator's CPU seconds for a case: Dask's work, and reading and storing the case as in a merge."""
    return costs.dask_s + costs.merge_s


def file_bytes(costs: Costs, load: Load) -> float:
    """Return the bytes of a case in the files of a run."""
    return costs.case_bytes + load.turns * (costs.turn_bytes + load.metrics * costs.metric_bytes)


def start_seconds(costs: Costs, plan: Plan) -> float:
    """Return the seconds until a machine sends its first request: boot, imports, and reading the whole suite."""
    load = plan.load
    begun = costs.judged_start_s if load.judged else costs.start_s if load.recorded else costs.live_start_s
    return plan.fleet.boot_s + begun + load.cases * costs.load_s


def merge_seconds(costs: Costs, plan: Plan) -> float:
    """Return the seconds to fetch and merge the shards' results; 0 in a cluster, whose coordinator has them."""
    if plan.fleet.kind == "cluster" or plan.fleet.machines == 1:
        return 0.0
    return plan.load.cases * (costs.merge_s + file_bytes(costs, plan.load) / plan.fleet.bytes_per_s)


def station_rates(costs: Costs, plan: Plan) -> dict[str, float]:
    """Return the rate of each station in cases a second, as if no other station limited it.

    * models: machines · at once / (calls · latency)
    * main process, judges' process: machines / CPU seconds of a case
    * requests, tokens: limit / 60 / (requests or tokens of a case, including failed attempts)
    * coordinator: 1 / its seconds for a case
    """
    load, fleet, provider = plan.load, plan.fleet, plan.provider
    found = {"main process": fleet.machines / main_seconds(costs, load)}
    attempts = load.calls / (1 - provider.faults)
    if load.calls:
        found["models' latency"] = fleet.machines * fleet.at_once / (attempts * load.latency_s)
    if provider.at_once is not None and load.calls:
        found["calls at once of the account"] = provider.at_once / (attempts * load.latency_s)
    if load.judge_calls:
        found["judges' process"] = fleet.machines / (load.judge_calls * costs.judge_process_s)
    if provider.requests_per_minute is not None and load.calls:
        found["requests a minute"] = provider.requests_per_minute / 60 / attempts
    if provider.tokens_per_minute is not None and load.calls:
        found["tokens a minute"] = provider.tokens_per_minute / 60 / (attempts * (load.tokens_in + load.tokens_out))
    if fleet.kind == "cluster":
        found["coordinator"] = 1 / coordinator_seconds(costs)
    return found


def wall_seconds(costs: Costs, plan: Plan) -> float:
    """Return the seconds from the first machine's start to the merged record.

    T = cases / slowest rate + the calls of one case. A machine is lost h · T times on average. A worker of a cluster
    is missing while its replacement starts: T grows by h · start. A shard that finds its journal continues after a new
    start: the run waits for the shard that is lost most often, E[max of M Poisson numbers] = Σₖ (1 − P(number ≤ k)ᴹ)
    times. A shard without a journal starts over: the last of n = M · h · T losses, spread evenly over T, is at
    T · n / (n + 1).
    """
    load, fleet = plan.load, plan.fleet
    begin = start_seconds(costs, plan)
    work = load.cases / min(station_rates(costs, plan).values()) + load.calls * load.latency_s
    per_second = fleet.losses_per_hour / 3600
    mean = per_second * work
    if fleet.kind == "cluster":
        work *= 1 + per_second * begin
    elif fleet.keeps_disk:
        work += expected_largest(fleet.machines, mean) * (begin + load.calls * load.latency_s)
    else:
        losses = fleet.machines * mean
        work += (work + begin) * losses / (losses + 1)
    return begin + work + merge_seconds(costs, plan)


def expected_largest(machines: int, mean: float) -> float:
    """Return the expected maximum of `machines` Poisson numbers with this mean."""
    found, below, term = 0.0, 0.0, math.exp(-mean)
    for k in range(1, 1_000):
        below += term
        missing = 1 - min(1.0, below) ** machines
        if missing < 1e-9:
            break
        found += missing
        term *= mean / k
    return found


def forecast(costs: Costs, plan: Plan) -> Forecast:
    """Return the forecast of a plan."""
    load, fleet = plan.load, plan.fleet
    wall, pace = wall_seconds(costs, plan), station_rates(costs, plan)
    slowest = min(pace.values())
    shards = fleet.kind == "shards" and fleet.machines > 1
    files = load.cases * file_bytes(costs, load)
    others = load.cases * costs.other_shards_bytes * (fleet.machines - 1) if shards else 0.0
    sizes = {
        "memory of the run": load.cases * max(costs.load_bytes, costs.peak_bytes) / fleet.memory_bytes,
        "journal's fsync": costs.sync_s / FLUSH_INTERVAL_S,
    }
    if shards:
        sizes["memory of the merge"] = load.cases * costs.merge_bytes / fleet.memory_bytes
        # A shard loads the whole suite, and its record names all cases.
        own = max(0.0, costs.peak_bytes - costs.load_bytes) / fleet.machines
        sizes["memory of the run"] = load.cases * (costs.load_bytes + own) / fleet.memory_bytes
    if shards and fleet.hours_of_a_job:
        sizes["hours of a job"] = wall / 3600 / fleet.hours_of_a_job
    if shards and not fleet.keeps_disk:
        sizes["losses"] = fleet.losses_per_hour * wall / 3600
    machines = fleet.machines + (fleet.kind == "cluster")
    texts = TOKEN_BYTES * (load.tokens_in + load.tokens_out) + OVERHEAD_BYTES
    attempts = load.cases * load.calls / (1 - plan.provider.faults)
    dollars = load.tokens_in * plan.provider.dollars_in + load.tokens_out * plan.provider.dollars_out
    return Forecast(
        wall_s=wall,
        used={name: slowest / rate for name, rate in pace.items()},
        sizes=sizes,
        disk_bytes=files * (2 if shards else 1) + others,
        network_bytes=attempts * texts + (files + others if fleet.machines > 1 else 0),
        model_dollars=load.cases * load.calls * dollars,
        machine_dollars=machines * wall / 3600 * fleet.dollars_per_hour,
    )
