"""The fake models without a socket: they answer in the loop of who asks, and in its time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2

from tests.llm.models.connection import Incoming, Outgoing, arriving
from tests.llm.models.server import FakeModels


class InMemory(httpx2.AsyncBaseTransport):
    """Brings requests to models that are not served."""

    def __init__(self, models: FakeModels) -> None:
        self._models = models

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answers: list[Outgoing] = []

        async def keep(outgoing: Outgoing) -> None:
            answers.append(outgoing)

        url = request.url
        incoming = Incoming(request.method, url.path, dict(url.params), dict(request.headers), request.content)
        await self._models.respond(incoming, keep, ollama=str(url).startswith(self._models.ollama_url))
        (answer,) = answers
        assert answer.wire in (None, "malformed", "stall"), "a connection that breaks needs a socket"
        return httpx2.Response(answer.status, headers=answer.headers, stream=_Body(answer))


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: Outgoing) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in arriving(self._answer):
            yield piece
            await asyncio.sleep(self._answer.pause)
        if self._answer.wire == "stall":
            await asyncio.get_running_loop().create_future()
