"""Chat completions and embeddings as OpenAI, Azure OpenAI and Ollama's OpenAI interface answer them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from tests.llm.models import shapes, tokens
from tests.llm.models.values import Answer, Message, Request, ToolCall

_DIMENSIONS = 64
_LEAST_PROBABILITY = 1e-9
_SAFE = {
    name: {"filtered": False, "severity": "safe"} for name in ("hate", "self_harm", "sexual", "violence")
}  # fmt: skip


def read_chat(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a chat request means."""
    choice, form = body.get("tool_choice"), body.get("response_format") or {}
    forced = choice["function"]["name"] if isinstance(choice, Mapping) else "" if choice == "required" else None
    schema = form.get("json_schema", {}).get("schema") if form.get("type") == "json_schema" else None
    return {
        "model": str(body.get("model", "")),
        "messages": tuple(_message(message) for message in body.get("messages") or ()),
        "tools": {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in body.get("tools") or ()},
        "forced": forced,
        "schema": {} if form.get("type") == "json_object" else schema,
        "stream": bool(body.get("stream")),
    }


def read_embeddings(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request for embeddings means; inputs given as tokens are told as their numbers."""
    given = body.get("input") or ""
    inputs = [given] if isinstance(given, str) or (given and isinstance(given[0], int)) else given
    texts = tuple(one if isinstance(one, str) else " ".join(map(str, one)) for one in inputs)
    return {"model": str(body.get("model", "")), "inputs": texts}


def chat(request: Request, answer: Answer) -> dict[str, Any]:
    """Return a whole `chat.completion`."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if not answer.tools and answer.refusal is None:
        message["content"] = answer.text
    message["refusal"] = answer.refusal
    if request.provider != "ollama":
        message["annotations"] = []
    if answer.thinking is not None and request.provider == "ollama":
        message["reasoning"] = answer.thinking
    if answer.tools:
        message["tool_calls"] = _calls(request, answer)
    choice: dict[str, Any] = {
        "index": 0,
        "message": message,
        "logprobs": _logprobs(request, answer),
        "finish_reason": _finish(answer),
    }
    result: dict[str, Any] = {**_frame(request, answer, "chat.completion"), "choices": [choice]}
    if request.provider == "azure_openai":
        choice["content_filter_results"] = _SAFE
        result["prompt_filter_results"] = [{"prompt_index": 0, "content_filter_results": _SAFE}]
    if answer.usage:
        result["usage"] = _usage(request, answer)
    return result


def chat_events(request: Request, answer: Answer, error: Mapping[str, Any] | None = None) -> list[bytes]:
    """Return the stream of a `chat.completion.chunk` each; with `error` it breaks off with that after the first."""
    frame = _frame(request, answer, "chat.completion.chunk")
    with_usage = bool((request.body.get("stream_options") or {}).get("include_usage"))
    if with_usage:
        frame["usage"] = None
    events: list[bytes] = []

    def add(delta: dict[str, Any], finish: str | None = None, logprobs: Any = None) -> None:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        if request.provider == "azure_openai":
            choice["content_filter_results"] = {} if finish or "role" in delta else _SAFE
        events.append(shapes.event({**frame, "choices": [choice]}))

    if request.provider == "azure_openai":
        # Azure tells first, in a chunk without choices, what its filter says of the prompt.
        filtered = [{"prompt_index": 0, "content_filter_results": _SAFE}]
        empty = {"id": "", "object": "", "created": 0, "model": "", "choices": []}
        events.append(shapes.event({**empty, "prompt_filter_results": filtered}))
    content = None if answer.tools and not answer.text else ""
    add({"role": "assistant", "content": content, "refusal": None})
    if error is not None:
        return [*events, shapes.event(error)]
    _add_deltas(request, answer, add)
    add({}, _finish(answer))
    if with_usage and answer.usage:
        events.append(shapes.event({**frame, "choices": [], "usage": _usage(request, answer)}))
    return [*events, b"data: [DONE]\n\n"]


def embeddings(request: Request, answer: Answer) -> dict[str, Any]:
    """Return a list of embeddings, as numbers or as base64 as asked for."""
    numbers = shapes.vectors(request, answer, int(request.body.get("dimensions") or _DIMENSIONS))
    as_text = request.body.get("encoding_format") == "base64"
    count = tokens.prompt_tokens(request, answer)
    result: dict[str, Any] = {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": shapes.packed(vector) if as_text else list(vector)}
            for index, vector in enumerate(numbers)
        ],
        "model": answer.model or request.model,
    }
    if answer.usage:
        result["usage"] = {"prompt_tokens": count, "total_tokens": count}
    return result


