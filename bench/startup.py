"""Measures start-up: --version, validate of 1,000 cases and a one-case run, against the bare interpreter."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from bench.processes import PROGRAM, measure
from bench.suites import write_suite


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        thousand, one = write_suite(Path(root) / "1000", 1000), write_suite(Path(root) / "1", 1)
        commands = {
            "python -c pass": ((sys.executable, "-c", "pass"), one),
            "holodeck-action --version": ((*PROGRAM, "--version"), one),
            "holodeck-action validate, 1 case": ((*PROGRAM, "validate"), one),
            "holodeck-action validate, 1,000 cases": ((*PROGRAM, "validate"), thousand),
            "holodeck-action run, 1 case": ((*PROGRAM, "run"), one),
        }
        walls = {name: sorted(measure(*command).wall_s for _ in range(5))[2] for name, command in commands.items()}
    print("Start-up (median of 5):")
    for name, wall in walls.items():
        print(f"  {name:<40} {1000 * wall:>7.0f} ms  {wall / walls['python -c pass']:>6.1f} × bare python")


if __name__ == "__main__":
    main()
