"""Calls from the main process to the process in which DeepEval and Azure AI Evaluation run.

Both libraries read settings, keys and URLs from many sources, write files, and take seconds to import. In their own
process they have a controlled environment and do not affect the main process. The main process makes the model calls:
every evaluation has its own connection, over which the library's questions arrive. The evaluation's judge answers them
in the evaluation's context, so that deadlines, budget, meter and spans apply as usual.

Messages are framed JSON (`workers.frames`). This process sends the request `{op, …}`, then answers `{ask, …}`. The
other process (`libraries_serving`) sends questions `{ask, arguments}`, and finally `{value}` or `{error}`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from holodeck_action.llm.limits.pauses import pause_all_clocks
from holodeck_action.metrics.base import describe
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.text.foreign import Foreign, ForeignError
from holodeck_action.text.plain import line_or_length
from holodeck_action.workers.code_errors import MAX_SENT_CHARS
from holodeck_action.workers.frames import HEADER, pack, unpack
from holodeck_action.workers.permission import NO_CODE
from holodeck_action.workers.processes import ServingProcess, exit_phrase

if TYPE_CHECKING:
    from holodeck_action.llm.judge import JudgeAnswer, JudgeModel

_SERVER = "holodeck_action.metrics.judging.libraries_serving"
_ROOT = Path("/")

_PASSED = ("HOME", "LANG", "PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "TZ", "VIRTUAL_ENV")
"""Environment variables that the libraries' process receives in addition to variables for Python and the locale. Other
variables could change the libraries' behaviour.
"""

_SETTINGS = {
    # Sets of names then have the same order in every process.
    "PYTHONHASHSEED": "0",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "DEEPEVAL_DISABLE_LEGACY_KEYFILE": "1",
    # The evaluator and the wire handle deadlines and retries.
    "DEEPEVAL_DISABLE_TIMEOUTS": "1",
    "DEEPEVAL_RETRY_MAX_ATTEMPTS": "1",
}

_MOST_CONCURRENT = 256
"""Maximum number of concurrent evaluations per event loop; each uses a file descriptor."""

_LONGEST_ERROR = 500
"""Maximum characters of a library's error message."""
_MOST_MESSAGE = 256_000_000
"""Maximum bytes of one message."""
_GRACE_S = 5.0
"""Seconds within which the process must react to the cancellation of an evaluation. Otherwise it is killed."""


class LibraryError(Exception):
    """A library raised an exception; the message is its type and text on one line."""


class NoProbabilitiesError(Exception):
    """A question requires log probabilities, but the judge is known not to support them."""


class LibraryJudge(Protocol):
    """The interface of judges that the libraries' metrics use."""

    @property
    def label(self) -> str:
        """The judge's name, such as `openai/gpt-6.1-sol`."""
        ...

    @property
    def gives_probabilities(self) -> bool:
        """Whether the judge supports log probabilities, as far as is known."""
        ...

    async def ask(self, prompt: str, *, needs_probabilities: bool = False, **options: Any) -> JudgeAnswer:
        """Ask one question; see `JudgeModel.ask`.

        Raises:
            NoProbabilitiesError: `needs_probabilities` is true, but the judge is known not to support log
                probabilities.
        """
        ...


class LocalJudge:
    """A judge that is called in this process."""

    def __init__(self, judge: JudgeModel) -> None:
        self._judge = judge
        self.label = judge.label

    @property
    def gives_probabilities(self) -> bool:
        """Whether the judge supports log probabilities, as far as is known."""
        return self._judge.gives_probabilities

    async def ask(self, prompt: str, *, needs_probabilities: bool = False, **options: Any) -> JudgeAnswer:
        """Ask one question; see `LibraryJudge.ask`."""
        if needs_probabilities and not self._judge.gives_probabilities:
            raise NoProbabilitiesError
        return await self._judge.ask(prompt, **options)


