"""Clients of models: they send a conversation, and return the reply or raise a readable error.

The wire (`wire.Wire`) handles retries and deadlines. Texts are sent unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from holodeck_action import __version__
from holodeck_action.llm.calls import Account, Answer, HttpRequest, WireError
from holodeck_action.llm.codecs.anthropic import AnthropicMessages
from holodeck_action.llm.codecs.codec import BrokenAnswerError, Codec, ProviderRequest
from holodeck_action.llm.codecs.openai_chat import OpenAIChat
from holodeck_action.llm.errors import call_error, filtered_error, malformed_error, status_error
from holodeck_action.llm.messages import Message, Reply
from holodeck_action.llm.model_facts import known_model
from holodeck_action.llm.outcomes import error_payload
from holodeck_action.llm.providers import ModelPlan
from holodeck_action.llm.reasoning import sent_settings
from holodeck_action.llm.request_bodies import encode_body

_ANTHROPIC_VERSION = "2026-10-21"


class RequestSender(Protocol):
    """Sends the requests of clients; implemented by `holodeck_action.llm.wire.Wire`."""

    async def answer(self, account: Account, request: HttpRequest) -> Answer:
        """Return the answer to a request, whatever its status.

        Raises:
            WireError: there is no answer.
        """
        ...

    def redact(self, text: str) -> str:
        """Return a text without the run's secrets."""
        ...


class ModelClient:
    """A client of one model.

    Attributes:
        codec: translates to and from the provider's format.
        settings: the settings that every request sends, without settings that the model refuses.
        notices: one sentence for each setting of the suite that is not sent.
    """

    def __init__(self, plan: ModelPlan, sender: RequestSender) -> None:
        """Create the instance; nothing is opened yet.

        Args:
            plan: the model.
            sender: the wire, which sends requests.
        """
        self.plan = plan
        self.codec = codec_of(plan)
        sent = sent_settings(plan, self.codec.known_model)
        self.settings, self.notices = sent.settings, sent.notices
        self._sender = sender
        self._url = _request_url(plan)
        self._headers = _headers(plan)

    async def ask(
        self, messages: Sequence[Message], settings: Mapping[str, Any], tool_fields: Mapping[str, Any]
    ) -> Reply:
        """Request the next message of a conversation.

        Args:
            messages: messages of the conversation.
            settings: the request settings (see `Codec.build_request`).
            tool_fields: the fields returned by `Codec.offer`.

        Raises:
            ModelCallError: there is no answer, the answer is malformed, or a content filter removed it.
        """
        out = self.codec.build_request(messages, settings, tool_fields)
        answer = await self._send(out)
        if answer.status >= 300:
            refusal = error_payload(answer)
            again = self.codec.fallback_request(out, answer.status, refusal)
            if again is None:
                raise status_error(answer.status, refusal, self.plan, self._sender.redact)
            answer = await self._send(again)
            if answer.status >= 300:
                raise status_error(answer.status, error_payload(answer), self.plan, self._sender.redact)
        try:
            reply = self.codec.read(answer.payload)
        except BrokenAnswerError as error:
            raise malformed_error(self.plan, str(error), self._sender.redact) from None
        if reply.finish == "content_filter" and reply.refusal is None:
            raise filtered_error(self.plan, None)
        return reply

    async def _send(self, provider_request: ProviderRequest) -> Answer:
        try:
            content, document = encode_body(provider_request.body)
        except ValueError:
            reason = "a call in it holds a number that JSON does not have"
            raise malformed_error(self.plan, reason, self._sender.redact) from None
        request = HttpRequest(self._url, {**self._headers, **provider_request.headers}, content, document)
        try:
            return await self._sender.answer(self.plan.account, request)
        except WireError as error:
            raise call_error(error, self.plan) from error


def codec_of(plan: ModelPlan) -> Codec:
    """Return the codec of a model."""
    known = known_model(plan.provider, plan.name)
    if plan.provider == "anthropic":
        return AnthropicMessages(plan.name, known)
    return OpenAIChat(plan.name, known, completion_tokens=plan.completion_tokens)


def _request_url(plan: ModelPlan) -> str:
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
