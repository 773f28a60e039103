"""Measures `stop: certain` with 200 judged cases: `python -m bench.certain [CASES]`.

The suite's own model answers, and G-Eval grades; both answer after 200 ms, 20 calls run at once. The output is, for a
run whose first case fails, one whose last case fails and a green one: calls and wall seconds with `stop: certain`,
and those of the whole run. All calls cost the same.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from bench.judges import AT_ONCE, JUDGED, LATENCY_S, judge_server, judged_suite, plain_truths
from bench.live import Bench

CASES = 200
HEADS = ("run", "calls", "of", "seconds", "of")


def measure_run(bench: Bench, cases: int, failing: int | None, *more: str) -> tuple[int, float]:
    """Return the calls and the wall seconds of a run.

    Args:
        bench: runs the suite.
        cases: number of cases.
        failing: index of the case that fails; None if all pass.
        more: further arguments of `run`.
    """
    truths = plain_truths(cases, failing)
    kind = "plain" if failing is None else str(failing)
    with judge_server(kind, cases, LATENCY_S) as server:
        code = 0 if failing is None else 1
        cost = bench.run(judged_suite(server, truths, JUDGED[:1]), *more, at_once=AT_ONCE, fine=(code,))
    return server.seen["requests"], cost.wall_s


def main(cases: int = CASES) -> None:
    """Measure and print a table."""
    print(f"stop: certain, {cases} judged cases, {AT_ONCE} calls at once, {1000 * LATENCY_S:.0f} ms each:")
    print("| " + " | ".join(HEADS) + " |")
    print("| --- " + "| ---: " * (len(HEADS) - 1) + "|")
    with tempfile.TemporaryDirectory() as root:
        bench = Bench(Path(root))
        measure_run(bench, 1, None)
        for name, failing in (("red early", 0), ("red late", cases - 1), ("green", None)):
            stopped = measure_run(bench, cases, failing, "--stop", "certain")
            whole = measure_run(bench, cases, failing)
            calls = f"{stopped[0]:,} | {whole[0]:,}"
            print(f"| {name} | {calls} | {stopped[1]:.2f} | {whole[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
