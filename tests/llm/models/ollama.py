"""Chats and embeddings of Ollama's own interface; chats are streams of JSON lines unless told not to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.llm.models import shapes, tokens
from tests.llm.models.values import Answer, Message, Request, ToolCall

_CREATED = "2026-11-02T12:00:00.000000000Z"
_DIMENSIONS = 64
_NANOSECONDS = {"total_duration": 4_883_583_458, "load_duration": 1_334_875, "prompt_eval_duration": 342_546_000}


def read_chat(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a chat request means."""
    form = body.get("format")
    return {
        "model": str(body.get("model", "")),
        "messages": tuple(_message(message) for message in body.get("messages") or ()),
        "tools": {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in body.get("tools") or ()},
        "schema": {} if form == "json" else form or None,
        "stream": body.get("stream", True),
    }


def read_embeddings(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request for embeddings means."""
    given = body.get("input") or []
    return {"model": str(body.get("model", "")), "inputs": (given,) if isinstance(given, str) else tuple(given)}


def chat(request: Request, answer: Answer) -> dict[str, Any]:
    """Return a whole answer."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or answer.refusal or ""}
    if answer.thinking is not None:
        message["thinking"] = answer.thinking
    if answer.tools:
        message["tool_calls"] = _calls(answer)
    return {**_frame(request, answer), "message": message, **_end(request, answer)}


def chat_lines(request: Request, answer: Answer, error: Mapping[str, Any] | None = None) -> list[bytes]:
    """Return an answer's lines; with `error` it breaks off with that after the first."""
    frame = _frame(request, answer)
    messages: list[dict[str, Any]] = []
    if answer.thinking is not None:
        messages.append({"content": "", "thinking": answer.thinking})
    messages += [{"content": piece} for piece in shapes.pieces(answer.text or answer.refusal or "")]
    if answer.tools:
        messages.append({"content": "", "tool_calls": _calls(answer)})
    values = [{**frame, "message": {"role": "assistant", **message}, "done": False} for message in messages]
    if error is not None:
        return [shapes.encoded(value) + b"\n" for value in [*values[:1], error]]
    values.append({**frame, "message": {"role": "assistant", "content": ""}, **_end(request, answer)})
    return [shapes.encoded(value) + b"\n" for value in values]


def embeddings(request: Request, answer: Answer) -> dict[str, Any]:
    """Return embeddings."""
    numbers = shapes.vectors(request, answer, int(request.body.get("dimensions") or _DIMENSIONS))
    result: dict[str, Any] = {
        "model": answer.model or request.model,
        "embeddings": [list(vector) for vector in numbers],
        "total_duration": 14_143_917,
        "load_duration": 1_019_500,
    }
    return result | ({"prompt_eval_count": tokens.prompt_tokens(request, answer)} if answer.usage else {})


def _message(message: Mapping[str, Any]) -> Message:
    calls = tuple(
        ToolCall(call["function"]["name"], call["function"].get("arguments", {}), call.get("id"))
        for call in message.get("tool_calls") or ()
    )
    name = message.get("tool_call_id") or message.get("tool_name")
    return Message(message["role"], message.get("content") or "", calls, name, len(message.get("images") or ()))


def _frame(request: Request, answer: Answer) -> dict[str, Any]:
    return {"model": answer.model or request.model, "created_at": _CREATED}


def _calls(answer: Answer) -> list[dict[str, Any]]:
    for call in answer.tools:
        if isinstance(call.arguments, str):
            raise TypeError("arguments that are not JSON have no form in Ollama's shape: give a mapping")
    # Ollama's own interface gives arguments as a mapping, and no ids.
    return [
        {"function": {"index": index, "name": call.name, "arguments": call.arguments}}
        for index, call in enumerate(answer.tools)
    ]


def _end(request: Request, answer: Answer) -> dict[str, Any]:
    end: dict[str, Any] = {"done": True, "done_reason": "length" if answer.finish == "length" else "stop"}
    if answer.usage:
        completion = tokens.completion_tokens(answer)
        end |= _NANOSECONDS | {
            "prompt_eval_count": tokens.prompt_tokens(request, answer),
            "eval_count": completion,
            "eval_duration": 4_535_599_000,
        }
    return end
