"""One worker process, seen from the run: asked one thing at a time, watched, ended with everything it started."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holodeck_action.text.foreign import Foreign, Redact
from holodeck_action.text.plain import cut
from holodeck_action.workers.code_errors import LONGEST_WORDS, SENT_WORDS, Places, UserCodeError
from holodeck_action.workers.frames import (
    CONNECTION_LOST,
    ENVELOPE,
    HEADER,
    MOST_SPAN_BYTES,
    frame_limit,
    pack,
    unpack,
)
from holodeck_action.workers.permission import CodeAllowed, NoCode
from holodeck_action.workers.processes import OutputTail, ServingProcess, exit_phrase, open_pipe

OUTPUT_KEPT = 64 * 1024
"""Bytes of a call's output that are kept: the last ones."""

MAX_OUTPUT = 64 * 1024 * 1024
"""Bytes one call may print before its process is ended: reading more would slow the whole run."""

_CHUNK = 64 * 1024
_DRAINS = 8
"""Reads of output after an answer: enough for a full pipe, few enough for a thread that prints forever."""

_EXIT_GRACE_S = 1.0
"""How long a worker may take to end by itself, so that exit handlers and temporary files get their turn."""

_KILLED_S = 5.0
"""How long to wait for the system to report the end of a killed process."""

USER_CODE = "holodeck_action.workers.serving"
"""The module that runs user code in its process."""
Imported = Callable[[Sequence[str]], None]
"""Takes absolute paths of files; user code may have forged them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call gave: its JSON value, what `Recorder.end` says of its spans, and the end of what it printed.

    The output has no secrets.
    """

    value: Any
    output: str
    spans: Any = None


