"""Measures the cost of a case on this machine, and compares real runs with simulated ones, for `bench.scale`."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from bench.goals import plain_suite, run_judged, run_plain, write_paraphrases
from bench.judges import JUDGED, judged_suite, plain_truths
from bench.live import Bench, run_server
from bench.processes import PROGRAM, Cost, measure
from bench.recorded import TEXT_METRICS
from bench.scale_model import Costs, Fleet, Load, Plan, Provider
from bench.scale_simulation import SimulationResult, simulate
from bench.suites import TEXT, write_suite
from tests.llm.judging import Judge
from tests.llm.models import Answer, FakeModels, Request

POINTS = ((1, 1), (1, 4), (4, 1), (4, 4))
"""Turns and metrics of the recorded runs to which the costs are fitted."""
CASES = 2_000
"""Number of cases, large enough for the cost of a case to exceed the noise of the start."""
SIZES = (4_000, 12_000)
"""Numbers of cases of two suites, large enough for the memory of a case to exceed that of the start."""
_TIMES = 3
_LIVE, _JUDGED = 2_000, 1_000
_WORDS = TEXT.split()


def serve(latency_s: float, spread: float, limit: int, judged: int) -> None:
    """Serve until standard input ends, then print the times of the first and the last request.

    Args:
        latency_s: mean seconds until an answer; log-normal.
        spread: standard deviation as a share of the mean.
        limit: most requests under way that are accepted; 0 for any number.
        judged: number of cases that the server also judges; 0 to only echo.
    """
    random = Random(1)
    variance = math.log(1 + spread**2)
    center = math.log(latency_s) - variance / 2
    judge = Judge(*plain_truths(judged))

    def answer(request: Request) -> Answer:
        if request.model == "gpt-4o":
            return judge(request)
        return Answer(f"answer of {request.text.rpartition('question of ')[2]}")

    with FakeModels(latency=lambda _: random.lognormvariate(center, math.sqrt(variance))) as models:
        models.limit(limit or None, retry_after=None)
        if judged:
            models.answer(answer)
        print(json.dumps({"openai": models.openai_url}), flush=True)
        sys.stdin.read()
        times = [request.time for request in models.requests]
        print(json.dumps({"seconds": max(times) - min(times)}))


def _run(folder: Path, *arguments: str) -> Cost:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    cost = measure((*PROGRAM, *arguments), folder, environ)
    if cost.code not in (0, 1):
        raise SystemExit(f"{' '.join(arguments)} in {folder.name} ended with exit code {cost.code}")
    return cost


def _cheapest_run(folder: Path, *arguments: str) -> Cost:
    return _cheapest(lambda: _run(folder, *arguments))


def _cheapest(run: Callable[[], Cost]) -> Cost:
    """Return the cheapest of several runs, the one least disturbed by other work on the machine."""
    return min((run() for _ in range(_TIMES)), key=lambda cost: cost.cpu_s)


def _file_bytes(path: Path) -> int:
    return path.stat().st_size if path.is_file() else sum(_file_bytes(inside) for inside in path.iterdir())


def _record_path(folder: Path) -> Path:
    return next(path for path in folder.iterdir() if path.stem == "results")


def _write_dialogs(folder: Path, turns: int, metrics: int) -> Path:
    """Write a suite of recorded conversations whose answers miss some words of the expected ones."""
    folder.mkdir()
    random = Random(turns)
    cases: list[dict[str, Any]] = []
    rows = []
    for number in range(CASES):
        asked = []
        for turn in range(turns):
            words = [_WORDS[int(len(_WORDS) * random.random())] for _ in range(60)]
            asked.append({"input": f"Question {turn} of order {number}?", "ground_truth": " ".join(words)})
            said = " ".join(word for word in words if random.random() < 0.8)
            rows.append({"case": f"case {number}", "turn": turn, "response": said})
        cases.append({"name": f"case {number}", "turns": asked})
    suite = {
        "name": "bench",
        "model": {"provider": "openai", "name": "gpt-4o"},
        "instructions": {"inline": "Answer."},
        "evaluations": {
            "metrics": [{"type": "standard", "metric": name, "threshold": 0.5} for name in TEXT_METRICS[:metrics]]
        },
        "test_cases_file": "cases.jsonl",
    }
    # JSON is YAML, too.
    (folder / "agent.yaml").write_text(json.dumps(suite))
    (folder / "cases.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in cases))
    (folder / "holodeck-action.yaml").write_text("target: recorded:answers.jsonl\n")
    (folder / "answers.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def _fit_costs(values: Sequence[float]) -> tuple[float, float, float]:
    """Fit case + turns · (turn + metrics · metric) to the points: least squares of relative errors, none below 0."""
    rows = np.array([(1, turns, turns * metrics) for turns, metrics in POINTS], dtype=float)
    scaled = rows / np.array(values)[:, None]
    kept = [0, 1, 2]
    while True:
        found, *_ = np.linalg.lstsq(scaled[:, kept], np.ones(len(POINTS)), rcond=None)
        if found.min() >= 0 or len(kept) == 1:
            break
        kept.pop(int(found.argmin()))
    by_place = dict(zip(kept, map(float, found), strict=True))
    return by_place.get(0, 0.0), by_place.get(1, 0.0), by_place.get(2, 0.0)


def _slope(small: float, large: float, cases: int) -> float:
    return max(0.0, (large - small) / cases)


def _sync_s(folder: Path) -> float:
    """Return the median seconds, of 20 attempts, to write 64 KiB and sync them."""
    took = []
    with (folder / "synced").open("wb", buffering=0) as file:
        for _ in range(20):
            started = time.perf_counter()
            file.write(bytes(65_536))
            os.fsync(file.fileno())
            took.append(time.perf_counter() - started)
    return sorted(took)[10]


def measure_costs() -> Costs:
    """Measure the costs of a case, which takes about three minutes."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        start = _cheapest_run(write_suite(root / "one", 1), "run", "-o", "out")
        seconds, sizes = [], []
        for turns, metrics in POINTS:
            folder = _write_dialogs(root / f"{turns}-{metrics}", turns, metrics)
            seconds.append((_cheapest_run(folder, "run", "-o", "out").cpu_s - start.cpu_s) / CASES)
            sizes.append(_file_bytes(folder / "out") / CASES)
        case_s, turn_s, metric_s = _fit_costs(seconds)
        case_bytes, turn_bytes, metric_bytes = _fit_costs(sizes)
        found = _measure_many(root)
        bench = Bench(root)
        one = _cheapest(lambda: run_plain(bench, 1, 0.0, 1))
        live = _cheapest(lambda: run_plain(bench, _LIVE, 0.05, 50))
        recorded = case_s + turn_s + metric_s
        judged_one = _cheapest(lambda: run_judged(bench, 1, 0.0, 1))
        judged = _cheapest(lambda: run_judged(bench, _JUDGED, 0.05, 50))
        call_s = max(0.0, (live.own_cpu_s - one.own_cpu_s) / (_LIVE - 1) - recorded)
        judge_s = max(0.0, (judged.own_cpu_s - judged_one.own_cpu_s) / (_JUDGED - 1) - recorded - call_s)
        process = (judged.cpu_s - judged.own_cpu_s) - (judged_one.cpu_s - judged_one.own_cpu_s)
        return Costs(
            start_s=start.cpu_s,
            live_start_s=one.own_cpu_s,
            judged_start_s=judged_one.own_cpu_s,
            case_s=case_s,
            turn_s=turn_s,
            metric_s=metric_s,
            call_s=call_s,
            judge_s=judge_s,
            judge_process_s=max(0.0, process / (_JUDGED - 1)),
            case_bytes=case_bytes,
            turn_bytes=turn_bytes,
            metric_bytes=metric_bytes,
            sync_s=_sync_s(root),
            **found,
        )


