"""Spans of model calls, following OpenTelemetry's conventions for generative AI (docs/observability.md). Headers are
not recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from holodeck_action.llm.calls import Answer, Call, CallRecord
from holodeck_action.llm.codecs.codec import BrokenAnswerError
from holodeck_action.llm.spans import NO_SPAN, Attributes, Span, SpanScope, current, span
from holodeck_action.text.json_values import parse_json

Message = dict[str, Any]

_REASONS = {
    **dict.fromkeys(("tool_calls", "tool_use"), "tool_call"),
    **dict.fromkeys(("end_turn", "completed"), "stop"),
    **dict.fromkeys(("max_tokens", "max_output_tokens"), "length"),
}
"""Stop reasons of providers whose name differs in OpenTelemetry's conventions, mapped to that name."""


def input_messages(document: Any) -> list[Message]:
    """Return the messages in a request's body; instructions become a message with the role `system`."""
    request = _as_mapping(document)
    found: list[Message] = []
    if instructions := request.get("system") or request.get("instructions"):
        found.append({"role": "system", "parts": _parts(instructions)})
    for message in [*_as_list(request.get("messages")), *_as_list(request.get("input"))]:
        given = _as_mapping(message)
        parts = _message_parts(given)
        if parts:
            role = "tool" if given.get("type") == "function_call_output" else "assistant"
            found.append({"role": str(given.get("role", role if "type" in given else "")), "parts": parts})
    return found


def output_messages(payload: Any) -> list[Message]:
    """Return the messages in an answer's payload, one per choice; the events of a stream are joined."""
    return [
        {"role": "assistant", "parts": _message_parts(message), "finish_reason": reason or ""}
        for message, reason in _choices(payload)
    ]


def finish_reasons(payload: Any) -> tuple[str, ...]:
    """Return the stop reasons of an answer's choices; choices without a stop reason are skipped."""
    return tuple(reason for _, reason in _choices(payload) if reason)


def _choices(payload: Any) -> Iterator[tuple[Mapping[str, Any], str | None]]:
    """Yield each choice of an answer with its stop reason, in the provider's format."""
    if isinstance(payload, list):
        payload = _join_stream(payload)
    answer = _as_mapping(payload)
    if isinstance(answer.get("output"), list):  # OpenAI's Responses API
        calls = any(_as_mapping(item).get("type") == "function_call" for item in answer["output"])
        reason = _as_mapping(answer.get("incomplete_details")).get("reason") or answer.get("status")
        reason = "tool_call" if calls and reason == "completed" else reason
        yield {"content": answer["output"]}, _convention_reason(reason)
    for choice in map(_as_mapping, _as_list(answer.get("choices"))):
        yield _as_mapping(choice.get("message")), _convention_reason(choice.get("finish_reason"))
    if isinstance(answer.get("content"), list):  # Anthropic
        yield {"content": answer["content"]}, _convention_reason(answer.get("stop_reason"))


def _join_stream(events: list[Any]) -> Mapping[str, Any]:
    """Return the complete answer in the events of a stream; empty if it is incomplete."""
    from holodeck_action.llm.codecs import anthropic, openai_responses

    for join in (anthropic.join_events, openai_responses.join_events):
        with contextlib.suppress(BrokenAnswerError):
            return join(events)
    return {}


def _message_parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    if message.get("type") in ("function_call", "function_call_output", "reasoning"):
        return _parts([message])
    if message.get("role") == "tool":
        text = _content_text(message.get("content"))
        return [{"type": "tool_call_response", "id": message.get("tool_call_id"), "response": text}]
    parts = _parts(message.get("content"))
    for name in ("reasoning", "thinking"):
        if isinstance(message.get(name), str):
            parts.insert(0, {"type": "reasoning", "content": message[name]})
    if isinstance(message.get("refusal"), str):
        parts.append({"type": "text", "content": message["refusal"]})
    for call in _as_list(message.get("tool_calls")):
        function = _as_mapping(_as_mapping(call).get("function"))
        parts.append(_call_part(_as_mapping(call).get("id"), function.get("name"), function.get("arguments")))
    return parts