class _LibraryProcess:
    """The libraries' process, usable from all threads and event loops. It ends when the main process ends."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Start the process.

        Raises:
            OSError: the process cannot be started.
        """
        self._process = ServingProcess(_SERVER, _ROOT, _environment(environ), cwd=_ROOT, code=NO_CODE)
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self.imported: set[str] = set()
        self.importing: dict[str, socket.socket] = {}
        weakref.finalize(self, _end_process, self._process, self._owner)

    @property
    def is_usable(self) -> bool:
        """Whether the process runs, and this process was not forked after its start."""
        return self._owner == os.getpid() and self._process.is_alive

    def connect(self) -> socket.socket:
        """Open a connection for one evaluation.

        Raises:
            OSError: the process has ended.
        """
        here, there = socket.socketpair()
        with there:
            try:
                with self._lock:
                    socket.send_fds(self._process.connection, [b"+"], [there.fileno()])
            except OSError:
                here.close()
                raise
        return here

    def expect_end(self, connection: socket.socket) -> None:
        """Notify the process that an evaluation was cancelled; the process is killed if it does not react."""
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        timer = threading.Timer(_GRACE_S, self._check_end, (connection,))
        timer.daemon = True
        timer.start()

    def _check_end(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        with connection:
            try:
                while connection.recv(1 << 16):
                    pass
            except BlockingIOError:
                self._process.kill()
            except OSError:
                pass

    def kill_and_describe(self) -> str:
        """Kill the process if it still runs, and return how it ended."""
        with self._lock:
            self._process.kill()
            return exit_phrase(self._process.reap())


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    seen = {name: value for name, value in environ.items() if name in _PASSED or name.startswith(("LC_", "PYTHON"))}
    if "PYTHONPATH" in seen:
        seen["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, seen["PYTHONPATH"].split(os.pathsep)))
    return {**seen, **_SETTINGS}


def _end_process(process: ServingProcess, owner: int) -> None:
    if os.getpid() == owner:
        process.kill()
        process.reap()
    process.disconnect()


_start_lock = threading.Lock()
_running: _LibraryProcess | None = None


def _start_process() -> _LibraryProcess:
    """Return the process; start it if it does not run.

    Raises:
        EvaluationError: the process cannot be started (code `cannot_start`).
    """
    global _running
    with _start_lock:
        if _running is None or not _running.is_usable:
            try:
                _running = _LibraryProcess(os.environ)
            except OSError as error:
                raise EvaluationError(
                    f"the process of the grading libraries cannot be started: {error.strerror or error}",
                    code="cannot_start",
                ) from None
        return _running


def begin_import(library: str) -> None:
    """Start to import a library in the libraries' process, without waiting for it; see `import_library`."""
    with suppress(EvaluationError, OSError):
        process = _start_process()
        if library not in process.imported and library not in process.importing:
            process.importing[library] = connection = process.connect()
            connection.sendall(pack({"op": "import", "library": library}))


async def import_library(library: str) -> None:
    """Import a library in the libraries' process; the first import takes seconds.

    Errors of the import are raised by evaluations with the library, not here.
    """
    with suppress(EvaluationError):
        process = _start_process()
        if library not in process.imported:
            await _request_evaluation(process, {"op": "import", "library": library}, None)
            process.imported.add(library)
            if (connection := process.importing.pop(library, None)) is not None:
                connection.close()


async def evaluate_in_library(library: str, request: Mapping[str, Any], judge: JudgeModel | None) -> Any:
    """Evaluate with a library; a judge answers its questions.

    The time limit does not include starting the process, importing the library, and waiting for other evaluations.

    Args:
        library: the library's name.
        request: JSON values; see `evaluate` in the module `measuring` of its extension.
        judge: the model that answers the library's questions; None if the library has no questions.

    Returns:
        The JSON value that `evaluate` returns.

    Raises:
        EvaluationError: the evaluation failed (code `crashed` if the process ended).
        LibraryError: the library raised an exception.
        Exception: any exception that the judge raised.
    """
    with pause_all_clocks():
        await import_library(library)
        slots = _evaluation_slots()
        await slots.acquire()
    try:
        known = {} if judge is None else {"judge": judge.label, "gives_probabilities": judge.gives_probabilities}
        return await _request_evaluation(
            _start_process(), {"op": "evaluate", "library": library, **known, **request}, judge
        )
    finally:
        slots.release()


def compute_in_library(library: str, request: Mapping[str, Any]) -> Any:
    """Compute a metric with a library that needs no judge; this blocks the thread.

    Raises:
        EvaluationError: see `evaluate_in_library`.
        LibraryError: the library raised an exception.
    """
    process = _start_process()
    received = bytearray()
    with _connect(process) as connection:
        try:
            connection.sendall(pack({"op": "evaluate", "library": library, **request}))
            while len(received) <= HEADER + _MOST_MESSAGE and (part := connection.recv(1 << 16)):
                received += part
        except OSError:
            # The process has ended; an incomplete message is detected below.
            pass
    if len(received) < HEADER or len(received) != HEADER + int.from_bytes(received[:HEADER], "big"):
        raise _crash_error(process)
    message = _parse_message(bytes(received[HEADER:]))
    if message is None:
        raise _crash_error(process)
    return _result_value(message, {}, None)


def _connect(process: _LibraryProcess) -> socket.socket:
    try:
        return process.connect()
    except OSError:
        raise _crash_error(process) from None


def _crash_error(process: _LibraryProcess) -> EvaluationError:
    return EvaluationError(
        f"the process of the grading libraries {process.kill_and_describe()} before it finished", code="crashed"
    )


_slots_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = weakref.WeakKeyDictionary()


def _evaluation_slots() -> asyncio.Semaphore:
    return _slots_by_loop.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_MOST_CONCURRENT))


