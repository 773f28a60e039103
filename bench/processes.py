"""Processes with what they cost."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROGRAM = (sys.executable, "-m", "holodeck_action.cli")


@dataclass(frozen=True)
class Cost:
    """Wall and CPU seconds (its children's included), peak resident memory in MiB, exit code."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    code: int


def measure(arguments: tuple[str, ...], folder: Path, environ: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end, its output thrown away; None for this process's environment."""
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            arguments, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        # wait4 instead of wait: it tells what this one process used.
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode)


def best(arguments: tuple[str, ...], folder: Path, times: int) -> Cost:
    """Return the cheapest of several runs: what is left when other work on the machine is taken out."""
    return min((measure(arguments, folder) for _ in range(times)), key=lambda cost: cost.cpu_s)
