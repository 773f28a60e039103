"""Simulates `on_case_regression: confirm` through whole runs with a known truth, for `python -m bench.simulation`.

The base is a stored record of one trial for each case, which is the hardest: it is not asked again.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from holodeck_action import evaluate, read_record, verdict_of
from holodeck_action.decide.compare.comparison import Comparison

CASES, RUNS = 50, 200
UNCHANGED = {
    "1.0": (1.0,) * CASES,
    "0.98": (0.98,) * CASES,
    "0.95": (0.95,) * CASES,
    "mixed: 0.5 to 1.0": tuple(0.5 + 0.5 * at / (CASES - 1) for at in range(CASES)),
}
BREAKS = (0.0, 0.2, 0.5)
BEFORE = 0.98
HEADS = ("agent", "pass rate of a case", "with `fail`", "with `confirm`")


def _write_suite(folder: Path, baseline: dict[str, Any] | None) -> None:
    cases = [{"name": str(at), "input": str(at), "ground_truth": "yes"} for at in range(CASES)]
    suite = {
        "name": "simulated",
        "model": {"provider": "openai", "name": "gpt-4o"},
        "instructions": {"inline": "Answer."},
        "evaluations": {"metrics": [{"type": "standard", "metric": "equality"}]},
        "test_cases": cases,
    }
    policy = {"gates": {"min_pass_rate": 0.01}, **({} if baseline is None else {"baseline": baseline})}
    (folder / "agent.yaml").write_text(json.dumps(suite))
    (folder / "holodeck-action.yaml").write_text(json.dumps(policy))


def _agent(random: Random, rates: Sequence[float]) -> Callable[[list[dict[str, str]]], str]:
    """Return an agent that gives the right answer to case i with the probability `rates[i]`."""
    return lambda messages: "yes" if random.random() < rates[int(messages[-1]["content"])] else "no"


def compare_runs(folder: Path, random: Random, before: Sequence[float], now: Sequence[float]) -> Comparison:
    """Return the comparison of two whole runs, whose cases pass with these probabilities."""
    base = folder / "base" / "results.json"
    _write_suite(folder, None)
    evaluate(folder, _agent(random, before), output_dir=base.parent, concurrency=1, environ={})
    _write_suite(folder, {"source": f"file:{base.relative_to(folder)}", "confirm": {"cases": CASES}})
    record = evaluate(folder, _agent(random, now), concurrency=1, environ={})
    comparison = verdict_of(record, base=read_record(base)).comparison
    assert comparison is not None
    return comparison


def unchanged_row(name: str, runs: int = RUNS) -> tuple[float, float]:
    """Return the proportions of runs of an unchanged agent that the gate fails, with `fail` and with `confirm`."""
    random, rates = Random(name), UNCHANGED[name]
    failed = confirmed = 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            found = compare_runs(Path(folder), random, rates, rates)
            failed += bool(found.regressed or found.flaky)
            confirmed += bool(found.regressed)
    return failed / runs, confirmed / runs


def caught_share(now: float, runs: int = RUNS // 10) -> float:
    """Return the proportion of the cases that got worse which `confirm` counts, of an agent that was changed."""
    random = Random(f"break {now}")
    regressed = worse = 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            found = compare_runs(Path(folder), random, (BEFORE,) * CASES, (now,) * CASES)
            regressed += len(found.regressed)
            worse += len(found.regressed) + len(found.flaky)
    return regressed / worse


def rows() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table, with proportions in percent."""
    for name in UNCHANGED:
        yield "unchanged", name, *(f"{100 * share:.1f} %" for share in unchanged_row(name))
    for now in BREAKS:
        yield "changed", f"{BEFORE:g} → {now:g}", "100 %", f"{100 * caught_share(now):.1f} %"
