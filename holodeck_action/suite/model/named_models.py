"""The models that the starter, help, messages, examples and documentation name.

`tests/docs/test_named_models.py` compares all of them with this table, with the price list and with the removals that
the providers have announced. To change a model, change it here, and run that test: it lists the other places.
"""

from __future__ import annotations

from collections.abc import Mapping

LARGE = "gpt-6.1-sol"
"""OpenAI's model for difficult tasks."""

MEDIUM = "gpt-6.1-terra"
"""OpenAI's model between the two others."""

SMALL = "gpt-6-luna"
"""OpenAI's cheapest model, which `init` and imported suites name."""

EMBEDDINGS = "text-embedding-3-small"

NAMED: Mapping[str, tuple[str, ...]] = {
    "openai": (LARGE, MEDIUM, SMALL, EMBEDDINGS, "text-embedding-3-large"),
    "anthropic": ("claude-sonnet-5-5", "claude-haiku-5-5"),
    "gemini": ("gemini-3.8-flash", "gemini-3.5-flash-lite", "gemini-embedding-2"),
    "vertex": ("google/gemini-3.8-flash", "google/gemini-3.5-flash-lite"),
    "bedrock": ("openai.gpt-oss-120b-1:0", "openai.gpt-oss-20b-1:0"),
    "mistral": ("mistral-large-latest", "mistral-small-latest", "mistral-embed"),
    "groq": ("openai/gpt-oss-120b", "openai/gpt-oss-20b"),
    "cohere": ("command-a-03-2025", "command-r7b-12-2024", "embed-v4.0"),
    "deepseek": ("deepseek-v4-pro", "deepseek-v4-flash"),
    "openrouter": (f"openai/{LARGE}", "anthropic/claude-sonnet-5.5", f"openai/{EMBEDDINGS}"),
    "huggingface": ("openai/gpt-oss-120b", "Qwen/Qwen3-32B"),
    "ollama": ("llama3.2", "qwen3", "gpt-oss:20b", "nomic-embed-text"),
}
"""The named models of each provider. Models of Azure OpenAI are named by their deployments."""

MODEL_MARK = "SMALL_MODEL"
"""Stands for the name of the model in the files of the starter."""
