"""One turn of a conversation, as metrics read it, and the text of a conversation for a judge."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import Struct

from holodeck_action.record.facts import Fact, Unknown
from holodeck_action.record.record import ToolInvocation


class Exchange(Struct, frozen=True):
    """The input, the answer and the tool calls of one turn of a conversation.

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


def conversation_text(exchanges: Sequence[Exchange]) -> str:
    """Return all questions and answers up to the last question; of one turn, only its question.

    The text is a JSON list of messages with `role` and `content`, so that no message can pass for several.
    """
    *earlier, last = exchanges
    if not earlier:
        return last.input
    return _to_json([*_messages(earlier), {"role": "user", "content": last.input}])


def messages_text(exchanges: Sequence[Exchange]) -> str:
    """Return all questions and answers as a JSON list of messages with `role` and `content`."""
    return _to_json(_messages(exchanges))


def _messages(exchanges: Sequence[Exchange]) -> list[dict[str, str]]:
    return [
        message
        for each in exchanges
        for message in ({"role": "user", "content": each.input}, {"role": "assistant", "content": each.response})
    ]


def _to_json(messages: Sequence[dict[str, str]]) -> str:
    return json.dumps(messages, ensure_ascii=False, indent=1)
