"""Time to read two records and compare them: `python -m bench.comparisons`.

Each case has one turn and three metrics. Each run is judged, as it is before a comparison.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench.records import made_record
from holodeck_action.commands.program import collect_rarely
from holodeck_action.results.comparing import compare
from holodeck_action.results.decision import decide
from holodeck_action.results.record import BaseRun
from holodeck_action.results.result_files import read_results, write_results
from holodeck_action.suite.policy import Baseline

SIZES = (5_000, 50_000)


def main() -> None:
    collect_rarely()
    print("Two records read and compared (1 turn, 3 metrics a case):")
    print(f"{'cases':>7}  {'MiB each':>8}  {'read s':>7}  {'judge s':>7}  {'compare s':>9}  {'all s':>6}")
    for size in SIZES:
        with tempfile.TemporaryDirectory() as root:
            paths = [Path(root, side) for side in ("base", "head")]
            for seed, path in enumerate(paths):
                path.mkdir()
                record = made_record(size, seed=seed)
                write_results(path, record, decide(record))
            size_mib = (paths[0] / "results.json").stat().st_size / 2**20
            del record
            started = time.perf_counter()
            base, head = (read_results(path / "results.json").record for path in paths)
            read = time.perf_counter()
            judged = decide(head).cases
            decided = time.perf_counter()
            compare(base, head, Baseline(), against=BaseRun("file:base"), judged=judged)
            ended = time.perf_counter()
        print(
            f"{size:>7,}  {size_mib:>8.1f}  {read - started:>7.2f}  {decided - read:>7.2f}  {ended - decided:>9.2f}"
            f"  {ended - started:>6.2f}"
        )


if __name__ == "__main__":
    main()
