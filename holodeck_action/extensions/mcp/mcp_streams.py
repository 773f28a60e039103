"""Streams of messages to and from MCP servers: of local processes, over `sse`, and over streamable HTTP.

The first two do not use the SDK, because it limits results over `sse` to 1 MiB, can send a process's standard error
only to a file, and does not end processes in other sessions.
"""

from __future__ import annotations

import asyncio
import codecs
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import httpx2

from holodeck_action import __version__
from holodeck_action.extensions.mcp.mcp_settings import StdioServer
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.suite.hosts import is_loopback
from holodeck_action.suite.model.tools import MCPTool
from holodeck_action.text.foreign import Foreign, Redact
from holodeck_action.workers.line_process import LineProcess

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

Streams = tuple[Any, Any]
"""The streams from which a session reads messages and to which it writes them."""

_CONNECT_S = 30.0
"""Seconds to connect over HTTP and, with `sse`, to send a message, unless `timeout` is set."""
_READ_S = 300.0
"""Seconds that a server may be silent on an open stream, unless `sse_read_timeout` is set."""

MAX_MESSAGE = 64_000_000
"""Most bytes of a server's message: a longer one ends the connection."""


class ServerOutput:
    """The output of a server that is not a message of the protocol, kept for error messages.

    Attributes:
        process: process of the server; None if the server is reached by URL.
        status: HTTP status of the last message that failed; None if no message failed.
        stray: first line that is not a message; None if all lines are messages.
        redact: removes secrets from text.
    """

    def __init__(self, redact: Redact) -> None:
        self.redact = redact
        self.process: LineProcess | None = None
        self.status: int | None = None
        self.stray: Foreign | None = None

    @property
    def stderr(self) -> str:
        """The last part of the process's standard error, without secrets; empty if there is no process."""
        return "" if self.process is None else self.process.stderr

    @property
    def stderr_clause(self) -> str:
        """The last line of standard error as a clause to append to a sentence; empty if there is no such line."""
        return "" if self.process is None else self.process.last_line_clause


@asynccontextmanager
async def stdio_streams(server: StdioServer, output: ServerOutput) -> AsyncIterator[Streams]:
    """Run a server's process, and end it and all its descendants at the end of the context.

    Raises:
        OSError: the process cannot be started.
        AgentError: in an exception group: the process ended (`crashed`), or wrote a message above the size limit
            (`too_large`).
    """
    starting = asyncio.ensure_future(
        LineProcess.start(
            server.command,
            folder=server.folder,
            environ=server.environ,
            max_line=MAX_MESSAGE,
            code=server.code,
            redact=output.redact,
        )
    )
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        # A cancellation now would leave a process that is just being started.
        await (await starting).close()
        raise
    output.process = process
    utf_8 = codecs.lookup(server.encoding).name == "utf-8"

    async def read(incoming: MemoryObjectSendStream[Any]) -> None:
        try:
            while True:
                line = await process.read_line()
                text = Foreign(line) if utf_8 else Foreign.of_text(line.decode(server.encoding, "replace"))
                await _forward_message(text, incoming, output)
        except AgentError:
            # The process is of no more use and need not end in an orderly way.
            await process.stop()
            raise

    async def write(outgoing: MemoryObjectReceiveStream[Any]) -> None:
        async for message in outgoing:
            process.write_line(_message_text(message).encode("ascii"))

    try:
        async with _open_exchange(read, write) as streams:
            yield streams
    finally:
        await process.close()


@asynccontextmanager
async def sse_streams(entry: MCPTool, output: ServerOutput) -> AsyncIterator[Streams]:
    """Connect over the protocol's first HTTP transport: a stream of events delivers messages, and POST requests send
    them.

    Source: Model Context Protocol, revision 2024-11-05, Transports, HTTP with SSE.

    Raises:
        httpx2.HTTPError: in an exception group: the server cannot be reached, or closed the connection.
        AgentError: in an exception group: the server ended the stream, or names a URL on another server for
            messages.
    """
    async with (
        _client(entry, output) as client,
        client.stream(
            "GET", str(entry.url), headers={"accept": "text/event-stream", "cache-control": "no-store"}
        ) as stream,
    ):
        stream.raise_for_status()
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def read(incoming: MemoryObjectSendStream[Any]) -> None:
            async for event in httpx2.EventSource(stream, max_event_size=MAX_MESSAGE):
                if event.event == "endpoint" and not address.done():
                    address.set_result(_message_url(str(entry.url), event.data))
                elif event.event == "message" and event.data:
                    await _forward_message(Foreign.of_text(event.data), incoming, output)
            raise AgentError("the server ended the stream of its messages", "disconnected")

        async def write(outgoing: MemoryObjectReceiveStream[Any]) -> None:
            target = await address
            async for message in outgoing:
                response = await client.post(
                    target,
                    content=_message_text(message),
                    headers={"content-type": "application/json"},
                    timeout=entry.timeout or _CONNECT_S,
                )
                response.raise_for_status()

        async with _open_exchange(read, write) as streams:
            yield streams


