"""Base class of conversations whose agents may send spans."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holodeck_action.suite.values import Turn
from holodeck_action.targets.protocol import Attempt, Conversation, Reply, Session

if TYPE_CHECKING:
    from holodeck_action.targets.spans import ConversationSpans


class TracedSession(Session):
    """A conversation that sends requests, and receives and reads the agent's spans if spans are on."""

    def __init__(self, conversation: Conversation, listening: ConversationSpans | None) -> None:
        """Create the session; no spans are read if `listening` is None."""
        self._conversation = conversation
        self._listening = listening

    async def send(self, turn: Turn) -> Reply:
        """Send one turn."""
        request: Mapping[str, Any] = self._conversation.request(turn)
        reply = await self._ask(request if self._listening is None else self._listening.begin_turn(request))
        self._conversation.add(turn, reply)
        return reply

    async def complete_reply(self, reply: Reply) -> Reply:
        """Return the reply with missing data added from the spans of the turn."""
        return reply if self._listening is None else await self._listening.complete_reply(reply)

    def attempt(self) -> Attempt:
        """Return the data in the spans of a failed turn."""
        return Attempt() if self._listening is None else self._listening.attempt()

    async def close(self) -> None:
        """Stop receiving spans."""
        if self._listening is not None:
            self._listening.end()

    @abstractmethod
    async def _ask(self, request: Mapping[str, Any]) -> Reply:
        """Send a request and return the reply.

        Raises:
            AgentError: the agent could not answer.
        """
