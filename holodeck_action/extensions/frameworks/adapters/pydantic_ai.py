"""Adapter for an agent of pydantic-ai."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holodeck_action.extensions.frameworks.adapters.replies import parse_arguments, to_json_value


def adapter(agent: Any) -> Callable[..., Any]:
    """Return a callable that runs an agent, and stores the messages of each session.

    Raises:
        TypeError: `agent` is not an agent.
        ImportError: pydantic-ai is missing or too old.
    """
    from pydantic_ai.agent import AbstractAgent

    if not isinstance(agent, AbstractAgent):
        raise TypeError("an Agent of pydantic-ai")
    sessions: dict[str, Any] = {}

    async def answer(messages: Sequence[Any], request: Mapping[str, Any]) -> dict[str, Any]:
        session = request["session"]
        history = sessions.get(session)
        result = await agent.run(request["input"], message_history=history)
        # A process serves one conversation at a time.
        sessions.clear()
        sessions[session] = result.all_messages()
        used = result.usage() if callable(result.usage) else result.usage
        new = result.new_messages()
        return {
            "response": to_json_value(result.output),
            "tool_invocations": _tool_calls(new),
            "usage": {
                "model": _model_name(new),
                "prompt_tokens": used.input_tokens,
                "completion_tokens": used.output_tokens,
                "cached_tokens": used.cache_read_tokens,
                "reasoning_tokens": used.details.get("reasoning_tokens"),
            },
        }

    return answer


def _model_name(messages: Sequence[Any]) -> str | None:
    """Return the model of the last response, with its provider if known; None if the model is unknown."""
    for message in reversed(messages):
        if message.kind == "response" and message.model_name:
            provider = message.provider_name
            return f"{provider}/{message.model_name}" if provider else str(message.model_name)
    return None


def _tool_calls(messages: Sequence[Any]) -> list[dict[str, Any]]:
    parts = [part for message in messages for part in message.parts]
    answered = {part.tool_call_id: part for part in parts if part.part_kind in ("tool-return", "retry-prompt")}
    calls = []
    for part in parts:
        if part.part_kind != "tool-call" or part.tool_name.startswith("final_result"):
            continue
        call: dict[str, Any] = {"name": part.tool_name, "args": parse_arguments(part.args or {})}
        back = answered.get(part.tool_call_id)
        if back is not None:
            call["error" if back.part_kind == "retry-prompt" else "result"] = to_json_value(back.content)
        calls.append(call)
    return calls
