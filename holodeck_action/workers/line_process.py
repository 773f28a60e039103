"""A process with which the run exchanges lines over standard input and output. The size of its output is limited."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from holodeck_action.record.agent_errors import AgentError
from holodeck_action.text.foreign import Redact
from holodeck_action.workers.permission import CodeAllowed
from holodeck_action.workers.processes import KillableProcess, OutputTail, exit_phrase

_STDERR_KEPT = 8192
_GRACE_S = 1.0
"""Seconds to wait in each step of ending a process: after its input is closed, after SIGTERM, for its last output."""

_KILLED_S = 5.0
"""Seconds to wait for the system to report the end of a killed process."""


class LineProcess(KillableProcess):
    """A process that reads and writes lines. Create it with `start`; end it with `close`, `stop` or `kill`.

    Reading pauses while more than `max_line` bytes of output are unread, so a process that writes too much has to wait.
    Writing never waits: lines that the process has not read are kept in memory.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        environ: Mapping[str, str],
        max_line: int,
        code: CodeAllowed,
        redact: Redact,
    ) -> None:
        pipe = subprocess.PIPE
        super().__init__(arguments, environ, code=code, folder=folder, stdin=pipe, stdout=pipe, stderr=pipe)
        self._redact = redact
        self._max_line = max_line
        self._output = bytearray()
        self._searched = 0
        self._stderr = OutputTail(_STDERR_KEPT)
        self._pipes: dict[int, Any] = {}
        self._open_pipes = {1, 2}
        self._changed = asyncio.Event()
        self._exited = asyncio.Event()
        self._discarding = False
        self._code = 0

    @classmethod
    async def start(
        cls,
        arguments: Sequence[str],
        *,
        folder: Path,
        environ: Mapping[str, str],
        max_line: int,
        code: CodeAllowed,
        redact: Redact,
    ) -> LineProcess:
        """Start a program in `folder`.

        Args:
            arguments: the program and its arguments; no shell is used.
            folder: working directory.
            environ: the whole environment.
            max_line: maximum bytes of one line of output.
            code: the permission to start the program.
            redact: removes secrets from the error output.

        Raises:
            OSError: the program cannot be started.
        """
        process = cls(arguments, folder, environ, max_line, code, redact)
        process.call_on_exit(process._note_exit)
        try:
            await process._connect()
        except BaseException:
            process.kill()
            raise
        return process

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        for fd, stream in ((1, self._popen.stdout), (2, self._popen.stderr)):
            await loop.connect_read_pipe(partial(_Stream, self, fd), stream)
        await loop.connect_write_pipe(partial(_Stream, self, 0), self._popen.stdin)

    @property
    def stderr(self) -> str:
        """The last part of the process's standard error, without secrets."""
        return self._stderr.content().without_secrets(self._redact)

    @property
    def last_line_clause(self) -> str:
        """The last line of standard error as a clause to append to a sentence; empty if there is no such line."""
        words = self._stderr.content().last_line(self._redact)
        return f"; its last line on stderr: {words}" if words else ""

    @property
    def has_output(self) -> bool:
        """Whether there is unread output."""
        return bool(self._output.strip())

    def write_line(self, line: bytes) -> None:
        """Send one line, without waiting until it is read and without an error if the process no longer reads."""
        stdin = self._pipes.get(0)
        if stdin is not None and not stdin.is_closing():
            stdin.write(line + b"\n")

    async def read_line(self) -> bytes:
        """Wait for the next line that is not blank, and return it without the line break.

        Raises:
            AgentError: the line is too long (`too_large`), or the output has ended (`crashed`).
        """
        while True:
            end = self._output.find(b"\n", self._searched)
            last = end < 0 and 1 not in self._open_pipes
            if (end if end >= 0 else len(self._output)) > self._max_line:
                raise AgentError(
                    f"the command wrote a line of more than {self._max_line} bytes "
                    "(see limits.max_response_bytes); it was stopped",
                    "too_large",
                )
            if end >= 0 or last:
                line = bytes(self._output[: end if end >= 0 else None])
                del self._output[: len(line) + 1]
                self._searched = 0
                self._resume_reading()
                if line.strip():
                    return line
                if last:
                    raise await self._missing_line_error()
                continue
            self._searched = len(self._output)
            self._changed.clear()
            await self._changed.wait()

    def kill(self) -> None:
        """Kill the process and its descendants; unread output is lost."""
        super().kill()
        for fd, pipe in self._pipes.items():
            if fd != 0:
                pipe.close()
            elif not pipe.is_closing() or pipe.get_write_buffer_size():
                # Closing it would wait for unread output; aborting a closed stream would be an error.
                pipe.abort()

    async def stop(self) -> None:
        """Kill the process and its descendants, then read the rest of their standard error."""
        self._discard_output()
        super().kill()
        await self._wait_for_stderr()

    async def close(self) -> None:
        """End the process and its descendants: close its input, send SIGTERM after a second, SIGKILL after two."""
        try:
            if self.is_alive:
                self._discard_output()
                if 0 in self._pipes:
                    self._pipes[0].close()
                if not await _wait(self._exited, _GRACE_S):
                    self.terminate()
                    await _wait(self._exited, _GRACE_S)
        finally:
            self.kill()
        await _wait(self._exited, _KILLED_S)

    def add_stream(self, fd: int, pipe: asyncio.BaseTransport) -> None:
        """Register a standard stream (`fd` 0, 1 or 2) that has been connected."""
        self._pipes[fd] = pipe

    def take_output(self, fd: int, data: bytes) -> None:
        """Store data that the process wrote: all of standard output (`fd` 1), the last part of standard error (2)."""
        if fd == 2:
            self._stderr.feed(data)
            return
        if self._discarding:
            return
        self._output += data
        if len(self._output) > self._max_line:
            self._pipes[1].pause_reading()
        self._changed.set()

    def drop_stream(self, fd: int) -> None:
        """Unregister a standard stream that has ended."""
        del self._pipes[fd]
        self._open_pipes.discard(fd)
        self._changed.set()

    def _note_exit(self, code: int) -> None:
        self._code = code
        self._exited.set()
        # An escaped descendant may keep the streams open forever.
        asyncio.get_running_loop().call_later(_GRACE_S, self._close_streams)

    def _close_streams(self) -> None:
        self._open_pipes.clear()
        self._changed.set()

    def _resume_reading(self) -> None:
        stdout = self._pipes.get(1)
        if stdout is not None and not stdout.is_closing():
            stdout.resume_reading()

    def _discard_output(self) -> None:
        self._discarding = True
        self._output.clear()
        self._searched = 0
        self._resume_reading()

    async def _wait_for_stderr(self) -> None:
        """Wait for the end of the process, at most for the grace period, then for the end of its standard error."""
        if await _wait(self._exited, _GRACE_S):
            while 2 in self._open_pipes:
                self._changed.clear()
                await self._changed.wait()

    async def _missing_line_error(self) -> AgentError:
        """Return the error for a process that ended, or closed its output, without writing the expected line."""
        await self._wait_for_stderr()
        if not self._exited.is_set():
            return AgentError("the command closed its output without answering; it was stopped", "crashed")
        sentence = f"the command {exit_phrase(self._code)} without answering{self.last_line_clause}"
        return AgentError(sentence, "crashed", {"exit_code": self._code})


class _Stream(asyncio.Protocol):
    """A standard stream of a process."""

    def __init__(self, process: LineProcess, fd: int) -> None:
        self._process = process
        self._fd = fd

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process.add_stream(self._fd, transport)

    def data_received(self, data: bytes) -> None:
        self._process.take_output(self._fd, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._process.drop_stream(self._fd)


async def _wait(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
