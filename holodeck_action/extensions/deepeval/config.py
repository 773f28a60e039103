"""`DeepEvalModelConfig`, the model that grades (HoloDeck DeepEval data model §1.1)."""

from __future__ import annotations

import os
from typing import Any

from holodeck_action.extensions.deepeval.library import load_module
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.judge_model import AZURE_VERSION, JudgeModelConfig
from holodeck_action.suite.model.providers import ProviderEnum

_OLLAMA = "http://localhost:11434"
_KEYS = {ProviderEnum.OPENAI: "OPENAI_API_KEY", ProviderEnum.ANTHROPIC: "ANTHROPIC_API_KEY"}


class DeepEvalModelConfig(JudgeModelConfig):
    """The model that grades; see `JudgeModelConfig`."""

    def to_deepeval_model(self) -> Any:
        """Return an instance of DeepEval's own model class for the provider; see `native_model`."""
        return native_model(self)


def native_model(config: JudgeModelConfig) -> Any:
    """Return an instance of DeepEval's model class for the provider; this instance calls the model directly.

    Raises:
        EvaluationError: DeepEval or the provider's package that its class needs is not installed.
    """
    models: Any = load_module("deepeval.models")
    given: dict[str, Any] = {"temperature": config.temperature}
    # In a run DeepEval is imported without environment variables, and so finds no key.
    key = config.api_key or os.environ.get(_KEYS.get(config.provider, ""))
    if key and config.provider != ProviderEnum.OLLAMA:
        given["api_key"] = key
    if config.endpoint:
        given["base_url"] = config.endpoint
    match config.provider:
        case ProviderEnum.OPENAI:
            kind = models.OpenAIModel
        case ProviderEnum.AZURE_OPENAI:
            kind = models.AzureOpenAIModel
            version = config.api_version or AZURE_VERSION
            given |= {"deployment_name": config.deployment_name, "api_version": version}
        case ProviderEnum.ANTHROPIC:
            kind = models.AnthropicModel
        case _:
            kind = models.OllamaModel
            given.setdefault("base_url", _OLLAMA)
    try:
        return kind(model=config.model_name, **given)
    except load_module("deepeval.errors").DeepEvalError as error:
        raise EvaluationError(str(error), code="not_installed") from error
