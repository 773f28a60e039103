"""Receives the spans of conversations: starts before a turn is sent, and waits for spans after its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from holodeck_action.targets.protocol import PartialTurn, Reply

if TYPE_CHECKING:
    from holodeck_action.extensions.frameworks.spans.inbox import Inbox
    from holodeck_action.extensions.frameworks.spans.reader import SpanReader
    from holodeck_action.extensions.frameworks.spans.receiver import Receiver


class Listener:
    """Receives and reads the spans of a target's conversations."""

    def __init__(self, receiver: Receiver, reader: SpanReader) -> None:
        """Store receiver and reader without opening a port."""
        self._receiver = receiver
        self._reader = reader

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the spans."""
        return self._reader.notices

    async def open(self, session: str, *, has_receiver_url: bool) -> ConversationSpans:
        """Start to receive the spans of a conversation (see `Receiver.open`).

        Raises:
            AgentError: spans cannot be received (code `cannot_start`).
        """
        inbox = await self._receiver.open(session, has_receiver_url=has_receiver_url)
        return ConversationSpans(self._receiver, self._reader, inbox)

    async def close(self) -> None:
        """Close the receiver."""
        await self._receiver.close()


class ConversationSpans:
    """Receives the spans of one conversation."""

    def __init__(self, receiver: Receiver, reader: SpanReader, inbox: Inbox) -> None:
        self._receiver = receiver
        self._reader = reader
        self._inbox = inbox

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return `environ` with variables that make the conversation's process send its spans to this receiver."""
        return self._receiver.variables(self._inbox, environ)

    def begin_turn(self, request: Mapping[str, object]) -> dict[str, object]:
        """Start a turn; return its request with a `traceparent`, which links spans to the turn."""
        return {**request, "traceparent": self._inbox.begin()}

    async def complete_reply(self, reply: Reply) -> Reply:
        """Wait for the spans of the turn; return its reply with missing tool calls, usage and other data filled in."""
        return await self._reader.fill_reply(reply, await self._inbox.wait_for_spans())

    def partial_turn(self) -> PartialTurn:
        """Return the tool calls and usage of a failed turn, read from the spans that have arrived."""
        return self._reader.partial_turn(self._inbox.arrived_spans())

    def end(self) -> None:
        """Stop receiving spans of the conversation."""
        self._receiver.forget(self._inbox)
