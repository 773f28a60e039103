"""Foreign processes: marking them, keeping the end of what they print, and ending them with all their descendants."""

from __future__ import annotations

import os
import signal
import uuid
from collections import deque
from collections.abc import Mapping

MARK_VARIABLE = "HOLODECK_ACTION_PROCESS_MARK"
"""Environment variable by which the descendants of a process are found again."""

_SWEEPS = 8
"""Rounds of looking for descendants: a process that forks while it is looked for is found in the next round."""


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
        escaped = _marked_processes(mark)
        if not escaped:
            return
        for process in escaped:
            _signal(process, signal.SIGKILL)


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


def _marked_processes(mark: str) -> list[int]:
    """Processes that inherited the mark, without those that have ended (their environment reads as empty)."""
    needle = f"{MARK_VARIABLE}={mark}".encode()
    try:
        entries = os.listdir("/proc")
    except OSError:
        return []
    found = []
    for entry in entries:
        if entry.isdecimal():
            try:
                with open(f"/proc/{entry}/environ", "rb", buffering=0) as environment:
                    marked = needle in environment.read()
            except OSError:
                continue
            if marked:
                found.append(int(entry))
    return found
