"""Reads model calls, tool calls and retrievals from spans of any supported convention.

Supports OpenTelemetry's conventions for generative AI in current and older versions, and OpenInference. If a span
has several attributes with the same meaning, the first one in the order of this module is used.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from holodeck_action.extensions.frameworks.spans.span import Span
from holodeck_action.record.facts import LARGEST, within_bounds
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.lazy_patterns import lazy_pattern

Work = Literal["model", "tool", "retrieval", "reranking", "other"]

_OPERATIONS: dict[str, Work] = {
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
    "embeddings": "model",
    "execute_tool": "tool",
    "retrieval": "retrieval",
}
_KINDS: dict[str, Work] = {
    "LLM": "model",
    "EMBEDDING": "model",
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
    "RERANKER": "reranking",
}
_PREPARATION = "._prepare_chat_with_tools"
"""The end of the names of LlamaIndex's spans in which a request is written, to which it gives the kind `LLM`."""
_PROMPT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_COMPLETION_TOKENS = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
_CACHED_TOKENS = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "llm.token_count.prompt_details.cache_read",
)
_REASONING_TOKENS = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.details.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
)
_COST = "llm.cost.total"
_PRICE = "operation.cost"
"""The attribute of Pydantic AI, which computes it from the list prices of genai-prices."""
_MODEL_NAME = (
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.response.model_name",
    "llm.model_name",
    "embedding.model_name",
)
_PROVIDER_NAME = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system")
_PROVIDERS = {
    **{name: name for name in ("openai", "anthropic", "google", "groq", "deepseek", "cohere", "perplexity")},
    "azure": "azure_openai",
    "azure.ai.openai": "azure_openai",
    "az.ai.openai": "azure_openai",
    "aws.bedrock": "bedrock",
    "gcp.vertex_ai": "vertex",
    "gcp.gemini": "google",
    "gcp.gen_ai": "google",
    "mistral_ai": "mistral",
    "mistralai": "mistral",
    "x_ai": "x-ai",
}
"""The provider's name for price look-ups, by the provider's name in spans."""
_ANSWERING_TOOLS = {"smolagents": "final_answer", "dspy": "finish"}
"""The tool with which a framework's agent ends its work, by the instrumentation of OpenInference."""
HIDDEN = "__REDACTED__"
"""The text with which OpenInference replaces hidden values."""
_DOCUMENT = lazy_pattern(r"(?:retrieval\.documents|reranker\.output_documents)\.(\d+)\.document\.(id|content|score)")


def work_kind(span: Span) -> Work:
    """Return the kind of work of a span; `other` for agents, chains and anything else."""
    kind = _kind(span).upper()
    if kind in _KINDS and not span.name.endswith(_PREPARATION):
        return _KINDS[kind]
    return _OPERATIONS.get(str(span.attributes.get("gen_ai.operation.name")), "other")


def follows_convention(span: Span) -> bool:
    """Return whether a span follows one of the conventions."""
    return any(name in span.attributes for name in ("gen_ai.operation.name", "openinference.span.kind"))


def is_agent(span: Span) -> bool:
    """Return whether a span is about an agent."""
    return _kind(span).upper() == "AGENT" or span.attributes.get("gen_ai.operation.name") == "invoke_agent"


def is_embedding(span: Span) -> bool:
    """Return whether the model call of a span computes embeddings."""
    return "embedding" in f"{span.attributes.get('gen_ai.operation.name', '')}{_kind(span)}".lower()


def usage_of(span: Span) -> dict[str, Any] | None:
    """Convert a model call's span to an entry of a reply's `usage`; None if the span has no token counts."""
    prompt, completion = _token_count(span, _PROMPT_TOKENS), _token_count(span, _COMPLETION_TOKENS)
    if prompt is None and completion is None:
        return None
    if completion is None and is_embedding(span):
        completion = 0
    cached, reasoning = _token_count(span, _CACHED_TOKENS), _token_count(span, _REASONING_TOKENS)
    if cached is not None and prompt is not None and cached > prompt:
        # Some count cached tokens separately.
        prompt += cached
    if reasoning is not None and completion is not None and reasoning > completion:
        completion += reasoning
    cost = first_attribute(span, (_COST, _PRICE))
    known = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9
    return {
        "model": model_of(span),
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "cached_tokens": cached,
        "reasoning_tokens": reasoning,
        "cost_usd": cost if known else None,
        "estimated": known and first_attribute(span, (_COST,)) is None,
    }


