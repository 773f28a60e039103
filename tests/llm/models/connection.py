"""HTTP/1.1 as a model server speaks it, and as it breaks: one `asyncio` protocol per connection."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.llm.models.values import WireFault

_REASONS = {status.value: status.phrase for status in HTTPStatus} | {529: "Site is overloaded"}


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request: header names in lower case, the body whole."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An answer: a body of a known length, or pieces of a stream with `pause` seconds between; or how it breaks."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Sequence[bytes] = b""
    pause: float = 0.0
    wire: WireFault | None = None


Send = Callable[[Outgoing], Awaitable[None]]
Respond = Callable[[Incoming, Send], Awaitable[None]]


class Connection(asyncio.Protocol):
    """Reads one request after the other and lets `respond` send its answer; a client that leaves cancels it."""

    def __init__(self, respond: Respond, all_of_them: set[Connection]) -> None:
        self._respond = respond
        self._all = all_of_them
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.discard(self)
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._advance()

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    def _advance(self) -> None:
        if self._task is None and (incoming := _take(self._buffer)) is not None:
            self._task = asyncio.get_running_loop().create_task(self._answer(incoming))

    async def _answer(self, incoming: Incoming) -> None:
        assert self._transport is not None
        await self._respond(incoming, self._send)
        self._task = None
        if incoming.headers.get("connection", "").lower() == "close":
            self._transport.close()
        if not self._transport.is_closing():
            self._advance()

    async def _send(self, outgoing: Outgoing) -> None:
        transport = self._transport
        assert transport is not None
        if outgoing.wire == "reset":
            # Lingering for no time makes the kernel send RST instead of FIN.
            sock = transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
            return
        if outgoing.wire == "close":
            transport.close()
            return
        if isinstance(outgoing.body, bytes):
            (body,) = arriving(outgoing)
            promised = len(body) if outgoing.wire in (None, "malformed") else len(outgoing.body)
            transport.write(_head(outgoing, f"content-length: {promised}") + body)
        else:
            await self._stream(transport, outgoing)
        if outgoing.wire == "stall":
            await asyncio.get_running_loop().create_future()
        if outgoing.wire == "truncate":
            transport.close()

    async def _stream(self, transport: asyncio.Transport, outgoing: Outgoing) -> None:
        head = _head(outgoing, "transfer-encoding: chunked")
        chunks = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in arriving(outgoing)]
        end = b"0\r\n\r\n" if outgoing.wire in (None, "malformed") else b""
        if not outgoing.pause:
            transport.write(b"".join([head, *chunks, end]))
            return
        transport.write(head)
        for chunk in chunks:
            transport.write(chunk)
            await asyncio.sleep(outgoing.pause)
        transport.write(end)


def arriving(outgoing: Outgoing) -> Sequence[bytes]:
    """Return the pieces of the body that arrive: half of it where the answer breaks."""
    if isinstance(outgoing.body, bytes):
        return [outgoing.body[: len(outgoing.body) // 2] if outgoing.wire else outgoing.body]
    if not outgoing.wire:
        return outgoing.body
    *whole, last = outgoing.body[: (len(outgoing.body) + 1) // 2]
    return [*whole, last[: len(last) // 2]]


def _head(outgoing: Outgoing, framing: str) -> bytes:
    lines = [f"HTTP/1.1 {outgoing.status} {_REASONS.get(outgoing.status, 'Unknown')}", framing]
    lines += [f"{name}: {value}" for name, value in outgoing.headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _take(buffer: bytearray) -> Incoming | None:
    """Take one request off the front of the buffer; None when it is not all there."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    first, *lines = buffer[:end].decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.get("transfer-encoding", "").lower() == "chunked":
        taken = _chunked(buffer, end + 4)
    else:
        length = int(headers.get("content-length") or 0)
        stop = end + 4 + length
        taken = (bytes(buffer[end + 4 : stop]), stop) if len(buffer) >= stop else None
    if taken is None:
        return None
    body, stop = taken
    del buffer[:stop]
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return Incoming(method, unquote(parts.path), query, headers, body)


def _chunked(buffer: bytearray, at: int) -> tuple[bytes, int] | None:
    """Return a chunked body and where it ends; chunks' extensions and trailers are not understood."""
    body = bytearray()
    while (line := buffer.find(b"\r\n", at)) >= 0:
        size = int(buffer[at:line], 16)
        start, stop = line + 2, line + 2 + size + 2
        if len(buffer) < stop:
            return None
        body += buffer[start : stop - 2]
        if size == 0:
            return bytes(body), stop
        at = stop
    return None
