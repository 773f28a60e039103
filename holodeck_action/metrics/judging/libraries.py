"""The process in which DeepEval and Azure AI Evaluation run, as seen from here.

Both libraries read settings, keys and addresses wherever they find them, write files, and take seconds to import. In a
process of their own they see an environment that is made for them, and nothing of theirs is left in this one. Model
calls stay here: every evaluation has its own connection, over which the library's questions come; the evaluation's
judge answers them in the evaluation's own context, so that deadlines, budget, meter and spans count as everywhere.

Messages are framed JSON (`workers.frames`). Here to there: the request `{op, …}`, then answers `{ask, …}`. There to
here: questions `{ask, arguments}`, at the end `{value}` or `{error}`. `libraries_serving` is the other side.
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

from holodeck_action.llm.limits.pauses import uncharged
from holodeck_action.metrics.base import describe
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.text.foreign import Foreign, ForeignError
from holodeck_action.text.plain import whole
from holodeck_action.workers.code_errors import SENT_WORDS
from holodeck_action.workers.frames import HEADER, pack, unpack
from holodeck_action.workers.permission import NO_CODE
from holodeck_action.workers.processes import ServingProcess, exit_phrase

if TYPE_CHECKING:
    from holodeck_action.llm.judge import JudgeAnswer, JudgeModel

_SERVER = "holodeck_action.metrics.judging.libraries_serving"
_ROOT = Path("/")

_SEEN = ("HOME", "LANG", "PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "TZ", "VIRTUAL_ENV")
"""Variables that the libraries see, beside those of Python and of the locale; all others could change what they do."""

_SETTINGS = {
    # The order of a set of names is the same in every process.
    "PYTHONHASHSEED": "0",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "DEEPEVAL_DISABLE_LEGACY_KEYFILE": "1",
    # Deadlines and retries are the evaluator's and the wire's.
    "DEEPEVAL_DISABLE_TIMEOUTS": "1",
    "DEEPEVAL_RETRY_MAX_ATTEMPTS": "1",
}

_AT_ONCE = 256
"""Evaluations of one event loop at the same time: each holds a file descriptor."""

_LONGEST_ERROR = 500
"""Characters of what an exception of a library says."""
_MOST_MESSAGE = 256_000_000
"""Bytes of one message."""
_GRACE_S = 5.0
"""How long the process may take to notice that nobody waits for an evaluation any more."""


class LibraryError(Exception):
    """An exception of a library: its type and text on one line."""


class NoProbabilitiesError(Exception):
    """A judge that shall give log probabilities is known to give none."""


class AskedJudge(Protocol):
    """A judge as the libraries' metrics ask it."""

    @property
    def label(self) -> str:
        """Its name, such as `openai/gpt-4o`."""
        ...

    @property
    def gives_probabilities(self) -> bool:
        """Whether log probabilities can be asked for, as far as is known."""
        ...

    async def ask(self, prompt: str, *, needs_probabilities: bool = False, **options: Any) -> JudgeAnswer:
        """Ask one question; see `JudgeModel.ask`.

        Raises:
            NoProbabilitiesError: it `needs_probabilities`, and by now the judge is known to give none.
        """
        ...


class LocalJudge:
    """A judge that is asked in this process."""

    def __init__(self, judge: JudgeModel) -> None:
        self._judge = judge
        self.label = judge.label

    @property
    def gives_probabilities(self) -> bool:
        """Whether log probabilities can be asked for, as far as is known."""
        return self._judge.gives_probabilities

    async def ask(self, prompt: str, *, needs_probabilities: bool = False, **options: Any) -> JudgeAnswer:
        """Ask one question; see `AskedJudge.ask`."""
        if needs_probabilities and not self._judge.gives_probabilities:
            raise NoProbabilitiesError
        return await self._judge.ask(prompt, **options)


