"""Clients of models: they send a conversation, and return the reply or raise a readable error.

The wire (`wire.Wire`) handles retries and deadlines. Texts are sent unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, get_args
from urllib.parse import quote

from msgspec import Struct, field
from msgspec.structs import replace

from holodeck_action import __version__
from holodeck_action.llm.calls import Account, Answer, HttpRequest, WireError
from holodeck_action.llm.codecs.anthropic import AnthropicMessages
from holodeck_action.llm.codecs.codec import BrokenAnswerError, Codec, ProviderRequest
from holodeck_action.llm.codecs.openai_chat import OpenAIChat
from holodeck_action.llm.codecs.openai_responses import LEAST_OUTPUT_TOKENS, OpenAIResponses
from holodeck_action.llm.errors import call_error, filtered_error, malformed_error, status_error
from holodeck_action.llm.learned import Learned
from holodeck_action.llm.messages import AnswerSchema, Message, Reply, ToolDefinition
from holodeck_action.llm.model_facts import known_model
from holodeck_action.llm.outcomes import NAMES_RESPONSES, error_payload
from holodeck_action.llm.providers import ModelPlan
from holodeck_action.llm.reasoning import sent_settings
from holodeck_action.llm.request_bodies import encode_body
from holodeck_action.suite.model.providers import ApiName

_ANTHROPIC_VERSION = "2026-10-21"


class RequestSender(Protocol):
    """Sends the requests of clients; implemented by `holodeck_action.llm.wire.Wire`.

    Attributes:
        learned: the corrections that services gave in this run.
    """

    learned: Learned

    async def answer(self, account: Account, request: HttpRequest) -> Answer:
        """Return the answer to a request, whatever its status, and add the call to the meter of its context.

        Raises:
            WireError: there is no answer.
        """
        ...

    def redact(self, text: str) -> str:
        """Return a text without the run's secrets."""
        ...


_Build = Callable[[ApiName], ProviderRequest]
"""Returns the request for the next message of a conversation through an API."""


class Offer(Struct):
    """The tools and the answer's schema of requests, as the codec of each API writes them.

    Attributes:
        tools: the tools that the model may call.
        answer: the schema of the answer; None if there is none.
    """

    tools: Sequence[ToolDefinition] = ()
    answer: AnswerSchema | None = None
    _fields: dict[Codec, Mapping[str, Any]] = field(default_factory=dict)

    def fields(self, codec: Codec) -> Mapping[str, Any]:
        """Return the request fields of a codec (see `Codec.offer`).

        Raises:
            SchemaError: the model does not support a schema.
        """
        if codec not in self._fields:
            self._fields[codec] = codec.offer(self.tools, self.answer)
        return self._fields[codec]


