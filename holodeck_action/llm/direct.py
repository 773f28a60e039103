"""Requests without the provider packages' generic machinery, which costs more than all that we do for a call.

pydantic-ai asks through one method, `create` of the package's resource for chats. What that does for a plain request
is little: a body, a handful of headers, an answer in the package's own class. It is done here once, without walking
through the body for types that need conversion (JSON values need none), options, hooks and retries. What goes out is
the same, but for the package's headers about its own retries; streams go the package's way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI
    from pydantic import BaseModel


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
    """Stands in for a package's resource of chats; it has what pydantic-ai uses of it."""

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
