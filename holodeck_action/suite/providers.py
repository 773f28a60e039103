"""Model references of the format (HoloDeck format reference §1.4)."""

from __future__ import annotations

from collections.abc import Mapping
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
    """A model and how to reach it."""

    provider: ProviderName
    name: NonBlank
    temperature: Annotated[Number, Field(ge=0.0, le=2.0)] | None = 0.3
    max_tokens: Annotated[Integer, Field(gt=0)] | None = 1000
    top_p: UnitInterval | None = None
    endpoint: MaybeText = None
    api_key: SecretText | None = None
    api_version: MaybeText = None
    auth_provider: AuthProvider | None = None

    @model_validator(mode="after")
    def _azure_has_an_endpoint(self) -> LLMProvider:
        if self.provider == "azure_openai" and self.endpoint is None:
            raise PydanticCustomError("endpoint", "is missing (required for provider azure_openai)")
        return self
