"""A conversation with a model, independent of providers; `codecs` translate it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

from msgspec import Struct

Finish = Literal["stop", "length", "tool_call", "content_filter"]
"""The reason why an answer ends."""


class Image(Struct, frozen=True):
    """An image with its media type, such as `image/png`."""

    media_type: str
    data: bytes


class Question(Struct, frozen=True):
    """A user's message: a text, then images."""

    text: str
    images: tuple[Image, ...] = ()


class ToolResult(Struct, frozen=True):
    """The result of a tool call; `id` is the id of the call."""

    id: str
    text: str


class Request(Struct, frozen=True):
    """The messages of one request, and instructions. If several requests of a conversation have instructions, the
    latest apply.
    """

    parts: tuple[Question | ToolResult, ...]
    instructions: str | None = None


class Text(Struct, frozen=True):
    """A part of an answer that is text; for `item` see `ToolCall`."""

    content: str
    item: Mapping[str, Any] | None = None


class Thought(Struct, frozen=True):
    """A part of an answer that contains the model's reasoning.

    Attributes:
        content: text of the thought; empty if the provider does not reveal it.
        field: name of the answer's field that contained it; None if it was between tags in the text, or if the provider
            has only one format.
        signature: the provider's signature of the thought; the encrypted thought if `content` is empty.
        item: see `ToolCall`; empty if the thought cannot be sent back.
    """

    content: str
    field: str | None = None
    signature: str | None = None
    item: Mapping[str, Any] | None = None


class ToolCall(Struct, frozen=True):
    """A tool call requested by the model.

    Attributes:
        id: id of the call, unique in the conversation.
        name: name of the tool as written by the model.
        args: JSON written by the model, or the object that the provider parsed from it.
        extra: data that must be sent back to the provider unchanged with the call; None if there are no such data.
        item: the part as OpenAI's Responses API takes it back, with its ids; None if it comes from another API.
    """

    id: str
    name: str
    args: str | dict[str, Any]
    extra: Any = None
    item: Mapping[str, Any] | None = None


class TokenProbability(Struct, frozen=True):
    """A token of an answer with its log probability, and its alternatives."""

    token: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...]


class Reply(Struct, frozen=True):
    """The answer of a model.

    Attributes:
        parts: texts, thoughts and calls, in the model's order.
        model: the model's name in the answer; empty if missing.
        finish: reason why the answer ends; None if it is not listed in `Finish`.
        refusal: text with which the model declined to answer, possibly empty; None if the model answered.
        tokens: tokens with log probabilities; None if these were not requested or are not supported.
        dropped_thoughts: whether the provider dropped thoughts that belong to another conversation.
    """

    parts: tuple[Text | Thought | ToolCall, ...]
    model: str = ""
    finish: Finish | None = "stop"
    refusal: str | None = None
    tokens: tuple[TokenProbability, ...] | None = None
    dropped_thoughts: bool = False

    @property
    def text(self) -> str:
        """The text of the reply; texts separated by other parts become paragraphs."""
        pieces = groupby(self.parts, key=lambda part: isinstance(part, Text))
        return "\n\n".join(
            "".join(part.content for part in group if isinstance(part, Text)) for is_text, group in pieces if is_text
        )

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls that the model requests, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


Message = Request | Reply


class ToolDefinition(Struct, frozen=True):
    """A tool as presented to the model; `parameters` is the JSON schema of its arguments, an object."""

    name: str
    description: str
    parameters: dict[str, Any]


class AnswerSchema(Struct, frozen=True):
    """The JSON schema of an answer; if `strict` is None, the codec decides whether it is enforced strictly."""

    name: str
    schema: dict[str, Any]
    strict: bool | None = None


def instructions_of(messages: Sequence[Message]) -> str | None:
    """Return the latest instructions of a conversation, which are the ones that apply; None if no message has
    instructions.
    """
    for message in reversed(messages):
        if isinstance(message, Request) and message.instructions is not None:
            return message.instructions
    return None
