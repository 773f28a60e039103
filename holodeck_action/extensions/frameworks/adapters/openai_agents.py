"""Adapter for an agent of the OpenAI Agents SDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holodeck_action.extensions.frameworks.adapters.replies import parse_arguments, to_json_value


def adapter(agent: Any) -> Callable[..., Any]:
    """Return a callable that runs an agent, and stores the history and the last active agent of each session.

    Raises:
        TypeError: `agent` is not an agent.
        ImportError: the SDK is missing or too old.
    """
    from agents import Agent, Runner

    if not isinstance(agent, Agent):
        raise TypeError("an Agent of the OpenAI Agents SDK")
    sessions: dict[str, tuple[Any, list[Any]]] = {}

    async def answer(messages: Sequence[Any], request: Mapping[str, Any]) -> dict[str, Any]:
        session = request["session"]
        current, before = sessions.get(session, (agent, None))
        # The first turn may have a history from the suite.
        asked = list(messages) if before is None else [*before, {"role": "user", "content": request["input"]}]
        result = await Runner.run(current, asked)
        # A process serves one conversation at a time.
        sessions.clear()
        sessions[session] = (result.last_agent, result.to_input_list())
        used = result.context_wrapper.usage
        return {
            "response": to_json_value(result.final_output),
            "tool_invocations": _tool_calls(result.new_items),
            "usage": {
                "model": _model_name(result.last_agent.model),
                "prompt_tokens": used.input_tokens,
                "completion_tokens": used.output_tokens,
                "cached_tokens": used.input_tokens_details.cached_tokens,
                "reasoning_tokens": used.output_tokens_details.reasoning_tokens,
            },
        }

    return answer


def _model_name(model: Any) -> str | None:
    """Return the name of a model, given as a string or model object; None if it is the SDK's default."""
    name = model if isinstance(model, str) else getattr(model, "model", None)
    return str(name) if name else None


def _tool_calls(items: Sequence[Any]) -> list[dict[str, Any]]:
    outputs = {_get(item.raw_item, "call_id"): item for item in items if item.type == "tool_call_output_item"}
    calls = []
    for item in items:
        if item.type == "tool_call_item":
            raw = item.raw_item
            name = _get(raw, "name") or _get(raw, "type")
            call: dict[str, Any] = {"name": str(name), "args": parse_arguments(_get(raw, "arguments") or {})}
            output = outputs.get(_get(raw, "call_id"))
            if output is not None:
                call["result"] = to_json_value(output.output)
            calls.append(call)
    return calls


def _get(raw: Any, name: str) -> Any:
    return raw.get(name) if isinstance(raw, Mapping) else getattr(raw, name, None)
