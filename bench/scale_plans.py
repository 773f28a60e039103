"""The plans in docs/scale.md: loads, machines and accounts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.scale_model import Costs, Fleet, Load, Plan, Provider, wall_seconds

SMALL = Provider(5_000, 4e6, faults=0.005, dollars_in=0.15e-6, dollars_out=0.60e-6)
LARGE = replace(SMALL, requests_per_minute=30_000, tokens_per_minute=150e6)
TEN = replace(SMALL, requests_per_minute=300_000, tokens_per_minute=1_500e6)
LOSS = 0.01
"""Losses of a machine per hour: about one in four days."""
NIGHT_S = 8 * 3600
MILLION = 1_000_000
MOST = 256
"""Most machines: the number of jobs in a GitHub matrix."""
HOSTED = Fleet(losses_per_hour=LOSS, keeps_disk=False, dollars_per_hour=0.36, hours_of_a_job=6, memory_bytes=7e9)
SHARDS = Fleet(losses_per_hour=LOSS)
CLUSTER = Fleet("cluster", losses_per_hour=LOSS)
JUDGED = Load(MILLION, judged=1)
RECORDED = Load(200_000, metrics=5, recorded=True)


@dataclass(frozen=True)
class Scenario:
    """A plan with a name; `suites` of it run in sequence, each simulated with `times` fewer machines."""

    name: str
    plan: Plan
    suites: int = 1
    times: int = 1


SCENARIOS = (
    Scenario("1 M recorded evaluations, 1 machine", Plan(RECORDED, replace(SHARDS, machines=1), LARGE)),
    Scenario("1 M judged, 1 machine", Plan(JUDGED, replace(SHARDS, machines=1), LARGE)),
    Scenario("1 M judged, 8 jobs of a hosted CI", Plan(JUDGED, replace(HOSTED, machines=8), LARGE), times=2),
    Scenario("1 M judged, 8 shards", Plan(JUDGED, replace(SHARDS, machines=8), LARGE), times=2),
    Scenario("1 M judged, cluster of 8", Plan(JUDGED, replace(CLUSTER, machines=8), LARGE), times=2),
    Scenario("1 M judged, 8 shards, small account", Plan(JUDGED, replace(SHARDS, machines=8), SMALL), times=2),
    Scenario(
        "100 M recorded evaluations, 20 shards, one suite",
        Plan(replace(RECORDED, cases=20 * MILLION), replace(SHARDS, machines=20), LARGE),
        times=10,
    ),
    Scenario(
        "100 M recorded evaluations, 20 shards, 40 suites",
        Plan(replace(RECORDED, cases=500_000), replace(SHARDS, machines=20), LARGE),
        suites=40,
    ),
    Scenario(
        "100 M judged, 20 shards, 100 suites",
        Plan(JUDGED, replace(SHARDS, machines=20), LARGE),
        suites=100,
        times=5,
    ),
    Scenario(
        "100 M judged, 160 shards, 100 suites, ten accounts",
        Plan(JUDGED, replace(SHARDS, machines=160), TEN),
        suites=100,
        times=40,
    ),
    Scenario(
        "100 M judged, cluster of 160, 100 suites, ten accounts",
        Plan(JUDGED, replace(CLUSTER, machines=160), TEN),
        suites=100,
        times=40,
    ),
)
_FEW = Load(20_000, judged=1)
_FOUR, _FOUR_WORKERS = Fleet(machines=4, boot_s=0), Fleet("cluster", machines=4, boot_s=0)
DIFFERENCES = {
    "models' latency, 4 shards": Plan(_FEW, _FOUR, Provider()),
    "main process, 4 shards, 50 ms": Plan(replace(_FEW, latency_s=0.05), _FOUR, Provider()),
    "requests a minute, 1 machine": Plan(_FEW, Fleet(boot_s=0), Provider(1_500)),
    "requests a minute, 4 shards": Plan(_FEW, _FOUR, Provider(3_000)),
    "requests a minute, cluster of 4": Plan(_FEW, _FOUR_WORKERS, Provider(3_000)),
    "tokens a minute, 4 shards": Plan(_FEW, _FOUR, Provider(tokens_per_minute=3e6)),
    "models' latency, 5 % of the calls fail": Plan(_FEW, _FOUR, Provider(faults=0.05)),
    "coordinator, cluster of 16": Plan(
        replace(_FEW, latency_s=0.2, judged=0), replace(_FOUR_WORKERS, machines=16), Provider()
    ),
    "1 loss a machine and hour, 4 shards": Plan(_FEW, replace(_FOUR, boot_s=60, losses_per_hour=1), Provider()),
    "the same, no journal kept": Plan(_FEW, replace(_FOUR, boot_s=60, losses_per_hour=1, keeps_disk=False), Provider()),
    "the same, cluster of 4": Plan(_FEW, replace(_FOUR_WORKERS, boot_s=60, losses_per_hour=1), Provider()),
    "recorded, main process, 4 shards": Plan(replace(RECORDED, cases=20_000), _FOUR, Provider()),
}


def smallest_plan(costs: Costs, load: Load, fleet: Fleet, provider: Provider, within_s: float) -> Plan | None:
    """Return the plan with the fewest machines that ends in time; None if no number of machines is enough."""
    for machines in range(1, MOST + 1):
        plan = Plan(load, replace(fleet, machines=machines), provider)
        if wall_seconds(costs, plan) <= within_s:
            return plan
    return None


NIGHTS = {
    "shards": SHARDS,
    "jobs of a hosted CI": HOSTED,
    "cluster": CLUSTER,
}
ACCOUNTS = {"small": SMALL, "large": LARGE}
