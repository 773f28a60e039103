"""Streams of messages to and from MCP servers: over a process of ours, over `sse`, over streamable HTTP.

What the SDK has for the first two takes no larger result than 1 MiB over `sse`, gives a process no other error output
than a file, and leaves behind what the process started in sessions of its own; so both are ours.
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
from holodeck_action.workers.lines import LineProcess

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

Streams = tuple[Any, Any]
"""Where a session's messages come from, and where they go."""

_CONNECT_S = 30.0
"""Seconds to reach a server over HTTP and, over `sse`, to hand it a message, unless `timeout` says otherwise."""
_READ_S = 300.0
"""Seconds a server may be silent on an open stream, unless `sse_read_timeout` says otherwise."""

MAX_MESSAGE = 64_000_000
"""Bytes of one message of a server: what is longer ends its connection."""


class Heard:
    """What a server said beside its messages, for the sentence about its end.

    Attributes:
        process: the server's process, if it has one.
        status: the last HTTP status of a message sent that was no success.
        stray: the first line that was no message.
        redact: removes secrets from what the server said.
    """

    def __init__(self, redact: Redact) -> None:
        self.redact = redact
        self.process: LineProcess | None = None
        self.status: int | None = None
        self.stray: Foreign | None = None

    @property
    def stderr(self) -> str:
        """End of the error output, without secrets."""
        return "" if self.process is None else self.process.stderr

    @property
    def last_words(self) -> str:
        """Its last line, as a clause that goes on in a sentence; empty if there is none."""
        return "" if self.process is None else self.process.last_words


@asynccontextmanager
async def stdio_streams(server: StdioServer, heard: Heard) -> AsyncIterator[Streams]:
    """Start a server's process and end it, with all its descendants.

    Raises:
        OSError: it cannot be started.
        AgentError: it ended (`crashed`), or wrote a message above the limit (`too_large`); as part of a group.
    """
    starting = asyncio.ensure_future(
        LineProcess.start(
            server.command,
            folder=server.folder,
            environ=server.environ,
            max_line=MAX_MESSAGE,
            code=server.code,
            redact=heard.redact,
        )
    )
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        # A process that is just being started would be lost.
        await (await starting).close()
        raise
    heard.process = process
    utf_8 = codecs.lookup(server.encoding).name == "utf-8"

    async def read(received: MemoryObjectSendStream[Any]) -> None:
        try:
            while True:
                line = await process.read_line()
                said = Foreign(line) if utf_8 else Foreign.of_text(line.decode(server.encoding, "replace"))
                await _pass_on(said, received, heard)
        except AgentError:
            # Nothing can come of it any more; it need not be asked to end.
            await process.stop()
            raise

    async def write(sent: MemoryObjectReceiveStream[Any]) -> None:
        async for message in sent:
            process.write_line(_written(message).encode("ascii"))

    try:
        async with _exchange(read, write) as streams:
            yield streams
    finally:
        await process.close()


@asynccontextmanager
async def sse_streams(entry: MCPTool, heard: Heard) -> AsyncIterator[Streams]:
    """Connect to a server of the protocol's first HTTP transport: events come on one stream, messages go by POST.

    Source: Model Context Protocol, revision 2024-11-05, Transports, HTTP with SSE.

    Raises:
        httpx2.HTTPError: it cannot be reached, or broke off; as part of a group.
        AgentError: it ended the stream, or names an address elsewhere; as part of a group.
    """
    async with (
        _client(entry, heard) as client,
        client.stream(
            "GET", str(entry.url), headers={"accept": "text/event-stream", "cache-control": "no-store"}
        ) as stream,
    ):
        stream.raise_for_status()
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def read(received: MemoryObjectSendStream[Any]) -> None:
            async for event in httpx2.EventSource(stream, max_event_size=MAX_MESSAGE):
                if event.event == "endpoint" and not address.done():
                    address.set_result(_endpoint(str(entry.url), event.data))
                elif event.event == "message" and event.data:
                    await _pass_on(Foreign.of_text(event.data), received, heard)
            raise AgentError("it ended the stream of its messages", "disconnected")

        async def write(sent: MemoryObjectReceiveStream[Any]) -> None:
            target = await address
            async for message in sent:
                response = await client.post(
                    target,
                    content=_written(message),
                    headers={"content-type": "application/json"},
                    timeout=entry.timeout or _CONNECT_S,
                )
                response.raise_for_status()

        async with _exchange(read, write) as streams:
            yield streams


@asynccontextmanager
async def _exchange(
    read: Callable[[MemoryObjectSendStream[Any]], Coroutine[Any, Any, None]],
    write: Callable[[MemoryObjectReceiveStream[Any]], Coroutine[Any, Any, None]],
) -> AsyncIterator[Streams]:
    """Give a session its streams, while `read` fills the one and `write` empties the other."""
    import anyio

    received, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, sent = anyio.create_memory_object_stream[Any](0)
    async with received, incoming, outgoing, sent, anyio.create_task_group() as tasks:
        tasks.start_soon(read, received)
        tasks.start_soon(write, sent)
        yield incoming, outgoing
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def http_streams(entry: MCPTool, heard: Heard) -> AsyncIterator[Streams]:
    """Connect to a server over streamable HTTP, by the SDK's own client.

    Raises:
        httpx2.HTTPError: it cannot be reached, or broke off; as part of a group.
    """
    from mcp.client.streamable_http import streamable_http_client

    async with (
        _client(entry, heard) as client,
        streamable_http_client(
            str(entry.url),
            http_client=client,
            terminate_on_close=entry.terminate_on_close is not False,
            max_sse_event_size=MAX_MESSAGE,
        ) as streams,
    ):
        yield streams


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer, as long as it is within the limit."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_MESSAGE:
                raise AgentError(f"it answered with more than {MAX_MESSAGE} bytes", "too_large")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _client(entry: MCPTool, heard: Heard) -> httpx2.AsyncClient:
    async def listen(response: httpx2.Response) -> None:
        if response.status_code >= 300 and response.request.method == "POST":
            heard.status = response.status_code
        # A stream of events is bounded event by event.
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Bounded(response.stream)

    return httpx2.AsyncClient(
        headers={
            "user-agent": f"holodeck-action/{__version__}",
            "accept-encoding": "identity",
            **{name.lower(): value for name, value in (entry.headers or {}).items()},
        },
        timeout=httpx2.Timeout(entry.timeout or _CONNECT_S, read=entry.sse_read_timeout or _READ_S),
        event_hooks={"response": [listen]},
        follow_redirects=False,
        trust_env=not is_loopback((urlsplit(str(entry.url)).hostname or "").rstrip(".")),
    )


def _written(message: SessionMessage) -> str:
    """Return a message as JSON in ASCII, which every encoding that is accepted writes the same."""
    return json.dumps(message.message.model_dump(by_alias=True, mode="json", exclude_unset=True))


async def _pass_on(said: Foreign, received: MemoryObjectSendStream[Any], heard: Heard) -> None:
    """Hand a message to the session; what is none is passed over, and the first of it kept."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        message = jsonrpc_message_adapter.validate_json(said.lossy_text(), by_name=False)
    except ValueError:
        heard.stray = heard.stray or said
        return
    await received.send(SessionMessage(message))


def _endpoint(url: str, given: str) -> str:
    """Return the address that messages go to.

    Raises:
        AgentError: it lies elsewhere, where headers must not go.
    """
    address = urljoin(url, given)
    if urlsplit(address)[:2] != urlsplit(url)[:2]:
        raise AgentError("it wants messages sent to another server, which its headers are not for", "disconnected")
    return address