def _parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "content": content}] if content else []
    found: list[dict[str, Any]] = []
    for given in _as_list(content):
        block = _as_mapping(given)
        kind = str(block.get("type", ""))
        if isinstance(block.get("text"), str):
            found.append({"type": "text", "content": block["text"]})
        elif kind == "message":
            found += _parts(block.get("content"))
        elif kind == "reasoning":
            found.append({"type": "reasoning", "content": _content_text(block.get("summary"))})
        elif kind == "function_call":
            found.append(_call_part(block.get("call_id"), block.get("name"), block.get("arguments")))
        elif kind == "function_call_output":
            text = _content_text(block.get("output"))
            found.append({"type": "tool_call_response", "id": block.get("call_id"), "response": text})
        elif kind == "refusal":
            found.append({"type": "text", "content": str(block.get("refusal", ""))})
        elif kind == "thinking":
            found.append({"type": "reasoning", "content": str(block.get("thinking", ""))})
        elif kind == "tool_use":
            found.append(_call_part(block.get("id"), block.get("name"), block.get("input")))
        elif kind == "tool_result":
            text = _content_text(block.get("content"))
            found.append({"type": "tool_call_response", "id": block.get("tool_use_id"), "response": text})
        elif kind:
            # For images and documents only the type is recorded.
            found.append({"type": kind})
    return found


def _call_part(identity: Any, name: Any, arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, str):
        with contextlib.suppress(ValueError):
            arguments = parse_json(arguments, constants=True)
    return {"type": "tool_call", "id": identity, "name": str(name or ""), "arguments": arguments}


def _content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["content"] for part in _parts(content) if part.get("type") == "text")


def _convention_reason(value: Any) -> str | None:
    return _REASONS.get(value, value) if isinstance(value, str) and value else None


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


_PROVIDERS = {"azure_openai": "azure.ai.openai"}
"""Names of providers in OpenTelemetry's conventions, by the name in agent.yaml, for providers whose names differ."""
_PORTS = {"http": 80, "https": 443}


def call_span(call: Call) -> SpanScope:
    """Start the span of a model call; the span covers the cache lookup too."""
    if current() is NO_SPAN:
        return SpanScope(NO_SPAN)
    document = _as_mapping(call.request.document)
    operation = "embeddings" if call.context.kind == "embedding" else "chat"
    model = document.get("model")
    if not isinstance(model, str):
        return span(operation, _request_attributes(call, document, operation, None), "client")
    return span(f"{operation} {model}", _request_attributes(call, document, operation, model), "client")


def describe_call(trace_span: Span, call: Call, record: CallRecord, answer: Answer | None) -> None:
    """Add the outcome of a call to its span.

    Args:
        trace_span: the span to complete.
        call: the model call.
        record: the record of the call.
        answer: the answer; None if the call failed.
    """
    if trace_span is NO_SPAN:
        return
    trace_span.set(
        {
            "gen_ai.response.model": record.model or None,
            "gen_ai.usage.input_tokens": record.tokens.prompt,
            "gen_ai.usage.output_tokens": record.tokens.completion,
            "gen_ai.usage.cache_read.input_tokens": record.tokens.cached,
            "gen_ai.usage.reasoning.output_tokens": record.tokens.reasoning,
            "http.response.status_code": record.status,
            "holodeck_action.call.cached": record.cached,
            "holodeck_action.call.attempts": record.attempts,
            "holodeck_action.call.cost_usd": record.cost_usd,
        }
    )
    if record.error is not None:
        trace_span.fail(record.error)
    elif record.status is not None and record.status >= 400:
        trace_span.fail(str(record.status))
    if answer is not None and answer.status < 400:
        trace_span.set({"gen_ai.response.finish_reasons": finish_reasons(answer.payload) or None})
    if trace_span.content:
        if messages := input_messages(call.request.document):
            trace_span.set_content("gen_ai.input.messages", messages)
        if answer is not None and (messages := output_messages(answer.payload)):
            trace_span.set_content("gen_ai.output.messages", messages)


def _request_attributes(call: Call, document: Mapping[str, object], operation: str, model: str | None) -> Attributes:
    provider = call.account.provider
    parts = urlsplit(call.account.base_url)
    try:
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        port = None
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": model,
        "gen_ai.request.temperature": _float_field(document, "temperature"),
        "gen_ai.request.top_p": _float_field(document, "top_p"),
        "gen_ai.request.max_tokens": _int_field(document, "max_completion_tokens", "max_tokens", "max_output_tokens"),
        "server.address": parts.hostname,
        "server.port": port,
        "holodeck_action.call.kind": call.context.kind,
    }


def _int_field(document: Mapping[str, object], *names: str) -> int | None:
    values = (document.get(name) for name in names)
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)


def _float_field(document: Mapping[str, object], name: str) -> float | None:
    value = document.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
