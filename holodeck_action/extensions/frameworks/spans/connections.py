"""HTTP server on the loopback address that receives spans, with limits on connections, time and memory."""

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
_MOST_BUFFERED = 4 * MOST_BODY
"""Maximum total size, in bytes, of the request bodies in memory, over all connections."""
_IDLE_S = 60.0
"""Seconds for which a connection may be idle; the longest idle one is closed to make room for a new one."""
_PART_S = 5.0
"""Time limit in seconds for each part of a request, and for sending a response."""
_REQUEST_S = 30.0
"""Time limit in seconds for receiving a whole request."""
_CLOSING_S = 1.0
"""Seconds for which data of a client is discarded before closing, so that it can read the response."""
_EVENTS_AT_ONCE = 100


class HttpResponse(Struct, frozen=True):
    """An HTTP response."""

    status: int
    text: str
    content_type: str = "text/plain; charset=utf-8"


class Head(Struct, frozen=True):
    """The head of a request; header values are in lower case, and empty if the header is missing."""

    method: str
    path: str
    host: str
    content_type: str
    encoding: str


BodyHandler = Callable[[Foreign], Awaitable[HttpResponse]]
"""Handles the body of a request."""
Router = Callable[[Head], HttpResponse | BodyHandler]
"""Rejects a request by its head, or returns the handler of its body."""


