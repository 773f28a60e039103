"""Chat models: they return the next message of a conversation or raise a readable error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.llm.clients import ModelClient, Offer, RequestSender
from holodeck_action.llm.codecs.codec import Codec
from holodeck_action.llm.codecs.schema_walk import SchemaError
from holodeck_action.llm.messages import AnswerSchema, Message, Reply, Request, ToolCall, ToolDefinition
from holodeck_action.llm.providers import ModelConfigError, ModelPlan
from holodeck_action.text.lazy_patterns import lazy_pattern

NAME = "answer"
"""Name of the answer's schema, for providers that require one."""

_STRICT_KEYWORDS = frozenset(
    (
        *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs"),
        *("description", "title", "format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("multipleOf", "minItems", "maxItems"),
    )
)
"""Keywords allowed in OpenAI's strict schemas (its guide on structured outputs, "Supported schemas")."""

_STRICT_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"),
)
_LOCAL_REFERENCE = lazy_pattern(r"#(?:/\$defs/[^/]+)?")
_LOOK_AROUND = ("(?=", "(?!", "(?<=", "(?<!")
_HOLDERS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties")


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Return whether OpenAI accepts a schema in strict mode, which guarantees that answers fit the schema.

    The schema must describe an object. Every object in it must forbid additional properties and require all its
    properties, and only keywords of strict mode are allowed.
    """
    return schema.get("type") == "object" and "anyOf" not in schema and _all_fit(schema, _is_strict_node)


def is_closed(schema: Mapping[str, Any]) -> bool:
    """Return whether every object in a schema declares its properties. Anthropic forbids undeclared properties, so an
    object that declares no properties would always be empty.
    """
    return _all_fit(schema, _is_closed_node)


def schema_instructions(schema: Mapping[str, Any]) -> str:
    """Return the instructions for a model without structured output to give an answer that fits a schema."""
    written = json.dumps(schema, ensure_ascii=False)
    return f"Answer with one JSON value that fits the JSON schema below. Write nothing else.\n\n{written}"


def _all_fit(schema: Any, is_supported: Callable[[Mapping[str, Any]], bool]) -> bool:
    """Return whether `is_supported` returns True for a schema and all schemas inside it; the schemas `true` and `false`
    are skipped.
    """
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            if not is_supported(node):
                return False
            waiting += _subschemas(node)
    return True


def _subschemas(node: Mapping[str, Any]) -> Iterator[Any]:
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
    """The answer of a model.

    Attributes:
        text: text of the answer or refusal; empty if the model wrote nothing.
        message: the complete reply, for the history of the conversation.
        prompted: whether the instructions described the schema because the provider cannot enforce it; the answer may
            then be in a code fence.
    """

    text: str
    message: Reply
    prompted: bool = False

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls that the model requests, in order. If there are any, the text is not yet the answer."""
        return self.message.calls

    @property
    def truncated(self) -> bool:
        """Whether the answer was cut off at `max_tokens`."""
        return self.message.finish == "length"

    @property
    def refused(self) -> bool:
        """Whether the model declined to answer."""
        return self.message.refusal is not None


class ChatModel:
    """A chat model with its tools and answer schema; all conversations share one instance."""

    def __init__(
        self,
        plan: ModelPlan,
        sender: RequestSender,
        tools: Sequence[ToolDefinition] = (),
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the instance; nothing is opened yet.

        Args:
            plan: the model.
            sender: the wire, which sends requests.
            tools: the tools that the model may call.
            schema: JSON schema of the answers. It is sent with the requests, but the caller checks the answers.

        Raises:
            ModelConfigError: the model does not support the schema of a tool.
        """
        self.plan = plan
        self._client = ModelClient(plan, sender)
        self.notices, self.settings = self._client.notices, self._client.settings
        codec = self._client.codec
        offer = Offer(tools)
        try:
            offer.fields(codec)
        except SchemaError as error:
            raise ModelConfigError(f"a tool cannot be offered to {plan.title}: its parameters: {error}") from None
        native = None if schema is None else _structured_output(codec, plan, tools, schema)
        self._offer = offer if native is None else native
        # For a model without structured output the schema is part of the instructions.
        self._schema_words = "" if schema is None or native is not None else schema_instructions(schema)

    async def ask(self, messages: Sequence[Message]) -> ChatAnswer:
        """Request the next message of a conversation.

        Raises:
            ModelCallError: there is no answer, the answer is malformed, or a content filter removed it.
        """
        reply = await self._client.ask(self._with_schema(messages), self._client.settings, self._offer)
        return ChatAnswer(reply.refusal or reply.text, reply, bool(self._schema_words))

    def _with_schema(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages, after adding the schema to the last request's instructions if the provider does not
        support schemas.
        """
        last = messages[-1]
        if not self._schema_words or not isinstance(last, Request):
            return messages
        instructions = f"{last.instructions}\n\n{self._schema_words}" if last.instructions else self._schema_words
        return [*messages[:-1], replace(last, instructions=instructions)]


def _structured_output(
    codec: Codec, plan: ModelPlan, tools: Sequence[ToolDefinition], schema: Mapping[str, Any]
) -> Offer | None:
    """Return the tools with the schema of the answer; None if the provider does not support it for this schema."""
    host = urlsplit(plan.account.base_url).hostname or ""
    # Ollama's cloud accepts a schema but ignores it.
    in_cloud = plan.provider == "ollama" and (f".{host}".endswith(".ollama.com") or plan.name.endswith("-cloud"))
    if not codec.known_model.structured or in_cloud:
        return None
    if plan.provider == "anthropic" and not is_closed(schema):
        return None
    try:
        offer = Offer(tools, AnswerSchema(NAME, dict(schema), is_strict(schema)))
        offer.fields(codec)
        return offer
    except SchemaError:
        # A schema that the service does not accept is put into the instructions.
        return None
