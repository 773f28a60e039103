"""Measures reading two records, comparing them and printing the result: `python -m bench.comparisons`.

Each case has one turn and three metrics. The command runs in its own process; its start-up is included.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from bench.processes import PROGRAM, call_in_process, cheapest_run
from bench.records import random_record
from holodeck_action.commands.program import collect_garbage_rarely
from holodeck_action.decide.decision import decide
from holodeck_action.decide.written_results import write_results
from holodeck_action.record.result_files import RESULTS_FILE

SIZES = (5_000, 50_000)


def main() -> None:
    print("compare BASE HEAD (1 turn, 3 metrics a case), against json.loads of both files:")
    print(f"{'cases':>7}  {'MiB each':>8}  {'wall s':>7}  {'CPU s':>7}  {'CPU / json.loads':>16}  {'peak MiB':>8}")
    for size in SIZES:
        with tempfile.TemporaryDirectory() as root:
            for seed, side in enumerate(("base", "head")):
                call_in_process(_write, Path(root, side), size, seed)
            parsing = min(call_in_process(_parse_seconds, Path(root)) for _ in range(3))
            mib = Path(root, "head", RESULTS_FILE).stat().st_size / 2**20
            cost = cheapest_run((*PROGRAM, "compare", "base", "head"), Path(root), 3)
        if cost.code not in (0, 1):
            raise SystemExit(f"the comparison of {size} cases ended with exit code {cost.code}")
        ratio = cost.cpu_s / parsing
        print(
            f"{size:>7,}  {mib:>8.1f}  {cost.wall_s:>7.2f}  {cost.cpu_s:>7.2f}  {ratio:>16.1f}  {cost.peak_mib:>8.0f}"
        )


def _write(folder: Path, cases: int, seed: int) -> None:
    folder.mkdir()
    record = random_record(cases, seed=seed)
    write_results(folder, record, decide(record))


def _parse_seconds(root: Path) -> float:
    """Return the CPU seconds of json.loads on both files, with the command's settings of garbage collection."""
    collect_garbage_rarely()
    contents = [(root / side / RESULTS_FILE).read_bytes() for side in ("base", "head")]
    started = time.process_time()
    for content in contents:
        json.loads(content)
    return time.process_time() - started


if __name__ == "__main__":
    main()
