"""The interface of codecs, which translate between conversations and a provider's requests and answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pydantic_core
from msgspec import Struct, field

from holodeck_action.llm.messages import AnswerSchema, Message, Reply, ToolCall, ToolDefinition
from holodeck_action.llm.model_facts import KnownModel

_UNREAD = "INVALID_JSON"


class BrokenAnswerError(ValueError):
    """An answer does not have the provider's format; the message is a clause with the reason."""


class ProviderRequest(Struct, frozen=True):
    """A request to a provider: the body as JSON values, and headers specific to this request."""

    body: dict[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


class Codec(Protocol):
    """Translates conversations to and from the API format of one model."""

    known_model: KnownModel

    def offer(self, tools: Sequence[ToolDefinition], answer: AnswerSchema | None) -> Mapping[str, Any]:
        """Return the request fields that offer the tools and set the schema of the answer.

        Raises:
            SchemaError: the model does not support a schema.
        """
        ...

    def build_request(
        self, messages: Sequence[Message], settings: Mapping[str, Any], tool_fields: Mapping[str, Any]
    ) -> ProviderRequest:
        """Return the request for the next message.

        Args:
            messages: the conversation.
            settings: any of `temperature`, `top_p`, `max_tokens`, `presence_penalty`, `frequency_penalty`, `effort`,
                `thinking`, `betas` and `top_logprobs`; the fields of `extra_body` are copied to the body.
            tool_fields: the fields returned by `offer`.
        """
        ...

    def read(self, payload: Any) -> Reply:
        """Parse an answer.

        Args:
            payload: JSON value of the answer, or list with the JSON values of a stream's events.

        Raises:
            BrokenAnswerError: the answer does not have the provider's format.
        """
        ...

    def fallback_request(self, request: ProviderRequest, status: int, error: Any) -> ProviderRequest | None:
        """Return the request to send once instead of a refused request; None if there is no alternative.

        Args:
            request: the refused request.
            status: the HTTP status of the refusal.
            error: the body of the refusal as a JSON value.
        """
        ...

    def variants(self, request: ProviderRequest) -> Iterator[ProviderRequest]:
        """Yield the requests that `fallback_request` may return for a request."""
        ...


def parse_arguments(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call as an object. Text that is not a JSON object is returned under the key
    `INVALID_JSON`.
    """
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
    """Return the arguments of a call as compact JSON."""
    value = parse_arguments(call)
    try:
        return pydantic_core.to_json(value).decode()
    except ValueError:
        # A lone surrogate in hostile text can be written in JSON but not in UTF-8.
        return json.dumps(value, separators=(",", ":"))


def require_text(fields: Mapping[str, Any], key: str, path: str) -> str:
    """Return a field of an answer that must be a string.

    Raises:
        BrokenAnswerError: the field is missing or not a string.
    """
    value = fields.get(key)
    if not isinstance(value, str):
        raise BrokenAnswerError(f"{path}.{key} is missing or invalid" if path else f"{key} is missing or invalid")
    return value


def require_mapping(value: Any, path: str) -> Mapping[str, Any]:
    """Return a part of an answer that must be an object.

    Raises:
        BrokenAnswerError: the part is not an object.
    """
    if not isinstance(value, Mapping):
        raise BrokenAnswerError(f"{path} is missing or invalid")
    return value
