"""`DeepEvalModelConfig`: which model grades (HoloDeck DeepEval data model §1.1)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from holodeck_action.extensions.deepeval.library import module
from holodeck_action.llm.judge import TEMPERATURE, judge_plan
from holodeck_action.llm.providers import ModelPlan
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.suite.model.providers import LLMProvider, ProviderEnum

_OLLAMA = "http://localhost:11434"
_AZURE_VERSION = "2024-02-15-preview"
_KEYS = {ProviderEnum.OPENAI: "OPENAI_API_KEY", ProviderEnum.ANTHROPIC: "ANTHROPIC_API_KEY"}


_OF_AZURE = ("api_version", "deployment_name")


class DeepEvalModelConfig(BaseModel):
    """The model that grades; written without arguments it is Ollama's gpt-oss:20b on this machine, as in HoloDeck.

    Raises:
        ValidationError: a provider other than Ollama without model_name, Azure OpenAI without endpoint, deployment_name
            or api_key, or another provider with a field of Azure OpenAI alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)

    provider: ProviderEnum = ProviderEnum.OLLAMA
    model_name: str = Field(default="gpt-oss:20b", min_length=1)
    """Required for every provider except Ollama."""
    api_key: str | None = Field(default=None, repr=False)
    """OpenAI and Anthropic take OPENAI_API_KEY and ANTHROPIC_API_KEY where it is absent."""
    endpoint: str | None = None
    """Required for Azure OpenAI."""
    api_version: str | None = None
    """Azure OpenAI only; 2024-02-15-preview where it is absent."""
    deployment_name: str | None = None
    """Azure OpenAI only."""
    temperature: float = Field(default=TEMPERATURE, ge=0.0, le=2.0)

    @model_validator(mode="after")
    def _azure_is_complete(self) -> DeepEvalModelConfig:
        azure = self.provider == ProviderEnum.AZURE_OPENAI
        for name in ("endpoint", "deployment_name", "api_key") if azure else ():
            if not getattr(self, name):
                raise ValueError(f"{name} is required for Azure OpenAI")
        for name in () if azure else _OF_AZURE:
            if getattr(self, name) is not None:
                raise ValueError(f"{name} has no effect: only Azure OpenAI has it, not {self.provider.value}")
        return self

    @model_validator(mode="after")
    def _the_model_is_named(self) -> DeepEvalModelConfig:
        if self.provider != ProviderEnum.OLLAMA and "model_name" not in self.model_fields_set:
            raise ValueError(f"model_name is required for {self.provider.value}")
        return self

    def plan(self, environ: Mapping[str, str]) -> ModelPlan:
        """Return how the model is reached and asked.

        Args:
            environ: where keys and addresses are that the configuration omits.

        Raises:
            ModelConfigError: no key, or an address that is none.
        """
        azure = self.provider == ProviderEnum.AZURE_OPENAI
        given: dict[str, Any] = {
            "provider": self.provider.value,
            "name": self.deployment_name if azure else self.model_name,
            "endpoint": self.endpoint,
            "api_key": self.api_key,
            "temperature": self.temperature,
        }
        if azure:
            given["api_version"] = self.api_version or _AZURE_VERSION
        return judge_plan(
            LLMProvider(**{name: value for name, value in given.items() if value is not None}),
            environ,
            where="model_config",
        )

    def to_deepeval_model(self) -> Any:
        """Return DeepEval's own class for the provider, which asks by itself and not over our wire.

        Raises:
            EvaluationError: DeepEval, or the provider's package that its class needs, is not installed.
        """
        try:
            return self._native()
        except module("deepeval.errors").DeepEvalError as error:
            raise EvaluationError(str(error), code="not_installed") from error

    def _native(self) -> Any:
        models: Any = module("deepeval.models")
        common: dict[str, Any] = {"temperature": self.temperature}
        # In a run DeepEval is imported without the environment, and finds no key there.
        key = self.api_key or os.environ.get(_KEYS.get(self.provider, ""))
        if key:
            common["api_key"] = key
        match self.provider:
            case ProviderEnum.OPENAI:
                if self.endpoint:
                    common["base_url"] = self.endpoint
                return models.OpenAIModel(model=self.model_name, **common)
            case ProviderEnum.AZURE_OPENAI:
                return models.AzureOpenAIModel(
                    model=self.model_name,
                    deployment_name=self.deployment_name,
                    base_url=self.endpoint,
                    api_version=self.api_version or _AZURE_VERSION,
                    **common,
                )
            case ProviderEnum.ANTHROPIC:
                if self.endpoint:
                    common["base_url"] = self.endpoint
                return models.AnthropicModel(model=self.model_name, **common)
            case _:
                common.pop("api_key", None)
                return models.OllamaModel(model=self.model_name, base_url=self.endpoint or _OLLAMA, **common)
