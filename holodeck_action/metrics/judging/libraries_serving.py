"""The side of `libraries` in the process of its own: evaluates, and asks back what judges shall say.

Each evaluation comes as a connection of its own, sent over that of the process; when it closes, nobody waits for the
evaluation any more.
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
from holodeck_action.suite.yaml.garbage import without_collections
from holodeck_action.workers.code_errors import SENT_WORDS
from holodeck_action.workers.frames import HEADER, pack, unpack


def serve(connection: int, folder: str) -> None:
    """Evaluate until the connection ends."""
    asyncio.run(_accept(socket.socket(fileno=connection)))
    # What the libraries do at the end of a program is of no use.
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
        request = await _received(reader)
        judge = RemoteJudge(request.get("judge", ""), request.get("gives_probabilities", False), writer)
        work = asyncio.create_task(_work(request, judge, writer))
        try:
            while True:
                judge.answered(await _received(reader))
        finally:
            work.cancel()
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


async def _received(reader: asyncio.StreamReader) -> Any:
    size = int.from_bytes(await reader.readexactly(HEADER), "big")
    return unpack(await reader.readexactly(size))


async def _work(request: Mapping[str, Any], judge: RemoteJudge, writer: asyncio.StreamWriter) -> None:
    try:
        measuring = _measuring(request["library"])
        if isinstance(measuring, EvaluationError):
            raise measuring
        value = None if request["op"] == "import" else await measuring.evaluate(request, judge)
        reply = pack({"value": value})
    except Exception as error:  # noqa: BLE001 - it is told on the other side
        reply = pack({"error": _told(error)})
    writer.write(reply)
    if writer.can_write_eof():
        writer.write_eof()


@cache
def _measuring(library: str) -> ModuleType | EvaluationError:
    """Import what evaluates by a library; what went wrong once goes wrong for good."""
    try:
        # Else up to a quarter of the import would be the search for garbage in what stays.
        with without_collections(to_the_end=True):
            return import_module(registry.libraries()[library].measuring)
    except EvaluationError as error:
        return error


def _told(error: Exception) -> dict[str, Any]:
    """Return an error as JSON: by the number of the question that failed, by code, or as text."""
    # DeepEval wraps errors that hold certain words.
    own = next((each for each in (error.__cause__, error) if isinstance(each, AskedError | EvaluationError)), error)
    if isinstance(own, AskedError):
        return {"asked": own.number}
    if isinstance(own, EvaluationError):
        return {"message": own.message, "code": own.code, "context": dict(own.context)}
    return {"message": f"{type(error).__name__}: {error}"[:SENT_WORDS]}


class AskedError(Exception):
    """A judge gave no answer; why, is known on the other side.

    Attributes:
        number: of the question.
    """

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


class RemoteJudge:
    """A judge on the other side of a connection, asked as a `JudgeModel` is."""

    def __init__(self, label: str, gives_probabilities: bool, writer: asyncio.StreamWriter) -> None:
        self.label = label
        self.gives_probabilities = gives_probabilities
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._asked = 0

    async def ask(self, prompt: str, **options: Any) -> JudgeAnswer:
        """Ask one question; see `AskedJudge.ask`.

        Raises:
            AskedError: there is no answer.
            NoProbabilitiesError: see there.
        """
        self._asked += 1
        number = self._asked
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write(pack({"ask": number, "arguments": {"prompt": prompt, **options}}))
        answer = await waiting
        if "no_probabilities" in answer:
            raise NoProbabilitiesError
        if "failed" in answer:
            raise AskedError(number, answer["failed"])
        tokens = answer["tokens"]
        return JudgeAnswer(
            text=answer["text"],
            structured="schema" in options,
            tokens=None if tokens is None else tuple(map(_token, tokens)),
            model="",
            truncated=answer["truncated"],
        )

    def answered(self, message: Mapping[str, Any]) -> None:
        """Take an answer; nobody may wait for it any more."""
        waiting = self._waiting.pop(message["ask"])
        if not waiting.done():
            waiting.set_result(message)


def _token(listed: Any) -> TokenProbability:
    token, logprob, alternatives = listed
    return TokenProbability(token, logprob, tuple((other, each) for other, each in alternatives))
