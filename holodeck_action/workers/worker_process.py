"""A worker process, from the side of the run. It performs one call at a time."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from holodeck_action.text.foreign import Foreign, Redact
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import cut
from holodeck_action.workers.code_errors import MAX_EXCEPTION_CHARS, MAX_SENT_CHARS, UserCodeError, UserFolders
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
from holodeck_action.workers.questions import MOST_OPEN
from holodeck_action.workers.watching import Watch

OUTPUT_KEPT = 64 * 1024
"""Maximum bytes of a call's printed output that are kept; the last bytes are kept."""

MAX_OUTPUT = 64 * 1024 * 1024
"""Maximum bytes that one call may print; then its process is killed, because reading more would slow down the run."""

_CHUNK = 64 * 1024
_DRAINS = 8
"""Maximum reads of output after an answer: enough for a full pipe, but limited, since a thread may print forever."""

_EXIT_GRACE_S = 1.0
"""Seconds to wait until a worker ends, so that exit handlers run and temporary files are removed; then it is killed."""

_KILLED_S = 5.0
"""Seconds to wait for the system to report the end of a killed process."""

OnImport = Callable[[Sequence[str]], None]
"""Called with absolute paths of imported files, which user code may have forged."""

Answering = Callable[[Any], Awaitable[Any]]
"""Called with a question of a call, a JSON value that user code may have forged; returns the answer, a JSON value. It
raises only cancellation."""


class Outcome(Struct, frozen=True):
    """The result of a call.

    Attributes:
        value: the result as a JSON value.
        output: last part of the text that the call printed, without secrets.
        spans: the call's spans (see `Recorder.end`); None if no spans were collected.
    """

    value: Any
    output: str
    spans: Any = None


class WorkerProcess:
    """A worker process. An instance must be created inside a running event loop.

    Attributes:
        reusable: whether the last call was answered, so that the worker can perform another one.
        imported_references: references of callables that the worker has imported.
        ended: future that is done when the process has ended and its resources are released.
    """

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        cwd: Path,
        server: str,
        on_import: OnImport = lambda files: None,
        interpreter: Path | None = None,
        spans: bool = False,
        watch: Watch | None = None,
        *,
        code: CodeAllowed | NoCode,
        redact: Redact,
    ) -> None:
        """Start the process.

        Args:
            folder: absolute path of the suite's folder.
            environ: the whole environment of the process.
            cwd: absolute path of the working folder.
            server: name of the module that answers in the process, such as `pool.USER_CODE`.
            on_import: called with the files of the checkout that a call has imported, before its result is returned.
            interpreter: path of the process's Python (see `ServingProcess`).
            spans: whether the process collects the spans of its calls.
            watch: the files that the process notes when it uses them; None to note none.
            code: the permission to start the process (see `KillableProcess`).
            redact: removes secrets from the process's output and errors.

        Raises:
            OSError: the process cannot be started.
        """
        self._redact = redact
        self._on_import = on_import
        self._span_request = {"spans": True} if spans else {}
        self._watch = watch
        self._watch_request = {} if watch is None else {"watch": watch.roots}
        self._span_bytes = MOST_SPAN_BYTES + ENVELOPE if spans else 0
        self.reusable = True
        self.imported_references: set[str] = set()
        self._user_folders = UserFolders(str(folder), str(cwd))
        self._loop = asyncio.get_running_loop()
        self._exit: asyncio.Future[int] = self._loop.create_future()
        self._tail = OutputTail(OUTPUT_KEPT)
        self._printed = 0
        self._calls = 0
        self._interrupted = False
        self._closing: asyncio.Task[None] | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
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
    def is_alive(self) -> bool:
        """Whether the process is running."""
        return self._process.is_alive

    async def call(
        self,
        request: Mapping[str, Any],
        timeout_s: float | None,
        max_bytes: int,
        answering: Answering | None = None,
    ) -> Outcome:
        """Have the worker perform one call.

        Args:
            request: `op`, `reference` and the operation's arguments, JSON values.
            timeout_s: time limit in seconds; None if there is no limit.
            max_bytes: maximum size of the result's content, and of each question, in bytes.
            answering: answers the questions of the call; None if it may ask none.

        Raises:
            UserCodeError: the call gave no usable result. The worker can perform other calls only if `reusable` is set.
        """
        reference = request["reference"]
        self.reusable = False
        self._calls += 1
        self._drain()
        self._tail.clear()
        self._printed = 0
        frame = pack(
            {"id": self._calls, "max_bytes": max_bytes, **self._span_request, **self._watch_request, **request}
        )
        try:
            async with asyncio.timeout(timeout_s):
                await self._loop.sock_sendall(self._connection, frame)
                answer = await self._receive_answer(frame_limit(max_bytes) + self._span_bytes, answering)
        except TimeoutError:
            self._drain()
            is_import = request["op"] in ("check", "describe")
            what = "importing it" if is_import else "it"
            remedy = "; raise limits.import_timeout_s" if is_import else ""
            raise UserCodeError(
                f"{reference}: {what} took longer than {timeout_s:g} s; its process was ended{remedy}",
                "import_timeout" if is_import else "timeout",
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
            self._on_import([file for file in files if isinstance(file, str)])
        used = answer.get("used")
        if self._watch is not None and isinstance(used, list):
            self._watch.on_use([file for file in used if isinstance(file, str)])
        if "error" in answer:
            raise _read_failure(reference, answer["error"], output, answer.get("spans"), self._redact)
        return Outcome(answer["value"], output, answer.get("spans"))

    def interrupt(self) -> None:
        """Kill the process because the run ends; the call in progress fails with code `closed`."""
        self._interrupted = True
        self._process.kill()

    def close(self) -> asyncio.Task[None]:
        """Return a task that ends the process and its descendants; no call may be in progress.

        A process whose last call was answered has time to exit before it is killed.
        """
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
        return self._closing

    async def _close(self) -> None:
        if self.reusable and self.is_alive:
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)
            await asyncio.wait([self._exit], timeout=_EXIT_GRACE_S)
        self._process.kill()
        await asyncio.wait([self._exit], timeout=_KILLED_S)
        self._loop.remove_reader(self._output)
        self._ours.close()
        self.ended.set_result(None)

    def _note_exit(self, code: int) -> None:
        self._exit.set_result(code)
        # A waiting call then ends, even if a lost child keeps the connection open.
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    async def _receive_answer(self, limit: int, answering: Answering | None) -> dict[str, Any]:
        """Return the answer to the current call, and answer the questions that come before it.

        Raises:
            EOFError: the connection has ended.
            ValueError: a message is neither a question nor an answer to the current call.
        """
        received = bytearray()
        sending = asyncio.Lock()

        async def reply(number: int, question: Any) -> None:
            assert answering is not None
            frame = pack({"ask": number, "answer": await answering(question)})
            # If the process has ended, reading its answer fails.
            with suppress(OSError):
                async with sending:
                    await self._loop.sock_sendall(self._connection, frame)

        open_questions: set[asyncio.Task[None]] = set()
        try:
            while True:
                message = await self._receive(received, limit)
                if answering is None or not isinstance(message.get("ask"), int):
                    break
                if len(open_questions) >= MOST_OPEN:
                    _, open_questions = await asyncio.wait(open_questions, return_when=asyncio.FIRST_COMPLETED)
                open_questions.add(self._loop.create_task(reply(message["ask"], message.get("question"))))
            open_questions = {task for task in open_questions if not task.done()}
        finally:
            for task in open_questions:
                task.cancel()
            if open_questions:
                await asyncio.wait(open_questions)
        if received:
            raise ValueError("more than one message")
        if not {"value", "error"} & message.keys():
            raise ValueError("a message that does not answer the call")
        # A worker with an unanswered question would take the next request for its answer.
        self.reusable = not open_questions
        return message

    async def _receive(self, buffer: bytearray, limit: int) -> dict[str, Any]:
        """Return the next message of the current call. On entry, `buffer` has the bytes received after the
        previous message; on return, those received after this message.

        Raises:
            EOFError: the connection has ended.
            ValueError: the message does not belong to the current call.
        """
        while True:
            size = int.from_bytes(buffer[:HEADER], "big") if len(buffer) >= HEADER else 0
            if size > limit:
                raise ValueError(f"a message of {size} bytes")
            if len(buffer) - size >= HEADER:
                break
            part = await self._loop.sock_recv(self._connection, _CHUNK)
            if not part:
                raise EOFError
            buffer += part
        answer = Foreign(bytes(buffer[HEADER : HEADER + size])).parse(unpack, ValueError)
        del buffer[: HEADER + size]
        if not isinstance(answer, dict) or answer.get("id") != self._calls:
            raise ValueError("a message that does not answer the call")
        return answer

    async def _end_error(self, reference: str) -> UserCodeError:
        """Return the error for a call without an answer, because the process or its connection has ended."""
        await asyncio.wait([self._exit], timeout=_EXIT_GRACE_S)
        self._drain()
        output, frames = _split_fatal_dump(self._output_so_far(), self._user_folders)
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
        """Read some of the printed output, without waiting; return whether there may be more."""
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
        return self._tail.content().without_secrets(self._redact)

    def _drain(self) -> None:
        for _ in range(_DRAINS):
            if not self._read_output():
                return


