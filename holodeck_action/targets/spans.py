"""Interfaces for reading the OpenTelemetry spans that targets send. An extension implements them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from holodeck_action.seam import registry
from holodeck_action.targets.protocol import PartialTurn, Reply
from holodeck_action.text.foreign import Redact


class SpanReader(Protocol):
    """Reads the data of a turn, such as tool calls and usage, from its spans."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the spans, for the reader of the record."""

    def new_traceparent(self) -> str:
        """Return the value of the `traceparent` header (W3C Trace Context) for a new turn."""

    def parse_spans(self, spans: Any) -> Any:
        """Return the parsed spans of a turn from the data of a worker process, which user code may have forged."""

    async def fill_reply(self, reply: Reply, parsed: Any) -> Reply:
        """Return the reply to a turn, with missing data added from the parsed spans of the turn."""

    def partial_turn(self, parsed: Any) -> PartialTurn:
        """Return the data in the parsed spans of a turn that ended without an answer."""


class ConversationSpans(Protocol):
    """Receives the spans of one conversation."""

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the conversation's process: `environ` with the URL to which spans are sent."""

    def begin_turn(self, request: Mapping[str, object]) -> dict[str, object]:
        """Start to receive the spans of a turn, and return the turn's request with `traceparent` added."""

    async def complete_reply(self, reply: Reply) -> Reply:
        """Wait for the spans of the turn, and return the reply with missing data added from them."""

    def partial_turn(self) -> PartialTurn:
        """Return the data of a failed turn from the spans received so far."""

    def end(self) -> None:
        """Stop receiving spans."""


class Listener(Protocol):
    """Receives and reads the spans of a target's conversations."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the spans, for the reader of the record."""

    async def open(self, session: str, *, has_receiver_url: bool) -> ConversationSpans:
        """Start to receive the spans of a conversation.

        Args:
            session: id of the conversation.
            has_receiver_url: whether the conversation has its own process, which gets its own URL to send spans to.

        Raises:
            AgentError: `cannot_start`: spans cannot be received.
        """

    async def close(self) -> None:
        """Stop the receiver."""


class Receivers:
    """The span receivers of a run. Targets with the same port share a receiver."""

    def __init__(self) -> None:
        self._by_port: dict[int, Any] = {}

    def listener(self, port: int, reader: SpanReader) -> Listener:
        """Return a listener for spans that arrive on a port; port 0 is any free port."""
        observer = registry.observer()
        assert observer is not None
        receiver = registry.resolve(observer.receiver)
        received = self._by_port.setdefault(port, receiver(port)) if port else receiver()
        listener: Listener = registry.resolve(observer.listener)(received, reader)
        return listener


def span_reader(max_bytes: int, redact: Redact) -> SpanReader:
    """Return a reader of a target's spans. The extension that provides it must be installed.

    Args:
        max_bytes: maximum bytes that the spans of a turn may add to its reply (`limits.max_response_bytes`).
        redact: removes secrets from errors that instrumented code reports.
    """
    observer = registry.observer()
    assert observer is not None
    reader: SpanReader = registry.resolve(observer.reader)(max_bytes, redact)
    return reader
