"""Plans, answers and requests of the providers, which need none of their packages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holodeck_action.llm.clients import codec_of
from holodeck_action.llm.messages import AnswerSchema, ToolDefinition
from holodeck_action.llm.providers import ModelPlan, resolve_model
from holodeck_action.suite.model.providers import LLMProvider
from tests.llm.models import KEY

if TYPE_CHECKING:
    from tests.llm.codecs.packages import Package


def plan_of(provider: str, name: str, **more: Any) -> ModelPlan:
    """Return the plan of a model with a key."""
    config = {"provider": provider, "name": name, "api_key": KEY, **more}
    return resolve_model(LLMProvider.model_validate(config), {})


def package_of(plan: ModelPlan) -> Package:
    """Return the providers' package for a plan; its import takes seconds, so only tests that need it pay."""
    from tests.llm.codecs.packages import Package

    return Package(plan)


def answer_of(provider: str, text: str = "Yes.", **more: Any) -> dict[str, Any]:
    """Return an answer of a provider; `more` are fields of its message, or of the whole for Anthropic."""
    if provider == "anthropic":
        usage = {"input_tokens": 1, "output_tokens": 1}
        whole = {"id": "m", "type": "message", "role": "assistant", "model": "m-1", "stop_reason": "end_turn"}
        return {**whole, "content": [{"type": "text", "text": text}], "stop_sequence": None, "usage": usage, **more}
    message = {"role": "assistant", "content": text, **more}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m-1", "choices": [choice]}


def codec_body(
    plan: ModelPlan,
    messages: Sequence[Any],
    settings: Mapping[str, Any] | None = None,
    tools: Sequence[ToolDefinition] = (),
    answer: AnswerSchema | None = None,
) -> dict[str, Any]:
    """Return the body that our codec makes, as it is read from JSON."""
    codec = codec_of(plan)
    body = codec.build_request(messages, settings or {}, codec.offer(tools, answer)).body
    read: dict[str, Any] = json.loads(json.dumps(body))
    return read
