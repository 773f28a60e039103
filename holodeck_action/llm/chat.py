"""Asking a chat model: messages in, an answer or an error in plain words out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.llm.clients import Clients, ModelClient
from holodeck_action.llm.codecs.codec import Codec
from holodeck_action.llm.codecs.schema_walk import SchemaError
from holodeck_action.llm.messages import AnswerSchema, Message, Reply, Request, ToolCall, ToolDefinition
from holodeck_action.llm.providers import ModelConfigError, ModelPlan

NAME = "answer"
"""What the schema is called where a provider wants a name."""

_STRICT_KEYWORDS = frozenset(
    (
        *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs"),
        *("description", "title", "format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("multipleOf", "minItems", "maxItems"),
    )
)
"""Keywords of OpenAI's strict schemas (its guide on structured outputs, "Supported schemas")."""

_STRICT_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"),
)
_LOCAL_REFERENCE = re.compile(r"#(?:/\$defs/[^/]+)?")
_LOOK_AROUND = ("(?=", "(?!", "(?<=", "(?<!")
_HOLDERS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties")


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Whether OpenAI takes a schema in strict mode, in which its answers are sure to fit.

    Every object must be closed with all of its properties required, and only the keywords of strict mode may stand
    anywhere; the whole must be an object.
    """
    return schema.get("type") == "object" and "anyOf" not in schema and _all(schema, _is_strict_node)


def is_closed(schema: Mapping[str, Any]) -> bool:
    """Whether every object of a schema names its properties: Anthropic closes the others, so that they stay empty."""
    return _all(schema, _is_closed_node)


def asking_for(schema: Mapping[str, Any]) -> str:
    """Return the words that ask a model without structured output for an answer that fits a schema."""
    written = json.dumps(schema, ensure_ascii=False)
    return f"Answer with one JSON value that fits the JSON schema below. Write nothing else.\n\n{written}"


def _all(schema: Any, fits: Callable[[Mapping[str, Any]], bool]) -> bool:
    """Whether every schema inside a schema fits; `true` and `false` stand for schemas too."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            if not fits(node):
                return False
            waiting += _inside(node)
    return True


def _inside(node: Mapping[str, Any]) -> Iterator[Any]:
    for key in _HOLDERS:
        if isinstance(node.get(key), Mapping):
            yield from node[key].values()
    for key in _LISTS:
        if isinstance(node.get(key), list):
            yield from node[key]
    yield from (node[key] for key in _SINGLE if key in node)


def _is_object(node: Mapping[str, Any]) -> bool:
    kind = node.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in node


def _is_strict_node(node: Mapping[str, Any]) -> bool:
    if not node or not _STRICT_KEYWORDS.issuperset(node) or node.get("format", "date") not in _STRICT_FORMATS:
        return False
    if any(sign in str(node.get("pattern", "")) for sign in _LOOK_AROUND):
        return False
    if "$ref" in node:
        return len(node) == 1 and _LOCAL_REFERENCE.fullmatch(str(node["$ref"])) is not None
    kind = node.get("type")
    if kind == "array" or (isinstance(kind, list) and "array" in kind):
        items = node.get("items")
        return isinstance(items, Mapping) and any(key in items for key in ("type", "$ref", "anyOf", "enum", "const"))
    if not _is_object(node):
        return any(key in node for key in ("type", "anyOf", "enum", "const"))
    return node.get("additionalProperties") is False and {*node.get("required", ())} == {*node.get("properties", {})}


def _is_closed_node(node: Mapping[str, Any]) -> bool:
    if "patternProperties" in node or node.get("additionalProperties") not in (None, False):
        return False
    return not _is_object(node) or "properties" in node


class ChatAnswer(Struct, frozen=True):
    """What a model answered.

    Attributes:
        text: the answer, empty when the model said nothing; a refusal is an answer.
        message: the answer as it is, for the history of the conversation.
        prompted: whether the answer's schema was only told to the model, in words, so that it may stand in a fence.
    """

    text: str
    message: Reply
    prompted: bool = False

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tools it asks for before it goes on, in order; the text is then no answer yet."""
        return self.message.calls

    @property
    def truncated(self) -> bool:
        """Whether the answer stops at `max_tokens`."""
        return self.message.finish == "length"

    @property
    def refused(self) -> bool:
        """Whether the model declined to answer."""
        return self.message.refusal is not None


class ChatModel:
    """A model that is asked again and again; all conversations share it."""

    def __init__(
        self,
        plan: ModelPlan,
        clients: Clients,
        tools: Sequence[ToolDefinition] = (),
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        """Prepare; nothing is opened.

        Args:
            plan: the model.
            clients: the wire.
            tools: what the model may call.
            schema: JSON schema that its answers must fit; it is asked for, and checked by who asks.

        Raises:
            ModelConfigError: a tool cannot be offered to this model.
        """
        self.plan = plan
        self._client = ModelClient(plan, clients)
        self.notices = self._client.notices
        codec = self._client.codec
        try:
            offered = codec.offer(tools, None)
        except SchemaError as error:
            raise ModelConfigError(f"a tool cannot be offered to {plan.title}: its parameters: {error}") from None
        native = None if schema is None else _native(codec, plan, tools, schema)
        self._offered = offered if native is None else native
        # A model without structured output is told the schema with its instructions.
        self._schema_words = "" if schema is None or native is not None else asking_for(schema)

    async def ask(self, messages: Sequence[Message]) -> ChatAnswer:
        """Ask for the next message of a conversation.

        Raises:
            ModelCallError: no answer came, or a broken one, or the provider's filter took it away.
        """
        reply = await self._client.ask(self._with_schema(messages), self._client.settings, self._offered)
        return ChatAnswer(reply.refusal or reply.text, reply, bool(self._schema_words))

    def _with_schema(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages, the last request's instructions with the schema that has no other way to the model."""
        last = messages[-1]
        if not self._schema_words or not isinstance(last, Request):
            return messages
        instructions = f"{last.instructions}\n\n{self._schema_words}" if last.instructions else self._schema_words
        return [*messages[:-1], replace(last, instructions=instructions)]


def _native(
    codec: Codec, plan: ModelPlan, tools: Sequence[ToolDefinition], schema: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Return the fields that ask for structured output, None where the provider cannot be asked for this schema."""
    host = urlsplit(plan.account.base_url).hostname or ""
    # Ollama's cloud takes a schema and does not keep to it.
    in_cloud = plan.provider == "ollama" and (f".{host}".endswith(".ollama.com") or plan.name.endswith("-cloud"))
    if not codec.known.structured or in_cloud:
        return None
    if plan.provider == "anthropic" and not is_closed(schema):
        return None
    try:
        return codec.offer(tools, AnswerSchema(NAME, dict(schema), is_strict(schema)))
    except SchemaError:
        # What the service cannot read is told in words.
        return None
