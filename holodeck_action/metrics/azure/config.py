"""`ModelConfig`: the Azure OpenAI deployment that grades (HoloDeck evaluation API, Azure AI metrics)."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from holodeck_action.llm.judge import judge_plan
from holodeck_action.llm.providers import ModelPlan
from holodeck_action.suite.providers import LLMProvider

API_VERSION = "2024-02-15-preview"
"""The version of the API that is asked where none is given."""


class ModelConfig(BaseModel):
    """An Azure OpenAI deployment.

    Raises:
        ValidationError: a field is missing, empty or unknown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    azure_endpoint: str = Field(min_length=1)
    """Address of the resource, such as `https://my-resource.openai.azure.com/`."""
    api_key: str = Field(min_length=1, repr=False)
    azure_deployment: str = Field(min_length=1)
    """Name of the deployment."""
    api_version: str = Field(default=API_VERSION, min_length=1)

    def plan(self, environ: Mapping[str, str]) -> ModelPlan:
        """Return how the deployment is reached and asked.

        Args:
            environ: the job's environment.

        Raises:
            ModelConfigError: an address that is none, or a key that cannot be one.
        """
        return judge_plan(
            LLMProvider(
                provider="azure_openai",
                name=self.azure_deployment,
                endpoint=self.azure_endpoint,
                api_key=SecretStr(self.api_key),
                api_version=self.api_version,
            ),
            environ,
            where="model_config",
        )
