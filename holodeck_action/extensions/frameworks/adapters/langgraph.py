"""Adapter for a compiled graph of LangGraph whose state has `messages`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holodeck_action.extensions.frameworks.adapters.replies import parse_arguments, to_json_value

CONFIG: Mapping[str, Any] = {"configurable": {}}
"""The `RunnableConfig` passed to a function that creates a graph, as `langgraph.json` allows."""


def adapter(graph: Any) -> Callable[..., Any]:
    """Return a callable that runs a graph; a checkpointer, if the graph has one, stores each conversation's state.

    Raises:
        TypeError: `graph` is not a compiled graph.
        ImportError: LangChain's messages are missing or too old.
    """
    from langchain_core.callbacks import UsageMetadataCallbackHandler
    from langchain_core.messages import convert_to_openai_messages

    if isinstance(graph, type) or not hasattr(graph, "ainvoke") or not hasattr(graph, "get_graph"):
        raise TypeError("a compiled graph of LangGraph")

    checkpointer = getattr(graph, "checkpointer", None)
    waits: bool | None = None

    async def answer(messages: Sequence[Any], request: Mapping[str, Any]) -> dict[str, Any]:
        used = UsageMetadataCallbackHandler()
        config = {"configurable": {"thread_id": request["session"]}, "callbacks": [used]}
        nonlocal waits
        if waits is None:
            waits = await _supports_async(checkpointer, config)
        sent = {"messages": list(messages[-1:] if checkpointer else messages)}
        state = await (graph.ainvoke(sent, config) if waits else asyncio.to_thread(graph.invoke, sent, config))
        new = _new_messages(state["messages"])
        reply: dict[str, Any] = {
            "response": _message_text(new[-1]) if new else "",
            "tool_invocations": _tool_calls(new),
            "messages": [each for each in convert_to_openai_messages(new) if isinstance(each, dict)],
        }
        if used.usage_metadata:
            reply["usage"] = [_usage(model, of_model) for model, of_model in used.usage_metadata.items()]
        return reply

    return answer


async def _supports_async(checkpointer: Any, config: Mapping[str, Any]) -> bool:
    """Return whether the graph can run asynchronously; it cannot with SQLite's checkpointer, for example."""
    if hasattr(checkpointer, "aget_tuple"):
        try:
            await checkpointer.aget_tuple(config)
        except NotImplementedError:
            return False
    return True


def _new_messages(messages: Sequence[Any]) -> list[Any]:
    """Return the messages after the last user message."""
    last = max((at for at, message in enumerate(messages) if message.type == "human"), default=-1)
    return list(messages[last + 1 :])


def _message_text(message: Any) -> str:
    text = message.text
    # It is a method before LangChain 1.0.
    return str(text() if callable(text) and not isinstance(text, str) else text)


def _tool_calls(messages: Sequence[Any]) -> list[dict[str, Any]]:
    results = {message.tool_call_id: message for message in messages if message.type == "tool"}
    calls = []
    for message in messages:
        for call in getattr(message, "tool_calls", None) or ():
            found: dict[str, Any] = {"name": call["name"], "args": parse_arguments(call["args"])}
            result = results.get(call["id"])
            if result is not None:
                found["error" if result.status == "error" else "result"] = to_json_value(result.content)
            calls.append(found)
    return calls


def _usage(model: str, usage: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "model": model,
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "cached_tokens": (usage.get("input_token_details") or {}).get("cache_read"),
        "reasoning_tokens": (usage.get("output_token_details") or {}).get("reasoning"),
    }
