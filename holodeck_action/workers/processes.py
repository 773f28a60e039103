"""Processes of others: started in a group of their own, and ended with all their descendants."""

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

from holodeck_action.text.foreign import Foreign
from holodeck_action.text.plain import MARGIN
from holodeck_action.workers.permission import CodeAllowed, NoCode

MARK_VARIABLE = "HOLODECK_ACTION_PROCESS_MARK"
"""Environment variable by which the descendants of a process are found again."""

_SWEEPS = 8
"""Rounds of looking for descendants: a process that forks while it is looked for is found in the next round."""

_SETTLING_S = 0.001
"""How long to wait for a process that is just starting another program, which takes microseconds on an idle machine."""

_LONGEST_PAUSE_S = 0.05
"""How long to wait, at most, before looking again whether a process has ended."""

_KERNEL_THREAD = 0x0020_0000
"""Flag of processes that have no program."""


class KillableProcess:
    """A process with its descendants, leader of a session and process group of its own."""

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
            arguments: program and arguments.
            environ: the whole environment.
            code: the permission to start it: for code of the checkout, or for a process in which none runs.
            folder: working directory; None for the current one.
            stdin: as `subprocess.Popen` takes it, and so are `stdout`, `stderr` and `pass_fds`.

        Raises:
            OSError: the program cannot be started.
        """
        # Its descendants inherit it, and are found again by it.
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
        """Whether the process runs. The system is asked, as the end of a process takes a moment to be noticed."""
        if self._killed or self._popen.returncode is not None:
            return False
        try:
            return os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            # Another thread has just reaped it.
            return False

    def terminate(self) -> None:
        """Ask the process and its group to end."""
        if self.alive:
            _signal_group(self._popen.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and its descendants; one that has ended is left to `reap`."""
        # Once it is reaped, its number may belong to another process.
        if self.alive:
            self._killed = True
            _kill_tree(self._popen.pid, self._mark)

    def reap(self) -> int:
        """Wait for the end of the process, kill what it left behind, and return its exit code."""
        if self._popen.returncode is None:
            os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
            _kill_tree(self._popen.pid, self._mark)
        return self._popen.wait()

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end of the process, kill what it left behind, and return its exit code.

        Returns:
            None if it took longer: it was killed.
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

    def when_ended(self, ended: Callable[[int], None]) -> None:
        """Call `ended` with the exit code when the process has ended and is reaped, in the running event loop."""
        loop = asyncio.get_running_loop()
        try:
            descriptor = os.pidfd_open(self._popen.pid)
        except (AttributeError, OSError):
            # Without reaping, so that the process's number stays its own until its group is killed.
            waiting = loop.run_in_executor(None, os.waitid, os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
            waiting.add_done_callback(lambda _: ended(self.reap()))
            return

        def noticed() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            ended(self.reap())

        loop.add_reader(descriptor, noticed)


_SCRIPT = Path(__file__).with_name("worker.py")


class ServingProcess(KillableProcess):
    """A Python process in which a module of ours answers over a connection; it ends when this process ends."""

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
            folder: its argument.
            environ: its whole environment.
            cwd: its working folder.
            code: as for `KillableProcess`.
            output: where it writes its output and error output.
            interpreter: the Python that it runs, 3.9 or newer; None for ours.

        Raises:
            OSError: the process cannot be started.
        """
        with ExitStack() as ours, ExitStack() as theirs:
            self.connection, connection = socket.socketpair()
            ours.callback(self.connection.close)
            theirs.callback(connection.close)
            # Nothing is ever written to it: it closes when this process ends.
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
        """Close the connection and the lifeline."""
        self._held.close()


def open_pipe(read_end: ExitStack, write_end: ExitStack) -> tuple[int, int]:
    """Open a pipe whose ends are closed with the given stacks."""
    reading, writing = os.pipe()
    read_end.callback(os.close, reading)
    write_end.callback(os.close, writing)
    return reading, writing


class OutputTail:
    """The last `limit` bytes of a stream, and as many before them as may hold a piece of a secret."""

    def __init__(self, limit: int) -> None:
        self._limit = limit + MARGIN
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

    def foreign(self) -> Foreign:
        """Return the kept end."""
        held = b"".join(self._parts)
        return Foreign(held[-self._limit :], cut=self._cut or len(held) > self._limit)

    def clear(self) -> None:
        """Forget everything."""
        self._parts.clear()
        self._held = 0
        self._cut = False


def _kill_tree(pid: int, mark: str) -> None:
    """Kill the process group led by `pid`, then every process that carries `mark`.

    The group holds all descendants that did not leave it. Those that started a session of their own are found by the
    mark they inherited, where the system has `/proc` (Linux); one that also cleared its environment escapes.
    """
    _signal_group(pid, signal.SIGKILL)
    for _ in range(_SWEEPS):
        marked, unsettled = _find(mark)
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
