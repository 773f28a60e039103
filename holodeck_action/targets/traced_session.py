"""Conversations whose agents may send spans."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holodeck_action.suite.values import Turn
from holodeck_action.targets.protocol import Attempt, Conversation, Reply, Session

if TYPE_CHECKING:
    from holodeck_action.extensions.frameworks.spans.listening import Listening


class TracedSession(Session):
    """A conversation that asks with requests, and reads spans where anybody listens to them."""

    def __init__(self, conversation: Conversation, listening: Listening | None) -> None:
        """Begin; without `listening` there are no spans."""
        self._conversation = conversation
        self._listening = listening

    async def send(self, turn: Turn) -> Reply:
        """Ask one turn."""
        request: Mapping[str, Any] = self._conversation.request(turn)
        reply = await self._ask(request if self._listening is None else self._listening.traced(request))
        self._conversation.add(turn, reply)
        return reply

    async def completed(self, reply: Reply) -> Reply:
        """Add what the spans of the turn tell."""
        return reply if self._listening is None else await self._listening.completed(reply)

    def attempt(self) -> Attempt:
        """Tell what the spans of a turn say that failed."""
        return Attempt() if self._listening is None else self._listening.attempt()

    async def close(self) -> None:
        """Listen no more."""
        if self._listening is not None:
            self._listening.end()

    @abstractmethod
    async def _ask(self, request: Mapping[str, Any]) -> Reply:
        """Ask the agent.

        Raises:
            AgentError: it could not answer.
        """
