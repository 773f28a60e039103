"""An agent of the OpenAI Agents SDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holodeck_action.extensions.frameworks.adapters.replies import arguments, jsonable


def adapter(agent: Any) -> Callable[..., Any]:
    """Return a callable for an agent; what it said and called before, and who answered last, is kept by session.

    Raises:
        TypeError: it is no agent.
        ImportError: the SDK is missing or too old.
    """
    from agents import Agent, Runner

    if not isinstance(agent, Agent):
        raise TypeError("an Agent of the OpenAI Agents SDK")
    kept: dict[str, tuple[Any, list[Any]]] = {}

    async def answer(messages: Sequence[Any], request: Mapping[str, Any]) -> dict[str, Any]:
        session = request["session"]
        current, before = kept.get(session, (agent, None))
        # The first turn may come with a history that the suite gives.
        asked = list(messages) if before is None else [*before, {"role": "user", "content": request["input"]}]
        result = await Runner.run(current, asked)
        # A process serves one conversation at a time.
        kept.clear()
        kept[session] = (result.last_agent, result.to_input_list())
        used = result.context_wrapper.usage
        return {
            "response": jsonable(result.final_output),
            "tool_invocations": _calls(result.new_items),
            "usage": {
                "model": _model(result.last_agent.model),
                "prompt_tokens": used.input_tokens,
                "completion_tokens": used.output_tokens,
                "cached_tokens": used.input_tokens_details.cached_tokens,
                "reasoning_tokens": used.output_tokens_details.reasoning_tokens,
            },
        }

    return answer


def _model(model: Any) -> str | None:
    """Return the name of a model, which stands for itself or belongs to a client; None for the SDK's own default."""
    name = model if isinstance(model, str) else getattr(model, "model", None)
    return str(name) if name else None


def _calls(items: Sequence[Any]) -> list[dict[str, Any]]:
    outputs = {_of(item.raw_item, "call_id"): item for item in items if item.type == "tool_call_output_item"}
    calls = []
    for item in items:
        if item.type == "tool_call_item":
            raw = item.raw_item
            name = _of(raw, "name") or _of(raw, "type")
            call: dict[str, Any] = {"name": str(name), "args": arguments(_of(raw, "arguments") or {})}
            output = outputs.get(_of(raw, "call_id"))
            if output is not None:
                call["result"] = jsonable(output.output)
            calls.append(call)
    return calls


def _of(raw: Any, name: str) -> Any:
    return raw.get(name) if isinstance(raw, Mapping) else getattr(raw, name, None)
