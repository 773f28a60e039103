"""What pydantic-ai makes of a conversation on the providers' own packages: the codecs are held against it."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, cast

import httpx2
from anthropic import AsyncAnthropic
from openai import AsyncAzureOpenAI, AsyncOpenAI
from pydantic_ai import direct
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.ollama import OllamaModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.azure import AzureProvider
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition as FunctionTool

from holodeck_action.llm.messages import AnswerSchema, Question, Request, ToolDefinition, ToolResult
from holodeck_action.llm.model_facts import known_model
from holodeck_action.llm.providers import ModelPlan
from tests.llm.models import KEY

_SHARED: dict[str, Any] = {"api_key": KEY, "max_retries": 0, "timeout": httpx2.Timeout(None, connect=30)}
_NAMES = {
    "openai": {"effort": "openai_reasoning_effort"},
    "anthropic": {"effort": "anthropic_effort", "thinking": "anthropic_thinking", "betas": "anthropic_betas"},
}


class Package:
    """One model as pydantic-ai asks it; the network is a function from a request's body to an answer's."""

    def __init__(self, plan: ModelPlan) -> None:
        self.plan = plan
        self.bodies: list[Any] = []
        self.headers: list[httpx2.Headers] = []
        self._answers: list[tuple[int, Any]] = []

    def ask(
        self,
        messages: Sequence[Request | ModelResponse],
        *answers: tuple[int, Any],
        settings: Mapping[str, Any] | None = None,
        tools: Sequence[ToolDefinition] = (),
        answer: AnswerSchema | None = None,
    ) -> ModelResponse:
        """Ask for the next message; the answers are given in their order."""
        self._answers = [*answers]
        parameters = ModelRequestParameters(
            function_tools=[
                FunctionTool(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
                for tool in tools
            ]
        )
        if answer is not None:
            parameters.output_mode = "native"
            parameters.output_object = OutputObjectDefinition(
                json_schema=answer.schema, name=answer.name, strict=None if self._claude else answer.strict
            )

        async def main() -> ModelResponse:
            async with httpx2.AsyncClient(transport=httpx2.MockTransport(self._respond)) as http:
                return await direct.model_request(
                    self._model(http),
                    [_translated(message) for message in messages],
                    model_settings=cast(Any, self._settings(settings)),
                    model_request_parameters=parameters,
                    instrument=False,
                )

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return asyncio.run(main())

    @property
    def _claude(self) -> bool:
        return self.plan.provider == "anthropic"

    def _settings(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        names = _NAMES["anthropic" if self._claude else "openai"]
        settings = {names.get(name, name): value for name, value in (given or {}).items()}
        if (most := settings.pop("top_logprobs", None)) is not None:
            # While a model thinks, pydantic-ai drops the number, but demands probabilities of the Responses API still.
            thinks = self.plan.api == "responses" and known_model(self.plan.provider, self.plan.name).reasons_unasked
            settings |= {"openai_logprobs": not thinks, "openai_top_logprobs": most}
        if self.plan.api == "responses":
            settings["openai_store"] = False
        return {**settings, "framing_announcement": "never"}

    def _respond(self, request: httpx2.Request) -> httpx2.Response:
        self.bodies.append(json.loads(request.content))
        self.headers.append(request.headers)
        status, body = self._answers.pop(0)
        if isinstance(body, bytes):
            return httpx2.Response(status, content=body, headers={"content-type": "text/event-stream"})
        return httpx2.Response(status, json=body)

    def _model(self, http: httpx2.AsyncClient) -> Model:
        plan, shared = self.plan, {**_SHARED, "http_client": http}
        if self._claude:
            claude = AsyncAnthropic(base_url=plan.account.base_url, **shared)
            return AnthropicModel(plan.name, provider=AnthropicProvider(anthropic_client=claude))
        provider: AzureProvider | OllamaProvider | OpenAIProvider
        if plan.deployments:
            azure = AsyncAzureOpenAI(azure_endpoint=plan.account.base_url, api_version=plan.api_version, **shared)
            provider = AzureProvider(openai_client=azure)
        else:
            client = AsyncOpenAI(base_url=plan.account.base_url, **shared)
            match plan.provider:
                case "azure_openai":
                    provider = AzureProvider(openai_client=cast(AsyncAzureOpenAI, client))
                case "ollama":
                    provider = OllamaProvider(openai_client=client)
                case _:
                    provider = OpenAIProvider(openai_client=client)
        profile = merge_profile(
            provider.model_profile(plan.name),
            ModelProfile(may_tokenize_special_tokens_in_content=False),
            OpenAIModelProfile(
                openai_chat_supports_max_completion_tokens=plan.completion_tokens,
                # How long a model remembers its thoughts is left to the service.
                openai_responses_supports_reasoning_context=False,
            ),
        )
        if plan.api == "responses":
            return OpenAIResponsesModel(plan.name, provider=provider, profile=profile)
        kind = OllamaModel if plan.provider == "ollama" else OpenAIChatModel
        return kind(plan.name, provider=provider, profile=profile)


def _translated(message: Request | ModelResponse) -> ModelMessage:
    """Return a request in pydantic-ai's types; its answers stay what they are."""
    if isinstance(message, ModelResponse):
        return message
    parts: list[UserPromptPart | ToolReturnPart] = []
    for part in message.parts:
        match part:
            case ToolResult():
                parts.append(ToolReturnPart(tool_name="any", content=part.text, tool_call_id=part.id))
            case Question() if part.images:
                images = (BinaryContent(data=image.data, media_type=image.media_type) for image in part.images)
                parts.append(UserPromptPart([part.text, *images]))
            case Question():
                parts.append(UserPromptPart(part.text))
    return ModelRequest(parts=parts, instructions=message.instructions)