@asynccontextmanager
async def _open_exchange(
    read: Callable[[MemoryObjectSendStream[Any]], Coroutine[Any, Any, None]],
    write: Callable[[MemoryObjectReceiveStream[Any]], Coroutine[Any, Any, None]],
) -> AsyncIterator[Streams]:
    """Yield the streams of a session, while `read` fills the incoming one and `write` sends from the outgoing one."""
    import anyio

    received, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, sent = anyio.create_memory_object_stream[Any](0)
    async with received, incoming, outgoing, sent, anyio.create_task_group() as tasks:
        tasks.start_soon(read, received)
        tasks.start_soon(write, sent)
        yield incoming, outgoing
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def http_streams(entry: MCPTool, output: ServerOutput) -> AsyncIterator[Streams]:
    """Connect to a server over streamable HTTP, with the SDK's client.

    Raises:
        httpx2.HTTPError: in an exception group: the server cannot be reached, or closed the connection.
    """
    from mcp.client.streamable_http import streamable_http_client

    async with (
        _client(entry, output) as client,
        streamable_http_client(
            str(entry.url),
            http_client=client,
            terminate_on_close=entry.terminate_on_close is not False,
            max_sse_event_size=MAX_MESSAGE,
        ) as streams,
    ):
        yield streams


class _BoundedBody(httpx2.AsyncByteStream):
    """The body of a response, which raises an error when it exceeds the size limit."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_MESSAGE:
                raise AgentError(f"the server answered with more than {MAX_MESSAGE} bytes", "too_large")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _client(entry: MCPTool, output: ServerOutput) -> httpx2.AsyncClient:
    async def note_response(response: httpx2.Response) -> None:
        if response.status_code >= 300 and response.request.method == "POST":
            output.status = response.status_code
        # In a stream of events, the limit applies to each event.
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _BoundedBody(response.stream)

    return httpx2.AsyncClient(
        headers={
            "user-agent": f"holodeck-action/{__version__}",
            "accept-encoding": "identity",
            **{name.lower(): value for name, value in (entry.headers or {}).items()},
        },
        timeout=httpx2.Timeout(entry.timeout or _CONNECT_S, read=entry.sse_read_timeout or _READ_S),
        event_hooks={"response": [note_response]},
        follow_redirects=False,
        trust_env=not is_loopback((urlsplit(str(entry.url)).hostname or "").rstrip(".")),
    )


def _message_text(message: SessionMessage) -> str:
    """Return a message as JSON in ASCII, so that its bytes are the same in every accepted encoding."""
    return json.dumps(message.message.model_dump(by_alias=True, mode="json", exclude_unset=True))


async def _forward_message(text: Foreign, incoming: MemoryObjectSendStream[Any], output: ServerOutput) -> None:
    """Pass a message to the session; text that is not a message is dropped, but `output` keeps the first such text."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        message = jsonrpc_message_adapter.validate_json(text.lossy_text(), by_name=False)
    except ValueError:
        output.stray = output.stray or text
        return
    await incoming.send(SessionMessage(message))


def _message_url(url: str, endpoint: str) -> str:
    """Return the absolute URL for messages to a server; `endpoint` may be relative to `url`, the server's URL.

    Raises:
        AgentError: the URL is on another server, which must not receive the headers.
    """
    address = urljoin(url, endpoint)
    if urlsplit(address)[:2] != urlsplit(url)[:2]:
        raise AgentError(
            "the server redirects messages to another server, which must not receive its headers", "disconnected"
        )
    return address
