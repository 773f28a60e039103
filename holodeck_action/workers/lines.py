"""A process that speaks lines on its standard streams, bounded in memory and never left behind."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from holodeck_action.results.agent_errors import AgentError
from holodeck_action.text.plain import excerpt
from holodeck_action.workers.processes import (
    OutputTail,
    exit_phrase,
    kill_tree,
    marked_environment,
    new_mark,
    signal_group,
)

_STDERR_KEPT = 8192
_GRACE_S = 1.0
"""How long a process may take over each step of its end: after its input ends, after SIGTERM, for its last output."""

_KILLED_S = 5.0
"""How long to wait for the system to report the end of a killed process."""


class LineProcess(asyncio.SubprocessProtocol):
    """One process with its descendants; `start` makes it, `close` or `kill` ends it.

    Reading pauses while more than one line's worth of output waits, so a process that floods its output blocks on its
    own pipe. Writing never waits: input that is not taken stays in the transport's buffer until the process ends.
    """

    def __init__(self, max_line: int) -> None:
        self._max_line = max_line
        self._mark = new_mark()
        self._output = bytearray()
        self._searched = 0
        self._stderr = OutputTail(_STDERR_KEPT)
        self._open_pipes = {1, 2}
        self._changed = asyncio.Event()
        self._exited = asyncio.Event()
        self._discarding = False
        self._killed = False
        self._tree_killed = False
        self._transport: asyncio.SubprocessTransport | None = None

    @classmethod
    async def start(
        cls, arguments: Sequence[str], *, folder: Path, environ: Mapping[str, str], max_line: int
    ) -> LineProcess:
        """Start a program in `folder`, leader of a session and process group of its own.

        Args:
            arguments: program and arguments; no shell is involved.
            folder: working directory.
            environ: the whole environment.
            max_line: most bytes of one line of output.

        Raises:
            OSError: the program cannot be started.
        """
        process = cls(max_line)
        await asyncio.get_running_loop().subprocess_exec(
            lambda: process,
            *arguments,
            cwd=folder,
            env=marked_environment(environ, process._mark),
            start_new_session=True,
        )
        return process

    @property
    def stderr(self) -> str:
        """End of what the process wrote to its error output."""
        return self._stderr.text()

    @property
    def has_output(self) -> bool:
        """Whether there is output that no `read_line` has taken."""
        return bool(self._output.strip())

    def write_line(self, line: bytes) -> None:
        """Send one line; a process that no longer reads is found out when it does not answer."""
        stdin = self._pipe(0)
        if isinstance(stdin, asyncio.WriteTransport) and not stdin.is_closing():
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
                    raise await self._ended()
                continue
            self._searched = len(self._output)
            self._changed.clear()
            await self._changed.wait()

    def kill(self) -> None:
        """End the process and its descendants at once; does nothing the second time."""
        if self._killed or self._transport is None:
            return
        self._killed = True
        if self._exited.is_set():
            self._transport.close()
            return
        self._kill_tree()
        # Closing the whole transport now would take the exit status away from the event loop's own watcher.
        for fd in (0, 1, 2):
            pipe = self._pipe(fd)
            if pipe is not None:
                pipe.close()

    async def stop(self) -> None:
        """End the process and its descendants at once, but keep what they have written to the error output."""
        self._discard_output()
        self._kill_tree()
        await self._stderr_ended()

    async def close(self) -> None:
        """End the process: its input ends, then SIGTERM, then SIGKILL, a second apart; descendants end with it."""
        try:
            if not self._killed and self._transport is not None:
                self._discard_output()
                stdin = self._pipe(0)
                if stdin is not None:
                    stdin.close()
                if not await self._wait(self._exited, _GRACE_S):
                    signal_group(self._transport.get_pid(), signal.SIGTERM)
                    await self._wait(self._exited, _GRACE_S)
        finally:
            self.kill()
        await self._wait(self._exited, _KILLED_S)

    # -- asyncio.SubprocessProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take hold of the process; a short-lived one may have ended before `start` returns."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep output up to the bound, error output up to its tail."""
        if fd == 2:
            self._stderr.feed(data)
            return
        if self._discarding:
            return
        self._output += data
        if len(self._output) > self._max_line:
            stdout = self._pipe(1)
            if isinstance(stdout, asyncio.ReadTransport):
                stdout.pause_reading()
        self._changed.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Note the end of a stream."""
        self._open_pipes.discard(fd)
        self._changed.set()

    def process_exited(self) -> None:
        """End what the process left behind, so that its streams end too."""
        self._exited.set()
        if self._transport is None:
            return
        if self._killed:
            self._transport.close()
            return
        self._kill_tree()
        # A descendant that escaped may hold the streams open for ever.
        asyncio.get_running_loop().call_later(_GRACE_S, self._streams_ended)

    def _kill_tree(self) -> None:
        """Kill the process and its descendants, once: after its end its number may belong to another process."""
        if self._transport is not None and not self._tree_killed:
            self._tree_killed = True
            kill_tree(self._transport.get_pid(), self._mark)

    def _streams_ended(self) -> None:
        self._open_pipes.clear()
        self._changed.set()

    def _pipe(self, fd: int) -> asyncio.BaseTransport | None:
        return None if self._transport is None else self._transport.get_pipe_transport(fd)

    def _resume(self) -> None:
        stdout = self._pipe(1)
        if isinstance(stdout, asyncio.ReadTransport) and not stdout.is_closing():
            stdout.resume_reading()

    def _discard_output(self) -> None:
        self._discarding = True
        self._output.clear()
        self._searched = 0
        self._resume()

    async def _stderr_ended(self) -> None:
        """Wait until the process has ended and its error output is read; a process that goes on is not waited for."""
        if await self._wait(self._exited, _GRACE_S):
            while 2 in self._open_pipes:
                self._changed.clear()
                await self._changed.wait()

    async def _ended(self) -> AgentError:
        """Explain why no line can come: the process ended, or only its output did."""
        await self._stderr_ended()
        returncode = None if self._transport is None else self._transport.get_returncode()
        if returncode is None:
            return AgentError("the command closed its output without answering; it was stopped", "crashed")
        sentence = f"the command {exit_phrase(returncode)} without answering"
        words = [line for line in self.stderr.splitlines() if line.strip()]
        if words:
            sentence += f"; its last words on stderr: {excerpt(words[-1])}"
        return AgentError(sentence, "crashed", {"exit_code": returncode})

    @staticmethod
    async def _wait(event: asyncio.Event, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        return True
