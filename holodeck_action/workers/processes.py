"""Processes that run in their own group and end with all their descendants."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from holodeck_action.text.foreign import Foreign
from holodeck_action.text.plain import MARGIN
from holodeck_action.workers.permission import CodeAllowed, NoCode

MARK_VARIABLE = "HOLODECK_ACTION_PROCESS_MARK"
"""Environment variable that identifies the descendants of a process."""

_SWEEPS = 8
"""Rounds of searching descendants: a process that forks during a round is found in the next one."""

_SETTLING_S = 0.001
"""Seconds to wait for a process that is executing another program, which takes microseconds on an idle machine."""

_LONGEST_PAUSE_S = 0.05
"""Longest pause in seconds between checks for the end of a process."""

_KERNEL_THREAD = 0x0020_0000
"""Flag of kernel threads, which have no program (proc(5))."""


def replace_process(arguments: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Continue as another program in this process.

    Args:
        arguments: the program's absolute path and its arguments.
        environ: the whole environment.

    Raises:
        OSError: the program cannot be started.
    """
    os.execve(arguments[0], [*arguments], environ)  # noqa: S606 - no shell is needed


class KillableProcess:
    """A process and its descendants; the process leads its own session and process group."""

    def __init__(
        self,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        *,
        code: CodeAllowed | NoCode,
        folder: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Start a program; no shell is involved.

        Args:
            arguments: the program and its arguments.
            environ: the whole environment.
            code: the permission to start the program, with or without code of the checkout.
            folder: working directory; None to use the current one.
            stdin: see `subprocess.Popen`, also for `stdout`, `stderr` and `pass_fds`.

        Raises:
            OSError: the program cannot be started.
        """
        # Descendants inherit the mark and are found by it.
        self._mark = uuid.uuid4().hex
        self._killed = False
        self._popen = subprocess.Popen(
            arguments,
            cwd=folder,
            env={**environ, MARK_VARIABLE: self._mark},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
            start_new_session=True,
        )

    @property
    def alive(self) -> bool:
        """Whether the process is running; each access queries the system."""
        if self._killed or self._popen.returncode is not None:
            return False
        try:
            return os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            # Another thread has reaped it.
            return False

    def terminate(self) -> None:
        """Send SIGTERM to the process and its group."""
        if self.alive:
            _signal_group(self._popen.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and its descendants; if the process has ended, only `reap` can kill the rest."""
        # After reaping, its number may belong to another process.
        if self.alive:
            self._killed = True
            _kill_tree(self._popen.pid, self._mark)

    def reap(self) -> int:
        """Wait for the end of the process, kill its remaining descendants, and return its exit code."""
        if self._popen.returncode is None:
            os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
            _kill_tree(self._popen.pid, self._mark)
        return self._popen.wait()

    def wait(self, timeout_s: float) -> int | None:
        """Wait up to `timeout_s` seconds for the process to end, then kill it and its remaining descendants.

        Returns:
            The exit code; None if the process did not end in time and was killed.
        """
        deadline, pause = time.monotonic() + timeout_s, _SETTLING_S
        in_time = False
        try:
            while self.alive and (left := deadline - time.monotonic()) > 0:
                time.sleep(min(pause, left))
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            in_time = not self.alive
        finally:
            self.kill()
            code = self.reap()
        return code if in_time else None

    def call_on_exit(self, ended: Callable[[int], None]) -> None:
        """Call `ended` in the running event loop with the exit code, once the process has ended and is reaped."""
        loop = asyncio.get_running_loop()
        try:
            descriptor = os.pidfd_open(self._popen.pid)
        except (AttributeError, OSError):
            # Without reaping, so that the process's number stays reserved until its group is killed.
            waiting = loop.run_in_executor(None, os.waitid, os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
            waiting.add_done_callback(lambda _: ended(self.reap()))
            return

        def on_exit() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            ended(self.reap())

        loop.add_reader(descriptor, on_exit)


_SCRIPT = Path(__file__).with_name("worker.py")


class ServingProcess(KillableProcess):
    """A Python process in which a module of this package answers requests; it ends when this process ends."""

    def __init__(
        self,
        server: str,
        folder: Path,
        environ: Mapping[str, str],
        *,
        cwd: Path,
        code: CodeAllowed | NoCode,
        output: int = subprocess.DEVNULL,
        interpreter: Path | None = None,
    ) -> None:
        """Start the process.

        Args:
            server: name of the module whose `serve(connection, folder)` answers.
            folder: the argument of `serve`.
            environ: the whole environment of the process.
            cwd: the working folder of the process.
            code: the permission to start the process (see `KillableProcess`).
            output: file descriptor for the standard output and error output of the process.
            interpreter: path of the Python to run, 3.9 or newer; None to use the program's own.

        Raises:
            OSError: the process cannot be started.
        """
        with ExitStack() as ours, ExitStack() as theirs:
            self.connection, connection = socket.socketpair()
            ours.callback(self.connection.close)
            theirs.callback(connection.close)
            # Nothing is written to it: it closes when this process ends.
            lifeline, _ = open_pipe(theirs, ours)
            super().__init__(
                [
                    *(str(interpreter or sys.executable), "-u", str(_SCRIPT)),
                    *(str(connection.fileno()), str(lifeline), str(folder), str(_SCRIPT.parents[1]), server),
                ],
                environ,
                code=code,
                folder=cwd,
                stdout=output,
                stderr=output,
                pass_fds=(connection.fileno(), lifeline),
            )
            self._held = ours.pop_all()

    def disconnect(self) -> None:
        """Close the connection and the pipe whose end tells the process that the run has ended."""
        self._held.close()


def open_pipe(read_end: ExitStack, write_end: ExitStack) -> tuple[int, int]:
    """Open a pipe whose ends are closed by the given stacks."""
    reading, writing = os.pipe()
    read_end.callback(os.close, reading)
    write_end.callback(os.close, writing)
    return reading, writing


class OutputTail:
    """Stores the last `limit` bytes of a stream, and a margin before them so that secrets can be found whole."""

    def __init__(self, limit: int) -> None:
        self._limit = limit + MARGIN
        self._parts: deque[bytes] = deque()
        self._held = 0
        self._cut = False

    def feed(self, data: bytes) -> None:
        """Append `data` and drop the oldest bytes beyond the limit."""
        self._parts.append(data[-self._limit :])
        self._held += len(self._parts[-1])
        self._cut |= len(data) > self._limit
        while self._held - len(self._parts[0]) >= self._limit:
            self._held -= len(self._parts.popleft())
            self._cut = True

    def foreign(self) -> Foreign:
        """Return the stored end of the stream."""
        held = b"".join(self._parts)
        return Foreign(held[-self._limit :], cut=self._cut or len(held) > self._limit)

    def clear(self) -> None:
        """Drop all stored bytes."""
        self._parts.clear()
        self._held = 0
        self._cut = False


def _kill_tree(pid: int, mark: str) -> None:
    """Kill the process group led by `pid`, then every process that carries `mark`.

    The group contains all descendants that did not leave it. On Linux, descendants in their own session are found in
    `/proc` by the inherited mark; one that also cleared its environment escapes.
    """
    _signal_group(pid, signal.SIGKILL)
    for _ in range(_SWEEPS):
        marked, unsettled = _find_marked(mark)
        for process in marked:
            _signal(process, signal.SIGKILL)
        if not marked and not unsettled:
            return
        if unsettled:
            time.sleep(_SETTLING_S)


def _signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to the process group led by `pid`; a group that is gone is no error."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):  # macOS answers EPERM for a group of zombies
        return


def exit_phrase(returncode: int) -> str:
    """Return a clause about how a process ended: `exited with code 3`, `was killed by SIGSEGV`."""
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


def _find_marked(mark: str) -> tuple[list[int], bool]:
    """Return the ids of living processes that carry the mark, and whether a process's environment cannot be read yet.

    The environment of a process is empty after its end, and for a moment while it executes another program.
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
            environment = _read_file(f"/proc/{entry}/environ")
            if needle in environment:
                marked.append(int(entry))
            elif not environment:
                unsettled |= _is_changing_program(_read_file(f"/proc/{entry}/stat"))
        except OSError:
            continue
    return marked, unsettled


def _is_changing_program(stat: bytes) -> bool:
    """Return whether a process without environment is about to execute another program.

    Such a process is alive, is not a kernel thread, and its environment has no address yet.

    Source: proc(5), `/proc/pid/stat`, fields 3 (state), 9 (flags) and 50 (env_start).
    """
    fields = stat.rpartition(b")")[2].split()
    return fields[0] not in (b"Z", b"X") and not int(fields[6]) & _KERNEL_THREAD and fields[47] == b"0"


def _read_file(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()
