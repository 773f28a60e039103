"""Tables of docs/scale.md, from the figures file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.pages import markdown_table
from bench.scale_model import (
    OVERHEAD_BYTES,
    PAGE_BYTES,
    TOKEN_BYTES,
    Costs,
    Forecast,
    Load,
    Plan,
    file_bytes,
    forecast,
    main_seconds,
)
from bench.scale_plans import (
    ACCOUNTS,
    HOSTED,
    JUDGED,
    LARGE,
    MOST,
    NIGHT_S,
    NIGHTS,
    SCENARIOS,
    SHARDS,
    TEN,
    smallest_plan,
)

FIGURES = Path(__file__).with_name("scale.json")


def read_figures() -> dict[str, Any]:
    """Return the stored measurements and simulations."""
    found: dict[str, Any] = json.loads(FIGURES.read_bytes())
    return found


def measured_costs(found: Mapping[str, Any]) -> Costs:
    """Return the costs in the stored measurements."""
    return Costs(**found["costs"])


def _large_text(value: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def bytes_text(value: float) -> str:
    """Return bytes with a unit."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.2g} {unit}" if value < 10 * size else f"{value / size:.0f} {unit}"
    return f"{value:.0f} B"


def time_text(seconds: float) -> str:
    """Return a time in seconds, minutes or hours."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3600:.1f} h"


def money_text(value: float) -> str:
    """Return US dollars without a sign."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


def cost_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of costs per case, by kind of case."""
    costs = measured_costs(found)
    kinds = {
        "recorded": [Load(1, turns, metrics, recorded=True) for turns, metrics in ((1, 1), (1, 5), (4, 5))],
        "live": [Load(1, turns, metrics) for turns, metrics in ((1, 1), (4, 1))],
        "judged": [Load(1, turns, metrics, judged=metrics) for turns, metrics in ((1, 1), (1, 3), (4, 3))],
    }
    for kind, loads in kinds.items():
        for load in loads:
            yield (
                kind,
                str(load.turns),
                str(load.metrics),
                str(load.calls),
                f"{1_000 * main_seconds(costs, load):.1f} ms",
                f"{1_000 * load.judge_calls * costs.judge_process_s:.1f} ms" if load.judge_calls else "–",
                bytes_text(file_bytes(costs, load)),
                bytes_text(load.calls * (TOKEN_BYTES * (load.tokens_in + load.tokens_out) + OVERHEAD_BYTES)),
            )


MEANINGS = {
    "start_s": "start of a recorded run",
    "live_start_s": "start of a live run",
    "judged_start_s": "start of a judged run",
    "load_s": "to read a case, check it and name it in the record, on every machine",
    "case_s": "a case",
    "turn_s": "a turn of it",
    "metric_s": "a text metric on a turn",
    "call_s": "a call of the agent's model, on top",
    "judge_s": "a call of a judge, on top",
    "judge_process_s": "the same in the judges' process",
    "merge_s": "to merge a case",
    "dask_s": "Dask's scheduler for a task (its documentation, not measured)",
    "sync_s": "to write 64 KiB and sync them",
    "case_bytes": "files of a case",
    "turn_bytes": "a turn of it",
    "metric_bytes": "a metric on a turn",
    "record_bytes": "the record alone, of a case of one turn and four metrics",
    "page_bytes": "the same in the HTML page",
    "other_shards_bytes": "a case of another shard in the record of a shard",
    "load_bytes": "memory of a case of the suite",
    "peak_bytes": "memory of a case in a run",
    "merge_bytes": "memory of a case in a merge",
}


def constant_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of the model's constants."""
    for name, meaning in MEANINGS.items():
        value = found["costs"][name]
        if name.endswith("bytes"):
            shown = bytes_text(value)
        elif value < 0.001:
            shown = f"{1e6 * value:.0f} µs"
        else:
            shown = f"{1_000 * value:.2f} ms" if value < 0.1 else f"{value:.2f} s"
        yield f"`{name}`", shown, meaning


def _difference_text(one: float, other: float) -> str:
    return f"{100 * (other / one - 1):+.0f} %"


def check_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the rows that compare real and simulated runs."""
    for what, real, simulation in found["checks"]:
        yield what, f"{real:.2f} s", f"{simulation:.2f} s", _difference_text(real, simulation)


def difference_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the rows that compare the model and the simulation."""
    for name, (model, simulation) in found["differences"].items():
        yield name, f"{model:.0f} s", f"{simulation:.0f} s", _difference_text(simulation, model)


def size_text(foreseen: Forecast) -> str:
    """Return the size limit that is exceeded first and its used share; in bold if it is exceeded."""
    most = foreseen.sizes[foreseen.first]
    return f"**{foreseen.first}: {most:.1f} ×**" if most > 1 else f"{foreseen.first}: {most:.2f} ×"


