"""Receives spans by OTLP over HTTP, and assigns them to conversations."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from functools import partial

from holodeck_action.extensions.frameworks.spans.connections import HOST, BodyHandler, Connections, Head, HttpResponse
from holodeck_action.extensions.frameworks.spans.conventions import follows_convention
from holodeck_action.extensions.frameworks.spans.inbox import EXPORT_MS, Inbox, WaitState
from holodeck_action.extensions.frameworks.spans.otlp import JSON, PROTOBUF, read_export
from holodeck_action.extensions.frameworks.spans.span import Span
from holodeck_action.extensions.frameworks.spans.unassigned_spans import SizedSpan, UnassignedSpans
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.text.foreign import Foreign, ForeignError

_PATH = "/v1/traces"
_BATCH_SPANS = 500
"""Number of spans that are distributed before other tasks may run."""
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


class Receiver:
    """Receives spans and distributes them to the inboxes of conversations.

    A process that is started for a conversation gets its own URL with a secret. Other processes send to `/v1/traces`,
    where a span is accepted if its trace id (which cannot be guessed) or its conversation id belongs to a turn.
    """

    def __init__(self, port: int = 0) -> None:
        """Store the port; `open` starts to listen.

        Args:
            port: the port to listen on; 0 to choose any free port.
        """
        self._port = port
        self._connections: Connections | None = None
        self._opening = asyncio.Lock()
        self._reading = asyncio.Lock()
        self._addressed: dict[str, Inbox] = {}
        self._inboxes: dict[str, Inbox] = {}
        # Separate, so that the many spans of web servers and databases do not displace those of agents.
        self._agent_spans, self._other_spans = UnassignedSpans(), UnassignedSpans()
        self._wait_state = WaitState()

    async def open(self, session: str, *, has_receiver_url: bool) -> Inbox:
        """Return the inbox for the spans of a conversation.

        Args:
            session: id of the conversation.
            has_receiver_url: whether the process of the conversation gets a URL of its own to send spans to; otherwise
                spans are assigned to the conversation by the ids in them.

        Raises:
            AgentError: the port is in use (code `cannot_start`).
        """
        await self._listen()
        inbox = Inbox(session, has_own_url=has_receiver_url, wait_state=self._wait_state)
        if has_receiver_url:
            self._addressed[secrets.token_hex(16)] = inbox
        else:
            self._inboxes[session] = inbox
        return inbox

    def variables(self, inbox: Inbox, environ: Mapping[str, str]) -> dict[str, str]:
        """Return `environ` with variables that make a process send its spans to the URL of an inbox."""
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
            # Otherwise SDKs would send metrics and logs to a missing collector.
            found = {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"} | found
        if any(environ.get(name) for name in _PROXIES):
            for name in ("no_proxy", "NO_PROXY"):
                found[name] = ",".join(filter(None, (environ.get(name), HOST)))
        return found

    def forget(self, inbox: Inbox) -> None:
        """Stop receiving spans of a conversation."""
        self._inboxes.pop(inbox.session, None)
        self._addressed = {secret: found for secret, found in self._addressed.items() if found is not inbox}
        if not self._inboxes:
            self._agent_spans.clear()
            self._other_spans.clear()

    async def close(self) -> None:
        """Stop listening."""
        if self._connections is not None:
            await self._connections.close()
            self._connections = None

    async def _listen(self) -> None:
        async with self._opening:
            if self._connections is not None:
                return
            connections = Connections(self._route)
            try:
                self._port = await connections.open(self._port)
            except OSError as error:
                raise AgentError(
                    f"spans cannot be received at {HOST}:{self._port}: {error.strerror or error}; choose another port "
                    "in the policy file, such as spans: {port: 4400}",
                    "cannot_start",
                ) from None
            self._connections = connections

    def _route(self, head: Head) -> HttpResponse | BodyHandler:
        """Check the head of a request; return the handler of its body, or the response that rejects it."""
        if head.host not in (f"{HOST}:{self._port}", f"localhost:{self._port}"):
            # Otherwise a web page could send spans by DNS rebinding.
            return HttpResponse(421, f"the header Host must name {HOST}:{self._port}")
        inbox = self._addressed.get(head.path.removesuffix(_PATH).removeprefix("/"))
        if not head.path.endswith(_PATH) or (inbox is None and head.path != _PATH):
            return HttpResponse(404, f"spans are received at {_PATH}")
        if head.method != "POST":
            return HttpResponse(405, "spans are received by POST")
        if head.content_type not in (PROTOBUF, JSON):
            return HttpResponse(415, f"the header Content-Type must be {PROTOBUF} or {JSON}")
        return partial(self._receive_spans, head, inbox)

    async def _receive_spans(self, head: Head, inbox: Inbox | None, body: Foreign) -> HttpResponse:
        try:
            # One at a time, since several would slow down everything else.
            async with self._reading:
                found = await asyncio.to_thread(read_export, body, head.content_type, head.encoding)
        except (ForeignError, MemoryError) as error:
            if inbox is not None:
                inbox.add((), unread_count=1)
            return HttpResponse(400, f"the request {error}")
        self._wait_state.received = self._wait_state.waits = True
        if inbox is not None:
            inbox.add((), unread_count=found.unread)
        for start in range(0, len(found.spans), _BATCH_SPANS):
            part = found.spans[start : start + _BATCH_SPANS]
            if inbox is None:
                self._distribute(part)
            else:
                inbox.add(part)
            await asyncio.sleep(0)
        return HttpResponse(200, "{}" if head.content_type == JSON else "", head.content_type)

    def _distribute(self, spans: Sequence[SizedSpan]) -> None:
        """Add spans to the inboxes of their conversations; keep unassigned spans while a conversation is open."""
        if not self._inboxes:
            return
        by_trace = {trace: inbox for inbox in self._inboxes.values() for trace in inbox.traces}
        since = min(inbox.since for inbox in self._inboxes.values())
        for span, size in spans:
            inbox = by_trace.get(span.trace) or self._named_inbox(span)
            if inbox is None:
                if span.start_ns >= since:
                    (self._agent_spans if follows_convention(span) else self._other_spans).keep(span, size)
                continue
            if span.trace not in by_trace:
                # The span with the conversation's id is often the last of its trace.
                by_trace[span.trace] = inbox
                inbox.traces.add(span.trace)
                for unassigned in (self._agent_spans, self._other_spans):
                    inbox.add(*unassigned.claim(span.trace))
            inbox.add([(span, size)])

    def _named_inbox(self, span: Span) -> Inbox | None:
        """Return the inbox of the conversation that a span names; None without one, or if the turn began later."""
        names = (span.attributes.get("gen_ai.conversation.id"), span.attributes.get("session.id"))
        found = next((inbox for name in names if isinstance(name, str) and (inbox := self._inboxes.get(name))), None)
        return found if found is not None and span.start_ns >= found.since else None
