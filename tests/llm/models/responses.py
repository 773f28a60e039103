"""OpenAI's Responses API as it answers: whole, or as a stream of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.llm.models import shapes, tokens
from tests.llm.models.openai import arguments_of, logprobs
from tests.llm.models.values import Answer, Message, Request, ToolCall

SEALED = "sealed:"
"""How encrypted thoughts begin; what follows is the number of the request that they were thought for."""
_UNFINISHED = {"length": "max_output_tokens", "content_filter": "content_filter"}


def read(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request means."""
    choice, form = body.get("tool_choice"), (body.get("text") or {}).get("format") or {}
    items = body.get("input") or ()
    given = [{"role": "user", "content": items}] if isinstance(items, str) else items
    system = [Message("system", body["instructions"])] if body.get("instructions") else []
    return {
        "model": str(body.get("model", "")),
        "messages": (*system, *(message for item in given if (message := _message(item)) is not None)),
        "tools": {tool["name"]: tool.get("parameters", {}) for tool in body.get("tools") or ()},
        "forced": choice["name"] if isinstance(choice, Mapping) else "" if choice == "required" else None,
        "schema": {} if form.get("type") == "json_object" else form.get("schema"),
        "stream": bool(body.get("stream")),
    }


def response(request: Request, answer: Answer) -> dict[str, Any]:
    """Return a whole `response`."""
    unfinished = _UNFINISHED.get(answer.finish or "")
    result: dict[str, Any] = {
        **_frame(request, answer, "incomplete" if unfinished else "completed"),
        "incomplete_details": {"reason": unfinished} if unfinished else None,
        "output": list(_items(request, answer)),
    }
    if answer.usage:
        result["usage"] = _usage(request, answer)
    return result


def events(request: Request, answer: Answer, error: Mapping[str, Any] | None = None) -> list[bytes]:
    """Return the stream of an answer; with `error` it fails after its beginning."""
    told: list[bytes] = []

    def add(kind: str, **fields: Any) -> None:
        told.append(shapes.event({"type": kind, "sequence_number": len(told), **fields}, kind))

    begun = {**_frame(request, answer, "in_progress"), "output": []}
    add("response.created", response=begun)
    if error is not None:
        failed = {"code": "server_error", "message": str(error.get("error"))}
        add("response.failed", response={**begun, "status": "failed", "error": failed})
        return told
    whole = response(request, answer)
    for index, item in enumerate(whole["output"]):
        place = {"item_id": item["id"], "output_index": index}
        begun_item = {**item, **{name: [] for name in ("content", "summary") if name in item}, "status": "in_progress"}
        add("response.output_item.added", output_index=index, item=begun_item)
        if item["type"] == "function_call":
            for piece in shapes.pieces(item["arguments"]):
                add("response.function_call_arguments.delta", **place, delta=piece)
            add("response.function_call_arguments.done", **place, name=item["name"], arguments=item["arguments"])
        for number, part in enumerate(item.get("content") or ()):
            name = "refusal" if part["type"] == "refusal" else "text"
            kind = "response.refusal" if name == "refusal" else "response.output_text"
            add("response.content_part.added", **place, content_index=number, part={**part, name: ""})
            for piece in shapes.pieces(part[name]):
                add(f"{kind}.delta", **place, content_index=number, delta=piece, logprobs=[])
            add(f"{kind}.done", **place, content_index=number, **{name: part[name]}, logprobs=[])
            add("response.content_part.done", **place, content_index=number, part=part)
        add("response.output_item.done", output_index=index, item=item)
    add(f"response.{whole['status']}", response=whole)
    return told


def _message(item: Mapping[str, Any]) -> Message | None:
    match item.get("type", "message"):
        case "message":
            text, images = shapes.text_of(item.get("content"))
            return Message({"developer": "system"}.get(item["role"], item["role"]), text, images=images)
        case "function_call":
            call = ToolCall(item["name"], arguments_of(item["arguments"]), item["call_id"])
            return Message("assistant", calls=(call,))
        case "function_call_output":
            return Message("tool", shapes.text_of(item["output"])[0], call_id=item["call_id"])
    return None


def _frame(request: Request, answer: Answer, status: str) -> dict[str, Any]:
    asked: dict[str, Any] = {"instructions": None, "temperature": 1.0, "top_p": 1.0, "tools": [], "tool_choice": "auto"}
    return {
        "id": shapes.numbered("resp_", request),
        "object": "response",
        "created_at": shapes.CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": answer.model or request.model,
        "parallel_tool_calls": True,
        "store": request.body.get("store", True),
        **{name: request.body.get(name, usual) for name, usual in asked.items()},
    }


def _items(request: Request, answer: Answer) -> Iterator[dict[str, Any]]:
    if answer.thinking is not None:
        sealed = "reasoning.encrypted_content" in (request.body.get("include") or ())
        yield {
            "id": shapes.numbered("rs_", request),
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": answer.thinking}] if answer.thinking else [],
            **({"encrypted_content": f"{SEALED}{request.number}"} if sealed else {}),
        }
    if answer.text or answer.refusal is not None or not answer.tools:
        part: dict[str, Any] = {"type": "output_text", "text": answer.text, "annotations": []}
        if "message.output_text.logprobs" in (request.body.get("include") or ()):
            part["logprobs"] = logprobs(request, answer.text, answer)
        if answer.refusal is not None:
            part = {"type": "refusal", "refusal": answer.refusal}
        status = "incomplete" if answer.finish in _UNFINISHED else "completed"
        message = {"id": shapes.numbered("msg_", request), "type": "message", "role": "assistant", "status": status}
        yield {**message, "content": [part], **({"phase": answer.phase} if answer.phase else {})}
    for index, call in enumerate(answer.tools):
        yield {
            "id": f"{shapes.numbered('fc_', request)}{index}",
            "type": "function_call",
            "status": "completed",
            "call_id": shapes.call_id("call_", request, call, index),
            "name": call.name,
            "arguments": call.arguments_json(),
        }


def _usage(request: Request, answer: Answer) -> dict[str, Any]:
    prompt, completion = tokens.prompt_tokens(request, answer), tokens.completion_tokens(answer)
    thought = len(tokens.split(answer.thinking or ""))
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": answer.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": prompt + completion,
    }
