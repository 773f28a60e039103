"""Model references of the format."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.suite.base import FormatModel, Integer, MaybeText, NonBlank, Number, SecretText, UnitInterval

ProviderName = Literal["openai", "azure_openai", "anthropic", "ollama"]
AuthProvider = Literal["api_key", "oauth_token", "bedrock", "vertex", "foundry", "custom"]


ADDRESS_VARIABLES: Mapping[ProviderName, str] = {
    "openai": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "ollama": "OLLAMA_BASE_URL",
}
"""Variables with the addresses of references that give none."""
KEY_VARIABLES: Mapping[ProviderName, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "azure_openai": ("AZURE_OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"),
    "ollama": ("OLLAMA_API_KEY",),
}
"""Variables with the keys of references that give none."""


class LLMProvider(FormatModel):
    """A model and how to reach it, wherever a model is named."""

    provider: ProviderName
    """The provider. Example: `openai`."""
    name: NonBlank
    """The model, or the deployment of Azure OpenAI. Example: `gpt-4o`."""
    temperature: Annotated[Number, Field(ge=0.0, le=2.0)] | None = 0.3
    """Sampling temperature; a judge has 0 when absent. Example: `0.0`."""
    max_tokens: Annotated[Integer, Field(gt=0)] | None = 1000
    """Longest answer in tokens; a judge has no limit when absent. Example: `4096`."""
    top_p: UnitInterval | None = None
    """Share of the probability mass that is sampled. Example: `0.9`."""
    endpoint: MaybeText = None
    """Address of the service. Required for `azure_openai`; the provider's own when absent. Example:
    `https://models.example.com/v1`."""
    api_key: SecretText | None = None
    """The key; the provider's environment variable when absent. Example: `${OPENAI_API_KEY}`."""
    api_version: MaybeText = None
    """API version of Azure OpenAI; the current one when absent. Example: `"2024-10-21"`."""
    auth_provider: AuthProvider | None = None
    """How the key is sent to Anthropic. `bedrock`, `vertex` and `foundry` are refused. Example: `oauth_token`."""

    @model_validator(mode="after")
    def _azure_has_an_endpoint(self) -> LLMProvider:
        if self.provider == "azure_openai" and self.endpoint is None:
            raise PydanticCustomError("endpoint", "is missing (required for provider azure_openai)")
        return self


class ProviderEnum(StrEnum):
    """Model providers (`holodeck.models.llm.ProviderEnum`)."""

    OPENAI = "openai"
    AZURE_OPENAI = "azure_openai"
    ANTHROPIC = "anthropic"
    OLLAMA = "ollama"


class RAGMetricType(StrEnum):
    """Retrieval-augmented-generation metrics (`holodeck.models.evaluation.RAGMetricType`)."""

    FAITHFULNESS = "faithfulness"
    CONTEXTUAL_RELEVANCY = "contextual_relevancy"
    CONTEXTUAL_PRECISION = "contextual_precision"
    CONTEXTUAL_RECALL = "contextual_recall"
    ANSWER_RELEVANCY = "answer_relevancy"
