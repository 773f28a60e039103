"""Interfaces for spans that targets send; an extension implements them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from holodeck_action.seam import registry
from holodeck_action.targets.protocol import Attempt, Reply
from holodeck_action.text.foreign import Redact


class SpanReader(Protocol):
    """Reads the data of a turn, such as tool calls and usage, from its spans."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the spans, for the reader of the record."""

    def new_traceparent(self) -> str:
        """Return the `traceparent` header of a new turn."""

    def parse_spans(self, spans: Any) -> Any:
        """Parse the spans of a turn that a worker process sent; user code may have forged them."""

    async def fill_reply(self, reply: Reply, turn: Any) -> Reply:
        """Return a reply in which missing data are added from the spans of its turn."""

    def attempt(self, turn: Any) -> Attempt:
        """Return the data in the spans of a turn that ended without an answer."""


class ConversationSpans(Protocol):
    """Receives the spans of one conversation."""

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment for the conversation's process, in which the receiver's URL is set."""

    def begin_turn(self, request: Mapping[str, object]) -> dict[str, object]:
        """Start a turn, and return its request extended by the trace's id."""

    async def complete_reply(self, reply: Reply) -> Reply:
        """Wait for the spans of the turn, and return its reply with data added from them."""

    def attempt(self) -> Attempt:
        """Return the data of a failed turn in the spans received so far."""

    def end(self) -> None:
        """Stop receiving."""


class Listener(Protocol):
    """Receives and reads the spans of a target's conversations."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the spans, for the reader of the record."""

    async def open(self, session: str, *, addressed: bool) -> ConversationSpans:
        """Start to receive the spans of a conversation; `addressed` is set if its process is started with the
        receiver's URL.

        Raises:
            AgentError: `cannot_start`: spans cannot be received.
        """

    async def close(self) -> None:
        """Stop the receiver."""


class Receivers:
    """The receivers of spans in a run; targets with the same port share a receiver."""

    def __init__(self) -> None:
        self._by_port: dict[int, Any] = {}

    def listener(self, port: int, reader: SpanReader) -> Listener:
        """Return a listener that receives spans on `port`, or on any free port if it is 0, and reads them with
        `reader`.
        """
        observer = registry.observer()
        assert observer is not None
        receiver = registry.resolve(observer.receiver)
        received = self._by_port.setdefault(port, receiver(port)) if port else receiver()
        listener: Listener = registry.resolve(observer.listener)(received, reader)
        return listener


def span_reader(max_bytes: int, redact: Redact) -> SpanReader:
    """Return the reader of a target's spans; the suite was checked to have the extension that provides it.

    Args:
        max_bytes: maximum bytes that the spans of a turn may add to its reply (`limits.max_response_bytes`).
        redact: removes secrets from errors that instrumented code reports.
    """
    observer = registry.observer()
    assert observer is not None
    reader: SpanReader = registry.resolve(observer.reader)(max_bytes, redact)
    return reader
