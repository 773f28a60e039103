"""A worker process as the run controls it: it performs one call at a time and ends with all its descendants."""

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
from holodeck_action.workers.code_errors import LONGEST_WORDS, SENT_WORDS, UserCodeError, UserFolders
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
"""Maximum bytes of a call's output that are kept, from its end."""

MAX_OUTPUT = 64 * 1024 * 1024
"""Bytes one call may print before its process is ended: reading more would slow down the run."""

_CHUNK = 64 * 1024
_DRAINS = 8
"""Maximum reads of output after an answer: enough for a full pipe; bounded, as a thread may print forever."""

_EXIT_GRACE_S = 1.0
"""Seconds for a worker to end by itself, so that exit handlers run and temporary files are removed."""

_KILLED_S = 5.0
"""Seconds to wait for the system to report the end of a killed process."""

USER_CODE = "holodeck_action.workers.serving"
"""The module that runs user code in its process."""
Imported = Callable[[Sequence[str]], None]
"""Called with absolute paths of files; user code may have forged them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a call: JSON value, last part of the output without secrets, and spans (see `Recorder.end`)."""

    value: Any
    output: str
    spans: Any = None


class WorkerProcess:
    """A worker process; it must be created inside a running event loop.

    Attributes:
        settled: whether no call is in progress or was interrupted, so that the worker can perform another one.
        loaded: references of callables that the worker has imported.
        gone: future that is done when the process has ended and its resources are released.
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
            folder: absolute path of the suite's folder.
            environ: the whole environment of the process.
            cwd: absolute path of the working folder.
            server: name of the module that answers in the process, such as `USER_CODE`.
            imported: called with the files of the checkout that a call has imported, before its result is returned.
            interpreter: path of the Python to run (see `ServingProcess`).
            spans: whether the process collects the spans of its calls.
            code: the permission to start the process (see `KillableProcess`).
            redact: removes secrets from the process's output and errors.

        Raises:
            OSError: the process cannot be started.
        """
        self._redact = redact
        self._imported = imported
        self._wanted = {"spans": True} if spans else {}
        self._room = MOST_SPAN_BYTES + ENVELOPE if spans else 0
        self.settled = True
        self.loaded: set[str] = set()
        self._places = UserFolders(str(folder), str(cwd))
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
        self._process.call_on_exit(self._note_exit)

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self._process.alive

    async def ask(self, request: Mapping[str, Any], timeout_s: float | None, max_bytes: int) -> Outcome:
        """Have the worker perform one call.

        Args:
            request: `op`, `reference` and the operation's arguments, JSON values.
            timeout_s: time limit in seconds; None if there is no limit.
            max_bytes: maximum size of the result's content, in bytes.

        Raises:
            UserCodeError: the call gave no usable result. `settled` tells whether the worker can perform another one.
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
            raise await self._end_error(reference) from None
        except ValueError as error:
            raise UserCodeError(
                f"{reference}: its process sent an invalid answer: {error}; it was ended", "bad_answer"
            ) from None
        self._drain()
        output = self._output_so_far()
        files = answer.get("files")
        if isinstance(files, list):
            self._imported([file for file in files if isinstance(file, str)])
        if "error" in answer:
            raise _read_failure(reference, answer["error"], output, answer.get("spans"), self._redact)
        return Outcome(answer["value"], output, answer.get("spans"))

    def interrupt(self) -> None:
        """Make the current call fail because the run ends; its caller then closes the worker."""
        self._interrupted = True
        self._process.kill()

    def close(self) -> asyncio.Task[None]:
        """End the process and its descendants: at once after an interrupted call, else with time to end by itself.

        No call may be in progress.
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

    def _note_exit(self, code: int) -> None:
        self._exit.set_result(code)
        # A waiting call then ends, even if a lost child keeps the connection open.
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    async def _receive(self, limit: int) -> dict[str, Any]:
        """Return the answer to the current call.

        Raises:
            EOFError: the connection has ended.
            ValueError: the message is not an answer to the current call.
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

    async def _end_error(self, reference: str) -> UserCodeError:
        """Return the error for a missing answer: the process or only its connection has ended."""
        await asyncio.wait([self._exit], timeout=_EXIT_GRACE_S)
        self._drain()
        output, frames = _split_fatal_dump(self._output_so_far(), self._places)
        code = "crashed"
        if self._interrupted:
            code = "closed"
            what = "its process was ended before it finished, because the run ended"
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
        """Read available printed output; return whether there may be more."""
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


def _read_failure(reference: str, error: Any, output: str, spans: Any, redact: Redact) -> UserCodeError:
    """Return the error that the worker reports; every part is checked, since user code may have forged it."""
    facts = error if isinstance(error, dict) else {}

    def fact(name: str) -> str:
        found = Foreign.of_text(str(facts.get(name, "")), SENT_WORDS)
        return cut(found.without_secrets(redact), LONGEST_WORDS)

    frames, words, code = facts.get("traceback"), " ".join(fact("words").split()), str(facts.get("code"))
    return UserCodeError(
        f"{reference}: {fact('message')}{words}{fact('after')}",
        code,
        type=fact("type"),
        # The argument of `sys.exit` is not the text of an exception.
        text=words if facts.get("type") and code != "exited" else "",
        traceback=tuple(str(frame) for frame in frames) if isinstance(frames, list) else (),
        output=output,
        transient=facts.get("transient") is True,
        spans=spans,
    )


_FATAL = "Fatal Python error: "
_FATAL_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (\S+)$', re.MULTILINE)


def _split_fatal_dump(output: str, places: UserFolders) -> tuple[str, tuple[str, ...]]:
    """Return the printed output without the interpreter's crash dump, and the stack frames of user code in the dump.

    Unlike the dump, the frames contain no memory addresses and no absolute paths.
    """
    printed, found, dump = output.rpartition(_FATAL)
    if not found:
        return output, ()
    frames = []
    for file, line, function in _FATAL_FRAME.findall(dump):
        shown = places.relative_path(file)
        if shown is not None:
            frames.append(f"{shown}:{line} in {function}")
    return printed, tuple(reversed(frames))
