"""References to models, and the providers and services that serve them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.suite.model.base import FormatModel, Integer, MaybeText, NonBlank, Number, SecretText, UnitInterval

ProviderName = Literal[
    "openai",
    "azure_openai",
    "anthropic",
    "ollama",
    "gemini",
    "vertex",
    "bedrock",
    "mistral",
    "groq",
    "cohere",
    "deepseek",
    "openrouter",
    "huggingface",
]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""Levels of reasoning effort of OpenAI's API; `none` switches thinking off."""
ApiName = Literal["responses", "chat"]
AuthProvider = Literal["api_key", "oauth_token", "bedrock", "vertex", "foundry", "custom"]


class CompatibleService(NamedTuple):
    """A service that offers OpenAI's API at another URL.

    Attributes:
        title: name of the service in messages.
        key: environment variable with its API key.
        address: URL of its API; empty if each customer has a different URL, which the suite must give.
        priced_as: name of the service in the price list; empty if it serves other vendors' models at its own prices.
    """

    title: str
    key: str
    address: str = ""
    priced_as: str = ""


COMPATIBLE: Mapping[ProviderName, CompatibleService] = {
    "gemini": CompatibleService(
        "Gemini", "GEMINI_API_KEY", "https://generativelanguage.googleapis.com/v1beta/openai", "google"
    ),
    "vertex": CompatibleService("Vertex AI", "VERTEX_ACCESS_TOKEN", priced_as="google"),
    "bedrock": CompatibleService("Amazon Bedrock", "AWS_BEARER_TOKEN_BEDROCK", priced_as="aws"),
    "mistral": CompatibleService("Mistral", "MISTRAL_API_KEY", "https://api.mistral.ai/v1", "mistral"),
    "groq": CompatibleService("Groq", "GROQ_API_KEY", "https://api.groq.com/openai/v1", "groq"),
    "cohere": CompatibleService("Cohere", "COHERE_API_KEY", "https://api.cohere.ai/compatibility/v1", "cohere"),
    "deepseek": CompatibleService("DeepSeek", "DEEPSEEK_API_KEY", "https://api.deepseek.com/v1", "deepseek"),
    "openrouter": CompatibleService("OpenRouter", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1", "openrouter"),
    "huggingface": CompatibleService("Hugging Face", "HF_TOKEN", "https://router.huggingface.co/v1"),
}
"""Services by provider. To add one, add an entry here and a word to `ProviderName`."""

ADDRESS_VARIABLES: Mapping[ProviderName, str] = {
    "openai": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "ollama": "OLLAMA_BASE_URL",
    **{name: f"{name.upper()}_BASE_URL" for name in COMPATIBLE},
}
"""Environment variables with the address of a provider, for model references without an address."""
KEY_VARIABLES: Mapping[ProviderName, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "azure_openai": ("AZURE_OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"),
    "ollama": ("OLLAMA_API_KEY",),
    **{name: (service.key,) for name, service in COMPATIBLE.items()},
}
"""Environment variables with the keys of a provider, for model references without a key."""


class LLMProvider(FormatModel):
    """A model, its provider and its settings."""

    provider: ProviderName
    """The provider. Example: `openai`."""
    name: NonBlank
    """The model, or the deployment of Azure OpenAI. Example: `gpt-6.1-sol`."""
    temperature: Annotated[Number, Field(ge=0.0, le=2.0)] | None = 0.3
    """Sampling temperature; a judge has 0 when absent. Example: `0.0`."""
    max_tokens: Annotated[Integer, Field(gt=0)] | None = 1000
    """Longest answer in tokens; a judge and a model that thinks have no limit when absent. Example: `4096`."""
    top_p: UnitInterval | None = None
    """Share of the probability mass that is sampled. Example: `0.9`."""
    endpoint: MaybeText = None
    """Address of the service. Required for `azure_openai`, `vertex` and `bedrock`; the provider's own when absent.
    Example: `https://models.example.com/v1`."""
    api_key: SecretText | None = None
    """The key; the provider's environment variable when absent. Example: `${OPENAI_API_KEY}`."""
    api_version: MaybeText = None
    """API version of Azure OpenAI; the current one when absent. Example: `"2024-10-21"`."""
    auth_provider: AuthProvider | None = None
    """How the key is sent to Anthropic. `bedrock`, `vertex` and `foundry` are refused. Example: `oauth_token`."""

    @model_validator(mode="after")
    def _check_endpoint(self) -> Self:
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


def runner_block(provider: ProviderName) -> Literal["claude", "openai"]:
    """Return the key of the block in agent.yaml that configures the models of a provider."""
    return "openai" if provider in ("openai", "azure_openai", *COMPATIBLE) else "claude"
