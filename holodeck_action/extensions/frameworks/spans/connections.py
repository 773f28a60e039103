"""Connections over which spans come: HTTP on this machine's loopback address, bounded in number, time and memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

import h11
from msgspec import Struct

from holodeck_action.extensions.frameworks.spans.otlp import MOST_BODY
from holodeck_action.text.foreign import Foreign

HOST = "127.0.0.1"
_MOST_CONNECTIONS = 64
_MOST_HELD = 4 * MOST_BODY
"""Bytes of bodies that are held at a time, of all connections."""
_IDLE_S = 60.0
"""How long a connection may be without a request; the longest idle one makes room for a new one."""
_PART_S = 5.0
"""How long each part of a request, and the taking of an answer, may take."""
_REQUEST_S = 30.0
"""How long a whole request may take to come."""
_CLOSING_S = 1.0
"""How long a client may go on sending what is not read any more, so that it gets its answer."""
_EVENTS_AT_ONCE = 100


class Answer(Struct, frozen=True):
    """An answer; without a `kind` the text is a sentence."""

    status: int
    text: str
    kind: str = "text/plain; charset=utf-8"


class Head(Struct, frozen=True):
    """What the first lines of a request say; `host` is empty if it is missing."""

    method: str
    path: str
    host: str
    kind: str
    encoding: str


Take = Callable[[Foreign], Awaitable[Answer]]
"""Takes the body of a request."""
Begin = Callable[[Head], Answer | Take]
"""Refuses a request by its head, or returns what takes its body."""


class Connections:
    """The open connections."""

    def __init__(self, begin: Begin) -> None:
        """Prepare; nothing is opened yet."""
        self._begin = begin
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], _Connection] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def open(self, port: int) -> int:
        """Listen at a port, 0 for any that is free; return it.

        Raises:
            OSError: it is in use.
        """
        self._server = await asyncio.start_server(self._serve, HOST, port)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def close(self) -> None:
        """Listen no more, and close the connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in (*self._open, *self._ending):
            task.cancel()
        await asyncio.gather(*self._open, *self._ending, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= _MOST_CONNECTIONS and not self._close_one(self._open.items()):
            writer.transport.abort()
            return
        self._open[task] = connection = _Connection(self, self._begin, reader, writer)
        try:
            await connection.exchange()
            await connection.end()
        except (OSError, TimeoutError, h11.LocalProtocolError, asyncio.CancelledError):
            # Nobody but this class cancels it, and the server would report that.
            pass
        finally:
            self._open.pop(task, None)
            self._ending.discard(task)
            writer.transport.abort()

    def hold(self, connection: _Connection, size: int) -> bool:
        """Tell whether there is room for so much more of a request; who has sent one for longest must make it."""
        while sum(each.held for each in self._open.values()) + size > _MOST_HELD:
            if not self._close_one(each for each in self._open.items() if each[1].held and each[1] is not connection):
                return False
        connection.held += size
        return True

    def _close_one(self, candidates: Iterable[tuple[asyncio.Task[None], _Connection]]) -> bool:
        """Close one connection that waits for its client, an idle one first; tell whether there is one."""
        waiting = [(each.begun, each.since, task) for task, each in candidates if not each.working]
        if not waiting:
            return False
        task = min(waiting, key=lambda each: each[:2])[2]
        del self._open[task]
        self._ending.add(task)
        task.cancel()
        return True


class _Connection:
    """One connection.

    Attributes:
        begun: whether a part of a request has come.
        since: when the last request ended, or this one began, by the loop's clock.
        working: whether a request has come and is not answered yet.
        held: bytes of the body that have come.
    """

    def __init__(
        self, all_of_them: Connections, begin: Begin, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._all = all_of_them
        self._begin = begin
        self._reader = reader
        self._writer = writer
        self._state = h11.Connection(h11.SERVER)
        self._clock = asyncio.get_running_loop().time
        self.begun = self.working = False
        self.held = 0
        self.since = self._clock()

    async def exchange(self) -> None:
        """Answer one request after the other.

        Raises:
            OSError, TimeoutError: the client is gone, or takes no answer.
        """
        while (answer := await self._answered()) is not None:
            going_on = self._state.their_state is h11.DONE
            await self._send(answer, going_on=going_on)
            if not going_on or self._state.our_state is not h11.DONE:
                return
            self._state.start_next_cycle()
            # A thousand requests may have come at once.
            await asyncio.sleep(0)

    async def end(self) -> None:
        """Close the connection once the client has taken the answer: what it still sends would reset it."""
        self.begun, self.since = False, 0.0
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_S):
                self._writer.write_eof()
                while await self._reader.read(1 << 16):
                    pass

    async def _answered(self) -> Answer | None:
        """Read a request and return its answer; None if none comes."""
        self.begun, self.since = bool(self._state.trailing_data[0]), self._clock()
        body = bytearray()
        try:
            found = await self._request(body)
            if found is None or isinstance(found, Answer):
                return found
            self.working = True
            return await found(Foreign(bytes(body)))
        except h11.RemoteProtocolError as error:
            return Answer(error.error_status_hint, "the request is no HTTP")
        except TimeoutError:
            return Answer(408, "the request did not come in time") if self.begun else None
        finally:
            self.working = False
            self.held = 0

    async def _request(self, body: bytearray) -> Answer | Take | None:
        """Read a request, its body into `body`; return what takes it, or why it is refused."""
        take: Answer | Take | None = None
        events = 0
        while True:
            event = self._state.next_event()
            if event is h11.NEED_DATA:
                await self._receive()
            elif isinstance(event, h11.Request):
                take = self._begin(_head(event))
                if isinstance(take, Answer):
                    return take
            elif isinstance(event, h11.Data):
                if len(body) + len(event.data) > MOST_BODY:
                    return Answer(413, f"a request may have {MOST_BODY:,} bytes")
                if not self._all.hold(self, len(event.data)):
                    return Answer(503, "too many requests at once; send it again")
                body += event.data
                events += 1
                if events % _EVENTS_AT_ONCE == 0:
                    # Of chunks of one byte thousands may have come.
                    await asyncio.sleep(0)
            else:
                return take if isinstance(event, h11.EndOfMessage) else None

    async def _receive(self) -> None:
        """Wait for more of a request.

        Raises:
            TimeoutError: none comes in time.
        """
        if self._state.they_are_waiting_for_100_continue:
            self._write(h11.InformationalResponse(status_code=100, headers=[]))
        limit = min(_PART_S, self.since + _REQUEST_S - self._clock()) if self.begun else _IDLE_S
        async with asyncio.timeout(limit):
            data = await self._reader.read(1 << 16)
        if data and not self.begun:
            self.begun, self.since = True, self._clock()
        self._state.receive_data(data)

    async def _send(self, answer: Answer, *, going_on: bool) -> None:
        text = f"{answer.text}\n".encode() if answer.kind.startswith("text/") else answer.text.encode()
        headers = [("content-type", answer.kind), ("content-length", str(len(text)))]
        if not going_on:
            headers.append(("connection", "close"))
        self._write(h11.Response(status_code=answer.status, headers=headers))
        self._write(h11.Data(text))
        self._write(h11.EndOfMessage())
        async with asyncio.timeout(_PART_S):
            await self._writer.drain()

    def _write(self, event: h11.Event) -> None:
        self._writer.write(self._state.send(event) or b"")


def _head(request: h11.Request) -> Head:
    headers = {name: value.decode("latin-1").strip() for name, value in request.headers}
    return Head(
        method=request.method.decode("ascii"),
        path=request.target.partition(b"?")[0].decode("ascii", "replace"),
        host=headers.get(b"host", "").lower(),
        kind=headers.get(b"content-type", "").partition(";")[0].strip().lower(),
        encoding=headers.get(b"content-encoding", "").lower(),
    )