def _measure_many(root: Path) -> dict[str, float]:
    """Return the costs that grow with the cases of a suite, run or not: loading, memory, pages, shards and merging."""
    small, large = SIZES
    costs: dict[int, dict[str, Cost]] = {}
    for cases in (small, large):
        folder = root / f"many-{cases}"
        write_paraphrases(folder, cases, TEXT_METRICS)
        costs[cases] = {
            # Other shards run nearly all of its cases.
            "load": _run(folder, "run", "--shard", "1/64", "-o", "loaded"),
            "run": _run(folder, "run", "-o", "out"),
            **{f"shard {n}": _run(folder, "run", "--shard", f"{n}/2", "-o", f"shards/{n}") for n in (1, 2)},
            "merge": _run(folder, "merge", "shards", "-o", "merged"),
        }
    more = large - small
    whole = _file_bytes(_record_path(folder / "out"))
    half = _file_bytes(_record_path(folder / "shards" / "1"))
    peaks = {
        what: _slope(costs[small][what].peak_mib, costs[large][what].peak_mib, more) * 2**20
        for what in ("load", "run", "merge")
    }
    return {
        "load_s": _slope(costs[small]["load"].cpu_s, costs[large]["load"].cpu_s, more),
        "load_bytes": peaks["load"],
        "peak_bytes": peaks["run"],
        "merge_bytes": peaks["merge"],
        "merge_s": _slope(costs[small]["merge"].cpu_s, costs[large]["merge"].cpu_s, more),
        "record_bytes": whole / large,
        "page_bytes": (folder / "out" / "report.html").stat().st_size / large,
        "other_shards_bytes": max(0.0, (half - whole / 2) / (large / 2)),
    }


