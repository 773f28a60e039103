"""What a codec does: a conversation in, the JSON of one request out, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pydantic_core
from msgspec import Struct, field

from holodeck_action.llm.messages import AnswerSchema, Message, Reply, ToolCall, ToolDefinition
from holodeck_action.llm.model_facts import KnownModel

_UNREAD = "INVALID_JSON"


class BrokenAnswerError(ValueError):
    """An answer is not of its interface's shape; one clause says why."""


class Outgoing(Struct, frozen=True):
    """One request: its body as JSON values, and headers that only it has."""

    body: dict[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


class Codec(Protocol):
    """One model's interface."""

    known: KnownModel

    def offer(self, tools: Sequence[ToolDefinition], answer: AnswerSchema | None) -> Mapping[str, Any]:
        """Return the fields of a request that say what may be called, and what the answer must fit.

        Raises:
            SchemaError: a schema cannot be written for the model.
        """
        ...

    def outgoing(
        self, messages: Sequence[Message], settings: Mapping[str, Any], offered: Mapping[str, Any]
    ) -> Outgoing:
        """Return the request for the next message.

        Args:
            messages: the conversation.
            settings: `temperature`, `top_p`, `max_tokens`, `presence_penalty`, `frequency_penalty`, `effort`,
                `thinking`, `betas` and `top_logprobs`, as far as they are sent; the fields of `extra_body` as they are.
            offered: from `offer`.
        """
        ...

    def read(self, payload: Any) -> Reply:
        """Return an answer.

        Args:
            payload: its JSON value, or those of a stream's events.

        Raises:
            BrokenAnswerError: it is none.
        """
        ...

    def instead(self, sent: Outgoing, status: int, error: Any) -> Outgoing | None:
        """Return the request to make once in the place of one that was refused for what it repeats, None for none.

        Args:
            sent: the request.
            status: of the refusal.
            error: its body as a JSON value.
        """
        ...


def arguments(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call as an object; what the model wrote instead of one stands under one name."""
    if not call.args:
        return {}
    if isinstance(call.args, dict):
        return call.args
    try:
        read = pydantic_core.from_json(call.args)
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {_UNREAD: call.args}


def arguments_text(call: ToolCall) -> str:
    """Return the arguments of a call as JSON text: the same text however the model spaced it."""
    value = arguments(call)
    try:
        return pydantic_core.to_json(value).decode()
    except ValueError:
        # Half a character of a hostile text: JSON can say it, UTF-8 cannot.
        return json.dumps(value, separators=(",", ":"))


def text_at(holder: Mapping[str, Any], key: str, where: str) -> str:
    """Return a text of an answer.

    Raises:
        BrokenAnswerError: there is none.
    """
    value = holder.get(key)
    if not isinstance(value, str):
        raise BrokenAnswerError(f"missing or wrong: {where}.{key}" if where else f"missing or wrong: {key}")
    return value


def mapping(value: Any, where: str) -> Mapping[str, Any]:
    """Return a part of an answer that must be an object.

    Raises:
        BrokenAnswerError: it is none.
    """
    if not isinstance(value, Mapping):
        raise BrokenAnswerError(f"missing or wrong: {where}")
    return value