def _add_deltas(request: Request, answer: Answer, add: Any) -> None:
    if answer.thinking is not None and request.provider == "ollama":
        add({"role": "assistant", "content": "", "reasoning": answer.thinking})
    for piece in shapes.pieces(answer.text):
        add({"content": piece}, logprobs=_logprobs(request, answer, piece))
    for piece in shapes.pieces(answer.refusal or ""):
        add({"refusal": piece})
    for index, call in enumerate(_calls(request, answer)):
        arguments = call["function"]["arguments"]
        if request.provider == "ollama":
            # Ollama sends each call whole.
            add({"tool_calls": [{"index": index, **call}]})
            continue
        begun = {**call, "function": {**call["function"], "arguments": ""}}
        add({"tool_calls": [{"index": index, **begun}]})
        for piece in shapes.pieces(arguments):
            add({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})


def _message(message: Mapping[str, Any]) -> Message:
    text, images = shapes.text_of(message.get("content"))
    role = {"developer": "system", "function": "tool"}.get(message["role"], message["role"])
    calls = tuple(
        ToolCall(call["function"]["name"], arguments_of(call["function"]["arguments"]), call["id"])
        for call in message.get("tool_calls") or ()
    )
    return Message(role, text, calls, message.get("tool_call_id"), images)


def arguments_of(text: str) -> Mapping[str, Any] | str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict) else text


def _frame(request: Request, answer: Answer, kind: str) -> dict[str, Any]:
    if request.provider == "ollama":
        own = {"id": f"chatcmpl-{request.number}", "system_fingerprint": "fp_ollama"}
    else:
        own = {"id": shapes.numbered("chatcmpl-", request, 29), "system_fingerprint": "fp_44709d6fcb"}
    frame = {**own, "object": kind, "created": shapes.CREATED, "model": answer.model or request.model}
    return frame if request.provider != "openai" else {**frame, "service_tier": "default"}


def _finish(answer: Answer) -> str:
    if answer.finish == "refusal":
        return "stop"
    return answer.finish or ("tool_calls" if answer.tools else "stop")


def _calls(request: Request, answer: Answer) -> list[dict[str, Any]]:
    return [
        {
            "id": shapes.call_id("call_", request, call, index),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments_json()},
        }
        for index, call in enumerate(answer.tools)
    ]


def _usage(request: Request, answer: Answer) -> dict[str, Any]:
    prompt, completion = tokens.prompt_tokens(request, answer), tokens.completion_tokens(answer)
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    if request.provider == "ollama":
        return usage
    reasoning = len(tokens.split(answer.thinking or ""))
    return usage | {
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _logprobs(request: Request, answer: Answer, piece: str | None = None) -> dict[str, Any] | None:
    if not request.body.get("logprobs"):
        return None
    return {"content": logprobs(request, answer.text if piece is None else piece, answer), "refusal": None}


def logprobs(request: Request, text: str, answer: Answer) -> list[dict[str, Any]]:
    """Return the tokens of a text with their log probabilities."""
    top = int(request.body.get("top_logprobs") or 0)
    content = []
    for token in tokens.split(text):
        others = {token: 1.0, **answer.alternatives.get(token, {})}
        ranked = sorted(others.items(), key=lambda pair: -pair[1])
        content.append({**_logprob(token, others[token]), "top_logprobs": [_logprob(*pair) for pair in ranked[:top]]})
    return content


def _logprob(token: str, probability: float) -> dict[str, Any]:
    return {
        "token": token,
        "logprob": math.log(max(probability, _LEAST_PROBABILITY)),
        "bytes": list(token.encode()),
    }
