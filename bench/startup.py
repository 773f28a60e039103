"""Measures start-up: --version, validate of 1,000 cases and a one-case run, against the bare interpreter and the import
of the libraries that a run needs."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from statistics import median

from bench.processes import PROGRAM, Cost, measure
from bench.suites import write_suite

BARE, LIBRARIES, RUN = "python -c pass", "import pydantic, jinja2, asyncio", "holodeck-action run, 1 case"
ROUNDS = 5


def main() -> None:
    # Without bytecode files, Python would compile every module at each start.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as root:
        thousand, one = write_suite(Path(root) / "1000", 1000), write_suite(Path(root) / "1", 1)
        commands = {
            BARE: ((sys.executable, "-c", "pass"), one),
            LIBRARIES: ((sys.executable, "-c", LIBRARIES), one),
            "holodeck-action --version": ((*PROGRAM, "--version"), one),
            "holodeck-action validate, 1 case": ((*PROGRAM, "validate"), one),
            "holodeck-action validate, 1,000 cases": ((*PROGRAM, "validate"), thousand),
            RUN: ((*PROGRAM, "run"), one),
        }
        found: dict[str, list[Cost]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            # In turn, so that other work on the machine slows all of them.
            for name, (command, folder) in commands.items():
                found[name].append(measure(command, folder, environ))
    walls = {name: median(cost.wall_s for cost in costs) for name, costs in found.items()}
    processor = {name: median(cost.cpu_s for cost in costs) for name, costs in found.items()}
    print(f"Start-up (medians of {ROUNDS}):")
    for name in found:
        print(f"  {name:<40} {1000 * walls[name]:>5.0f} ms  {walls[name] / walls[BARE]:>5.1f} × bare python", end="")
        print(f"  {1000 * processor[name]:>5.0f} ms CPU  {processor[name] / processor[BARE]:>5.1f} ×")
    ours = processor[RUN] - processor[LIBRARIES]
    print(f"  CPU of a run beyond the import of the libraries: {1000 * ours:.0f} ms")


if __name__ == "__main__":
    main()
