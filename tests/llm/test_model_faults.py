"""The fake model server's trouble: errors as the providers tell them, broken connections, limits, refused requests."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from tests.llm.models import KEY, Answer, FakeModels, Fault, Request, mixed
from tests.llm.models.contract import BETA_FIELDS, CHAT_FIELDS, MESSAGE_FIELDS
from tests.llm.models.responses_contract import RESPONSE_FIELDS
from tests.llm.models.server import NO_ANSWER

if TYPE_CHECKING:
    from anthropic.types import MessageParam
    from openai.types.chat import ChatCompletionMessageParam

pytestmark = pytest.mark.models(keys=None)
HI = [{"role": "user", "content": "hi there"}]
GPT_HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi there"}]
CLAUDE_HI: list[MessageParam] = [{"role": "user", "content": "hi there"}]
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
USE = {"type": "tool_use", "id": "t1", "name": "weather", "input": {}}
PROVIDERS = ("openai", "azure_openai", "anthropic", "ollama")
OPEN_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.fixture
def http() -> Iterator[httpx2.Client]:
    with httpx2.Client(timeout=60, trust_env=False) as client:
        yield client


def ask(models: FakeModels, client: Any, provider: str, *, key: str | None = KEY, **more: Any) -> Any:
    """Ask for a chat; returns the response, or what to await of an asynchronous client."""
    bearer = {"authorization": f"Bearer {key}"} if key else {}
    requests: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
        "openai": (f"{models.openai_url}/chat/completions", bearer, {}),
        "azure_openai": (
            f"{models.azure_url}/openai/deployments/chat/chat/completions?api-version=2024-10-21",
            {"api-key": key} if key else {},
            {},
        ),
        "anthropic": (
            f"{models.anthropic_url}/v1/messages",
            {"anthropic-version": "2023-06-01"} | ({"x-api-key": key} if key else {}),
            {"max_tokens": 100},
        ),
        "ollama": (f"{models.ollama_url}/api/chat", {}, {"stream": False}),
    }
    url, headers, own = requests[provider]
    content = {"model": "model-1", "messages": HI, **own, **more}
    return client.post(url, headers=headers, json={name: one for name, one in content.items() if one is not ...})


@asynccontextmanager
async def leaving(call: Coroutine[Any, Any, httpx2.Response]) -> AsyncIterator[asyncio.Task[httpx2.Response]]:
    """Make a call, and give it up at the end of the block."""
    task = asyncio.create_task(call)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# Errors


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        ("bad_key", 401, "AuthenticationError", "invalid_api_key"),
        ("forbidden", 403, "PermissionDeniedError", "model_not_found"),
        ("unknown_model", 404, "NotFoundError", "model_not_found"),
        ("context_length", 400, "BadRequestError", "context_length_exceeded"),
        ("content_filter", 400, "BadRequestError", "invalid_prompt"),
        ("bad_request", 400, "BadRequestError", "invalid_value"),
        ("too_large", 413, "APIStatusError", None),
        ("rate_limit", 429, "RateLimitError", "rate_limit_exceeded"),
        ("quota", 429, "RateLimitError", "insufficient_quota"),
        ("server_error", 500, "InternalServerError", None),
        ("bad_gateway", 502, "InternalServerError", None),
        ("unavailable", 503, "InternalServerError", None),
        ("overloaded", 503, "InternalServerError", None),
    ],
)
def test_errors_of_openai(models: FakeModels, error: Any, status: int, kind: str, code: str) -> None:
    import openai

    models.fail(Fault(error))
    with openai.OpenAI(base_url=models.openai_url, api_key=KEY, max_retries=0) as client:
        with pytest.raises(getattr(openai, kind)) as caught:
            client.chat.completions.create(model="gpt-9", messages=GPT_HI)
        assert isinstance(caught.value, openai.APIStatusError)
        assert (caught.value.status_code, caught.value.code) == (status, code)
        told = client.chat.completions.create(model="gpt-9", messages=GPT_HI)
        assert told.choices[0].message.content == "echo: hi there"
    assert models.statuses == Counter({status: 1, 200: 1})


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        ("bad_key", 401, "401"),
        ("forbidden", 403, "AccessDenied"),
        ("unknown_model", 404, "DeploymentNotFound"),
        ("context_length", 400, "context_length_exceeded"),
        ("content_filter", 400, "content_filter"),
        ("rate_limit", 429, "429"),
        ("quota", 429, "insufficient_quota"),
        ("server_error", 500, "InternalServerError"),
        ("unavailable", 503, "ServiceUnavailable"),
    ],
)
def test_errors_of_azure(models: FakeModels, error: Any, status: int, code: str) -> None:
    import openai

    models.fail(Fault(error))
    with (
        openai.AzureOpenAI(
            azure_endpoint=models.azure_url, api_key=KEY, api_version="2024-10-21", max_retries=0
        ) as client,
        pytest.raises(openai.APIStatusError) as caught,
    ):
        client.chat.completions.create(model="chat", messages=GPT_HI)
    assert (caught.value.status_code, caught.value.code) == (status, code)
    if error == "content_filter":
        assert isinstance(caught.value.body, dict)
        assert caught.value.body["innererror"]["content_filter_result"]["violence"]["filtered"] is True


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        ("bad_key", 401, "authentication_error"),
        ("forbidden", 403, "permission_error"),
        ("unknown_model", 404, "not_found_error"),
        ("context_length", 400, "invalid_request_error"),
        ("content_filter", 400, "invalid_request_error"),
        ("too_large", 413, "request_too_large"),
        ("rate_limit", 429, "rate_limit_error"),
        ("quota", 400, "invalid_request_error"),
        ("server_error", 500, "api_error"),
        ("overloaded", 529, "overloaded_error"),
    ],
)
def test_errors_of_anthropic(models: FakeModels, error: Any, status: int, kind: str) -> None:
    import anthropic

    models.fail(Fault(error))
    with (
        anthropic.Anthropic(base_url=models.anthropic_url, api_key=KEY, max_retries=0) as client,
        pytest.raises(anthropic.APIStatusError) as caught,
    ):
        client.messages.create(model="claude-1", max_tokens=9, messages=CLAUDE_HI)
    assert caught.value.status_code == status
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["type"] == "error"
    assert caught.value.body["error"]["type"] == kind
    assert caught.value.body["request_id"] == caught.value.request_id


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        ("unknown_model", 404, "model 'model-1' not found"),
        ("unavailable", 503, "server busy, please try again.  maximum pending requests exceeded"),
        ("rate_limit", 429, "too many requests"),
    ],
)
def test_errors_of_ollama(models: FakeModels, http: httpx2.Client, error: Any, status: int, text: str) -> None:
    models.fail(Fault(error, times=2))
    own = ask(models, http, "ollama")
    assert (own.status_code, own.json()) == (status, {"error": text})
    other = http.post(f"{models.ollama_url}/v1/chat/completions", json={"model": "model-1", "messages": HI})
    assert (other.status_code, other.json()["error"]["message"]) == (status, text)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_proxys_error_is_html(models: FakeModels, http: httpx2.Client, provider: str) -> None:
    models.fail(Fault("bad_gateway"))
    response = ask(models, http, provider)
    assert (response.status_code, response.headers["content-type"]) == (502, "text/html")
    assert response.text.startswith("<html>")


def test_retry_hints_are_sent_as_given(models: FakeModels, http: httpx2.Client) -> None:
    models.fail(Fault("rate_limit", retry_after="Wed, 21 Oct 2026 07:28:00 GMT", retry_after_ms="1500"))
    headers = ask(models, http, "openai").headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("Wed, 21 Oct 2026 07:28:00 GMT", "1500")
    models.fail(Fault(status=418, body={"teapot": True}, headers={"x-kind": "short"}))
    own = ask(models, http, "openai")
    assert (own.status_code, own.json(), own.headers["x-kind"]) == (418, {"teapot": True}, "short")


def test_the_refused_key_is_shown_as_openai_shows_it(models: FakeModels, http: httpx2.Client) -> None:
    refused = "sk-fake-0123456789abcdef"
    models.fail(Fault("bad_key"))
    message = ask(models, http, "openai", key=refused).json()["error"]["message"]
    assert "sk-fake-" in message
    assert refused not in message


def test_an_error_in_a_stream(models: FakeModels) -> None:
    import anthropic
    import openai

    models.fail(Fault("overloaded", streamed=True, times=2))
    with (
        anthropic.Anthropic(base_url=models.anthropic_url, api_key=KEY, max_retries=0) as claude,
        pytest.raises(anthropic.APIStatusError, match="Overloaded"),
        claude.messages.stream(model="m", max_tokens=9, messages=CLAUDE_HI) as stream,
    ):
        stream.get_final_message()
    with (
        openai.OpenAI(base_url=models.openai_url, api_key=KEY, max_retries=0) as gpt,
        pytest.raises(openai.APIError, match="overloaded"),
    ):
        list(gpt.chat.completions.create(model="m", messages=GPT_HI, stream=True))
    assert models.statuses == Counter({200: 2})


def test_keys_and_models_that_are_not_known(http: httpx2.Client) -> None:
    with FakeModels(keys=[KEY], models=["gpt-4o", "chat"]) as models:
        for provider in ("openai", "azure_openai", "anthropic"):
            assert ask(models, http, provider, key="other").status_code == 401
            assert ask(models, http, provider, key=None).status_code == 401
        assert ask(models, http, "openai", model="gpt-4o").status_code == 200
        assert ask(models, http, "openai", model="gpt-5x").status_code == 404
        assert ask(models, http, "azure_openai", model="anything").status_code == 200
        assert ask(models, http, "anthropic").json()["error"]["message"] == "model: model-1"
        assert ask(models, http, "ollama").status_code == 404
        assert models.count(key="other") == 3
        assert models.violations == []


# Broken connections


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("wire", "error"),
    [
        ("reset", httpx2.ReadError),
        ("close", httpx2.RemoteProtocolError),
        ("truncate", httpx2.RemoteProtocolError),
    ],
)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_connections_break(
    models: FakeModels, http: httpx2.Client, provider: str, wire: Any, error: type[Exception], stream: bool
) -> None:
    models.fail(Fault(wire=wire))
    with pytest.raises(error):
        ask(models, http, provider, stream=stream)
    assert ask(models, http, provider, stream=stream).status_code == 200
    assert models.statuses[NO_ANSWER] == (1 if wire in ("reset", "close") else 0)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_answers_stall(models: FakeModels, provider: str, stream: bool) -> None:
    models.fail(Fault(wire="stall"))

    async def wait_in_vain() -> None:
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
            async with leaving(ask(models, client, provider, stream=stream)) as stalled:
                await asyncio.to_thread(models.wait_for, lambda fake: fake.statuses[200] == 1)
                assert (await ask(models, client, provider, stream=stream)).status_code == 200
                assert not stalled.done()
            assert models.statuses == Counter({200: 2})

    asyncio.run(wait_in_vain())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_body_breaks_off(models: FakeModels, http: httpx2.Client, provider: str) -> None:
    models.fail(Fault(wire="malformed", times=2))
    whole = ask(models, http, provider)
    assert whole.status_code == 200
    with pytest.raises(ValueError, match=r"Unterminated|Expecting|delimiter"):
        whole.json()
    streamed = ask(models, http, provider, stream=True).text
    assert "[DONE]" not in streamed
    assert "message_stop" not in streamed
    assert '"done":true' not in streamed
    assert models.connections == 1


def test_a_client_that_leaves_is_counted(models: FakeModels) -> None:
    models.hold()

    async def leave() -> None:
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as client, leaving(ask(models, client, "openai")):
            await asyncio.to_thread(models.wait_for, lambda fake: fake.under_way == 1)

    asyncio.run(leave())
    models.wait_for(lambda fake: fake.abandoned == 1)
    assert (models.abandoned, models.under_way) == (1, 0)
    assert models.statuses == Counter({NO_ANSWER: 1})


def test_the_end_does_not_wait_for_calls() -> None:
    async def leave_open() -> None:
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
            with FakeModels() as models:
                models.hold()
                call = asyncio.create_task(ask(models, client, "openai"))
                await asyncio.to_thread(models.wait_for, lambda fake: fake.under_way == 1)
            with pytest.raises(httpx2.TransportError):
                await call

    asyncio.run(leave_open())


# Faults, scripts, limits


def test_faults_wait_for_their_requests_in_order(models: FakeModels, http: httpx2.Client) -> None:
    models.fail(
        Fault("quota", about=lambda request: request.provider == "anthropic", times=None),
        Fault("server_error", times=2),
        Fault("rate_limit"),
    )
    assert [ask(models, http, "openai").status_code for _ in range(4)] == [500, 500, 429, 200]
    assert [ask(models, http, "anthropic").status_code for _ in range(2)] == [400, 400]
    models.heal()
    assert ask(models, http, "anthropic").status_code == 200


def test_a_script_is_followed_and_ends(models: FakeModels, http: httpx2.Client) -> None:
    models.script(["one", {"two": 2}, Fault("rate_limit"), Answer("three", model="gpt-3")])
    replies = [ask(models, http, "openai") for _ in range(5)]
    assert [reply.status_code for reply in replies] == [200, 200, 429, 200, 500]
    texts = [replies[at].json()["choices"][0]["message"]["content"] for at in (0, 1, 3)]
    assert texts == ["one", '{"two": 2}', "three"]
    assert replies[3].json()["model"] == "gpt-3"
    assert "no answer left" in models.take_violations()[0]


def test_a_rule_that_fails_is_told(models: FakeModels, http: httpx2.Client) -> None:
    def broken(_: Request) -> str:
        raise LookupError("no such case")

    models.answer(broken)
    assert ask(models, http, "openai").status_code == 500
    assert models.take_violations() == ["the fake failed: LookupError('no such case')"]


def test_a_limit_is_kept_per_key() -> None:
    async def storm(models: FakeModels) -> list[int]:
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(trust_env=False, limits=limits, timeout=60) as client:
            calls = asyncio.gather(
                *(ask(models, client, "openai", key=key) for key in ("small", "large") for _ in range(30))
            )
            await asyncio.to_thread(models.wait_for, lambda fake: fake.statuses[429] == 35)
            models.release()
            return [response.status_code for response in await calls]

    with FakeModels() as models:
        models.hold()
        models.limit(5, key="small", retry_after="2")
        models.limit(20)
        statuses = asyncio.run(storm(models))
        assert Counter(statuses[:30]) == {200: 5, 429: 25}
        assert Counter(statuses[30:]) == {200: 20, 429: 10}
        assert (models.peak_of("small"), models.peak_of("large"), models.peak) == (5, 20, 25)
        assert (models.count(key="small"), models.count("openai"), len(models.requests)) == (30, 60, 60)
        models.wait_for(lambda fake: fake.under_way == 0)


def test_an_answer_comes_late(models: FakeModels) -> None:
    """Calls that come first are not answered before one that comes after them."""
    models.latency = lambda request: 600.0 if request.provider == "openai" else 0.0
    models.fail(Fault(delay=600, about=lambda request: request.provider == "ollama"))

    async def overtake() -> None:
        async with (
            httpx2.AsyncClient(trust_env=False, timeout=60) as client,
            leaving(ask(models, client, "openai")),
            leaving(ask(models, client, "ollama")),
        ):
            await asyncio.to_thread(models.wait_for, lambda fake: fake.under_way == 2)
            assert (await ask(models, client, "anthropic")).status_code == 200
            await asyncio.to_thread(models.wait_for, lambda fake: fake.under_way == 2)
            assert models.statuses == Counter({200: 1})

    asyncio.run(overtake())


def test_waiting_in_vain_ends(models: FakeModels) -> None:
    with pytest.raises(TimeoutError, match="0 requests, 0 under way"):
        models.wait_for(lambda fake: fake.peak == 1, 0.01)


@pytest.mark.full
def test_hundreds_of_calls_at_once() -> None:
    async def storm(models: FakeModels) -> list[int]:
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(trust_env=False, limits=limits, timeout=60) as client:
            calls = asyncio.gather(*(ask(models, client, PROVIDERS[at % 4]) for at in range(300)))
            await asyncio.to_thread(models.wait_for, lambda fake: fake.under_way == 300)
            models.release()
            return [response.status_code for response in await calls]

    with FakeModels() as models:
        models.hold()
        assert asyncio.run(storm(models)) == [200] * 300
        assert models.peak == 300
        assert models.violations == []


def test_connections_are_kept_and_shared(models: FakeModels, http: httpx2.Client) -> None:
    for _ in range(20):
        assert ask(models, http, "openai").status_code == 200
    assert models.connections == 1
    url = f"{models.openai_url}/chat/completions"
    content = json.dumps({"model": "m", "messages": HI}).encode()
    chunked = http.post(url, content=(content[at : at + 7] for at in range(0, len(content), 7)), headers={
        "authorization": f"Bearer {KEY}", "connection": "close"
    })  # fmt: skip
    assert chunked.json()["choices"][0]["message"]["content"] == "echo: hi there"


def test_a_mixture_is_as_large_as_asked_for(models: FakeModels, http: httpx2.Client) -> None:
    rule = mixed(0.3)
    requests = [Request(number, 0.0, "openai", "chat", "", {}, {}, None, None, "m") for number in range(2000)]
    drawn = [rule(request) for request in requests]
    assert 0.27 < sum(isinstance(one, Fault) for one in drawn) / 2000 < 0.33
    assert [mixed(0.3)(request) for request in requests] == drawn
    models.answer(mixed(1.0, faults=(Fault("overloaded"),)))
    assert ask(models, http, "anthropic").status_code == 529


def test_the_fake_in_a_process_of_its_own(http: httpx2.Client) -> None:
    command = [sys.executable, "-m", "tests.llm.models", "--faults", "0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        addresses = json.loads(process.stdout.readline())
        url = f"{addresses['openai']}/chat/completions"
        sent = http.post(url, headers={"authorization": "Bearer k"}, json={"model": "m", "messages": HI})
        assert sent.status_code == 200
        counts = json.loads(process.communicate("", timeout=60)[0])
    assert counts["requests"] == 1
    assert counts["statuses"] == {"200": 1}


# Refused requests


def test_known_fields_are_those_of_the_clients() -> None:
    from anthropic.types import message_create_params as messages
    from anthropic.types.beta import message_create_params as beta
    from openai.types.chat import completion_create_params as chat
    from openai.types.responses import response_create_params as responses

    own = {*chat.CompletionCreateParamsBase.__annotations__, *chat.CompletionCreateParamsStreaming.__annotations__}
    assert own == CHAT_FIELDS
    own = {
        *responses.ResponseCreateParamsBase.__annotations__,
        *responses.ResponseCreateParamsStreaming.__annotations__,
    }
    assert own == RESPONSE_FIELDS
    own = {*messages.MessageCreateParamsBase.__annotations__, *messages.MessageCreateParamsStreaming.__annotations__}
    # The newest client leaves these three to older models' users; the API still takes them.
    assert MESSAGE_FIELDS - own == {"temperature", "top_k", "top_p"}
    assert own <= MESSAGE_FIELDS
    # Betas are named in a header.
    assert set(beta.MessageCreateParamsBase.__annotations__) - MESSAGE_FIELDS - {"betas"} == BETA_FIELDS


ASSISTANT = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "sun"}
STRICT = {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": OPEN_SCHEMA}}
ASKED = {"role": "assistant", "content": [USE]}
GIVEN = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "sun"}]}


@pytest.mark.parametrize(
    ("provider", "more", "text"),
    [
        ("openai", {"wrong": 1}, "Unrecognized request argument supplied: wrong"),
        ("openai", {"messages": []}, "empty array"),
        ("openai", {"model": ...}, "you must provide a model parameter"),
        ("openai", {"temperature": 2.1}, "'temperature'"),
        ("openai", {"top_logprobs": 5}, "'top_logprobs' is only allowed"),
        ("openai", {"stream_options": {"include_usage": True}}, "'stream_options'"),
        ("openai", {"max_tokens": 0}, "integer below minimum"),
        ("openai", {"max_tokens": 5, "max_completion_tokens": 5}, "at the same time"),
        ("openai", {"model": "o3-mini", "max_tokens": 5}, "Use 'max_completion_tokens' instead"),
        ("openai", {"model": "gpt-5", "temperature": 0.3}, "'temperature' does not support 0.3"),
        ("openai", {"model": "gpt-5-mini", "top_p": 0.3}, "'top_p' is not supported"),
        ("openai", {"model": "gpt-5.1", "reasoning_effort": "low", "top_p": 0.3}, "'top_p' is not supported"),
        ("openai", {"messages": [*HI, RESULT]}, "role 'tool' must be a response"),
        ("openai", {"messages": [*HI, ASSISTANT], "tools": TOOLS}, "must be followed by tool messages"),
        ("openai", {"messages": [*HI, ASSISTANT, *HI, RESULT], "tools": TOOLS}, "must be followed by tool messages"),
        ("openai", {"messages": [{"role": "user", "content": None}]}, "got null"),
        ("openai", {"tools": []}, "'tools': empty array"),
        ("openai", {"tool_choice": "required"}, "only allowed when 'tools'"),
        ("openai", {"response_format": {"type": "json_object"}}, "must contain the word 'json'"),
        ("openai", {"response_format": STRICT}, "'additionalProperties' is required"),
        ("azure_openai", {"wrong": 1}, "Unrecognized request argument supplied: wrong"),
        ("anthropic", {"max_tokens": ...}, "max_tokens: Field required"),
        ("anthropic", {"wrong": 1}, "wrong: Extra inputs are not permitted"),
        ("anthropic", {"temperature": 1.5}, "temperature: range: 0..1"),
        ("anthropic", {"messages": [{"role": "system", "content": "x"}, *HI]}, 'Unexpected role "system"'),
        ("anthropic", {"messages": [{"role": "user", "content": ""}, *HI]}, "non-empty content"),
        ("anthropic", {"messages": [*HI, ASKED]}, "without `tool_result` blocks"),
        ("anthropic", {"messages": [*HI, GIVEN]}, "unexpected `tool_use_id`"),
        ("anthropic", {"model": "claude-opus-4-7", "temperature": 0.3}, "deprecated for this model"),
        ("anthropic", {"model": "claude-sonnet-4-5", "temperature": 0.3, "top_p": 0.5}, "cannot both be specified"),
        ("ollama", {"messages": []}, "'messages'"),
        ("ollama", {"messages": [{"role": "robot", "content": "x"}]}, "invalid role: robot"),
    ],
)
def test_wrong_requests_are_refused_and_noted(
    models: FakeModels, http: httpx2.Client, provider: str, more: dict[str, Any], text: str
) -> None:
    response = ask(models, http, provider, **more)
    assert response.status_code == 400
    told = response.json()["error"]
    assert text in (told if provider == "ollama" else told["message"])
    assert text in models.take_violations()[0]


@pytest.mark.parametrize(
    ("provider", "more"),
    [
        ("openai", {"messages": [*HI, ASSISTANT, RESULT], "tools": TOOLS}),
        ("openai", {"model": "gpt-5", "max_completion_tokens": 5, "temperature": 1}),
        ("openai", {"model": "gpt-5.1", "top_p": 0.5}),
        ("openai", {"model": "gpt-5-chat-latest", "max_tokens": 5, "temperature": 0.5}),
        ("anthropic", {"messages": [*HI, ASKED, GIVEN]}),
        ("anthropic", {"model": "claude-opus-4-8", "messages": [*HI, {"role": "system", "content": "x"}]}),
        ("anthropic", {"model": "claude-sonnet-4-5", "temperature": 0.3}),
        ("ollama", {"options": {"temperature": 9}, "unknown": 1}),
    ],
)
def test_right_requests_are_not_refused(
    models: FakeModels, http: httpx2.Client, provider: str, more: dict[str, Any]
) -> None:
    assert ask(models, http, provider, **more).status_code == 200


def test_addresses_that_do_not_exist(models: FakeModels, http: httpx2.Client) -> None:
    headers = {"api-key": KEY, "authorization": f"Bearer {KEY}", "x-api-key": KEY}
    content = {"model": "m", "messages": HI, "max_tokens": 5}
    versionless = http.post(f"{models.azure_url}/openai/deployments/d/chat/completions", headers=headers, json=content)
    assert (versionless.status_code, versionless.json()["error"]["message"]) == (404, "Resource not found")
    unknown = http.post(f"{models.openai_url}/chat", headers=headers, json=content)
    assert unknown.json()["error"]["message"] == "Invalid URL (POST /v1/chat)"
    assert http.post(f"{models.ollama_url}/v1/messages", json=content).text == "404 page not found"
    unversioned = http.post(f"{models.anthropic_url}/v1/messages", headers=headers, json=content)
    assert "anthropic-version" in unversioned.json()["error"]["message"]
    assert http.post(f"{models.openai_url}/chat/completions", headers=headers, content=b"{").status_code == 400
    assert len(models.take_violations()) == 5
    new = http.post(f"{models.azure_url}/openai/v1/chat/completions", headers=headers, json=content)
    assert (new.status_code, models.requests[-1].provider) == (200, "azure_openai")