class Connections:
    """An HTTP server and its open connections."""

    def __init__(self, route: Router) -> None:
        """Store the handler of requests; `open` starts to listen."""
        self._route = route
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], _Connection] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def open(self, port: int) -> int:
        """Listen on a port, or on any free port if `port` is 0; return the port.

        Raises:
            OSError: the port is in use.
        """
        self._server = await asyncio.start_server(self._serve, HOST, port)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def close(self) -> None:
        """Stop listening, and close the connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in (*self._open, *self._ending):
            task.cancel()
        await asyncio.gather(*self._open, *self._ending, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= _MOST_CONNECTIONS and not self._close_waiting(self._open.items()):
            writer.transport.abort()
            return
        self._open[task] = connection = _Connection(self, self._route, reader, writer)
        try:
            await connection.serve_requests()
            await connection.end()
        except (OSError, TimeoutError, h11.LocalProtocolError, asyncio.CancelledError):
            # Only this class cancels the task; the server would report a raised error.
            pass
        finally:
            self._open.pop(task, None)
            self._ending.discard(task)
            writer.transport.abort()

    def reserve(self, connection: _Connection, size: int) -> bool:
        """Reserve memory for a part of a request, closing other connections if needed; return whether it succeeded."""
        while sum(each.held for each in self._open.values()) + size > _MOST_BUFFERED:
            if not self._close_waiting(
                each for each in self._open.items() if each[1].held and each[1] is not connection
            ):
                return False
        connection.held += size
        return True

    def _close_waiting(self, candidates: Iterable[tuple[asyncio.Task[None], _Connection]]) -> bool:
        """Close one connection that waits for its client, preferably an idle one; return whether one was closed."""
        waiting = [(each.begun, each.since, task) for task, each in candidates if not each.working]
        if not waiting:
            return False
        task = min(waiting, key=lambda each: each[:2])[2]
        del self._open[task]
        self._ending.add(task)
        task.cancel()
        return True


class _Connection:
    """One connection of a client.

    Attributes:
        begun: whether a part of a request has been received.
        since: time at which the last request ended or the current one began, in seconds on the event loop's clock.
        working: whether a request has been received and not yet answered.
        held: number of bytes received of the current request's body.
    """

    def __init__(
        self, connections: Connections, route: Router, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._all = connections
        self._route = route
        self._reader = reader
        self._writer = writer
        self._state = h11.Connection(h11.SERVER)
        self._clock = asyncio.get_running_loop().time
        self.begun = self.working = False
        self.held = 0
        self.since = self._clock()

    async def serve_requests(self) -> None:
        """Answer requests until the connection ends.

        Raises:
            OSError, TimeoutError: the client is gone or does not read the response.
        """
        while (answer := await self._answer_request()) is not None:
            going_on = self._state.their_state is h11.DONE
            await self._send_response(answer, keep_open=going_on)
            if not going_on or self._state.our_state is not h11.DONE:
                return
            self._state.start_next_cycle()
            # Let other tasks run: a thousand requests may have been received at once.
            await asyncio.sleep(0)

    async def end(self) -> None:
        """Close the connection: send EOF, then discard incoming data until the client closes its side or time is up.

        Closing with unread data would reset the connection, and the client could lose the response.
        """
        self.begun, self.since = False, 0.0
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_S):
                self._writer.write_eof()
                while await self._reader.read(1 << 16):
                    pass

    async def _answer_request(self) -> HttpResponse | None:
        """Read a request and return its response; None if the connection ends without a request."""
        self.begun, self.since = bool(self._state.trailing_data[0]), self._clock()
        body = bytearray()
        try:
            found = await self._read_request(body)
            if found is None or isinstance(found, HttpResponse):
                return found
            self.working = True
            return await found(Foreign(bytes(body)))
        except h11.RemoteProtocolError as error:
            return HttpResponse(error.error_status_hint, "the request is not HTTP")
        except TimeoutError:
            return HttpResponse(408, "the request did not arrive in time") if self.begun else None
        finally:
            self.working = False
            self.held = 0

    async def _read_request(self, body: bytearray) -> HttpResponse | BodyHandler | None:
        """Read a request, and its body into `body`; return the handler of the body, or the response that rejects it."""
        handler: HttpResponse | BodyHandler | None = None
        events = 0
        while True:
            event = self._state.next_event()
            if event is h11.NEED_DATA:
                await self._receive()
            elif isinstance(event, h11.Request):
                handler = self._route(_parse_head(event))
                if isinstance(handler, HttpResponse):
                    return handler
            elif isinstance(event, h11.Data):
                if len(body) + len(event.data) > MOST_BODY:
                    return HttpResponse(413, f"a request may have at most {MOST_BODY:,} bytes")
                if not self._all.reserve(self, len(event.data)):
                    return HttpResponse(503, "too many requests at once; send it again")
                body += event.data
                events += 1
                if events % _EVENTS_AT_ONCE == 0:
                    # Let other tasks run: there may be thousands of chunks of one byte.
                    await asyncio.sleep(0)
            else:
                return handler if isinstance(event, h11.EndOfMessage) else None

    async def _receive(self) -> None:
        """Receive more data of a request.

        Raises:
            TimeoutError: no data arrives in time.
        """
        if self._state.they_are_waiting_for_100_continue:
            self._write(h11.InformationalResponse(status_code=100, headers=[]))
        limit = min(_PART_S, self.since + _REQUEST_S - self._clock()) if self.begun else _IDLE_S
        async with asyncio.timeout(limit):
            data = await self._reader.read(1 << 16)
        if data and not self.begun:
            self.begun, self.since = True, self._clock()
        self._state.receive_data(data)

    async def _send_response(self, answer: HttpResponse, *, keep_open: bool) -> None:
        text = f"{answer.text}\n".encode() if answer.content_type.startswith("text/") else answer.text.encode()
        headers = [("content-type", answer.content_type), ("content-length", str(len(text)))]
        if not keep_open:
            headers.append(("connection", "close"))
        self._write(h11.Response(status_code=answer.status, headers=headers))
        self._write(h11.Data(text))
        self._write(h11.EndOfMessage())
        async with asyncio.timeout(_PART_S):
            await self._writer.drain()

    def _write(self, event: h11.Event) -> None:
        self._writer.write(self._state.send(event) or b"")


def _parse_head(request: h11.Request) -> Head:
    headers = {name: value.decode("latin-1").strip() for name, value in request.headers}
    return Head(
        method=request.method.decode("ascii"),
        path=request.target.partition(b"?")[0].decode("ascii", "replace"),
        host=headers.get(b"host", "").lower(),
        content_type=headers.get(b"content-type", "").partition(";")[0].strip().lower(),
        encoding=headers.get(b"content-encoding", "").lower(),
    )
