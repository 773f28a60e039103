"""The libraries' process, which evaluates and sends questions for judges to the main process (see `libraries`).

The main process sends a new connection for each evaluation over the connection of this process. It closes the new
connection early to cancel the evaluation.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from holodeck_action.llm.judge import JudgeAnswer
from holodeck_action.llm.messages import TokenProbability
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.libraries import NoProbabilitiesError
from holodeck_action.seam import registry
from holodeck_action.suite.yaml.garbage_collection import pause_garbage_collection
from holodeck_action.workers.code_errors import MAX_SENT_CHARS
from holodeck_action.workers.frames import HEADER, pack, unpack


def serve(connection: int, folder: str) -> None:
    """Serve evaluations until the connection is closed."""
    asyncio.run(_accept(socket.socket(fileno=connection)))
    # Exit without the libraries' cleanup, which is not needed.
    os._exit(0)


async def _accept(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    conversations = set()

    def accept() -> None:
        data, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
        if not data:
            loop.remove_reader(connection)
            ended.set()
        for descriptor in descriptors:
            task = loop.create_task(_converse(socket.socket(fileno=descriptor)))
            conversations.add(task)
            task.add_done_callback(conversations.discard)

    loop.add_reader(connection, accept)
    await ended.wait()


async def _converse(connection: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=connection)
    try:
        request = await _read_message(reader)
        judge = RemoteJudge(request.get("judge", ""), request.get("gives_probabilities", False), writer)
        work = asyncio.create_task(_evaluate(request, judge, writer))
        try:
            while True:
                judge.take_answer(await _read_message(reader))
        finally:
            work.cancel()
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


async def _read_message(reader: asyncio.StreamReader) -> Any:
    size = int.from_bytes(await reader.readexactly(HEADER), "big")
    return unpack(await reader.readexactly(size))


async def _evaluate(request: Mapping[str, Any], judge: RemoteJudge, writer: asyncio.StreamWriter) -> None:
    try:
        measuring = _load_measuring(request["library"])
        if isinstance(measuring, EvaluationError):
            raise measuring
        value = None if request["op"] == "import" else await measuring.evaluate(request, judge)
        reply = pack({"value": value})
    except Exception as error:  # noqa: BLE001 - it is told on the other side
        reply = pack({"error": _error_data(error)})
    writer.write(reply)
    if writer.can_write_eof():
        writer.write_eof()


@cache
def _load_measuring(library: str) -> ModuleType | EvaluationError:
    """Return the imported module that evaluates with a library; if the import fails, every call returns the error."""
    try:
        # Without this up to a quarter of the import time would be garbage collection.
        with pause_garbage_collection(freeze=True):
            return import_module(registry.libraries()[library].measuring)
    except EvaluationError as error:
        return error


def _error_data(error: Exception) -> dict[str, Any]:
    """Return an error as a JSON object: the number of an unanswered question, or message, code and context, or only a
    message.
    """
    # DeepEval wraps some errors.
    own = next(
        (each for each in (error.__cause__, error) if isinstance(each, UnansweredError | EvaluationError)), error
    )
    if isinstance(own, UnansweredError):
        return {"asked": own.number}
    if isinstance(own, EvaluationError):
        return {"message": own.message, "code": own.code, "context": dict(own.context)}
    return {"message": f"{type(error).__name__}: {error}"[:MAX_SENT_CHARS]}


class UnansweredError(Exception):
    """A judge gave no answer; the main process knows the reason.

    Attributes:
        number: number of the question.
    """

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


class RemoteJudge:
    """Forwards questions to a judge in the main process; it has the interface of `LibraryJudge`."""

    def __init__(self, label: str, gives_probabilities: bool, writer: asyncio.StreamWriter) -> None:
        self.label = label
        self.gives_probabilities = gives_probabilities
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._asked = 0

    async def ask(self, prompt: str, **options: Any) -> JudgeAnswer:
        """Ask one question; see `LibraryJudge.ask`.

        Raises:
            UnansweredError: there is no answer.
            NoProbabilitiesError: see `LibraryJudge.ask`.
        """
        self._asked += 1
        number = self._asked
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write(pack({"ask": number, "arguments": {"prompt": prompt, **options}}))
        answer = await waiting
        if "no_probabilities" in answer:
            raise NoProbabilitiesError
        if "failed" in answer:
            raise UnansweredError(number, answer["failed"])
        tokens = answer["tokens"]
        return JudgeAnswer(
            text=answer["text"],
            structured="schema" in options,
            tokens=None if tokens is None else tuple(map(_parse_token, tokens)),
            model="",
            truncated=answer["truncated"],
        )

    def take_answer(self, message: Mapping[str, Any]) -> None:
        """Pass an answer to the caller of `ask`, if the caller still waits for it."""
        waiting = self._waiting.pop(message["ask"])
        if not waiting.done():
            waiting.set_result(message)


def _parse_token(value: Any) -> TokenProbability:
    token, logprob, alternatives = value
    return TokenProbability(token, logprob, tuple((other, each) for other, each in alternatives))