class WorkerProcess:
    """A worker; made inside a running event loop.

    Attributes:
        settled: no call is under way and none was broken off: the worker may be asked again.
        loaded: references that it has imported.
        gone: done when the process has ended and everything it held is released.
    """

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        cwd: Path,
        server: str = USER_CODE,
        imported: Imported = lambda files: None,
        interpreter: Path | None = None,
        spans: bool = False,
        *,
        code: CodeAllowed | NoCode,
        redact: Redact,
    ) -> None:
        """Start the process.

        Args:
            folder: the suite's folder, absolute.
            environ: its whole environment.
            cwd: its working folder, absolute.
            server: name of the module that answers there, as `USER_CODE` does.
            imported: told of files of the checkout that the process says it has imported, before it gives an answer.
            interpreter: the Python that it runs (see `ServingProcess`).
            spans: whether it collects the spans of its calls.
            code: the permission to start it (see `KillableProcess`).
            redact: removes secrets from what the process prints and raises.

        Raises:
            OSError: the process cannot be started.
        """
        self._redact = redact
        self._imported = imported
        self._wanted = {"spans": True} if spans else {}
        self._room = MOST_SPAN_BYTES + ENVELOPE if spans else 0
        self.settled = True
        self.loaded: set[str] = set()
        self._places = Places(str(folder), str(cwd))
        self._loop = asyncio.get_running_loop()
        self._exit: asyncio.Future[int] = self._loop.create_future()
        self._tail = OutputTail(OUTPUT_KEPT)
        self._printed = 0
        self._calls = 0
        self._interrupted = False
        self._closing: asyncio.Task[None] | None = None
        self.gone: asyncio.Future[None] = self._loop.create_future()
        with ExitStack() as ours, ExitStack() as theirs:
            self._output, output = open_pipe(ours, theirs)
            self._process = ServingProcess(
                server, folder, environ, cwd=cwd, code=code, output=output, interpreter=interpreter
            )
            ours.callback(self._process.disconnect)
            self._ours = ours.pop_all()
        self._connection = self._process.connection
        self._connection.setblocking(False)
        os.set_blocking(self._output, False)
        self._loop.add_reader(self._output, self._read_output)
        self._process.when_ended(self._ended_process)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.alive

    async def ask(self, request: Mapping[str, Any], timeout_s: float | None, max_bytes: int) -> Outcome:
        """Have the worker perform one call.

        Args:
            request: `op`, `reference` and what the operation takes, JSON values.
            timeout_s: seconds it may take; None for no limit.
            max_bytes: most bytes of content it may return.

        Raises:
            UserCodeError: it gave no usable result. `settled` tells whether the worker can be asked again.
        """
        reference = request["reference"]
        self.settled = False
        self._calls += 1
        self._drain()
        self._tail.clear()
        self._printed = 0
        frame = pack({"id": self._calls, "max_bytes": max_bytes, **self._wanted, **request})
        try:
            async with asyncio.timeout(timeout_s):
                await self._loop.sock_sendall(self._connection, frame)
                answer = await self._receive(frame_limit(max_bytes) + self._room)
        except TimeoutError:
            self._drain()
            what = "importing it" if request["op"] in ("check", "describe", "prepare") else "it"
            raise UserCodeError(
                f"{reference}: {what} took longer than {timeout_s:g} s; its process was ended",
                "timeout",
                output=self._output_so_far(),
            ) from None
        except (ConnectionError, EOFError):
            raise await self._ended(reference) from None
        except ValueError as error:
            raise UserCodeError(
                f"{reference}: its process sent what no answer can be: {error}; it was ended", "bad_answer"
            ) from None
        self._drain()
        output = self._output_so_far()
        files = answer.get("files")
        if isinstance(files, list):
            self._imported([file for file in files if isinstance(file, str)])
        if "error" in answer:
            raise _failure(reference, answer["error"], output, answer.get("spans"), self._redact)
        return Outcome(answer["value"], output, answer.get("spans"))

    def interrupt(self) -> None:
        """Break off the call under way, because the run ends: it fails, and its caller closes the worker."""
        self._interrupted = True
        self._process.kill()

    def close(self) -> asyncio.Task[None]:
        """End the process and its descendants; at once after a call that was broken off, else by its own means first.

        No call may be under way.
        """
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
        return self._closing

    async def _close(self) -> None:
        if self.settled and self.alive:
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)
            await asyncio.wait([self._exit], timeout=_EXIT_GRACE_S)
        self._process.kill()
        await asyncio.wait([self._exit], timeout=_KILLED_S)
        self._loop.remove_reader(self._output)
        self._ours.close()
        self.gone.set_result(None)

    def _ended_process(self, code: int) -> None:
        self._exit.set_result(code)
        # Whoever waits for an answer learns that none will come, even if a lost child holds the connection open.
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    async def _receive(self, limit: int) -> dict[str, Any]:
        """Return the answer to the call under way.

        Raises:
            EOFError: the connection has ended.
            ValueError: what came is no answer to it.
        """
        received = bytearray()
        size = limit
        while len(received) < HEADER + size:
            part = await self._loop.sock_recv(self._connection, _CHUNK)
            if not part:
                raise EOFError
            received += part
            if len(received) >= HEADER:
                size = int.from_bytes(received[:HEADER], "big")
                if size > limit:
                    raise ValueError(f"a message of {size} bytes")
        if len(received) > HEADER + size:
            raise ValueError("more than one message")
        answer = Foreign(bytes(memoryview(received)[HEADER:])).parse(unpack, ValueError)
        if not isinstance(answer, dict) or answer.get("id") != self._calls or not {"value", "error"} & answer.keys():
            raise ValueError("not the answer to its call")
        self.settled = True
        return answer

    async def _ended(self, reference: str) -> UserCodeError:
        """Explain why no answer can come: the process ended, or only its connection."""
        await asyncio.wait([self._exit], timeout=_EXIT_GRACE_S)
        self._drain()
        output, frames = _split_fatal_dump(self._output_so_far(), self._places)
        code = "crashed"
        if self._interrupted:
            code = "closed"
            what = "its process was ended before it had finished, because the run ended"
        elif self._printed > MAX_OUTPUT:
            code = "too_much_output"
            what = f"it printed more than {MAX_OUTPUT >> 20} MiB; its process was ended"
        elif not self._exit.done() or self._exit.result() == CONNECTION_LOST:
            what = "it closed the connection of its process to the run; the process was ended"
        else:
            what = f"its process {exit_phrase(self._exit.result())}"
            if self._exit.result() == -signal.SIGKILL:
                what += " (memory may have run out)"
        place = f" ({frames[-1].split(' ', 1)[0]})" if frames else ""
        return UserCodeError(f"{reference}: {what}{place}", code, traceback=frames, output=output)

    def _read_output(self) -> bool:
        """Take what was printed; tell whether there may be more."""
        try:
            data = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._loop.remove_reader(self._output)
            return False
        self._tail.feed(data)
        self._printed += len(data)
        if self._printed > MAX_OUTPUT:
            self._process.kill()
            return False
        return True

    def _output_so_far(self) -> str:
        return self._tail.foreign().without_secrets(self._redact)

    def _drain(self) -> None:
        for _ in range(_DRAINS):
            if not self._read_output():
                return


def _failure(reference: str, error: Any, output: str, spans: Any, redact: Redact) -> UserCodeError:
    """Read a failure that the worker reports; user code may have forged it, so that every part is checked."""
    facts = error if isinstance(error, dict) else {}

    def told(name: str) -> str:
        found = Foreign.of_text(str(facts.get(name, "")), SENT_WORDS)
        return cut(found.without_secrets(redact), LONGEST_WORDS)

    frames, words, code = facts.get("traceback"), " ".join(told("words").split()), str(facts.get("code"))
    return UserCodeError(
        f"{reference}: {told('message')}{words}{told('after')}",
        code,
        type=told("type"),
        # The argument of `sys.exit` is no text of an exception.
        text=words if facts.get("type") and code != "exited" else "",
        traceback=tuple(str(frame) for frame in frames) if isinstance(frames, list) else (),
        output=output,
        transient=facts.get("transient") is True,
        spans=spans,
    )


_FATAL = "Fatal Python error: "
_FATAL_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (\S+)$', re.MULTILINE)


def _split_fatal_dump(output: str, places: Places) -> tuple[str, tuple[str, ...]]:
    """Separate the interpreter's dump on a crash from what was printed, and return the user's frames in it.

    The dump has addresses and machine paths in it; the frames have not.
    """
    printed, found, dump = output.rpartition(_FATAL)
    if not found:
        return output, ()
    frames = []
    for file, line, function in _FATAL_FRAME.findall(dump):
        shown = places.shown(file)
        if shown is not None:
            frames.append(f"{shown}:{line} in {function}")
    return printed, tuple(reversed(frames))