class _LibraryProcess:
    """The process, usable from any thread and any event loop; it ends with this one, however this one ends."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Start it.

        Raises:
            OSError: it cannot be started.
        """
        self._process = ServingProcess(_SERVER, _ROOT, _environment(environ), cwd=_ROOT, code=NO_CODE)
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self.imported: set[str] = set()
        self.importing: dict[str, socket.socket] = {}
        weakref.finalize(self, _end, self._process, self._owner)

    @property
    def usable(self) -> bool:
        """Whether it runs, and is not that of a process from which this one was forked."""
        return self._owner == os.getpid() and self._process.alive

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
        """Tell it that nobody waits for an evaluation any more; it is killed if it does not notice."""
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

    def how_it_ended(self) -> str:
        """Kill it unless it has ended; return how it ended."""
        with self._lock:
            self._process.kill()
            return exit_phrase(self._process.reap())


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    seen = {name: value for name, value in environ.items() if name in _SEEN or name.startswith(("LC_", "PYTHON"))}
    if "PYTHONPATH" in seen:
        seen["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, seen["PYTHONPATH"].split(os.pathsep)))
    return {**seen, **_SETTINGS}


def _end(process: ServingProcess, owner: int) -> None:
    if os.getpid() == owner:
        process.kill()
        process.reap()
    process.disconnect()


_starting = threading.Lock()
_running: _LibraryProcess | None = None


def _started() -> _LibraryProcess:
    """Return the process; start it where there is none, or the last one has ended.

    Raises:
        EvaluationError: it cannot be started (code `cannot_start`).
    """
    global _running
    with _starting:
        if _running is None or not _running.usable:
            try:
                _running = _LibraryProcess(os.environ)
            except OSError as error:
                raise EvaluationError(
                    f"no process can be started for the libraries that grade: {error.strerror or error}",
                    code="cannot_start",
                ) from None
        return _running


def begin(library: str) -> None:
    """Start the process and have it import a library, without waiting for it; see `ready`."""
    with suppress(EvaluationError, OSError):
        process = _started()
        if library not in process.imported and library not in process.importing:
            process.importing[library] = connection = process.connect()
            connection.sendall(pack({"op": "import", "library": library}))


async def ready(library: str) -> None:
    """Start the process and import a library there, which takes seconds the first time.

    What goes wrong is told by the evaluations that need it: nothing is raised.
    """
    with suppress(EvaluationError):
        process = _started()
        if library not in process.imported:
            await _asked(process, {"op": "import", "library": library}, None)
            process.imported.add(library)
            if (connection := process.importing.pop(library, None)) is not None:
                connection.close()


async def evaluated(library: str, request: Mapping[str, Any], judge: JudgeModel) -> Any:
    """Have a library evaluate; a judge answers its questions.

    Starting the process, importing the library and waiting for others are no time of the evaluation.

    Args:
        library: which one.
        request: JSON values; see `evaluate` in the module `measuring` of its extension.
        judge: who is asked.

    Returns:
        What that function returns, as JSON.

    Raises:
        EvaluationError: it could not be evaluated (code `crashed` where the process ended).
        LibraryError: the library raised something.
        Exception: what the judge raised.
    """
    with uncharged():
        await ready(library)
        slots = _slots()
        await slots.acquire()
    try:
        known = {"judge": judge.label, "gives_probabilities": judge.gives_probabilities}
        return await _asked(_started(), {"op": "evaluate", "library": library, **known, **request}, judge)
    finally:
        slots.release()


def computed(library: str, request: Mapping[str, Any]) -> Any:
    """Have a library compute what needs no judge; this thread waits.

    Raises:
        EvaluationError: see `evaluated`.
        LibraryError: the library raised something.
    """
    process = _started()
    received = bytearray()
    with _connected(process) as connection:
        try:
            connection.sendall(pack({"op": "evaluate", "library": library, **request}))
            while len(received) <= HEADER + _MOST_MESSAGE and (part := connection.recv(1 << 16)):
                received += part
        except OSError:
            # It has ended: what is missing tells.
            pass
    if len(received) < HEADER or len(received) != HEADER + int.from_bytes(received[:HEADER], "big"):
        raise _crashed(process)
    message = _message(bytes(received[HEADER:]))
    if message is None:
        raise _crashed(process)
    return _value(message, {}, None)


def _connected(process: _LibraryProcess) -> socket.socket:
    try:
        return process.connect()
    except OSError:
        raise _crashed(process) from None


def _crashed(process: _LibraryProcess) -> EvaluationError:
    return EvaluationError(
        f"the process of the libraries that grade {process.how_it_ended()} before it had finished", code="crashed"
    )


_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = weakref.WeakKeyDictionary()


def _slots() -> asyncio.Semaphore:
    return _by_loop.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_AT_ONCE))


async def _asked(process: _LibraryProcess, request: Mapping[str, Any], judge: JudgeModel | None) -> Any:
    failed: dict[int, Exception] = {}
    frame = pack(dict(request))
    reader, writer = await asyncio.open_connection(sock=_connected(process))
    try:
        writer.write(frame)
        # Answers are found in the context of this evaluation, several at once.
        async with asyncio.TaskGroup() as group:
            answers = set()
            while (message := await _received(reader)) is not None and "ask" in message:
                assert judge is not None
                answers.add(group.create_task(_answer(message, judge, writer, failed)))
            for answer in answers:
                answer.cancel()
    except asyncio.CancelledError:
        if judge is not None:
            process.expect_end(writer.get_extra_info("socket").dup())
        raise
    finally:
        writer.transport.abort()
    if message is None:
        raise _crashed(process)
    return _value(message, failed, judge)


async def _received(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Return the next message; None when none will come."""
    try:
        size = int.from_bytes(await reader.readexactly(HEADER), "big")
        return None if size > _MOST_MESSAGE else _message(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def _message(data: bytes) -> dict[str, Any] | None:
    """Read a message; None if it is none, as of a process that is broken."""
    with suppress(ForeignError):
        found = Foreign(data).parse(unpack)
        if isinstance(found, dict):
            return found
    return None


async def _answer(
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


def _value(message: Mapping[str, Any], failed: Mapping[int, Exception], judge: JudgeModel | None) -> Any:
    error = message.get("error")
    if error is None:
        return message["value"]
    if "asked" in error:
        raise failed[error["asked"]]
    if "code" in error:
        raise EvaluationError(error["message"], code=error["code"], context=error["context"])
    if judge is None:
        raise LibraryError(whole(error["message"], SENT_WORDS - 1))
    raise LibraryError(Foreign.of_text(error["message"], SENT_WORDS).words(judge.redact, _LONGEST_ERROR))
