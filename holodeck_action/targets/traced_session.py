"""The base class of conversations whose agents may send spans."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holodeck_action.suite.values import Turn
from holodeck_action.targets.protocol import Conversation, PartialTurn, Reply, Session

if TYPE_CHECKING:
    from holodeck_action.targets.spans import ConversationSpans


class TracedSession(Session):
    """A conversation that sends requests, and reads the agent's spans if the suite uses spans."""

    def __init__(self, conversation: Conversation, spans: ConversationSpans | None) -> None:
        """Create the session. If `spans` is None, no spans are read."""
        self._conversation = conversation
        self.session_id = conversation.session
        self._spans = spans

    async def send(self, turn: Turn) -> Reply:
        """Send the request of one turn, and return the reply."""
        request: Mapping[str, Any] = self._conversation.request(turn)
        reply = await self._send_request(request if self._spans is None else self._spans.begin_turn(request))
        self._conversation.add(turn, reply)
        return reply

    async def complete_reply(self, reply: Reply) -> Reply:
        """Return the reply with missing data added from the spans of the turn."""
        return reply if self._spans is None else await self._spans.complete_reply(reply)

    def partial_turn(self) -> PartialTurn:
        """Return the data in the spans of a failed turn."""
        return PartialTurn() if self._spans is None else self._spans.partial_turn()

    async def close(self) -> None:
        """Stop receiving spans."""
        if self._spans is not None:
            self._spans.end()

    @abstractmethod
    async def _send_request(self, request: Mapping[str, Any]) -> Reply:
        """Send a request and return the reply.

        Raises:
            AgentError: the agent could not answer.
        """