class ModelClient:
    """A client of one model.

    It calls the API of the plan, until the service names another one, or a replay finds the model's calls there.

    Attributes:
        codec: translates to and from the format of the plan's API.
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
        self.settings, self.notices = _settings(plan, self.codec)
        self._sender = sender
        self._headers = _headers(plan)
        self._codecs = {plan.api: self.codec}
        self._urls: Mapping[ApiName, str] = {api: _request_url(plan, api) for api in get_args(ApiName)}
        self._recorded_api: ApiName | None = None

    async def ask(self, messages: Sequence[Message], settings: Mapping[str, Any], offer: Offer) -> Reply:
        """Request the next message of a conversation.

        Args:
            messages: messages of the conversation.
            settings: the request settings (see `Codec.build_request`).
            offer: the tools and the answer's schema.

        Raises:
            ModelCallError: there is no answer, the answer is malformed, or a content filter removed it.
        """
        api = self._recorded_api or self._sender.learned.api_of(self.plan)
        build = partial(self._build, messages, settings, offer)
        answer = await self._exchange(api, build)
        if answer.status >= 300 and self._is_sent_elsewhere(api, answer):
            other = await self._exchange("responses", build)
            if other.status < 300:
                self._sender.learned.use_responses(self.plan)
            if other.status not in (404, 405):
                # Otherwise the address has no such API, and the refusal says what is wrong.
                api, answer = "responses", other
        if answer.status >= 300:
            raise status_error(answer.status, error_payload(answer), self.plan, self._sender.redact)
        if answer.alternative is not None:
            api = next(each for each, url in self._urls.items() if url == answer.alternative.url)
            self._recorded_api = api
        try:
            reply = self._codec(api).read(answer.payload)
        except BrokenAnswerError as error:
            raise malformed_error(self.plan, str(error), self._sender.redact) from None
        if reply.finish == "content_filter" and reply.refusal is None:
            raise filtered_error(self.plan, None)
        return reply

    async def _exchange(self, api: ApiName, build: _Build) -> Answer:
        """Return the answer through an API, to the fallback request of its codec if the first request was refused."""
        request = build(api)
        answer = await self._send(api, request, build)
        if answer.status < 300:
            return answer
        again = self._codec(api).fallback_request(request, answer.status, error_payload(answer))
        return answer if again is None else await self._send(api, again, build)

    def _build(
        self, messages: Sequence[Message], settings: Mapping[str, Any], offer: Offer, api: ApiName
    ) -> ProviderRequest:
        codec = self._codec(api)
        return codec.build_request(messages, settings, offer.fields(codec))

    def _codec(self, api: ApiName) -> Codec:
        if api not in self._codecs:
            self._codecs[api] = codec_of(replace(self.plan, api=api))
        return self._codecs[api]

    def _is_sent_elsewhere(self, api: ApiName, answer: Answer) -> bool:
        """Return whether a service refused a chat completion and named the Responses API."""
        plan = self.plan
        if api != "chat" or plan.provider == "anthropic" or plan.api_written or answer.status not in (400, 404, 422):
            return False
        return NAMES_RESPONSES.search(str(error_payload(answer))) is not None

    async def _send(self, api: ApiName, provider_request: ProviderRequest, build: _Build) -> Answer:
        request = self._encode(api, provider_request, partial(self._alternatives, api, provider_request, build))
        try:
            return await self._sender.answer(self.plan.account, request)
        except WireError as error:
            raise call_error(error, self.plan) from error

    def _alternatives(self, api: ApiName, request: ProviderRequest, build: _Build) -> Iterator[HttpRequest]:
        """Yield the requests that a run may have recorded instead, by other rules or after a refusal."""
        for variant in self._codec(api).variants(request):
            yield self._encode(api, variant)
        if self.plan.provider != "anthropic":
            other: ApiName = "responses" if api == "chat" else "chat"
            first = build(other)
            for each in (first, *self._codec(other).variants(first)):
                yield self._encode(other, each)

    def _encode(
        self,
        api: ApiName,
        provider_request: ProviderRequest,
        alternatives: Callable[[], Iterator[HttpRequest]] | None = None,
    ) -> HttpRequest:
        try:
            content, document = encode_body(provider_request.body)
        except ValueError:
            reason = "a call in it holds a number that JSON does not have"
            raise malformed_error(self.plan, reason, self._sender.redact) from None
        headers = {**self._headers, **provider_request.headers}
        return HttpRequest(self._urls[api], headers, content, document, alternatives)


def codec_of(plan: ModelPlan) -> Codec:
    """Return the codec of a model."""
    known = known_model(plan.provider, plan.name)
    if plan.provider == "anthropic":
        return AnthropicMessages(plan.name, known)
    if plan.api == "responses":
        return OpenAIResponses(plan.name, known)
    return OpenAIChat(plan.name, known, completion_tokens=plan.completion_tokens)


def _settings(plan: ModelPlan, codec: Codec) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the settings of a model's requests, and notices about settings that are changed or not sent."""
    responses = plan.api == "responses"
    sent = sent_settings(plan, codec.known_model, responses=responses)
    most = sent.settings.get("max_tokens", LEAST_OUTPUT_TOKENS)
    if not responses or most >= LEAST_OUTPUT_TOKENS:
        return sent.settings, sent.notices
    notice = f"max_tokens {most} is sent to {plan.name} as {LEAST_OUTPUT_TOKENS}, the smallest value it accepts"
    return sent.settings, (*sent.notices, notice)


def _request_url(plan: ModelPlan, api: ApiName) -> str:
    base = plan.account.base_url.rstrip("/")
    if plan.provider == "anthropic":
        return f"{base}/v1/messages"
    query = f"?api-version={quote(plan.api_version, safe='')}" if plan.api_version else ""
    if api == "responses":
        # The body names the deployment.
        return f"{base}{'/openai' if plan.deployments else ''}/responses{query}"
    place = f"/openai/deployments/{quote(plan.name, safe='')}" if plan.deployments else ""
    return f"{base}{place}/chat/completions{query}"


def _headers(plan: ModelPlan) -> dict[str, str]:
    key = plan.account.key
    headers = {"accept": "application/json", "content-type": "application/json"}
    headers["user-agent"] = f"holodeck-action/{__version__}"
    if plan.provider == "anthropic":
        headers["anthropic-version"] = _ANTHROPIC_VERSION
    return {**headers, **({"api-key": key} if plan.deployments else {"authorization": f"Bearer {key}"})}
