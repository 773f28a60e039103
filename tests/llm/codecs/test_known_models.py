"""What is known about a model is what pydantic-ai knows about it, as far as a request depends on it."""

from __future__ import annotations

from typing import Any

import pytest

from holodeck_action.llm.model_facts import KnownModel, known_model
from tests.tables import walk

PROVIDERS = ("openai", "azure_openai", "ollama", "anthropic")
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


@pytest.mark.full
def test_the_table_is_what_the_pinned_package_says() -> None:
    from scripts.build_known_models import MODULE, build_module
    from scripts.build_known_models import PROVIDERS as LISTED

    assert [*LISTED] == [*PROVIDERS]
    assert MODULE.read_text(encoding="utf-8") == build_module(), "run make models"


@walk("provider", PROVIDERS)
def test_each_model_takes_what_it_took(provider: Any) -> None:
    from pydantic_ai.models import known_model_names

    from scripts.build_known_models import model_facts

    listed = {name.split(":", 1)[-1] for name in known_model_names()}
    names = sorted(listed | {name.split("/")[-1] for name in listed} | CLAUDES | OTHERS)
    assert len(names) > 350
    differing: list[tuple[str, KnownModel, dict[str, Any]]] = []
    for name in names:
        known, expected = known_model(provider, name), model_facts(provider, name)
        if any(getattr(known, field) != value for field, value in expected.items()):
            differing.append((name, known, expected))
    assert differing == []
