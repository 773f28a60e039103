"""The receiver of spans: OTLP over HTTP, and the conversation that each span belongs to."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from functools import partial

from holodeck_action.extensions.frameworks.spans.connections import HOST, Answer, Connections, Head, Take
from holodeck_action.extensions.frameworks.spans.conventions import is_of_agent
from holodeck_action.extensions.frameworks.spans.inbox import EXPORT_MS, Inbox, Patience
from holodeck_action.extensions.frameworks.spans.otlp import JSON, PROTOBUF, exported_spans
from holodeck_action.extensions.frameworks.spans.span import Span
from holodeck_action.extensions.frameworks.spans.strays import Sized, Strays
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.text.foreign import Foreign, ForeignError

_PATH = "/v1/traces"
_AT_ONCE = 500
"""Spans that are handed out before anything else may run."""
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


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
        self._connections: Connections | None = None
        self._opening = asyncio.Lock()
        self._reading = asyncio.Lock()
        self._addressed: dict[str, Inbox] = {}
        self._inboxes: dict[str, Inbox] = {}
        # Apart: what web servers and databases tell is most of all, and takes no room from what agents did.
        self._strays, self._others = Strays(), Strays()
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
        if not self._inboxes:
            self._strays.clear()
            self._others.clear()

    async def close(self) -> None:
        """End the receiver."""
        if self._connections is not None:
            await self._connections.close()
            self._connections = None

    async def _listen(self) -> None:
        async with self._opening:
            if self._connections is not None:
                return
            connections = Connections(self._begun)
            try:
                self._port = await connections.open(self._port)
            except OSError as error:
                raise AgentError(
                    f"spans cannot be received at {HOST}:{self._port}: {error.strerror or error}; choose another port "
                    "in the policy file, such as spans: {port: 4400}",
                    "cannot_start",
                ) from None
            self._connections = connections

    def _begun(self, head: Head) -> Answer | Take:
        """Look at the head of a request; return what takes its body, or why it is refused."""
        if head.host not in (f"{HOST}:{self._port}", f"localhost:{self._port}"):
            # A page whose own name leads here could else send spans, and ask what is served.
            return Answer(421, f"the header Host must name {HOST}:{self._port}")
        inbox = self._addressed.get(head.path.removesuffix(_PATH).removeprefix("/"))
        if not head.path.endswith(_PATH) or (inbox is None and head.path != _PATH):
            return Answer(404, f"spans are received at {_PATH}")
        if head.method != "POST":
            return Answer(405, "spans are received by POST")
        if head.kind not in (PROTOBUF, JSON):
            return Answer(415, f"the header Content-Type must be {PROTOBUF} or {JSON}")
        return partial(self._take, head, inbox)

    async def _take(self, head: Head, inbox: Inbox | None, body: Foreign) -> Answer:
        try:
            # One at a time: each of several would slow down all else.
            async with self._reading:
                found = await asyncio.to_thread(exported_spans, body, head.kind, head.encoding)
        except (ForeignError, MemoryError) as error:
            if inbox is not None:
                inbox.take((), unread=1)
            return Answer(400, f"the request {error}")
        self._patience.heard = self._patience.waits = True
        if inbox is not None:
            inbox.take((), unread=found.unread)
        for start in range(0, len(found.spans), _AT_ONCE):
            part = found.spans[start : start + _AT_ONCE]
            if inbox is None:
                self._hand_out(part)
            else:
                inbox.take(part)
            await asyncio.sleep(0)
        return Answer(200, "{}" if head.kind == JSON else "", head.kind)

    def _hand_out(self, spans: Sequence[Sized]) -> None:
        """Give spans to the conversations that they belong to; keep the others while some conversation is open."""
        if not self._inboxes:
            return
        by_trace = {trace: inbox for inbox in self._inboxes.values() for trace in inbox.traces}
        since = min(inbox.since for inbox in self._inboxes.values())
        for span, size in spans:
            inbox = by_trace.get(span.trace) or self._named_by(span)
            if inbox is None:
                if span.start_ns >= since:
                    (self._strays if is_of_agent(span) else self._others).keep(span, size)
                continue
            if span.trace not in by_trace:
                # The span that names the conversation is often the last one of its trace.
                by_trace[span.trace] = inbox
                inbox.traces.add(span.trace)
                for strays in (self._strays, self._others):
                    inbox.take(*strays.claim(span.trace))
            inbox.take([(span, size)])

    def _named_by(self, span: Span) -> Inbox | None:
        """Return the inbox of the conversation that a span names; None if it is from before the turn."""
        names = (span.attributes.get("gen_ai.conversation.id"), span.attributes.get("session.id"))
        found = next((inbox for name in names if isinstance(name, str) and (inbox := self._inboxes.get(name))), None)
        return found if found is not None and span.start_ns >= found.since else None
