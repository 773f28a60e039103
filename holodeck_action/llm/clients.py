"""Models on the wire: a conversation out, an answer or an error in plain words back.

The wire retries and knows the deadline; nothing here does. Texts are sent as they are written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from holodeck_action import __version__
from holodeck_action.llm.calls import Account, WireError
from holodeck_action.llm.codecs.anthropic import AnthropicMessages
from holodeck_action.llm.codecs.codec import BrokenAnswerError, Codec, Outgoing
from holodeck_action.llm.codecs.openai_chat import OpenAIChat
from holodeck_action.llm.errors import call_error, filtered, malformed, status_error
from holodeck_action.llm.known_models import known_model
from holodeck_action.llm.messages import Message, Reply
from holodeck_action.llm.outcomes import parse
from holodeck_action.llm.providers import ModelPlan, not_sent
from holodeck_action.llm.reasoning import thinking_of

if TYPE_CHECKING:
    import httpx2

_ANTHROPIC_VERSION = "2026-10-21"


class Clients(Protocol):
    """What gives the HTTP client of an account; `holodeck_action.llm.wire.Wire` in production."""

    def client(self, account: Account) -> httpx2.AsyncClient:
        """Return the account's pooled client, always the same one."""
        ...


class ModelClient:
    """A model that can be asked.

    Attributes:
        codec: its interface.
        settings: what is sent with every request, without what the model is known to refuse.
        notices: what was written but is not sent, each one sentence.
    """

    def __init__(self, plan: ModelPlan, clients: Clients) -> None:
        """Prepare; nothing is opened.

        Args:
            plan: the model.
            clients: the wire.
        """
        import httpx2

        self.plan = plan
        self.codec = codec_of(plan)
        self.settings, self.notices = _settings(plan, self.codec)
        self._http = clients.client(plan.account)
        self._url = httpx2.URL(_address(plan))
        self._headers = {**self._http.headers, **_headers(plan)}
        self._request = httpx2.Request
        self._failures = (WireError, httpx2.TransportError)

    async def ask(self, messages: Sequence[Message], settings: Mapping[str, Any], offered: Mapping[str, Any]) -> Reply:
        """Ask for the next message of a conversation.

        Args:
            messages: the conversation.
            settings: as they are sent (see `Codec.outgoing`).
            offered: from `Codec.offer`.

        Raises:
            ModelCallError: no answer came, or a broken one, or the provider's filter took it away.
        """
        out = self.codec.outgoing(messages, settings, offered)
        response = await self._send(out)
        if response.status_code >= 300:
            body = _body(response)
            again = self.codec.instead(out, response.status_code, body)
            if again is None:
                raise status_error(response.status_code, body, self.plan)
            response = await self._send(again)
            if response.status_code >= 300:
                raise status_error(response.status_code, _body(response), self.plan)
        try:
            reply = self.codec.read(parse(response.headers.get("content-type", ""), response.content))
        except BrokenAnswerError as error:
            raise malformed(self.plan, str(error)) from None
        except (ValueError, RecursionError):
            raise malformed(self.plan, "it is no JSON") from None
        if reply.finish == "content_filter" and reply.refusal is None:
            raise filtered(self.plan, None)
        return reply

    async def _send(self, out: Outgoing) -> httpx2.Response:
        try:
            content = _encoded(out.body)
        except ValueError:
            raise malformed(self.plan, "a call in it holds a number that JSON does not have") from None
        request = self._request("POST", self._url, headers={**self._headers, **out.headers}, content=content)
        try:
            return await self._http.send(request)
        except self._failures as error:
            raise call_error(error, self.plan) from error


def codec_of(plan: ModelPlan) -> Codec:
    """Return the interface of a model."""
    known = known_model(plan.provider, plan.name)
    if plan.provider == "anthropic":
        return AnthropicMessages(plan.name, known)
    return OpenAIChat(plan.name, known, completion_tokens=plan.completion_tokens)


def _settings(plan: ModelPlan, codec: Codec) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the settings of a model's requests, and notices on those that are not sent."""
    known = codec.known
    thinking = thinking_of(plan, known)
    settings = {**plan.settings, **thinking.settings}
    if thinking.more_tokens and "max_tokens" in settings:
        settings["max_tokens"] += thinking.more_tokens
    refuses = thinking.without_sampling or not known.sampling or (known.reasons and known.reasons_unasked)
    dropped = [name for name in ("temperature", "top_p") if refuses and settings.pop(name, None) is not None]
    notices = not_sent(plan.name, [name for name in dropped if name in plan.written])
    return settings, (*plan.notices, *notices, *thinking.notices)


def _address(plan: ModelPlan) -> str:
    base = plan.account.base_url.rstrip("/")
    if plan.provider == "anthropic":
        return f"{base}/v1/messages"
    place = f"/openai/deployments/{quote(plan.name, safe='')}" if plan.deployments else ""
    query = f"?api-version={quote(plan.api_version, safe='')}" if plan.api_version else ""
    return f"{base}{place}/chat/completions{query}"


def _headers(plan: ModelPlan) -> dict[str, str]:
    key = plan.account.key
    headers = {"accept": "application/json", "content-type": "application/json"}
    headers["user-agent"] = f"holodeck-action/{__version__}"
    if plan.provider == "anthropic":
        headers["anthropic-version"] = _ANTHROPIC_VERSION
    return {**headers, **({"api-key": key} if plan.deployments else {"authorization": f"Bearer {key}"})}


def _body(response: httpx2.Response) -> Any:
    """Return the body of a refusal as a JSON value, or as text where it is none."""
    text = response.text.strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        # Half a character of a hostile text: JSON can say it, UTF-8 cannot.
        return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