async def _request_evaluation(process: _LibraryProcess, request: Mapping[str, Any], judge: JudgeModel | None) -> Any:
    failed: dict[int, Exception] = {}
    frame = pack(dict(request))
    reader, writer = await asyncio.open_connection(sock=_connect(process))
    try:
        writer.write(frame)
        # Judges answer concurrently, in the context of this evaluation.
        async with asyncio.TaskGroup() as group:
            answers = set()
            while (message := await _read_message(reader)) is not None and "ask" in message:
                assert judge is not None
                answers.add(group.create_task(_answer_question(message, judge, writer, failed)))
            for answer in answers:
                answer.cancel()
    except asyncio.CancelledError:
        if request["op"] == "evaluate":
            process.expect_end(writer.get_extra_info("socket").dup())
        raise
    finally:
        writer.transport.abort()
    if message is None:
        raise _crash_error(process)
    return _result_value(message, failed, judge)


async def _read_message(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Return the next message; None if the process has ended."""
    try:
        size = int.from_bytes(await reader.readexactly(HEADER), "big")
        return None if size > _MOST_MESSAGE else _parse_message(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def _parse_message(data: bytes) -> dict[str, Any] | None:
    """Return a parsed message; None if it is invalid, which means that the process is broken."""
    with suppress(ForeignError):
        found = Foreign(data).parse(unpack)
        if isinstance(found, dict):
            return found
    return None


async def _answer_question(
    question: Mapping[str, Any], judge: JudgeModel, writer: asyncio.StreamWriter, failed: dict[int, Exception]
) -> None:
    number = question["ask"]
    reply: dict[str, Any]
    try:
        answer = await LocalJudge(judge).ask(**question["arguments"])
        reply = {
            "text": answer.text,
            "truncated": answer.truncated,
            "tokens": answer.tokens and [(token.token, token.logprob, token.alternatives) for token in answer.tokens],
        }
    except NoProbabilitiesError:
        reply = {"no_probabilities": True}
    except Exception as error:  # noqa: BLE001 - it is raised at the end of the evaluation
        failed[number] = error
        reply = {"failed": describe(error)}
    writer.write(pack({"ask": number, **reply}))


def _result_value(message: Mapping[str, Any], failed: Mapping[int, Exception], judge: JudgeModel | None) -> Any:
    error = message.get("error")
    if error is None:
        return message["value"]
    if "asked" in error:
        raise failed[error["asked"]]
    if "code" in error:
        raise EvaluationError(error["message"], code=error["code"], context=error["context"])
    if judge is None:
        raise LibraryError(line_or_length(error["message"], MAX_SENT_CHARS - 1))
    raise LibraryError(Foreign.of_text(error["message"], MAX_SENT_CHARS).short_line(judge.redact, _LONGEST_ERROR))