def run_checks(costs: Costs) -> Iterator[tuple[str, float, float]]:
    """Yield the name of each run, its seconds from the first to the last request, and those of its simulation.

    The start, which other work on the machine prolongs, thus counts on neither side. Answers take a second. If the CPU
    is the bottleneck, CPU seconds of the main process beyond those of one case are compared instead.
    """
    load = Load(300, latency_s=1.0, spread=0.0)
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name))

        def run_check(what: str, load: Load, at_once: int, limit: int = 0) -> tuple[str, float, float]:
            judged = load.cases if load.judged else 0
            arguments = (load.latency_s, load.spread, limit, judged)
            with run_server("bench.scale_costs", "serve", *map(str, arguments)) as server:
                address = server.addresses["openai"]
                if judged:
                    suite = judged_suite(server, plain_truths(judged), JUDGED[:1])
                else:
                    suite = plain_suite(address, load.cases)
                bench.run(suite, at_once=at_once, fine=(0, 1))
            account = Provider(at_once=limit or None, retry_after_s=None)
            return what, server.seen["seconds"], _simulate(costs, load, at_once, account).asking_s

        yield run_check("live, 20 at once", load, 20)
        yield run_check("live, 20 at once, log-normal latency", replace(load, spread=0.5), 20)
        yield run_check("live, 64 wanted, the account takes 20", load, 64, limit=20)
        yield run_check("judged, 20 at once", replace(load, judged=1), 20)
        one = min(run_plain(bench, 1, 0.0, 1).own_cpu_s for _ in range(_TIMES))
        fast = replace(load, cases=8 * load.cases, latency_s=0.05)
        cpu = min(run_plain(bench, fast.cases, fast.latency_s, 64).own_cpu_s for _ in range(_TIMES))
        found = _simulate(costs, fast, 64, Provider())
        yield "live, 64 at once: CPU of the main process", cpu - one, found.shares["main process"] * found.wall_s


def _simulate(costs: Costs, load: Load, at_once: int, provider: Provider) -> SimulationResult:
    return simulate(costs, Plan(load, Fleet(at_once=at_once, boot_s=0), provider))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
