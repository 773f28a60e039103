"""Conversations whose spans are received: begun before a turn is asked, and waited for when it is answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from holodeck_action.targets.protocol import Attempt, Reply

if TYPE_CHECKING:
    from holodeck_action.extensions.frameworks.spans.inbox import Inbox
    from holodeck_action.extensions.frameworks.spans.reader import SpanReader
    from holodeck_action.extensions.frameworks.spans.receiver import Receiver


class Receivers:
    """The receivers of a run: whoever names the same port shares one."""

    def __init__(self) -> None:
        self._by_port: dict[int, Receiver] = {}

    def at(self, port: int) -> Receiver:
        """Return the receiver of a port; one of its own for 0, which stands for any free one."""
        # Only suites that read spans pay for the import.
        from holodeck_action.extensions.frameworks.spans.receiver import Receiver

        return self._by_port.setdefault(port, Receiver(port)) if port else Receiver()


class Listener:
    """Receives and reads the spans of a target's conversations."""

    def __init__(self, receiver: Receiver, reader: SpanReader) -> None:
        """Prepare; nothing is opened yet."""
        self._receiver = receiver
        self._reader = reader

    @property
    def notices(self) -> tuple[str, ...]:
        """What the reader should know of the spans."""
        return self._reader.notices

    async def open(self, session: str, *, addressed: bool) -> Listening:
        """Listen to a conversation (see `Receiver.open`).

        Raises:
            AgentError: `cannot_start`, no spans can be received.
        """
        inbox = await self._receiver.open(session, addressed=addressed)
        return Listening(self._receiver, self._reader, inbox)

    async def close(self) -> None:
        """End the receiver."""
        await self._receiver.close()


class Listening:
    """Listens to one conversation."""

    def __init__(self, receiver: Receiver, reader: SpanReader, inbox: Inbox) -> None:
        self._receiver = receiver
        self._reader = reader
        self._inbox = inbox

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the conversation's own process."""
        return self._receiver.variables(self._inbox, environ)

    def traced(self, request: Mapping[str, object]) -> dict[str, object]:
        """Begin a turn; return its request with the trace that its spans belong to."""
        return {**request, "traceparent": self._inbox.begin()}

    async def completed(self, reply: Reply) -> Reply:
        """Wait for the spans of the turn, and return its reply with what they tell besides."""
        return await self._reader.filled(reply, await self._inbox.settled())

    def attempt(self) -> Attempt:
        """Tell what the spans say that have come of a turn that failed."""
        return self._reader.attempt(self._inbox.so_far())

    def end(self) -> None:
        """Listen no more."""
        self._receiver.forget(self._inbox)
