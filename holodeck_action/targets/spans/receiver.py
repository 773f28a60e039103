"""The receiver of spans: OTLP over HTTP on this machine's loopback address."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress

import h11
from msgspec import Struct

from holodeck_action.results.agent_errors import AgentError
from holodeck_action.targets.spans.inbox import EXPORT_MS, Inbox, Patience
from holodeck_action.targets.spans.otlp import JSON, PROTOBUF, decompressed, exported_spans
from holodeck_action.targets.spans.span import Span

HOST = "127.0.0.1"
_PATH = "/v1/traces"
_MOST_BODY = 16_000_000
"""Bytes of one request, compressed or not."""
_MOST_CONNECTIONS = 64
_IDLE_S = 60.0
_MOST_STRAYS = 2_000
"""Spans kept that belong to no conversation yet: a span of their trace that names it may come later."""
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


class _Answer(Struct, frozen=True):
    status: int
    kind: str = "text/plain"
    body: bytes = b""


class Receiver:
    """Takes spans for the conversations that have an inbox.

    A process that is started for a conversation gets an address of its own, with a secret in it. All others send to
    `/v1/traces`, where a span counts if its trace, which nobody can guess, or its conversation is that of a turn.
    """

    def __init__(self, port: int = 0) -> None:
        """Prepare; nothing is opened yet.

        Args:
            port: where to listen; 0 for any that is free.
        """
        self._port = port
        self._server: asyncio.Server | None = None
        self._opening = asyncio.Lock()
        self._addressed: dict[str, Inbox] = {}
        self._inboxes: dict[str, Inbox] = {}
        self._strays: OrderedDict[str, Span] = OrderedDict()
        self._connections: set[asyncio.Task[None]] = set()
        self._patience = Patience()

    async def open(self, session: str, *, addressed: bool) -> Inbox:
        """Return an inbox for a conversation; with a secret address, or found by traces and names of conversations.

        Raises:
            AgentError: `cannot_start`, the port is in use.
        """
        await self._listen()
        inbox = Inbox(session, own=addressed, patience=self._patience)
        if addressed:
            self._addressed[secrets.token_hex(16)] = inbox
        else:
            self._inboxes[session] = inbox
        return inbox

    def variables(self, inbox: Inbox, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment in which a process sends its spans to an inbox that has an address."""
        secret = next(secret for secret, found in self._addressed.items() if found is inbox)
        found = {
            **environ,
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://{HOST}:{self._port}/{secret}{_PATH}",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            "OTEL_BSP_SCHEDULE_DELAY": str(EXPORT_MS),
            "OTEL_TRACES_SAMPLER": "always_on",
        }
        if not environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
            # Else SDKs try to send them to a collector that is not there.
            found = {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"} | found
        if any(environ.get(name) for name in _PROXIES):
            for name in ("no_proxy", "NO_PROXY"):
                found[name] = ",".join(filter(None, (environ.get(name), HOST)))
        return found

    def forget(self, inbox: Inbox) -> None:
        """Take no more spans for a conversation."""
        self._inboxes.pop(inbox.session, None)
        self._addressed = {secret: found for secret, found in self._addressed.items() if found is not inbox}

    async def close(self) -> None:
        """End the receiver."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _listen(self) -> None:
        async with self._opening:
            if self._server is not None:
                return
            try:
                self._server = await asyncio.start_server(self._serve, HOST, self._port)
            except OSError as error:
                raise AgentError(
                    f"spans cannot be received at {HOST}:{self._port}: {error.strerror or error}; choose another port "
                    "in the policy file, such as spans: {port: 4400}",
                    "cannot_start",
                ) from None
            self._port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if len(self._connections) < _MOST_CONNECTIONS:
                self._connections.add(task)
                await self._exchange(h11.Connection(h11.SERVER), reader, writer)
        except (OSError, TimeoutError, h11.LocalProtocolError, asyncio.CancelledError):
            # Nobody but `close` cancels it, and the server would report that.
            pass
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _exchange(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            try:
                answer = await self._answered(connection, reader, writer)
            except h11.RemoteProtocolError as error:
                answer = _Answer(error.error_status_hint)
            if answer is None:
                return
            headers = [("content-type", answer.kind), ("content-length", str(len(answer.body)))]
            going_on = connection.their_state is h11.DONE
            if not going_on:
                headers.append(("connection", "close"))
            for event in (h11.Response(status_code=answer.status, headers=headers), h11.Data(answer.body)):
                writer.write(connection.send(event) or b"")
            writer.write(connection.send(h11.EndOfMessage()) or b"")
            await writer.drain()
            if not going_on or connection.our_state is not h11.DONE:
                return
            connection.start_next_cycle()

    async def _answered(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> _Answer | None:
        """Read one request and return its answer; None where the client has left."""
        inbox: Inbox | None = None
        headers: dict[bytes, bytes] = {}
        body = bytearray()
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                if connection.they_are_waiting_for_100_continue:
                    writer.write(connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
                async with asyncio.timeout(_IDLE_S):
                    connection.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Request):
                headers = dict(event.headers)
                path = event.target.partition(b"?")[0].decode("ascii", "replace")
                inbox = self._addressed.get(path.removesuffix(_PATH).removeprefix("/"))
                if not path.endswith(_PATH) or (inbox is None and path != _PATH):
                    return _Answer(404)
                if event.method != b"POST":
                    return _Answer(405)
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > _MOST_BODY:
                    return _Answer(413)
            elif isinstance(event, h11.EndOfMessage):
                return self._taken(bytes(body), headers, inbox)
            else:
                return None

    def _taken(self, body: bytes, headers: Mapping[bytes, bytes], inbox: Inbox | None) -> _Answer:
        kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        if kind not in (PROTOBUF, JSON):
            return _Answer(415)
        try:
            encoding = headers.get(b"content-encoding", b"").decode("latin-1").strip().lower()
            found = exported_spans(decompressed(body, encoding, _MOST_BODY), kind)
        except ValueError:
            if inbox is not None:
                inbox.take((), unread=1)
            return _Answer(400)
        self._patience.heard = self._patience.waits = True
        if inbox is not None:
            inbox.take((span for span in found.spans if inbox.wants(span)), found.unread)
        else:
            self._hand_out(found.spans)
        return _Answer(200, kind, b"{}" if kind == JSON else b"")

    def _hand_out(self, spans: tuple[Span, ...]) -> None:
        """Give spans to the conversations that they belong to, and keep the last others."""
        self._strays.update((span.id, span) for span in spans)
        # Twice: the span that names the conversation is often the last one of its trace.
        for _ in range(2):
            for inbox in self._inboxes.values():
                wanted = [span for span in self._strays.values() if inbox.wants(span)]
                for span in wanted:
                    del self._strays[span.id]
                if wanted:
                    inbox.take(wanted)
        while len(self._strays) > _MOST_STRAYS:
            self._strays.popitem(last=False)