def _read_failure(reference: str, error: Any, output: str, spans: Any, redact: Redact) -> UserCodeError:
    """Return the error that a worker has sent. Every part is checked, because user code may have forged it."""
    facts = error if isinstance(error, dict) else {}

    def fact(name: str) -> str:
        found = Foreign.of_text(str(facts.get(name, "")), MAX_SENT_CHARS)
        return cut(found.without_secrets(redact), MAX_EXCEPTION_CHARS)

    frames, code = facts.get("traceback"), str(facts.get("code"))
    exception_text = " ".join(fact("exception_text").split())
    return UserCodeError(
        f"{reference}: {fact('message')}{exception_text}{fact('suffix')}",
        code,
        type=fact("type"),
        # The argument of `sys.exit` is not the text of an exception.
        text=exception_text if facts.get("type") and code != "exited" else "",
        traceback=tuple(str(frame) for frame in frames) if isinstance(frames, list) else (),
        output=output,
        transient=facts.get("transient") is True,
        spans=spans,
    )


_FATAL = "Fatal Python error: "
_FATAL_FRAME = lazy_pattern(r'^  File "(.+)", line (\d+) in (\S+)$', re.MULTILINE)


def _split_fatal_dump(output: str, user_folders: UserFolders) -> tuple[str, tuple[str, ...]]:
    """Split Python's crash dump from printed output.

    Returns:
        The output before the dump, and the stack frames of user code in the dump, innermost last.
    """
    printed, found, dump = output.rpartition(_FATAL)
    if not found:
        return output, ()
    frames = []
    for file, line, function in _FATAL_FRAME.findall(dump):
        shown = user_folders.relative_path(file)
        if shown is not None:
            frames.append(f"{shown}:{line} in {function}")
    return printed, tuple(reversed(frames))
