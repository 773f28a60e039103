"""Runs processes and measures their cost."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

_LAST_BYTES = 4_000

PROGRAM = (sys.executable, "-m", "holodeck_action.cli")


@dataclass(frozen=True)
class Cost:
    """The cost of a process, and how it ended.

    Wall and CPU seconds (including its children), peak resident memory in MiB, exit code, CPU seconds without children,
    and the end of its output.
    """

    wall_s: float
    cpu_s: float
    peak_mib: float
    code: int
    own_cpu_s: float
    said: str = ""


def measure(arguments: tuple[str, ...], folder: Path, environ: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end and keep the end of its output; `environ` None is this process's environment."""
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            arguments, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        # It has ended, and /proc still has its CPU time without children.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        wall = time.perf_counter() - started
        own = _own_cpu_s(process.pid)
        # wait4, unlike wait, returns the resources of this one process.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(max(0, output.seek(0, os.SEEK_END) - _LAST_BYTES))
        said = output.read().decode(errors="replace")
        return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode, own, said)


def call_in_process(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in its own process, since a measured process starts with the memory of its parent."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _own_cpu_s(pid: int) -> float:
    """Return the user and system seconds of a process, see proc_pid_stat(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cheapest_run(arguments: tuple[str, ...], folder: Path, times: int) -> Cost:
    """Return the cheapest of several runs, the one least disturbed by other work on the machine."""
    return min((measure(arguments, folder) for _ in range(times)), key=lambda cost: cost.cpu_s)
