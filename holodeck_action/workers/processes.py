"""Processes that can be killed together with all their descendants."""

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
"""Environment variable that descendants of a process inherit, with a value by which they are found."""

_SWEEPS = 8
"""Maximum number of searches for descendants: a process that is forked during a search is found by the next one."""

_PROGRAM_CHANGE_S = 0.001
"""Seconds to wait at first while a process replaces its program (execve), which takes microseconds on an idle machine.
Each further wait is twice as long: on a busy machine it takes many milliseconds."""

_LONGEST_PAUSE_S = 0.05
"""Longest pause in seconds between two checks whether a process has ended."""

_KERNEL_THREAD = 0x0020_0000
"""Flag of kernel threads, which have no program (proc(5))."""


def replace_process(arguments: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace the program of this process by another one (execve); does not return.

    Args:
        arguments: the program's absolute path and its arguments.
        environ: the whole environment.

    Raises:
        OSError: the program cannot be started.
    """
    os.execve(arguments[0], [*arguments], environ)  # noqa: S606 - no shell is needed


class KillableProcess:
    """A process that can be killed together with its descendants. It leads its own session and process group."""

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
            stdin: as for `subprocess.Popen`, like `stdout`, `stderr` and `pass_fds`.

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
    def is_alive(self) -> bool:
        """Whether the process is running; each access queries the system."""
        if self._killed or self._popen.returncode is not None:
            return False
        try:
            return os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            # Another thread has waited for its end.
            return False

    def terminate(self) -> None:
        """Send SIGTERM to the process and its group."""
        if self.is_alive:
            _signal_group(self._popen.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and its descendants. If the process has ended already, `reap` kills the descendants."""
        # The id of a process that has ended may belong to another process.
        if self.is_alive:
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
        deadline, pause = time.monotonic() + timeout_s, _PROGRAM_CHANGE_S
        in_time = False
        try:
            while self.is_alive and (left := deadline - time.monotonic()) > 0:
                time.sleep(min(pause, left))
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            in_time = not self.is_alive
        finally:
            self.kill()
            code = self.reap()
        return code if in_time else None

    def call_on_exit(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with the exit code, in the running event loop, after the process has ended and is reaped."""
        loop = asyncio.get_running_loop()
        try:
            descriptor = os.pidfd_open(self._popen.pid)
        except (AttributeError, OSError):
            # WNOWAIT: the id of the process stays reserved until its group has been killed.
            waiting = loop.run_in_executor(None, os.waitid, os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
            waiting.add_done_callback(lambda _: callback(self.reap()))
            return

        def on_exit() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            callback(self.reap())

        loop.add_reader(descriptor, on_exit)


_SCRIPT = Path(__file__).with_name("worker.py")


class ServingProcess(KillableProcess):
    """A Python process in which a module of this package answers requests. It ends when this process ends."""

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
            server: name of the module whose function `serve(connection, folder)` answers the requests.
            folder: the second argument of `serve`.
            environ: the whole environment of the process.
            cwd: the working folder of the process.
            code: the permission to start the process (see `KillableProcess`).
            output: file descriptor for the standard output and error output of the process.
            interpreter: path of the Python to run, 3.9 or newer; None to use the Python of this process.

        Raises:
            OSError: the process cannot be started.
        """
        with ExitStack() as ours, ExitStack() as theirs:
            self.connection, connection = socket.socketpair()
            ours.callback(self.connection.close)
            theirs.callback(connection.close)
            # Nothing is written to the lifeline. The process ends when its other end is closed, as when the run ends.
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
            self._open_resources = ours.pop_all()

    def disconnect(self) -> None:
        """Close the connection and the lifeline, after which the process ends."""
        self._open_resources.close()


def open_pipe(read_end: ExitStack, write_end: ExitStack) -> tuple[int, int]:
    """Open a pipe and return its file descriptors for reading and writing; the exit stacks close them."""
    reading, writing = os.pipe()
    read_end.callback(os.close, reading)
    write_end.callback(os.close, writing)
    return reading, writing


class OutputTail:
    """Stores the last `limit` bytes of a stream, and some bytes before them, so that redaction finds whole secrets."""

    def __init__(self, limit: int) -> None:
        self._limit = limit + MARGIN
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._cut = False

    def feed(self, data: bytes) -> None:
        """Append `data` and drop the oldest bytes beyond the limit."""
        self._parts.append(data[-self._limit :])
        self._size += len(self._parts[-1])
        self._cut |= len(data) > self._limit
        while self._size - len(self._parts[0]) >= self._limit:
            self._size -= len(self._parts.popleft())
            self._cut = True

    def content(self) -> Foreign:
        """Return the stored bytes."""
        held = b"".join(self._parts)
        return Foreign(held[-self._limit :], is_truncated=self._cut or len(held) > self._limit)

    def clear(self) -> None:
        """Drop all stored bytes."""
        self._parts.clear()
        self._size = 0
        self._cut = False


def _kill_tree(pid: int, mark: str) -> None:
    """Kill the process group that `pid` leads, then all processes with the environment variable `mark`.

    The group contains the descendants that did not leave it. On Linux, those that left it are found in `/proc` by the
    inherited mark. A descendant that left the group and also cleared its environment is not found.
    """
    _signal_group(pid, signal.SIGKILL)
    for sweep in range(_SWEEPS):
        marked, changing_program = _find_marked(mark)
        for process in marked:
            _signal(process, signal.SIGKILL)
        if not marked and not changing_program:
            return
        if changing_program:
            time.sleep(_PROGRAM_CHANGE_S * 2**sweep)


def _signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to the process group that `pid` leads, if the group still exists."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):  # macOS answers EPERM for a group of zombies
        return


def exit_phrase(returncode: int) -> str:
    """Return how a process ended, as a clause: `exited with code 3`, `was killed by SIGSEGV`."""
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
    """Return the ids of living processes with the mark, and whether a process is just replacing its program.

    While a process replaces its program (execve), its environment cannot be read, so it must be checked again.
    """
    needle = f"{MARK_VARIABLE}={mark}".encode()
    try:
        entries = [entry for entry in os.listdir("/proc") if entry.isdecimal()]
    except OSError:
        return [], False
    marked = []
    changing_program = False
    for entry in entries:
        try:
            environment = _read_file(f"/proc/{entry}/environ")
            if needle in environment:
                marked.append(int(entry))
            elif not environment:
                changing_program |= _is_changing_program(_read_file(f"/proc/{entry}/stat"))
        except OSError:
            continue
    return marked, changing_program


def _is_changing_program(stat: bytes) -> bool:
    """Return whether a process whose environment is empty is just replacing its program. This is the case if the
    process is alive, is not a kernel thread, and has no address of its environment yet.

    Source: proc(5), `/proc/pid/stat`, fields 3 (state), 9 (flags) and 50 (env_start).
    """
    fields = stat.rpartition(b")")[2].split()
    return fields[0] not in (b"Z", b"X") and not int(fields[6]) & _KERNEL_THREAD and fields[47] == b"0"


def _read_file(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()
