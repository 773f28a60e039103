"""Plans runs on many machines, for docs/scale.md: `python -m bench.scale measure | check | write | plan`.

`measure` measures the cost of a case on this machine. `check` compares the simulation with real runs. `write` forecasts
and simulates the plans of `bench/scale_plans.py` with these costs and renews the page. `plan` does so for a given load.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import click

from bench.pages import DOCS, replace_table
from bench.scale_model import Costs, Load, Plan, Provider, forecast, wall_seconds
from bench.scale_plans import CLUSTER, DIFFERENCES, MILLION, SCENARIOS, SHARDS, Scenario
from bench.scale_simulation import scale_down, simulate
from bench.scale_tables import (
    FIGURES,
    ROWS,
    bytes_text,
    measured_costs,
    money_text,
    read_figures,
    size_text,
    table_text,
    time_text,
)

PAGE = DOCS / "scale.md"
COMMAND = "make scale"
SEEDS = 5


def compare_seconds(costs: Costs, plan: Plan, seeds: int = SEEDS) -> tuple[float, float]:
    """Return the seconds of a plan by the model, and the mean over several simulations."""
    return wall_seconds(costs, plan), sum(simulate(costs, plan, seed).wall_s for seed in range(seeds)) / seeds


def simulate_scenario(costs: Costs, scenario: Scenario) -> dict[str, Any]:
    """Simulate one suite of a scenario; return numbers scaled up to all of its machines and suites."""
    slower, plan = scale_down(costs, scenario.plan, scenario.times)
    found = simulate(slower, plan)
    more = scenario.times * scenario.suites
    return {
        "wall_s": found.wall_s * scenario.suites,
        "calls": found.calls * more,
        "refused": found.refused * more,
        "lost": found.lost * more,
        "repeated": found.repeated * more,
    }


@click.group()
def main() -> None:
    """Plan runs past one machine."""


@main.command("measure")
def measure_command() -> None:
    """Measure what a case costs here; takes three minutes."""
    from bench.scale_costs import measure_costs

    found = read_figures() if FIGURES.is_file() else {}
    _save({**found, "costs": asdict(measure_costs())})


@main.command("check")
def check_command() -> None:
    """Run suites and simulations of them side by side; takes two minutes."""
    from bench.scale_costs import run_checks

    found = read_figures()
    found["checks"] = []
    for what, real, simulation in run_checks(measured_costs(found)):
        click.echo(f"{what}: {real:.2f} s, simulated {simulation:.2f} s")
        found["checks"].append([what, round(real, 3), round(simulation, 3)])
    _save(found)


@main.command("write")
def write_command() -> None:
    """Simulate the plans with the measured costs, and renew docs/scale.md; takes minutes."""
    found = read_figures()
    costs = measured_costs(found)
    found["differences"] = {
        name: [round(seconds, 1) for seconds in compare_seconds(costs, plan)] for name, plan in DIFFERENCES.items()
    }
    found["plans"] = {}
    for scenario in SCENARIOS:
        found["plans"][scenario.name] = simulate_scenario(costs, scenario)
        click.echo(f"{scenario.name}: {time_text(found['plans'][scenario.name]['wall_s'])}")
    _save(found)
    for name in ROWS:
        replace_table(PAGE, name, COMMAND, table_text(name, found))


def _save(found: Mapping[str, Any]) -> None:
    FIGURES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


@main.command("plan")
@click.option("--cases", required=True, type=click.IntRange(1))
@click.option("--turns", default=1, show_default=True)
@click.option("--metrics", default=1, show_default=True)
@click.option("--judged", default=0, show_default=True, help="Metrics of these that a judge grades.")
@click.option("--recorded", is_flag=True, help="The answers are recorded.")
@click.option("--latency", default=2.0, show_default=True, help="Seconds until a model has answered.")
@click.option("--tokens", type=(int, int), default=(1_000, 150), show_default=True, help="Of a call: in, out.")
@click.option("--machines", default=1, show_default=True)
@click.option("--at-once", default=64, show_default=True, help="Calls of a machine under way.")
@click.option("--cluster", is_flag=True, help="A cluster instead of shards.")
@click.option("--requests", default=5_000.0, show_default=True, help="Of the account, a minute.")
@click.option("--rate", default=4e6, show_default=True, help="Tokens of the account a minute.")
@click.option("--prices", type=(float, float), default=(0.15, 0.60), show_default=True, help="US$ a million tokens.")
def plan_command(
    cases: int,
    turns: int,
    metrics: int,
    judged: int,
    recorded: bool,
    latency: float,
    tokens: tuple[int, int],
    machines: int,
    at_once: int,
    cluster: bool,
    requests: float,
    rate: float,
    prices: tuple[float, float],
) -> None:
    """Say what a run would take, by the model and, up to a million calls, by the simulation."""
    load = Load(cases, turns, metrics, judged, recorded, latency, tokens_in=tokens[0], tokens_out=tokens[1])
    fleet = replace(CLUSTER if cluster else SHARDS, machines=machines, at_once=at_once)
    provider = Provider(requests, rate, dollars_in=prices[0] / 1e6, dollars_out=prices[1] / 1e6)
    plan, costs = Plan(load, fleet, provider), measured_costs(read_figures())
    foreseen = forecast(costs, plan)
    click.echo(f"takes {time_text(foreseen.wall_s)}; {foreseen.pace} sets the pace; {size_text(foreseen)}")
    click.echo(f"{bytes_text(foreseen.disk_bytes)} on disks, {bytes_text(foreseen.network_bytes)} over networks")
    click.echo(
        f"US$ {money_text(foreseen.model_dollars)} for models, {money_text(foreseen.machine_dollars)} for machines"
    )
    if cases * max(1, load.calls) <= MILLION:
        click.echo(f"simulated: {time_text(simulate(costs, plan).wall_s)}")


if __name__ == "__main__":
    main()
