"""Spans as exporters write them, for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

NIGHT = 1_790_000_000_000_000_000
"""The start of all traces, in nanoseconds since 1970."""
SECOND = 1_000_000_000


def value(of: object) -> dict[str, Any]:
    """Return a value as OTLP writes it in JSON."""
    if isinstance(of, bool):
        return {"boolValue": of}
    if isinstance(of, int):
        return {"intValue": str(of)}
    if isinstance(of, float):
        return {"doubleValue": of}
    if isinstance(of, list):
        return {"arrayValue": {"values": [value(each) for each in of]}}
    return {"stringValue": of}


def span(
    trace: str, number: int, parent: int, name: str, at: float, attributes: Mapping[str, object]
) -> dict[str, Any]:
    """Return a span of one second that starts `at` seconds after `NIGHT`; parent 0 is none."""
    start = NIGHT + int(at * SECOND)
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": name,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + SECOND),
        "attributes": [{"key": key, "value": value(held)} for key, held in attributes.items()],
    }


def request(spans: Iterable[Mapping[str, Any]], resource: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Return a request of OTLP."""
    given = [{"key": key, "value": value(held)} for key, held in (resource or {}).items()]
    scope = {"scope": {"name": "shop"}, "spans": list(spans)}
    return {"resourceSpans": [{"resource": {"attributes": given}, "scopeSpans": [scope]}]}


def said(role: str, text: str) -> dict[str, Any]:
    """Return a message in the words of OpenTelemetry's conventions."""
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def exchange(
    trace: str,
    question: str,
    answer: str,
    *,
    session: str | None = None,
    at: float = 0,
    tool: str | None = None,
    model: str = "gpt-4o-mini",
    attributes: Mapping[str, object] | None = None,
) -> list[dict[str, Any]]:
    """Return the spans of one exchange in OpenTelemetry's conventions: an agent, its model calls, perhaps a tool."""
    shared = {} if session is None else {"gen_ai.conversation.id": session}
    asked = {"gen_ai.input.messages": json.dumps([said("system", "Be kind."), said("user", question)])}
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.response.model": model,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
        **asked,
    }
    agent = {"gen_ai.operation.name": "invoke_agent", **shared, **(attributes or {})}
    found = [span(trace, 1, 0, "invoke_agent shop", at, agent)]
    if tool is not None:
        call = {"type": "tool_call", "id": "c1", "name": tool, "arguments": {"order": "A-17"}}
        wanted = [{"role": "assistant", "parts": [call]}]
        found.append(span(trace, 2, 1, "chat", at, {**chat, "gen_ai.output.messages": json.dumps(wanted)}))
        called = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.call.id": "c1"}
        called |= {"gen_ai.tool.call.arguments": '{"order": "A-17"}', "gen_ai.tool.call.result": '{"place": "Leeds"}'}
        found.append(span(trace, 3, 1, f"execute_tool {tool}", at, called))
    found.append(
        span(trace, 4, 1, "chat", at, {**chat, "gen_ai.output.messages": json.dumps([said("assistant", answer)])})
    )
    return found


def openinference(trace: str, question: str, answer: str, *, session: str, at: float = 0) -> list[dict[str, Any]]:
    """Return the spans of one exchange in the words of OpenInference: a chain, a retriever, a model."""
    chain = {"openinference.span.kind": "CHAIN", "session.id": session, "tag.tags": ["vip", "beta"]}
    chain |= {"input.value": json.dumps({"messages": [["user", question]]}), "input.mime_type": "application/json"}
    chain |= {
        "output.value": json.dumps(
            {"messages": [{"type": "human", "content": question}, {"type": "ai", "content": answer}]}
        )
    }
    documents = {"retrieval.documents.0.document.id": "d1", "retrieval.documents.0.document.content": "Open at nine."}
    model: dict[str, object] = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "claude-4",
        "llm.provider": "anthropic",
    }
    model |= {"llm.token_count.prompt": 50, "llm.token_count.completion": 5}
    model |= {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": f"Context … {question}",
    }
    model |= {"llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": answer}
    return [
        span(trace, 1, 0, "LangGraph", at, chain),
        span(trace, 2, 1, "retriever", at, {"openinference.span.kind": "RETRIEVER", **documents}),
        span(trace, 3, 1, "ChatAnthropic", at, model),
    ]
