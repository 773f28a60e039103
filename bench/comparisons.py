"""Time to read two records, compare them and print the result: `python -m bench.comparisons`.

Each case has one turn and three metrics. The command runs as a process of its own, its start-up included.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.processes import PROGRAM, best
from bench.records import made_record
from holodeck_action.results.decision import decide
from holodeck_action.results.result_files import RESULTS_FILE, write_results

SIZES = (5_000, 50_000)


def main() -> None:
    print("compare BASE HEAD (1 turn, 3 metrics a case):")
    print(f"{'cases':>7}  {'MiB each':>8}  {'wall s':>7}  {'CPU s':>7}  {'peak MiB':>8}")
    for size in SIZES:
        with tempfile.TemporaryDirectory() as root:
            for seed, side in enumerate(("base", "head")):
                record = made_record(size, seed=seed)
                folder = Path(root, side)
                folder.mkdir()
                write_results(folder, record, decide(record))
            mib = (folder / RESULTS_FILE).stat().st_size / 2**20
            cost = best((*PROGRAM, "compare", "base", "head"), Path(root), 3)
        if cost.code not in (0, 1):
            raise SystemExit(f"the comparison of {size} cases ended with exit code {cost.code}")
        print(f"{size:>7,}  {mib:>8.1f}  {cost.wall_s:>7.2f}  {cost.cpu_s:>7.2f}  {cost.peak_mib:>8.0f}")


if __name__ == "__main__":
    main()
