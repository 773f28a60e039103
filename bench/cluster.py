"""A run on a Dask cluster whose workers are killed: `python -m bench.cluster [CASES]`.

2,000 live cases of one call each run 48 at a time. The account answers after a second, accepts 48 calls at a time and
refuses others with 429; like a provider, it goes on with the calls of a killed worker. The first run is on this machine
alone, the second on a cluster of three worker processes on loopback. In the third, one worker is killed (SIGKILL) and
replaced every 5 s. The output for each run is: wall time, as a multiple of the ideal and of the first run; CPU of the
coordinator; requests per case; the share of refused calls; whether the canonical record equals that of the first run.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.live import KEY, Bench, run_server
from bench.processes import Cost
from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.result_files import read_record
from tests.extensions.cluster.dask import Dask

CASES = 2_000
LATENCY_S = 1.0
AT_ONCE = 48
WORKERS = 3
KILLED_EVERY_S = 5.0
READY_S = 5.0
"""Seconds for the workers to start."""


@contextmanager
def _killed_workers(dask: Dask) -> Iterator[list[float]]:
    """Kill and replace workers while the context lasts; yield the list of times of the kills."""
    ended, killed = threading.Event(), list[float]()

    def work() -> None:
        while not ended.wait(KILLED_EVERY_S):
            dask.kill()
            dask.start_worker()
            killed.append(time.monotonic())

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()


def _suite(cases: int) -> dict[str, Any]:
    asked = [f"What is the rule for order {number}?" for number in range(cases)]
    return {
        "name": "bench",
        "model": {"provider": "openai", "name": "gpt-4o", "endpoint": "${BENCH_URL}", "api_key": "${BENCH_KEY}"},
        "instructions": {"inline": "Answer."},
        "evaluations": {"metrics": [{"type": "standard", "metric": "equality"}]},
        "test_cases": [{"input": text, "ground_truth": f"echo: {text}"} for text in asked],
    }


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    cost: Cost
    seen: dict[str, Any]
    canonical: bytes
    killed: int = 0


def _run(root: Path, cases: int, kind: str) -> Outcome:
    folder = root / kind
    folder.mkdir()
    arguments = ("--latency", str(LATENCY_S), "--limit", str(AT_ONCE), "--lingering")
    killed: list[float] = []
    with run_server("tests.llm.models", *arguments) as server:
        url = server.addresses["openai"]
        os.environ["BENCH_URL"] = url
        bench = Bench(folder)
        if kind == "alone":
            cost = bench.run(_suite(cases), at_once=AT_ONCE)
        else:
            # Of 2,000 trials, some are hit by more than one kill.
            environ = {"BENCH_KEY": KEY, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "20"}
            with Dask(folder / "dask", environ, workers=WORKERS) as dask, ExitStack() as scope:
                time.sleep(READY_S)
                if kind == "killed":
                    killed = scope.enter_context(_killed_workers(dask))
                cost = bench.run(_suite(cases), "--cluster", dask.address, at_once=AT_ONCE)
    record = read_record(folder / "suite" / "out" / "results.json")
    trials = [trial for case in record.cases for trial in case.trials]
    assert len(record.cases) == len(trials) == cases
    return Outcome(cost, server.seen, canonical_json(record), len(killed))


def main(cases: int = CASES) -> None:
    ideal = cases * LATENCY_S / AT_ONCE
    print(f"{cases:,} live cases, {AT_ONCE} at once, {LATENCY_S:g} s; ideally {ideal:.1f} s:")
    print(
        f"{'run':<10}{'wall s':>8}{'× ideal':>9}{'× alone':>9}{'CPU s':>7}{'requests/case':>15}{'refused':>9}"
        f"{'killed':>8}  record"
    )
    with tempfile.TemporaryDirectory() as root:
        alone: Outcome | None = None
        for kind in ("alone", "cluster", "killed"):
            found = _run(Path(root), cases, kind)
            alone = alone or found
            statuses = {int(status): count for status, count in found.seen["statuses"].items()}
            print(
                f"{kind:<10}{found.cost.wall_s:8.1f}{found.cost.wall_s / ideal:9.2f}"
                f"{found.cost.wall_s / alone.cost.wall_s:9.2f}{found.cost.cpu_s:7.1f}"
                f"{found.seen['requests'] / cases:15.3f}{statuses.get(429, 0) / found.seen['requests']:9.1%}"
                f"{found.killed:8d}  {'equal' if found.canonical == alone.canonical else 'DIFFERENT'}",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