def model_of(span: Span) -> str | None:
    """Return a call's model, as `provider/name` if the provider's prices are known; None if the span names none."""
    name = first_attribute(span, _MODEL_NAME)
    if not isinstance(name, str) or not name:
        return None
    provider = _PROVIDERS.get(str(first_attribute(span, _PROVIDER_NAME)).lower())
    return name if provider is None or "/" in name else f"{provider}/{name}"


def message_call(name: str, arguments: Any, result: Any) -> dict[str, Any]:
    """Convert a tool call that appears only in messages to an entry of a reply's `tool_invocations`."""
    args = parse_text(arguments)
    found = {"name": name or "tool", "args": dict(args) if isinstance(args, Mapping) else {"input": args}}
    return found if result is None else {**found, "result": parse_text(result)}


def tool_name(span: Span) -> str:
    """Return the name of the tool that a span is about."""
    named = first_attribute(span, ("gen_ai.tool.name", "tool.name"))
    # DSPy names its spans after the method that runs the tool.
    own = span.name.removeprefix("execute_tool ").removesuffix(".__call__").removesuffix(".acall")
    return named if isinstance(named, str) and named else own or "tool"


def ends_loop(span: Span) -> bool:
    """Return whether a span of a tool is about the framework's own tool that ends the agent's work."""
    return _ANSWERING_TOOLS.get(span.scope.removeprefix("openinference.instrumentation.")) == tool_name(span)


def call_id(span: Span) -> str | None:
    """Return the id that the model gave to the tool call of a span; None if the span does not have it."""
    found = first_attribute(span, ("gen_ai.tool.call.id", "tool.id"))
    if found is None and "tool_call_id" in str(span.attributes.get("output.value")):
        # A message of LangChain.
        result = _result(span)
        data = result.get("data") if isinstance(result, Mapping) else None
        found = data.get("tool_call_id") if isinstance(data, Mapping) else None
    return None if found is None else str(found)


def error_reason(span: Span) -> str | None:
    """Return the reason of a span's failure without a traceback; empty if unknown, None if the span did not fail."""
    if span.error is None:
        return None
    reason, _, trace = span.error.partition("Traceback (most recent call last)")
    return reason.strip() or trace.strip().rpartition("\n")[2].strip()


def tool_call(span: Span, requested: Any) -> dict[str, Any]:
    """Convert a tool call's span to an entry of a reply's `tool_invocations`.

    Args:
        span: span of a tool call.
        requested: the arguments with which a model requested the call; None if they are unknown.
    """
    result = _result(span)
    data = result.pop("data", None) if isinstance(result, dict) and result.get("type") == "tool" else None
    error = error_reason(span)
    if isinstance(data, dict) and "content" in data:
        # A message of LangChain.
        result = data["content"]
        error = error if data.get("status") != "error" else _text_of(result)
    elif isinstance(result, dict) and {"raw_input", "raw_output"} <= result.keys():
        # An output of LlamaIndex.
        error = error if result.get("is_error") is not True else _text_of(result["raw_output"])
        result = result["raw_output"]
    elif isinstance(result, dict) and result.keys() == {"id", "name", "response"}:
        # A response of the Agent Development Kit.
        result = result["response"]
    args = _arguments(span, requested)
    found: dict[str, Any] = {"name": tool_name(span), "args": args}
    if span.end_ns >= span.start_ns:
        found["duration_ms"] = span.duration_ms
    if error is not None:
        return {**found, "error": error or _exception_text(span) or "the call failed"}
    return found if result is None else {**found, "result": result}


