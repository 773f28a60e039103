"""Asking a chat model: messages in, an answer or an error in plain words out."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from holodeck_action.llm.clients import BuiltModel, Clients, build_model
from holodeck_action.llm.errors import call_error, refusal_of
from holodeck_action.llm.providers import ModelPlan
from holodeck_action.llm.usage import cost_usd
from holodeck_action.results.record import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import ModelRequestParameters


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


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as the model sees it; `parameters` is the JSON schema of its arguments, an object."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model asks for; `args` as it wrote them, `id` names the call in the conversation."""

    id: str
    name: str
    args: str | dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What a model answered.

    Attributes:
        text: the answer, empty when the model said nothing; a refusal is an answer.
        message: pydantic-ai's message, for the history of the conversation.
        usage: tokens and list price, None where not told.
        calls: the tools it asks for before it goes on, in order; the text is then no answer yet.
        truncated: whether the answer stops at `max_tokens`.
        refused: whether the model declined to answer.
        prompted: whether the answer's schema was only told to the model, in words, so that it may stand in a fence.
    """

    text: str
    message: ModelResponse
    usage: Usage
    calls: tuple[ToolCall, ...] = ()
    truncated: bool = False
    refused: bool = False
    prompted: bool = False


class ChatModel:
    """A model that is asked again and again; all conversations share it."""

    def __init__(
        self,
        plan: ModelPlan,
        clients: Clients,
        tools: Sequence[ToolDefinition] = (),
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        """Build the model's client, which imports the provider's package (about a second).

        Args:
            plan: the model.
            clients: the wire.
            tools: what the model may call.
            schema: JSON schema that its answers must fit; it is asked for, and checked by who asks.

        Raises:
            ModelConfigError: the package is not installed.
        """
        built = build_model(plan, clients)

        from pydantic_ai import direct
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.tools import ToolDefinition as FunctionTool

        self.plan = plan
        self.notices = built.notices
        self._model = built.model
        self._settings = built.settings
        parameters = ModelRequestParameters(
            function_tools=[
                FunctionTool(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
                for tool in tools
            ]
        )
        native = None if schema is None else _native(built, plan, parameters, schema)
        self._parameters = parameters if native is None else native
        # A model without structured output is told the schema with its instructions.
        self._schema_words = "" if schema is None or native is not None else asking_for(schema)
        self._request = direct.model_request

    async def ask(self, messages: Sequence[ModelMessage]) -> ChatAnswer:
        """Ask for the next message of a conversation.

        Raises:
            ModelCallError: no answer came, or a broken one, or the provider's filter took it away.
        """
        try:
            response = await self._request(
                self._model,
                self._with_schema(messages),
                model_settings=self._settings,
                model_request_parameters=self._parameters,
                instrument=False,
            )
        except Exception as error:
            raise call_error(error, self.plan) from error
        return self._answer(response)

    def _answer(self, response: ModelResponse) -> ChatAnswer:
        refusal = refusal_of(response, self.plan)
        text = response.text or refusal or ""
        calls = tuple(
            ToolCall(call.tool_call_id, call.tool_name, "{}" if call.args is None else call.args)
            for call in response.tool_calls
        )
        truncated, refused = response.finish_reason == "length", refusal is not None
        return ChatAnswer(text, response, self._usage(response), calls, truncated, refused, bool(self._schema_words))

    def _with_schema(self, messages: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
        """Return the messages, the last request's instructions with the schema that has no other way to the model."""
        last = messages[-1]
        if not self._schema_words or last.kind != "request":
            return messages
        instructions = f"{last.instructions}\n\n{self._schema_words}" if last.instructions else self._schema_words
        return [*messages[:-1], replace(last, instructions=instructions)]

    def _usage(self, response: ModelResponse) -> Usage:
        usage = response.usage
        if not usage.input_tokens and not usage.output_tokens:
            # No provider reads and writes nothing: the server did not tell.
            return Usage()
        cost = cost_usd(
            self.plan.provider,
            response.model_name or self.plan.name,
            prompt_tokens=usage.input_tokens,
            completion_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        )
        return Usage(usage.input_tokens, usage.output_tokens, cost)


def _native(
    built: BuiltModel, plan: ModelPlan, parameters: ModelRequestParameters, schema: Mapping[str, Any]
) -> ModelRequestParameters | None:
    """Return the parameters that ask for structured output, None where the provider cannot be asked for this schema."""
    from pydantic_ai.output import OutputObjectDefinition

    profile = cast(Mapping[str, Any], built.model.profile)
    host = urlsplit(plan.account.base_url).hostname or ""
    # Ollama's cloud takes a schema and does not keep to it.
    in_cloud = plan.provider == "ollama" and (f".{host}".endswith(".ollama.com") or plan.name.endswith("-cloud"))
    if not profile.get("supports_json_schema_output") or in_cloud:
        return None
    if plan.provider == "anthropic" and not is_closed(schema):
        return None
    strict = None if plan.provider == "anthropic" else is_strict(schema)
    output = OutputObjectDefinition(json_schema=dict(schema), name=NAME, strict=strict)
    asking = replace(parameters, output_mode="native", output_object=output)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            built.model.prepare_request(built.settings, asking)
    except Exception:  # noqa: BLE001 - a schema the provider's package cannot translate is told in words
        return None
    return asking
