"""A process that speaks lines on its standard streams, bounded in memory and never left behind."""

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
"""How long a process may take over each step of its end: after its input ends, after SIGTERM, for its last output."""

_KILLED_S = 5.0
"""How long to wait for the system to report the end of a killed process."""


class LineProcess(KillableProcess):
    """One process with its descendants; `start` makes it, `close` or `kill` ends it.

    Reading pauses while more than one line's worth of output waits, so a process that floods its output blocks on its
    own pipe. Writing never waits: input that is not taken stays in the transport's buffer until the process ends.
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
            arguments: program and arguments; no shell is involved.
            folder: working directory.
            environ: the whole environment.
            max_line: most bytes of one line of output.
            code: the permission to start it.
            redact: removes secrets from the error output.

        Raises:
            OSError: the program cannot be started.
        """
        process = cls(arguments, folder, environ, max_line, code, redact)
        process.when_ended(process._ended)
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
        """End of what the process wrote to its error output, without secrets."""
        return self._stderr.foreign().without_secrets(self._redact)

    @property
    def last_words(self) -> str:
        """The last line of the error output, as a clause that goes on in a sentence; empty if there is none."""
        words = self._stderr.foreign().last_words(self._redact)
        return f"; its last words on stderr: {words}" if words else ""

    @property
    def has_output(self) -> bool:
        """Whether there is output that no `read_line` has taken."""
        return bool(self._output.strip())

    def write_line(self, line: bytes) -> None:
        """Send one line; a process that no longer reads is found out when it does not answer."""
        stdin = self._pipes.get(0)
        if stdin is not None and not stdin.is_closing():
            stdin.write(line + b"\n")

    async def read_line(self) -> bytes:
        """Return the next line that is not blank, without its line end; the last one may lack a line end.

        Raises:
            AgentError: `too_large` for a longer line than allowed, `crashed` when no line can come any more.
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
                self._resume()
                if line.strip():
                    return line
                if last:
                    raise await self._no_line()
                continue
            self._searched = len(self._output)
            self._changed.clear()
            await self._changed.wait()

    def kill(self) -> None:
        """End the process and its descendants at once; nothing more of its output is read."""
        super().kill()
        for fd, pipe in self._pipes.items():
            if fd != 0:
                pipe.close()
            elif not pipe.is_closing() or pipe.get_write_buffer_size():
                # Closing it would wait for what nobody reads; a second end of a stream that ends already is a defect.
                pipe.abort()

    async def stop(self) -> None:
        """End the process and its descendants at once, but keep what they have written to the error output."""
        self._discard_output()
        super().kill()
        await self._stderr_ended()

    async def close(self) -> None:
        """End the process: its input ends, then SIGTERM, then SIGKILL, a second apart; descendants end with it."""
        try:
            if self.alive:
                self._discard_output()
                if 0 in self._pipes:
                    self._pipes[0].close()
                if not await _wait(self._exited, _GRACE_S):
                    self.terminate()
                    await _wait(self._exited, _GRACE_S)
        finally:
            self.kill()
        await _wait(self._exited, _KILLED_S)

    def connected(self, fd: int, pipe: asyncio.BaseTransport) -> None:
        """Take hold of a stream."""
        self._pipes[fd] = pipe

    def received(self, fd: int, data: bytes) -> None:
        """Keep output up to the bound, error output up to its tail."""
        if fd == 2:
            self._stderr.feed(data)
            return
        if self._discarding:
            return
        self._output += data
        if len(self._output) > self._max_line:
            self._pipes[1].pause_reading()
        self._changed.set()

    def stream_ended(self, fd: int) -> None:
        """Note the end of a stream."""
        del self._pipes[fd]
        self._open_pipes.discard(fd)
        self._changed.set()

    def _ended(self, code: int) -> None:
        self._code = code
        self._exited.set()
        # A descendant that escaped may hold the streams open for ever.
        asyncio.get_running_loop().call_later(_GRACE_S, self._streams_ended)

    def _streams_ended(self) -> None:
        self._open_pipes.clear()
        self._changed.set()

    def _resume(self) -> None:
        stdout = self._pipes.get(1)
        if stdout is not None and not stdout.is_closing():
            stdout.resume_reading()

    def _discard_output(self) -> None:
        self._discarding = True
        self._output.clear()
        self._searched = 0
        self._resume()

    async def _stderr_ended(self) -> None:
        """Wait until the process has ended and its error output is read; a process that goes on is not waited for."""
        if await _wait(self._exited, _GRACE_S):
            while 2 in self._open_pipes:
                self._changed.clear()
                await self._changed.wait()

    async def _no_line(self) -> AgentError:
        """Explain why no line can come: the process ended, or only its output did."""
        await self._stderr_ended()
        if not self._exited.is_set():
            return AgentError("the command closed its output without answering; it was stopped", "crashed")
        sentence = f"the command {exit_phrase(self._code)} without answering{self.last_words}"
        return AgentError(sentence, "crashed", {"exit_code": self._code})


class _Stream(asyncio.Protocol):
    """A standard stream of a process."""

    def __init__(self, process: LineProcess, fd: int) -> None:
        self._process = process
        self._fd = fd

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process.connected(self._fd, transport)

    def data_received(self, data: bytes) -> None:
        self._process.received(self._fd, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._process.stream_ended(self._fd)


async def _wait(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
