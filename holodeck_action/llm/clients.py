"""Provider clients on the wire; they are imported when the first one is built.

Their own retries are off and they wait without limit for an answer: the wire retries and knows the deadline. Texts
are sent as they are written: pydantic-ai's breaking of chat-template tokens would change what the suite asks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import quote

from holodeck_action.llm.calls import Account
from holodeck_action.llm.providers import ModelConfigError, ModelPlan, not_sent
from holodeck_action.llm.reasoning import thinking_of
from holodeck_action.suite.garbage import without_collections

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI
    from pydantic import BaseModel
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings


@dataclass(frozen=True, slots=True)
class _Package:
    """What differs between the packages.

    Attributes:
        address: where a model is asked, by its name.
        headers: of every request.
        unset: types of values that stand for nothing.
        answer: makes the package's answer of a JSON object.
        error: makes the package's error of its message, the response and the body.
    """

    address: Callable[[str], httpx2.URL]
    headers: Mapping[str, str]
    unset: tuple[type, ...]
    answer: Callable[[dict[str, Any]], Any]
    error: Callable[[str, httpx2.Response, Any], Exception]


class DirectCalls:
    """Stands in for a package's resource of chats; it has what pydantic-ai uses of it.

    pydantic-ai asks through one method, `create`. The package's generic machinery behind it costs more than all that
    we do for a call, and a plain request needs little of it: a body, a handful of headers, an answer in the package's
    own class. JSON values need no conversion, options, hooks or retries. What goes out is the same, but for the
    package's headers about its own retries; streams go the package's way.
    """

    def __init__(self, usual: Any, http: httpx2.AsyncClient, package: _Package) -> None:
        import httpx2

        self._usual = usual
        self._http = http
        self._package = package
        self._request = httpx2.Request

    async def create(self, **given: Any) -> Any:
        """Ask for an answer, as the resource's own `create` does.

        Returns:
            The package's answer; the body's text where it is no JSON object; a stream where one is asked for.

        Raises:
            WireError: there is no answer.
            Exception: the package's `APIStatusError`, for a status that is no success.
        """
        if given.get("stream") is True:
            return await self._usual.create(**given)
        package = self._package
        body = {name: value for name, value in given.items() if not isinstance(value, package.unset)}
        # The wire alone knows how long a call may take.
        body.pop("timeout", None)
        headers = dict(package.headers)
        if betas := body.pop("betas", None):
            headers["anthropic-beta"] = ",".join(betas)
        for name, value in (body.pop("extra_headers", None) or {}).items():
            if isinstance(value, str):
                headers[name.lower()] = value
        body.update(body.pop("extra_body", None) or {})
        request = self._request("POST", package.address(body["model"]), headers=headers, content=_encoded(body))
        response = await self._http.send(request)
        if response.status_code >= 300:
            raise self._refused(response)
        try:
            value = response.json()
        except ValueError:
            return response.text
        return package.answer(value) if isinstance(value, dict) else response.text

    def _refused(self, response: httpx2.Response) -> Exception:
        text = response.text.strip()
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = text
        return self._package.error(f"Error code: {response.status_code}", response, body)


def direct_openai(client: AsyncOpenAI, http: httpx2.AsyncClient, *, deployments: bool) -> None:
    """Let a client of OpenAI's package ask for chat completions directly.

    Args:
        client: of any server that speaks OpenAI's language.
        http: what the client sends with.
        deployments: whether a model has an address of its own, as Azure OpenAI's deployments have.
    """
    import httpx2
    from openai import APIStatusError, NotGiven, Omit
    from openai.types.chat import ChatCompletion

    base = str(client.base_url).rstrip("/")
    query = "&".join(f"{quote(name)}={quote(str(value), safe='')}" for name, value in client.default_query.items())

    @cache
    def address(model: str) -> httpx2.URL:
        place = f"{base}/deployments/{quote(model, safe='')}" if deployments else base
        return httpx2.URL(f"{place}/chat/completions{f'?{query}' if query else ''}")

    def error(message: str, response: httpx2.Response, body: Any) -> Exception:
        return APIStatusError(
            message, response=response, body=body.get("error", body) if isinstance(body, dict) else body
        )

    package = _Package(address, _headers(client, http), (NotGiven, Omit), _maker(ChatCompletion), error)
    # A cached property: what stands in the instance is what it gives.
    vars(client.chat)["completions"] = DirectCalls(client.chat.completions, http, package)


def direct_anthropic(client: AsyncAnthropic, http: httpx2.AsyncClient) -> None:
    """Let a client of Anthropic's package ask for messages directly."""
    import httpx2
    from anthropic import APIStatusError, NotGiven, Omit
    from anthropic.types.beta import BetaMessage

    address = httpx2.URL(f"{str(client.base_url).rstrip('/')}/v1/messages")

    def error(message: str, response: httpx2.Response, body: Any) -> Exception:
        return APIStatusError(message, response=response, body=body)

    package = _Package(lambda _: address, _headers(client, http), (NotGiven, Omit), _maker(BetaMessage), error)
    vars(client.beta)["messages"] = DirectCalls(client.beta.messages, http, package)


def _maker(kind: type[BaseModel]) -> Callable[[dict[str, Any]], Any]:
    """Return what makes an answer of a JSON object; one that is not of the package's shape is made as it comes."""
    from pydantic import ValidationError

    def make(value: dict[str, Any]) -> Any:
        try:
            return kind.model_validate(value)
        except ValidationError:
            return kind.model_construct(**value)

    return make


def _headers(client: AsyncOpenAI | AsyncAnthropic, http: httpx2.AsyncClient) -> dict[str, str]:
    every = {**http.headers, **client.auth_headers, **client.default_headers}
    return {name.lower(): value for name, value in every.items() if isinstance(value, str)}


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        # Half a character of a hostile text: JSON can say it, UTF-8 cannot.
        return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()


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
        with without_collections(to_the_end=True):
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
