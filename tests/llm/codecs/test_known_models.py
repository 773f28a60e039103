"""What is known about a model is what pydantic-ai knows about it, as far as a request depends on it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.models import known_model_names
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.azure import AzureProvider
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider

from holodeck_action.llm.known_models import EFFORTS, KnownModel, known_model

LISTED = {name.split(":", 1)[-1] for name in known_model_names()}
CLAUDES = {
    f"claude-{family}-{version}{dated}"
    for family in ("opus", "sonnet", "haiku", "fable", "mythos")
    for version in ("3", "4", "4-0", "4-1", "4-2", "4-5", "4-6", "4-7", "4-8", "5", "5-1", "5-2", "5-5", "preview")
    for dated in ("", "-20250514", "@2025")
}
OTHERS = {
    *("claude-3-5-sonnet-latest", "claude-4-opus", "us.anthropic.claude-haiku-4-5-20251001-v1:0", "Llama-3", "qwq"),
    *("o1-mini", "o1", "o3-mini", "o4-mini", "gpt-4o", "ft:gpt-4o:x", "gpt-3.5-turbo", "gpt-oss:20b", "llama3.2"),
    *("gpt-5", "gpt-5-pro", "gpt-5-codex", "gpt-5-chat-latest", "gpt-5.1", "gpt-5.1-codex", "gpt-5.2-pro", "gpt-5.4"),
    *("gpt-5.3-chat", "gpt-5.4-pro", "gpt-5.5", "gpt-5.5-pro", "gpt-6-astra", "gpt-6.1-terra", "command-r", "glm-5.3"),
    *("Meta-Llama-3", "mistralai-x", "cohere-x", "deepseek-r1", "gemma3", "qwen3", "grok-3"),
}
NAMES = sorted(LISTED | {name.split("/")[-1] for name in LISTED} | CLAUDES | OTHERS)
SCHEMAS = {
    "_OpenAIJsonSchemaTransformer": "openai",
    "OpenAIJsonSchemaTransformer": "openai_compatible",
    "InlineDefsJsonSchemaTransformer": "inlined",
    "_GptOssJsonSchemaTransformer": "inlined_openai",
    "_AzureGrokJsonSchemaTransformer": "grok",
    "GoogleJsonSchemaTransformer": "gemma",
    "AnthropicJsonSchemaTransformer": "anthropic",
}


def of_openai(profile: dict[str, Any]) -> dict[str, Any]:
    reasons = profile.get("openai_supports_reasoning", False)
    known = {
        "reasons": reasons,
        "no_effort": profile.get("openai_supports_reasoning_effort_none", False),
        "system_role": profile.get("openai_system_prompt_role") or "system",
        "strict": profile.get("openai_supports_strict_tool_definition", True),
        "thought_field": profile.get("openai_chat_thinking_field"),
    }
    if reasons:
        known["reasons_unasked"] = profile["thinking_enabled_by_default"]
        known["efforts"] = tuple(each for each in EFFORTS if each in profile.get("openai_reasoning_efforts", EFFORTS))
    return known


def of_anthropic(profile: dict[str, Any]) -> dict[str, Any]:
    most = profile.get("anthropic_max_output_tokens")
    short = profile.get("anthropic_rejects_max_tokens_beyond_context_window")
    return {
        "sampling": not profile.get("anthropic_disallows_sampling_settings"),
        "most_tokens": most,
        "default_tokens": 4096 if short else most or 16_384,
        "takes_effort": profile.get("anthropic_supports_effort"),
        "takes_top_effort": profile.get("anthropic_supports_max_effort", True),
        "takes_budget": not profile.get("anthropic_disallows_budget_thinking"),
        "binds_thoughts": profile.get("anthropic_binds_thinking_blocks"),
    }


@pytest.mark.parametrize(
    ("provider", "package"),
    [
        ("openai", OpenAIProvider),
        ("azure_openai", AzureProvider),
        ("ollama", OllamaProvider),
        ("anthropic", AnthropicProvider),
    ],
)
def test_each_model_takes_what_it_took(provider: Any, package: Any) -> None:
    assert len(NAMES) > 350
    differing: list[tuple[str, KnownModel, dict[str, Any]]] = []
    for name in NAMES:
        profile = package.model_profile(name) or {}
        expected = {
            "schemas": SCHEMAS[profile["json_schema_transformer"].__name__],
            "structured": profile.get("supports_json_schema_output", False),
            **(of_anthropic if provider == "anthropic" else of_openai)(profile),
        }
        known = known_model(provider, name)
        if any(getattr(known, field) != value for field, value in expected.items()):
            differing.append((name, known, expected))
    assert differing == []
