"""Foreign processes: marking them, keeping the end of what they print, and ending them with all their descendants."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections import deque
from collections.abc import Mapping

MARK_VARIABLE = "HOLODECK_ACTION_PROCESS_MARK"
"""Environment variable by which the descendants of a process are found again."""

_SWEEPS = 8
"""Rounds of looking for descendants: a process that forks while it is looked for is found in the next round."""

_SETTLING_S = 0.001
"""How long to wait for a process that is just starting another program, which takes microseconds on an idle machine."""

_KERNEL_THREAD = 0x0020_0000
"""Flag of processes that have no program."""


def new_mark() -> str:
    """Return a mark no other process carries."""
    return uuid.uuid4().hex


def marked_environment(environ: Mapping[str, str], mark: str) -> dict[str, str]:
    """Return `environ` with the mark that `kill_tree` looks for."""
    return {**environ, MARK_VARIABLE: mark}


class OutputTail:
    """The last `limit` bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: deque[bytes] = deque()
        self._held = 0
        self._cut = False

    def feed(self, data: bytes) -> None:
        """Append `data`, forgetting what no longer fits."""
        self._parts.append(data[-self._limit :])
        self._held += len(self._parts[-1])
        self._cut |= len(data) > self._limit
        while self._held - len(self._parts[0]) >= self._limit:
            self._held -= len(self._parts.popleft())
            self._cut = True

    def text(self) -> str:
        """Return the kept end as text; bytes that are not UTF-8 are replaced, a missing beginning shows as `…`."""
        held = b"".join(self._parts)
        kept = held[-self._limit :].decode("utf-8", "replace")
        return f"…{kept}" if self._cut or len(held) > self._limit else kept

    def clear(self) -> None:
        """Forget everything."""
        self._parts.clear()
        self._held = 0
        self._cut = False


def kill_tree(pid: int, mark: str) -> None:
    """Kill the process group led by `pid`, then every process that carries `mark`.

    The group holds all descendants that did not leave it. Those that started a session of their own are found by the
    mark they inherited, where the system has `/proc` (Linux); one that also cleared its environment escapes.
    """
    signal_group(pid, signal.SIGKILL)
    for _ in range(_SWEEPS):
        marked, unsettled = _find(mark)
        for process in marked:
            _signal(process, signal.SIGKILL)
        if not marked and not unsettled:
            return
        if unsettled:
            time.sleep(_SETTLING_S)


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to the process group led by `pid`; a group that is gone is no error."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):  # macOS answers EPERM for a group of zombies
        return


def exit_phrase(returncode: int) -> str:
    """Say how a process ended: `exited with code 3`, `was killed by SIGSEGV`."""
    if returncode >= 0:
        return f"exited with code {returncode}"
    try:
        return f"was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was killed by signal {-returncode}"


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _find(mark: str) -> tuple[list[int], bool]:
    """Find the living processes that carry the mark, and tell whether some process does not show its environment yet.

    A process that has ended shows an empty environment, one that is about to run another program none for a moment.
    """
    needle = f"{MARK_VARIABLE}={mark}".encode()
    try:
        entries = [entry for entry in os.listdir("/proc") if entry.isdecimal()]
    except OSError:
        return [], False
    marked = []
    unsettled = False
    for entry in entries:
        try:
            environment = _read(f"/proc/{entry}/environ")
            if needle in environment:
                marked.append(int(entry))
            elif not environment:
                unsettled |= _is_changing_program(_read(f"/proc/{entry}/stat"))
        except OSError:
            continue
    return marked, unsettled


def _is_changing_program(stat: bytes) -> bool:
    """Whether a process without environment is between two programs: alive, no kernel thread, no place for it yet.

    Source: proc(5), `/proc/pid/stat`, fields 3 (state), 9 (flags) and 50 (env_start).
    """
    fields = stat.rpartition(b")")[2].split()
    return fields[0] not in (b"Z", b"X") and not int(fields[6]) & _KERNEL_THREAD and fields[47] == b"0"


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()
