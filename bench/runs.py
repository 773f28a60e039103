"""Measures runs of 1,000, 10,000 and 100,000 cases: wall time, CPU per case without start-up, and peak memory.

The metric is equality, which costs nothing, so that only the program's own work is measured.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.processes import PROGRAM, Cost, cheapest_run
from bench.suites import write_suite

SIZES = (1_000, 10_000, 100_000)


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        startup = _run(Path(root), 1, times=3)
        costs = {size: _run(Path(root), size, times=3 if size <= 1_000 else 1) for size in SIZES}
    print("Whole runs (recorded target, equality, -o):")
    print(
        f"{'cases':>7}  {'wall s':>7}  {'CPU s':>7}  {'ms CPU/case':>11}  {'peak MiB':>8}  {'peak / peak at 1,000':>20}"
    )
    for size, cost in costs.items():
        each = 1000 * (cost.cpu_s - startup.cpu_s) / size
        ratio = cost.peak_mib / costs[1_000].peak_mib
        print(
            f"{size:>7,}  {cost.wall_s:>7.2f}  {cost.cpu_s:>7.2f}  {each:>11.2f}  {cost.peak_mib:>8.0f}  {ratio:>20.2f}"
        )
    print(f"start-up (1 case): {startup.wall_s:.2f} s wall, {startup.cpu_s:.2f} s CPU, {startup.peak_mib:.0f} MiB")


def _run(root: Path, size: int, times: int) -> Cost:
    folder = write_suite(root / str(size), size)
    cost = cheapest_run((*PROGRAM, "run", "-o", "out"), folder, times)
    if cost.code not in (0, 1):
        raise SystemExit(f"the run of {size} cases ended with exit code {cost.code}")
    return cost


if __name__ == "__main__":
    main()