def retrieved_documents(span: Span) -> list[dict[str, Any]] | None:
    """Return a retrieval's or reranking's documents as a reply's `retrieved_chunks`; None if they are unreadable."""
    listed = parse_text(span.attributes.get("gen_ai.retrieval.documents"))
    if isinstance(listed, list):
        return [_chunk(entry) for entry in listed] if all(isinstance(entry, Mapping) for entry in listed) else None
    found: dict[int, dict[str, Any]] = {}
    for name, value in span.attributes.items():
        match = _DOCUMENT.fullmatch(name)
        if match is not None:
            found.setdefault(int(match[1]), {})[match[2]] = value
    if not found and parse_text(span.attributes.get("output.value")) not in ([], {"documents": []}):
        return None
    return [_chunk(entry) for _, entry in sorted(found.items())]


def _chunk(entry: Mapping[str, Any]) -> dict[str, Any]:
    text = next((entry[key] for key in ("content", "text") if isinstance(entry.get(key), str)), None)
    score, name = entry.get("score"), entry.get("id")
    return {
        # Some retrievers do not give ids.
        "id": str(name) if name not in (None, "") else (text or "?")[:80],
        "text": None if text == HIDDEN else text,
        "score": score
        if isinstance(score, int | float) and not isinstance(score, bool) and abs(score) <= LARGEST
        else None,
    }


def _kind(span: Span) -> str:
    return str(span.attributes.get("openinference.span.kind", ""))


def first_attribute(span: Span, names: Sequence[str]) -> Any:
    """Return the value of the first attribute in `names` that a span has; None if it has none of them."""
    return next((span.attributes[name] for name in names if span.attributes.get(name) is not None), None)


def _token_count(span: Span, names: Sequence[str]) -> int | None:
    value = first_attribute(span, names)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return within_bounds(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _arguments(span: Span, requested: Any) -> dict[str, Any]:
    content = _event_attribute(span, "gen_ai.tool.message", "content")
    given = (span.attributes.get("gen_ai.tool.call.arguments"), content, requested, span.attributes.get("input.value"))
    for value in given:
        found = parse_text(value, python=True)
        if isinstance(found, Mapping):
            inner = found.get("kwargs")
            # LlamaIndex keeps positional arguments separately.
            wrapped = isinstance(inner, Mapping) and found.keys() <= {"args", "kwargs"}
            return dict(inner if wrapped and inner is not None else found)
    plain = next((value for value in given if isinstance(value, str) and value not in ("", HIDDEN)), None)
    return {} if plain is None else {"input": plain}


def _result(span: Span) -> Any:
    value = span.attributes.get("gen_ai.tool.call.result")
    if value is not None:
        return parse_text(value)
    value = _event_attribute(span, "gen_ai.choice", "message")
    if value is not None:
        blocks = parse_text(value)
        texts = (
            [block.get("text") for block in blocks if isinstance(block, Mapping)] if isinstance(blocks, list) else []
        )
        return parse_text(texts[0]) if len(texts) == 1 and isinstance(texts[0], str) else blocks
    value = span.attributes.get("output.value")
    if value == HIDDEN:
        return None
    return parse_text(value) if span.attributes.get("output.mime_type") == "application/json" else value


def _event_attribute(span: Span, name: str, attribute: str) -> Any:
    return next((values[attribute] for event, values in span.events if event == name and attribute in values), None)


def _exception_text(span: Span) -> str:
    message = _event_attribute(span, "exception", "exception.message") or _event_attribute(
        span, "exception", "exception.type"
    )
    return str(message or span.attributes.get("error.type") or "")


def parse_text(value: Any, *, python: bool = False) -> Any:
    """Parse a string that is a JSON (or Python) object or list; return other values unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return parse_json(value)
    except ValueError:
        pass
    try:
        return ast.literal_eval(value.strip()) if python and len(value) < 100_000 else value
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return value


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
