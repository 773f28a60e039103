"""Features of models by name, from the profiles of pydantic-ai 2.68.0; `make models` renews this file.

Each provider has a list of pairs: features (`KnownModel`), and the name prefixes of the models with these features. The
longest matching prefix applies; `$` means the end of a name.
"""

from typing import Any

FAMILIES: dict[str, tuple[tuple[dict[str, Any], tuple[str, ...]], ...]] = {
    "openai": (
        ({"schemas": "openai"}, ("", "gpt-5-chat")),
        ({"schemas": "openai_compatible"}, ("ft:",)),
        (
            {
                "schemas": "openai",
                "reasons": True,
                "reasons_unasked": True,
                "efforts": ("minimal", "low", "medium", "high"),
            },
            ("gpt-5",),
        ),
        ({"schemas": "openai", "reasons": True, "reasons_unasked": True}, ("gpt-5-codex", "gpt-5.1-codex")),
        ({"schemas": "openai", "reasons": True, "reasons_unasked": True, "efforts": ("high",)}, ("gpt-5-pro",)),
        ({"schemas": "openai", "reasons": True, "no_effort": True}, ("gpt-5.1", "gpt-5.2", "gpt-5.3", "gpt-5.4")),
        (
            {"schemas": "openai", "reasons": True, "reasons_unasked": True, "efforts": ("medium",)},
            ("gpt-5.1-chat", "gpt-5.2-chat", "gpt-5.3-chat"),
        ),
        (
            {"schemas": "openai", "reasons": True, "reasons_unasked": True, "efforts": ("medium", "high", "xhigh")},
            ("gpt-5.2-pro", "gpt-5.4-pro", "gpt-5.5-pro"),
        ),
        (
            {"schemas": "openai", "reasons": True, "no_effort": True, "reasons_unasked": True},
            ("gpt-5.5", "gpt-5.6", "gpt-6-luna", "gpt-6-sol", "gpt-6.1-terra"),
        ),
        (
            {
                "schemas": "openai",
                "reasons": True,
                "reasons_unasked": True,
                "efforts": ("low", "medium", "high", "xhigh"),
            },
            ("gpt-6-astra", "gpt-6.1-sol"),
        ),
        (
            {"schemas": "openai", "reasons": True, "reasons_unasked": True, "efforts": ("low", "medium", "high")},
            ("o1", "o3", "o4"),
        ),
        (
            {
                "schemas": "openai",
                "reasons": True,
                "system_role": "user",
                "reasons_unasked": True,
                "efforts": ("low", "medium", "high"),
            },
            ("o1-mini",),
        ),
    ),
    "azure_openai": (
        ({"schemas": "openai_compatible"}, ("", "gpt-5-chat")),
        (
            {"schemas": "openai_compatible", "structured": False},
            ("cohere-", "deepseek", "magistral", "ministral", "mistral"),
        ),
        (
            {
                "schemas": "openai_compatible",
                "reasons": True,
                "reasons_unasked": True,
                "efforts": ("minimal", "low", "medium", "high"),
            },
            ("gpt-5",),
        ),
        ({"schemas": "openai_compatible", "reasons": True, "reasons_unasked": True}, ("gpt-5-codex", "gpt-5.1-codex")),
        (
            {"schemas": "openai_compatible", "reasons": True, "reasons_unasked": True, "efforts": ("high",)},
            ("gpt-5-pro",),
        ),
        (
            {"schemas": "openai_compatible", "reasons": True, "no_effort": True},
            ("gpt-5.1", "gpt-5.2", "gpt-5.3", "gpt-5.4"),
        ),
        (
            {"schemas": "openai_compatible", "reasons": True, "reasons_unasked": True, "efforts": ("medium",)},
            ("gpt-5.1-chat", "gpt-5.2-chat", "gpt-5.3-chat"),
        ),
        (
            {
                "schemas": "openai_compatible",
                "reasons": True,
                "reasons_unasked": True,
                "efforts": ("medium", "high", "xhigh"),
            },
            ("gpt-5.2-pro", "gpt-5.4-pro", "gpt-5.5-pro"),
        ),
        (
            {"schemas": "openai_compatible", "reasons": True, "no_effort": True, "reasons_unasked": True},
            ("gpt-5.5", "gpt-5.6", "gpt-6-luna", "gpt-6-sol", "gpt-6.1-terra"),
        ),
        (
            {
                "schemas": "openai_compatible",
                "reasons": True,
                "reasons_unasked": True,
                "efforts": ("low", "medium", "high", "xhigh"),
            },
            ("gpt-6-astra", "gpt-6.1-sol"),
        ),
        ({"schemas": "inlined_openai"}, ("gpt-oss",)),
        ({"schemas": "grok"}, ("grok",)),
        ({"schemas": "inlined", "structured": False}, ("llama", "meta-")),
        (
            {
                "schemas": "openai_compatible",
                "reasons": True,
                "reasons_unasked": True,
                "efforts": ("low", "medium", "high"),
            },
            ("o1", "o3", "o4"),
        ),
        (
            {
                "schemas": "openai_compatible",
                "reasons": True,
                "system_role": "user",
                "reasons_unasked": True,
                "efforts": ("low", "medium", "high"),
            },
            ("o1-mini",),
        ),
    ),
    "ollama": (
        ({"schemas": "openai_compatible", "strict": False, "thought_field": "reasoning"}, ("",)),
        ({"schemas": "gemma", "strict": False, "thought_field": "reasoning"}, ("gemma",)),
        ({"schemas": "inlined", "strict": False, "thought_field": "reasoning"}, ("glm-5.3", "llama", "qwen", "qwq")),
        ({"schemas": "inlined_openai", "strict": False, "thought_field": "reasoning"}, ("gpt-oss",)),
    ),
    "anthropic": (
        ({"schemas": "anthropic", "structured": False}, ("",)),
        (
            {"schemas": "anthropic", "structured": False, "default_tokens": 4_096},
            (
                "claude-3",
                "claude-4-",
                "claude-opus-4$",
                "claude-opus-4-0",
                "claude-opus-4-2",
                "claude-opus-4@",
                "claude-sonnet-4$",
                "claude-sonnet-4-0",
                "claude-sonnet-4-2",
                "claude-sonnet-4@",
            ),
        ),
        (
            {
                "schemas": "anthropic",
                "sampling": False,
                "most_tokens": 128_000,
                "default_tokens": 128_000,
                "takes_effort": True,
                "takes_budget": False,
            },
            (
                "claude-fable-5",
                "claude-mythos-5",
                "claude-opus-4-7",
                "claude-opus-4-8",
                "claude-opus-5",
                "claude-sonnet-5",
            ),
        ),
        (
            {
                "schemas": "anthropic",
                "sampling": False,
                "most_tokens": 128_000,
                "default_tokens": 128_000,
                "takes_effort": True,
                "takes_budget": False,
                "binds_thoughts": True,
            },
            (
                "claude-fable-5-1",
                "claude-fable-5-2",
                "claude-haiku-5-5",
                "claude-mythos-5-2",
                "claude-opus-5-5",
                "claude-sonnet-5-5",
            ),
        ),
        (
            {"schemas": "anthropic", "most_tokens": 64_000, "default_tokens": 64_000},
            ("claude-haiku-4-5", "claude-sonnet-4-5"),
        ),
        ({"schemas": "anthropic", "default_tokens": 4_096}, ("claude-opus-4-1",)),
        (
            {
                "schemas": "anthropic",
                "most_tokens": 64_000,
                "default_tokens": 64_000,
                "takes_effort": True,
                "takes_top_effort": False,
            },
            ("claude-opus-4-5",),
        ),
        (
            {"schemas": "anthropic", "most_tokens": 128_000, "default_tokens": 128_000, "takes_effort": True},
            ("claude-opus-4-6", "claude-sonnet-4-6"),
        ),
    ),
}
