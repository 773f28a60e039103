"""Processes with what they cost."""

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
    """What a process cost, and its end.

    Wall and CPU seconds (its children's included), peak resident memory in MiB, exit code, CPU without children, and
    the end of its output.
    """

    wall_s: float
    cpu_s: float
    peak_mib: float
    code: int
    own_cpu_s: float
    said: str = ""


def measure(arguments: tuple[str, ...], folder: Path, environ: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end, all but the last of its output thrown away; None for this process's environment."""
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            arguments, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        # It has ended, and Linux still tells what it used without its children.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        wall = time.perf_counter() - started
        own = _own_cpu_s(process.pid)
        # wait4 instead of wait: it tells what this one process used.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(max(0, output.seek(0, os.SEEK_END) - _LAST_BYTES))
        said = output.read().decode(errors="replace")
        return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode, own, said)


def in_another(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a process of its own: one that is measured here begins with the memory of this one."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _own_cpu_s(pid: int) -> float:
    """User and system seconds of a process, see proc_pid_stat(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def best(arguments: tuple[str, ...], folder: Path, times: int) -> Cost:
    """Return the cheapest of several runs: what is left when other work on the machine is taken out."""
    return min((measure(arguments, folder) for _ in range(times)), key=lambda cost: cost.cpu_s)
