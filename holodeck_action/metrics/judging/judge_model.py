"""The judge model of an evaluator that is used outside a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from holodeck_action.llm.judge import TEMPERATURE, judge_plan
from holodeck_action.llm.providers import ModelPlan
from holodeck_action.suite.model.providers import LLMProvider, ProviderEnum

AZURE_VERSION = "2024-02-15-preview"


_AZURE_FIELDS = ("api_version", "deployment_name")


class JudgeModelConfig(BaseModel):
    """The judge model; by default Ollama's gpt-oss:20b on this machine, as in HoloDeck.

    Raises:
        ValidationError: a provider other than Ollama has no model_name, Azure OpenAI has no endpoint, deployment_name
            or api_key, or another provider has a field that only Azure OpenAI supports.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)

    provider: ProviderEnum = ProviderEnum.OLLAMA
    model_name: str = Field(default="gpt-oss:20b", min_length=1)
    """Required for every provider except Ollama."""
    api_key: str | None = Field(default=None, repr=False)
    """The key; if absent, OPENAI_API_KEY or ANTHROPIC_API_KEY is used for these providers."""
    endpoint: str | None = None
    """Required for Azure OpenAI."""
    api_version: str | None = None
    """Azure OpenAI only; 2024-02-15-preview if absent."""
    deployment_name: str | None = None
    """Azure OpenAI only."""
    temperature: float = Field(default=TEMPERATURE, ge=0.0, le=2.0)

    @model_validator(mode="after")
    def _check_azure(self) -> Self:
        azure = self.provider == ProviderEnum.AZURE_OPENAI
        for name in ("endpoint", "deployment_name", "api_key") if azure else ():
            if not getattr(self, name):
                raise ValueError(f"{name} is required for Azure OpenAI")
        for name in () if azure else _AZURE_FIELDS:
            if getattr(self, name) is not None:
                raise ValueError(f"{name} has no effect: only Azure OpenAI has it, not {self.provider.value}")
        return self

    @model_validator(mode="after")
    def _check_model_name(self) -> Self:
        if self.provider != ProviderEnum.OLLAMA and "model_name" not in self.model_fields_set:
            raise ValueError(f"model_name is required for {self.provider.value}")
        return self

    def plan(self, environ: Mapping[str, str]) -> ModelPlan:
        """Return the resolved model.

        Args:
            environ: environment with keys and URLs that the configuration omits.

        Raises:
            ModelConfigError: there is no key, or a URL is invalid.
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
            given["api_version"] = self.api_version or AZURE_VERSION
        return judge_plan(
            LLMProvider(**{name: value for name, value in given.items() if value is not None}),
            environ,
            path="model_config",
        )
