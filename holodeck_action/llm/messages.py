"""A conversation with a model, in no provider's words: what `codecs` translate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Literal

from msgspec import Struct

Finish = Literal["stop", "length", "tool_call", "content_filter"]
"""Why an answer ends, where the provider's reason is one of these."""


class Image(Struct, frozen=True):
    """An image with its media type, such as `image/png`."""

    media_type: str
    data: bytes


class Question(Struct, frozen=True):
    """What the user says: a text, then images."""

    text: str
    images: tuple[Image, ...] = ()


class ToolResult(Struct, frozen=True):
    """What a tool gave; `id` names the call."""

    id: str
    text: str


class Request(Struct, frozen=True):
    """What is said to the model at once. Of a conversation, the last instructions that are given count."""

    parts: tuple[Question | ToolResult, ...]
    instructions: str | None = None


class Text(Struct, frozen=True):
    """A piece of an answer."""

    content: str


class Thought(Struct, frozen=True):
    """What a model thought before it went on.

    Attributes:
        content: the thought; empty where the provider keeps it to itself.
        field: the field of an answer that held it; None for tags in the text, and for providers with one way.
        signature: with which the provider knows it again; of a thought without content, the thought itself.
    """

    content: str
    field: str | None = None
    signature: str | None = None


class ToolCall(Struct, frozen=True):
    """A tool that the model asks for.

    Attributes:
        id: names the call in the conversation.
        name: as the model wrote it.
        args: JSON text as the model wrote it, or what the provider read from it.
        extra: what the provider wants back with the call, as it came; None where there is nothing.
    """

    id: str
    name: str
    args: str | dict[str, Any]
    extra: Any = None


class TokenProbability(Struct, frozen=True):
    """A token of an answer with its log probability, and those that could have stood in its place."""

    token: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...]


class Reply(Struct, frozen=True):
    """What a model answered.

    Attributes:
        parts: in the model's order.
        model: its name as the answer gave it; empty where it does not say.
        finish: why it ends; None for a reason that is none of these.
        refusal: the model's words where it declined to answer, perhaps none; None where it did not decline.
        tokens: with their log probabilities; None where they were not asked for, or are not given.
        forgot: whether the provider left thoughts of the conversation out, because they belong to another one.
    """

    parts: tuple[Text | Thought | ToolCall, ...]
    model: str = ""
    finish: Finish | None = "stop"
    refusal: str | None = None
    tokens: tuple[TokenProbability, ...] | None = None
    forgot: bool = False

    @property
    def text(self) -> str:
        """The text; pieces with something else between them are paragraphs."""
        pieces = groupby(self.parts, key=lambda part: isinstance(part, Text))
        return "\n\n".join(
            "".join(part.content for part in group if isinstance(part, Text)) for is_text, group in pieces if is_text
        )

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tools it asks for before it goes on, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


Message = Request | Reply


class ToolDefinition(Struct, frozen=True):
    """A tool as the model sees it; `parameters` is the JSON schema of its arguments, an object."""

    name: str
    description: str
    parameters: dict[str, Any]


class AnswerSchema(Struct, frozen=True):
    """The JSON schema that an answer must fit; `strict` None lets the codec decide by the schema."""

    name: str
    schema: dict[str, Any]
    strict: bool | None = None


def instructions_of(messages: Sequence[Message]) -> str | None:
    """Return the instructions of a conversation: the last that are given."""
    for message in reversed(messages):
        if isinstance(message, Request) and message.instructions is not None:
            return message.instructions
    return None
