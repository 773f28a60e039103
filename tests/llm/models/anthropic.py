"""Messages as Anthropic answers them, whole and as a stream of events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.llm.models import shapes, tokens
from tests.llm.models.values import Answer, Message, Request, Role, ToolCall

_STOPS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "refusal": "refusal",
}
_SIGNATURE = "ErUBCkYIBxgCIkBmYWtl"


def read(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request for a message means."""
    choice = body.get("tool_choice") or {}
    forced = choice.get("name") if choice.get("type") == "tool" else "" if choice.get("type") == "any" else None
    form = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    messages: list[Message] = []
    if body.get("system"):
        messages.append(Message("system", shapes.text_of(body["system"])[0]))
    for message in body.get("messages") or ():
        messages += _messages(message)
    return {
        "model": str(body.get("model", "")),
        "messages": tuple(messages),
        "tools": {tool["name"]: tool.get("input_schema", {}) for tool in body.get("tools") or ()},
        "forced": forced,
        "schema": form.get("schema"),
        "stream": bool(body.get("stream")),
    }


def message(request: Request, answer: Answer) -> dict[str, Any]:
    """Return a whole message."""
    return {
        **_frame(request, answer),
        "content": _blocks(request, answer),
        "stop_reason": _stop(answer),
        "usage": _usage(request, answer, tokens.completion_tokens(answer)),
    }


def events(request: Request, answer: Answer, error: Mapping[str, Any] | None = None) -> list[bytes]:
    """Return a message's events; with `error` it breaks off with that after the first."""
    begun = {**_frame(request, answer), "content": [], "stop_reason": None, "usage": _usage(request, answer, 1)}
    result = [_event({"type": "message_start", "message": begun})]
    if error is not None:
        # In a stream the event has the error alone, without the request's id.
        return [*result, _event({"type": "error", "error": error.get("error")})]
    for index, block in enumerate(_blocks(request, answer)):
        result += _block_events(index, block)
        if index == 0:
            result.insert(2, _event({"type": "ping"}))
    ended: dict[str, Any] = {
        "type": "message_delta",
        "delta": {"stop_reason": _stop(answer), "stop_sequence": None},
        "usage": {"output_tokens": tokens.completion_tokens(answer) if answer.usage else 0},
    }
    return [*result, _event(ended), _event({"type": "message_stop"})]


def _block_events(index: int, block: Mapping[str, Any]) -> list[bytes]:
    kind = block["type"]
    if kind == "tool_use":
        empty: dict[str, Any] = {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": ""}]
        deltas += [
            {"type": "input_json_delta", "partial_json": piece} for piece in shapes.pieces(json.dumps(block["input"]))
        ]
    elif kind == "thinking":
        empty = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in shapes.pieces(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    else:
        empty = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in shapes.pieces(block["text"])]
    return [
        _event({"type": "content_block_start", "index": index, "content_block": empty}),
        *(_event({"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas),
        _event({"type": "content_block_stop", "index": index}),
    ]


def _messages(message: Mapping[str, Any]) -> list[Message]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    found = [
        Message("tool", shapes.text_of(block.get("content"))[0], (), block.get("tool_use_id"))
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    calls = tuple(
        ToolCall(block["name"], block["input"], block["id"]) for block in blocks if block.get("type") == "tool_use"
    )
    text, images = shapes.text_of(blocks)
    given = message.get("role")
    role: Role = given if given in ("assistant", "system") else "user"
    if text or calls or images or not found:
        found.append(Message(role, text, calls, None, images))
    return found


def _frame(request: Request, answer: Answer) -> dict[str, Any]:
    return {
        "id": shapes.numbered("msg_", request),
        "type": "message",
        "role": "assistant",
        "model": answer.model or request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _blocks(request: Request, answer: Answer) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if answer.thinking is not None:
        blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": _SIGNATURE})
    # A refusal of Anthropic is a text with the stop reason `refusal`; an empty answer has no block at all.
    if text := answer.text or answer.refusal:
        blocks.append({"type": "text", "text": text})
    for index, call in enumerate(answer.tools):
        if isinstance(call.arguments, str):
            raise TypeError("arguments that are not JSON have no form in Anthropic's shape: give a mapping")
        own = shapes.call_id("toolu_", request, call, index)
        blocks.append({"type": "tool_use", "id": own, "name": call.name, "input": dict(call.arguments)})
    return blocks


def _stop(answer: Answer) -> str:
    if answer.finish is not None:
        return _STOPS[answer.finish]
    if answer.refusal is not None:
        return "refusal"
    return "tool_use" if answer.tools else "end_turn"


def _usage(request: Request, answer: Answer, output: int) -> dict[str, Any]:
    if not answer.usage:
        return {"input_tokens": 0, "output_tokens": 0}
    return {
        # Tokens from the cache are not among the input tokens.
        "input_tokens": tokens.prompt_tokens(request, answer) - answer.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": answer.cached_tokens,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output,
        "service_tier": "standard",
    }


def _event(value: Mapping[str, Any]) -> bytes:
    return shapes.event(value, value["type"])
