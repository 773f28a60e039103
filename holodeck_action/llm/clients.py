"""Models on the wire: a conversation out, an answer or an error in plain words back.

The wire retries and knows the deadline; nothing here does. Texts are sent as they are written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from holodeck_action import __version__
from holodeck_action.llm.calls import Account, Answer, Post, WireError
from holodeck_action.llm.codecs.anthropic import AnthropicMessages
from holodeck_action.llm.codecs.codec import BrokenAnswerError, Codec, Outgoing
from holodeck_action.llm.codecs.openai_chat import OpenAIChat
from holodeck_action.llm.errors import call_error, filtered, malformed, status_error
from holodeck_action.llm.messages import Message, Reply
from holodeck_action.llm.model_facts import known_model
from holodeck_action.llm.outcomes import refusal_of
from holodeck_action.llm.providers import ModelPlan, not_sent
from holodeck_action.llm.reasoning import thinking_of
from holodeck_action.text.json_values import parse_json

_ANTHROPIC_VERSION = "2026-10-21"


class Clients(Protocol):
    """What model calls are made through; `holodeck_action.llm.wire.Wire` in production."""

    async def answer(self, account: Account, request: Post) -> Answer:
        """Return the answer to a request, whatever its status.

        Raises:
            WireError: there is none.
        """
        ...

    def redact(self, text: str) -> str:
        """Return a text without the run's secrets."""
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
        self.plan = plan
        self.codec = codec_of(plan)
        self.settings, self.notices = _settings(plan, self.codec)
        self._clients = clients
        self._url = _address(plan)
        self._headers = _headers(plan)

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
        answer = await self._send(out)
        if answer.status >= 300:
            refusal = refusal_of(answer)
            again = self.codec.instead(out, answer.status, refusal)
            if again is None:
                raise status_error(answer.status, refusal, self.plan, self._clients.redact)
            answer = await self._send(again)
            if answer.status >= 300:
                raise status_error(answer.status, refusal_of(answer), self.plan, self._clients.redact)
        try:
            reply = self.codec.read(answer.payload)
        except BrokenAnswerError as error:
            raise malformed(self.plan, str(error), self._clients.redact) from None
        if reply.finish == "content_filter" and reply.refusal is None:
            raise filtered(self.plan, None)
        return reply

    async def _send(self, out: Outgoing) -> Answer:
        try:
            content, document = _encoded(out.body)
        except ValueError:
            reason = "a call in it holds a number that JSON does not have"
            raise malformed(self.plan, reason, self._clients.redact) from None
        request = Post(self._url, {**self._headers, **out.headers}, content, document)
        try:
            return await self._clients.answer(self.plan.account, request)
        except WireError as error:
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


def _encoded(body: Mapping[str, Any]) -> tuple[bytes, Any]:
    """Return a body as it is sent, and the JSON value that it is there."""
    try:
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode(), body
    except UnicodeEncodeError:
        # Half a character of a hostile text: JSON can say it, UTF-8 cannot.
        content = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
        return content, parse_json(content.decode())
