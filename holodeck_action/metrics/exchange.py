"""One turn of a conversation, as metrics of whole conversations read it."""

from __future__ import annotations

from msgspec import Struct

from holodeck_action.record.facts import Fact, Unknown
from holodeck_action.record.record import ToolInvocation


class Exchange(Struct, frozen=True):
    """What was said in one turn of a conversation.

    Attributes:
        input: the question.
        response: the answer.
        calls: the tool calls of the turn.
        texts: the retrieved texts that metrics of the turn use.
    """

    input: str
    response: str
    calls: Fact[tuple[ToolInvocation, ...]] = Unknown()
    texts: Fact[tuple[str, ...]] = Unknown()
