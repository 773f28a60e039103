"""One turn of a conversation, as metrics read it, and the text of a conversation for a judge."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

from msgspec import Struct

from holodeck_action.metrics.params import EvalParam
from holodeck_action.record.facts import Fact, Unknown, items_or_none, join_facts
from holodeck_action.record.record import ToolInvocation

_LONGEST_RESULT = 4_000
"""Maximum characters of a tool's result in a judge's prompt."""


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


CONVERSATION_PREAMBLE = """\
You grade a whole conversation, not a single answer. What is called the answer (or actual output) below is the
conversation: a JSON list of its messages, each with its "turn", counted from 0, and those of the assistant with the
tool calls and the retrieved texts of the turn, as far as they are known. What is called the request (or input) is what
the user wrote in all turns. What is called the expected answer (or expected output) is what the conversation should
achieve. Grade what the assistant did in all turns; the other messages, tool calls and texts are context. Empty content
of the assistant is a missing answer. In the reason, name the number of the turn that decided, such as "turn 2".

"""
"""The start of each question to a judge that grades a whole conversation."""


def conversation_inputs(exchanges: Sequence[Exchange]) -> dict[str, Any]:
    """Return the inputs with which a judge grades all turns together; None for an input that is unknown.

    The response is an empty string if all turns' responses are empty. The context is always None, since files belong to
    single turns.
    """
    asked = [each.input for each in exchanges]
    texts = items_or_none(reduce(join_facts, (each.texts for each in exchanges)))
    return {
        EvalParam.QUERY: asked[0] if len(asked) == 1 else _to_json(asked),
        EvalParam.RESPONSE: _to_json([*_messages(exchanges)]) if any(e.response.strip() for e in exchanges) else "",
        EvalParam.TOOL_INVOCATIONS: items_or_none(reduce(join_facts, (each.calls for each in exchanges))),
        EvalParam.CONTEXT: None,
        EvalParam.RETRIEVAL_CONTEXT: None if texts is None else tuple(dict.fromkeys(texts)),
    }


def _messages(exchanges: Sequence[Exchange]) -> Iterator[dict[str, Any]]:
    """Yield the messages of all turns. Unknown tool calls and unknown texts are omitted. Texts of an earlier turn are
    not repeated."""
    shown: set[str] = set()
    for turn, each in enumerate(exchanges):
        yield {"turn": turn, "role": "user", "content": each.input}
        answer: dict[str, Any] = {"turn": turn, "role": "assistant", "content": each.response}
        if (calls := items_or_none(each.calls)) is not None:
            answer["tool_calls"] = [call_data(call) for call in calls]
        if (texts := items_or_none(each.texts)) is not None:
            answer["retrieved_texts"] = [text for text in dict.fromkeys(texts) if text not in shown]
            shown.update(texts)
        yield answer


def call_data(call: ToolInvocation) -> dict[str, Any]:
    """Return a tool call as a judge sees it; a long result is cut."""
    shown: dict[str, Any] = {"tool": call.name, "arguments": dict(call.args)}
    if call.error is not None:
        shown["error"] = call.error
    elif (text := call.result) is not None:
        text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False, default=str)
        left = len(text) - _LONGEST_RESULT
        shown["result"] = text if left <= 0 else f"{text[:_LONGEST_RESULT]} … ({left} characters more)"
    return shown


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)


def conversation_text(exchanges: Sequence[Exchange]) -> str:
    """Return all questions and answers up to the last question; only the question if there is one turn.

    The text is a JSON list of messages with `role` and `content`, so that the text of one message cannot look like
    several messages.
    """
    *earlier, last = exchanges
    if not earlier:
        return last.input
    return _to_json([*_plain_messages(earlier), {"role": "user", "content": last.input}])


def messages_text(exchanges: Sequence[Exchange]) -> str:
    """Return all questions and answers as a JSON list of messages with `role` and `content`."""
    return _to_json(_plain_messages(exchanges))


def _plain_messages(exchanges: Sequence[Exchange]) -> list[dict[str, str]]:
    return [
        message
        for each in exchanges
        for message in ({"role": "user", "content": each.input}, {"role": "assistant", "content": each.response})
    ]