def plan_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of plans."""
    costs = measured_costs(found)
    for scenario in SCENARIOS:
        foreseen, seen, more = forecast(costs, scenario.plan), found["plans"][scenario.name], scenario.suites
        yield (
            scenario.name,
            time_text(foreseen.wall_s * more),
            time_text(seen["wall_s"]),
            _large_text(seen["calls"]) if seen["calls"] else "–",
            f"{100 * seen['refused'] / seen['calls']:.1f} %" if seen["calls"] else "–",
            bytes_text(foreseen.disk_bytes * more),
            bytes_text(foreseen.network_bytes * more),
            money_text(foreseen.model_dollars * more),
            money_text(foreseen.machine_dollars * more),
            foreseen.pace,
            size_text(foreseen),
        )


def night_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the rows with the fewest machines for 1 M judged cases in 8 hours."""
    costs = measured_costs(found)
    for account, provider in ACCOUNTS.items():
        for name, fleet in NIGHTS.items():
            limit = min(NIGHT_S, 3600 * (fleet.hours_of_a_job or 24))
            plan = smallest_plan(costs, JUDGED, fleet, provider, limit)
            if plan is None:
                foreseen = forecast(costs, Plan(JUDGED, replace(fleet, machines=MOST), provider))
                yield (
                    account,
                    name,
                    "none is enough",
                    time_text(foreseen.wall_s),
                    foreseen.pace,
                    "–",
                    size_text(foreseen),
                )
            else:
                foreseen = forecast(costs, plan)
                takes, dollars = time_text(foreseen.wall_s), money_text(foreseen.machine_dollars)
                yield account, name, str(plan.fleet.machines), takes, foreseen.pace, dollars, size_text(foreseen)


def limit_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the rows with the number of cases at which a suite reaches each size limit."""
    costs = measured_costs(found)
    for name, each, limit in (
        ("memory of a run on one machine", max(costs.peak_bytes, costs.load_bytes), SHARDS.memory_bytes),
        ("memory of a shard: the whole suite", costs.load_bytes, SHARDS.memory_bytes),
        ("memory of a merge", costs.merge_bytes, SHARDS.memory_bytes),
        ("record as a base from an artifact", costs.record_bytes, 256 * 2**20),
        ("disk of a hosted runner, record and reports", file_bytes(costs, Load(1, 1, 4)), 14e9),
        ("HTML page that opens in a few seconds", costs.page_bytes, PAGE_BYTES),
    ):
        yield name, bytes_text(each), bytes_text(limit), _large_text(limit / each)


def assumption_rows(_: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of assumptions."""
    load, shards, hosted = JUDGED, SHARDS, HOSTED
    yield "answer of a model", f"{load.latency_s:g} s on average, log-normal, standard deviation {load.spread:g} of it"
    yield "tokens of a call", f"{load.tokens_in:,} in, {load.tokens_out} out"
    yield "price of tokens", f"US$ {1e6 * LARGE.dollars_in:.2f} and {1e6 * LARGE.dollars_out:.2f} a million"
    yield "calls that fail and are tried again", f"{100 * LARGE.faults:g} %"
    for name, account in (*ACCOUNTS.items(), ("ten large", TEN)):
        yield (
            f"{name} account",
            f"{account.requests_per_minute:,.0f} requests and {account.tokens_per_minute:,.0f} tokens a minute",
        )
    yield "calls under way on a machine", str(shards.at_once)
    yield "machine", f"2 cores, {bytes_text(shards.memory_bytes)}, US$ {shards.dollars_per_hour:.2f} an hour"
    yield (
        "job of a hosted CI",
        f"2 cores, {bytes_text(hosted.memory_bytes)}, US$ {hosted.dollars_per_hour:.2f} an hour, ended after "
        f"{hosted.hours_of_a_job:g} h, its disk lost with it",
    )
    yield "boot of a machine", time_text(shards.boot_s)
    yield "losses", f"{shards.losses_per_hour:g} a machine and hour"
    yield "results of shards are fetched at", f"{bytes_text(shards.bytes_per_s)}/s, one after the other"


HEADS: dict[str, Sequence[str]] = {
    "costs": (
        *("case", "turns", "metrics", "calls", "CPU, main process", "CPU, judges' process", "files"),
        "network, 1,150 tokens a call",
    ),
    "constants": ("constant", "measured", "what"),
    "checks": ("run", "real", "simulated", "difference"),
    "differences": ("what sets the pace", "model", "simulation", "difference"),
    "plans": (
        *("plan", "time, model", "time, simulated", "requests", "refused", "disk", "network"),
        *("US$ models", "US$ machines", "sets the pace", "size that breaks first"),
    ),
    "night": ("account", "on", "fewest machines", "takes", "sets the pace", "US$ machines", "size that breaks first"),
    "assumptions": ("what", "assumed"),
    "limits": ("limit", "a case", "all", "reached at cases"),
}
ROWS = {
    "costs": cost_rows,
    "constants": constant_rows,
    "checks": check_rows,
    "differences": difference_rows,
    "plans": plan_rows,
    "night": night_rows,
    "assumptions": assumption_rows,
    "limits": limit_rows,
}


def table_text(name: str, found: Mapping[str, Any]) -> str:
    """Return a table of the page by name."""
    return markdown_table(HEADS[name], ROWS[name](found))
