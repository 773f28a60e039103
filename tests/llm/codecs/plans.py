"""Plans, answers and requests of the providers, which need none of their packages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holodeck_action.llm.clients import codec_of
from holodeck_action.llm.messages import AnswerSchema, ToolDefinition
from holodeck_action.llm.providers import ModelPlan, resolve_model, with_api
from holodeck_action.suite.model.providers import ApiName, LLMProvider
from tests.llm.models import KEY

if TYPE_CHECKING:
    from tests.llm.codecs.packages import Package


def plan_of(provider: str, name: str, api: ApiName = "chat", **more: Any) -> ModelPlan:
    """Return the plan of a model with a key."""
    config = {"provider": provider, "name": name, "api_key": KEY, **more}
    return with_api(resolve_model(LLMProvider.model_validate(config), {}), api)


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


def response_of(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return an answer of the Responses API with these items, or with a text; `more` are fields of the whole."""
    frame = {"id": "r", "object": "response", "created_at": 1, "model": "m-1", "status": "completed", "error": None}
    fixed: dict[str, Any] = {
        "incomplete_details": None,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    return {**frame, **fixed, "output": [*items] or [message_item("Yes.")], **more}


def message_item(*texts: str, **more: Any) -> dict[str, Any]:
    """Return an item of the Responses API with a message of these texts."""
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content, **more}


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
