"""Provider clients on the wire; they are imported when the first one is built.

Their own retries are off and they wait without limit for an answer: the wire retries and knows the deadline. Texts
are sent as they are written: pydantic-ai's breaking of chat-template tokens would change what the suite asks.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from holodeck_action.llm.calls import Account
from holodeck_action.llm.direct import direct_anthropic, direct_openai
from holodeck_action.llm.errors import ModelConfigError
from holodeck_action.llm.providers import ModelPlan, not_sent
from holodeck_action.llm.reasoning import thinking_of

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

_CONNECT_S = 30.0
"""Seconds in which a connection must be made."""


class Clients(Protocol):
    """What gives the HTTP client of an account; `holodeck_action.llm.wire.Wire` in production."""

    def client(self, account: Account) -> httpx2.AsyncClient:
        """Return the account's pooled client, always the same one."""
        ...


@dataclass(frozen=True, slots=True)
class BuiltModel:
    """A model that can be asked.

    Attributes:
        model: pydantic-ai's model on the account's client.
        settings: what to send, without what the model is known to refuse.
        notices: what was written but is not sent, each one sentence.
    """

    model: Model
    settings: ModelSettings
    notices: tuple[str, ...] = ()


def build_model(plan: ModelPlan, clients: Clients) -> BuiltModel:
    """Build the client of a model.

    Raises:
        ModelConfigError: the packages of the `agents` extra are not installed.
    """
    try:
        with _packages_kept():
            model = (_anthropic if plan.provider == "anthropic" else _openai)(plan, clients.client(plan.account))
    except ImportError as error:
        raise ModelConfigError(
            f"the suite's model needs a package that is not installed ({error.name or error}); "
            "install it with: pip install 'holodeck-action[agents]'"
        ) from None
    # The instructions go out as they are written: without a paragraph of pydantic-ai's own before them.
    profile = cast(Mapping[str, Any], model.profile)
    thinking = thinking_of(plan, profile)
    settings = {**plan.settings, **thinking.settings, "framing_announcement": "never"}
    if thinking.more_tokens and "max_tokens" in settings:
        settings["max_tokens"] += thinking.more_tokens
    refuses = (
        thinking.without_sampling
        or profile.get("anthropic_disallows_sampling_settings")
        or (profile.get("openai_supports_reasoning") and profile.get("thinking_enabled_by_default"))
    )
    dropped = [name for name in ("temperature", "top_p") if refuses and settings.pop(name, None) is not None]
    notices = not_sent(plan.name, [name for name in dropped if name in plan.written])
    return BuiltModel(model, cast("ModelSettings", settings), (*plan.notices, *notices, *thinking.notices))


@contextmanager
def _packages_kept() -> Iterator[None]:
    """Import without collecting garbage: thousands of classes that stay to the end are looked through in vain.

    They stay out of later collections, too.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if collecting:
            gc.enable()


def _openai(plan: ModelPlan, http_client: httpx2.AsyncClient) -> Model:
    import httpx2
    from openai import AsyncAzureOpenAI, AsyncOpenAI
    from pydantic_ai.models.ollama import OllamaModel
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles import ModelProfile, merge_profile
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.azure import AzureProvider
    from pydantic_ai.providers.ollama import OllamaProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    shared: dict[str, Any] = {
        "api_key": plan.account.key,
        "max_retries": 0,
        "timeout": httpx2.Timeout(None, connect=_CONNECT_S),
        "http_client": http_client,
    }
    provider: AzureProvider | OllamaProvider | OpenAIProvider
    if plan.deployments:
        azure = AsyncAzureOpenAI(azure_endpoint=plan.account.base_url, api_version=plan.api_version, **shared)
        provider = AzureProvider(openai_client=azure)
        direct_openai(azure, http_client, deployments=True)
    else:
        query = {"api-version": plan.api_version} if plan.api_version else None
        client = AsyncOpenAI(base_url=plan.account.base_url, default_query=query, **shared)
        direct_openai(client, http_client, deployments=False)
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
        OpenAIModelProfile(openai_chat_supports_max_completion_tokens=plan.completion_tokens),
    )
    kind = OllamaModel if plan.provider == "ollama" else OpenAIChatModel
    return kind(plan.name, provider=provider, profile=profile)


def _anthropic(plan: ModelPlan, http_client: httpx2.AsyncClient) -> Model:
    import httpx2
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    key = plan.account.key
    client = AsyncAnthropic(
        api_key=key if plan.credential == "api_key" else None,
        auth_token=None if plan.credential == "api_key" else key,
        base_url=plan.account.base_url,
        max_retries=0,
        timeout=httpx2.Timeout(None, connect=_CONNECT_S),
        http_client=http_client,
    )
    direct_anthropic(client, http_client)
    return AnthropicModel(plan.name, provider=AnthropicProvider(anthropic_client=client))
