"""What a case costs on this machine, and real runs beside simulated ones: used by `python -m bench.scale measure`."""

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

from bench.goals import judged_run, plain_run, plain_suite, write_many
from bench.judges import JUDGED, judged_suite, plain_truths
from bench.live import Bench, served
from bench.processes import PROGRAM, Cost, measure
from bench.recorded import TEXT_METRICS
from bench.scale_model import Costs, Fleet, Load, Plan, Provider
from bench.scale_simulation import Simulated, simulate
from bench.suites import TEXT, write_suite
from tests.llm.judging import Judge
from tests.llm.models import Answer, FakeModels, Request

POINTS = ((1, 1), (1, 4), (4, 1), (4, 4))
"""Turns and metrics of the recorded runs that the costs are fitted to."""
CASES = 2_000
"""So many that the costs of a case stand out from the noise of a start."""
SIZES = (4_000, 12_000)
"""Cases of two suites; both have more results than a run keeps in memory."""
_TIMES = 3
_LIVE, _JUDGED = 2_000, 1_000
_WORDS = TEXT.split()


def serve(latency_s: float, spread: float, limit: int, judged: int) -> None:
    """Answer until the input ends, then say when the first and the last request came.

    Args:
        latency_s: seconds until an answer.
        spread: their standard deviation as a share of it; log-normal.
        limit: requests under way that are accepted; 0 for any number.
        judged: cases whose judge this is, too; 0 for an echo alone.
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


def _best(folder: Path, *arguments: str) -> Cost:
    return _cheapest(lambda: _run(folder, *arguments))


def _cheapest(run: Callable[[], Cost]) -> Cost:
    """Of some runs the one that other work on the machine disturbed least."""
    return min((run() for _ in range(_TIMES)), key=lambda cost: cost.cpu_s)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else sum(_size(inside) for inside in path.iterdir())


def _record(folder: Path) -> Path:
    return next(path for path in folder.iterdir() if path.stem == "results")


def _dialogs(folder: Path, turns: int, metrics: int) -> Path:
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


def _fitted(values: Sequence[float]) -> tuple[float, float, float]:
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
    """Seconds to write 64 KiB and to sync them, the median of 20."""
    took = []
    with (folder / "synced").open("wb", buffering=0) as file:
        for _ in range(20):
            started = time.perf_counter()
            file.write(bytes(65_536))
            os.fsync(file.fileno())
            took.append(time.perf_counter() - started)
    return sorted(took)[10]


def measured_costs() -> Costs:
    """Measure what a case costs; about three minutes."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        start = _best(write_suite(root / "one", 1), "run", "-o", "out")
        seconds, sizes = [], []
        for turns, metrics in POINTS:
            folder = _dialogs(root / f"{turns}-{metrics}", turns, metrics)
            seconds.append((_best(folder, "run", "-o", "out").cpu_s - start.cpu_s) / CASES)
            sizes.append(_size(folder / "out") / CASES)
        case_s, turn_s, metric_s = _fitted(seconds)
        case_bytes, turn_bytes, metric_bytes = _fitted(sizes)
        found = _of_many(root)
        bench = Bench(root)
        one = _cheapest(lambda: plain_run(bench, 1, 0.0, 1))
        live = _cheapest(lambda: plain_run(bench, _LIVE, 0.05, 50))
        recorded = case_s + turn_s + metric_s
        judged_one = _cheapest(lambda: judged_run(bench, 1, 0.0, 1))
        judged = _cheapest(lambda: judged_run(bench, _JUDGED, 0.05, 50))
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


def _of_many(root: Path) -> dict[str, float]:
    """What grows with the cases of a suite, whoever runs them: to load it, memory, pages, shards and their merge."""
    small, large = SIZES
    costs: dict[int, dict[str, Cost]] = {}
    for cases in (small, large):
        folder = root / f"many-{cases}"
        write_many(folder, cases, TEXT_METRICS)
        costs[cases] = {
            # Nearly all of its cases are those of other shards.
            "load": _run(folder, "run", "--shard", "1/64", "-o", "loaded"),
            "run": _run(folder, "run", "-o", "out"),
            **{f"shard {n}": _run(folder, "run", "--shard", f"{n}/2", "-o", f"shards/{n}") for n in (1, 2)},
            "merge": _run(folder, "merge", "shards", "-o", "merged"),
        }
    more = large - small
    whole = _size(_record(folder / "out"))
    half = _size(_record(folder / "shards" / "1"))
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


def checks(costs: Costs) -> Iterator[tuple[str, float, float]]:
    """Yield real runs: what, seconds from the first request to the last, and those of its simulation.

    So the start, which other work on the machine makes longer, counts on no side. Answers take a second. Where the
    processor sets the pace, CPU seconds of the main process beyond those of one case are compared.
    """
    load = Load(300, latency_s=1.0, spread=0.0)
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name))

        def check(what: str, load: Load, at_once: int, limit: int = 0) -> tuple[str, float, float]:
            judged = load.cases if load.judged else 0
            arguments = (load.latency_s, load.spread, limit, judged)
            with served("bench.scale_costs", "serve", *map(str, arguments)) as server:
                address = server.addresses["openai"]
                if judged:
                    suite = judged_suite(server, plain_truths(judged), JUDGED[:1])
                else:
                    suite = plain_suite(address, load.cases)
                bench.run(suite, at_once=at_once, fine=(0, 1))
            account = Provider(at_once=limit or None, retry_after_s=None)
            return what, server.seen["seconds"], _simulated(costs, load, at_once, account).asking_s

        yield check("live, 20 at once", load, 20)
        yield check("live, 20 at once, log-normal latency", replace(load, spread=0.5), 20)
        yield check("live, 64 wanted, the account takes 20", load, 64, limit=20)
        yield check("judged, 20 at once", replace(load, judged=1), 20)
        one = min(plain_run(bench, 1, 0.0, 1).own_cpu_s for _ in range(_TIMES))
        fast = replace(load, cases=8 * load.cases, latency_s=0.05)
        cpu = min(plain_run(bench, fast.cases, fast.latency_s, 64).own_cpu_s for _ in range(_TIMES))
        found = _simulated(costs, fast, 64, Provider())
        yield "live, 64 at once: CPU of the main process", cpu - one, found.shares["main process"] * found.wall_s


def _simulated(costs: Costs, load: Load, at_once: int, provider: Provider) -> Simulated:
    return simulate(costs, Plan(load, Fleet(at_once=at_once, boot_s=0), provider))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
