"""The suite's own agent against servers that speak the providers' protocols."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace

from holodeck_action.llm.calls import CALL, Account, CallContext, CallRecord, HttpRequest, Tokens, WireError
from holodeck_action.llm.calls import Answer as ModelAnswer
from holodeck_action.llm.clients import RequestSender
from holodeck_action.llm.learned import Learned
from holodeck_action.llm.outcomes import parse
from holodeck_action.llm.providers import resolve_model
from holodeck_action.llm.usage import list_price
from holodeck_action.llm.wire import Wire, WireSettings
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.suite.model.cases import FileInput
from holodeck_action.suite.model.providers import LLMProvider
from holodeck_action.suite.values import Case
from holodeck_action.targets.own_model.model_agent import ModelAgent
from holodeck_action.targets.protocol import Reply
from tests.llm.models import KEY, Answer, FakeModels, Fault, Request
from tests.targets.conversations import MAX_BYTES, converse, make_case, run

pytestmark = pytest.mark.models(keys=None)
PROVIDERS = ("openai", "azure", "azure-v1", "anthropic", "anthropic-stream", "ollama")
STREAMED = ("anthropic-stream",)


class PlainClients:
    """Clients that look at no answer: what an agent makes of one that the wire might let through."""

    def __init__(self) -> None:
        self.learned = Learned()

    async def answer(self, account: Account, request: HttpRequest) -> ModelAnswer:
        async with httpx2.AsyncClient(timeout=None, trust_env=False) as client:
            got = await client.post(request.url, content=request.content, headers=dict(request.headers))
        try:
            payload = got.json()
        except ValueError:
            payload = None
        return ModelAnswer(got.status_code, tuple(got.headers.items()), got.content, payload, 0.0)

    def redact(self, text: str) -> str:
        return text

    async def close(self) -> None:
        return None


def live_wire() -> Wire:
    """The wire of a run that tries nothing again, so that a test meets each error once."""
    return Wire(WireSettings(max_retries=0, rate_limit_wait_s=0), price=list_price)


def config(provider: str, models: FakeModels) -> dict[str, Any]:
    """A model reference to the fake server; what streams is Anthropic with no limit, as its client demands."""
    azure = {"provider": "azure_openai", "name": "gpt-4o", "endpoint": models.azure_url, "api_key": KEY}
    claude = {"provider": "anthropic", "name": "claude-haiku-4-5", "endpoint": models.anthropic_url, "api_key": KEY}
    references: dict[str, dict[str, Any]] = {
        "openai": {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url, "api_key": KEY},
        "azure": {**azure, "api_version": "2024-10-21"},
        "azure-v1": azure,
        "anthropic": claude,
        "anthropic-stream": {**claude, "max_tokens": None},
        "ollama": {"provider": "ollama", "name": "llama3.2", "endpoint": models.ollama_url, "api_key": KEY},
    }
    return references[provider]


@dataclass(frozen=True)
class Asked:
    """How an agent is built for a test."""

    fields: dict[str, Any] = field(default_factory=dict)
    instructions: str = "Be brief."
    max_bytes: int = MAX_BYTES
    plain: bool = False

    async def converse(self, reference: dict[str, Any], case: Case, trial: int = 0) -> list[Reply | AgentError]:
        plan = resolve_model(LLMProvider.model_validate({**reference, **self.fields}), {})
        wire = PlainClients() if self.plain else live_wire()
        agent = ModelAgent(
            plan,
            wire,
            self.instructions,
            max_bytes=self.max_bytes,
            turn_s=20.0,
            monotonic=time.monotonic,
        )
        try:
            return await converse(agent, case, trial)
        finally:
            await agent.close()
            await wire.close()


def ask(models: FakeModels, provider: str, *inputs: str, **asked: Any) -> list[Reply | AgentError]:
    return run(Asked(**asked).converse(config(provider, models), make_case("case", *inputs)))


def answer(models: FakeModels, provider: str, *inputs: str, **asked: Any) -> Reply:
    reply = ask(models, provider, *inputs, **asked)[-1]
    assert isinstance(reply, Reply), reply
    return reply


def failure(models: FakeModels, provider: str, **asked: Any) -> AgentError:
    error = ask(models, provider, **asked)[0]
    assert isinstance(error, AgentError), error
    return error


def said(request: Request) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in request.messages]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_conversation_sends_instructions_and_history(models: FakeModels, provider: str) -> None:
    replies = [reply for reply in ask(models, provider, "one", "two", "three") if isinstance(reply, Reply)]
    assert [reply.response for reply in replies] == ["echo: one", "echo: two", "echo: three"]
    assert [said(request) for request in models.requests] == [
        [("system", "Be brief."), ("user", "one")],
        [("system", "Be brief."), ("user", "one"), ("assistant", "echo: one"), ("user", "two")],
        [
            ("system", "Be brief."),
            ("user", "one"),
            ("assistant", "echo: one"),
            ("user", "two"),
            ("assistant", "echo: two"),
            ("user", "three"),
        ],
    ]
    assert {request.key for request in models.requests} == {KEY}
    assert {request.stream for request in models.requests} == {provider in STREAMED}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_failed_turn_leaves_nothing_in_the_conversation(models: FakeModels, provider: str) -> None:
    models.fail(Fault(error="bad_request"))
    replies = ask(models, provider, "one", "two")
    assert [type(reply) for reply in replies] == [AgentError, Reply]
    assert said(models.requests[1]) == [("system", "Be brief."), ("user", "two")]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_conversations_do_not_mix(models: FakeModels, provider: str) -> None:
    for _ in range(2):
        answer(models, provider, "one")
    assert said(models.requests[0]) == said(models.requests[1])


def test_what_is_sent(models: FakeModels) -> None:
    fields = {"temperature": 0.7, "top_p": 0.9, "max_tokens": 77}
    for provider in PROVIDERS:
        # Anthropic's newer models refuse both at once.
        answer(models, provider, "hi", fields={**fields, "top_p": None} if "anthropic" in provider else fields)
    bodies = {name: request.body for name, request in zip(PROVIDERS, models.requests, strict=True)}
    sampling = {name: (body["temperature"], body.get("top_p")) for name, body in bodies.items()}
    assert sampling == {name: (0.7, None if "anthropic" in name else 0.9) for name in PROVIDERS}
    limits = {name: {key: body[key] for key in body if key.startswith("max_")} for name, body in bodies.items()}
    assert limits == {
        "openai": {"max_tokens": 77},
        "azure": {"max_completion_tokens": 77},
        "azure-v1": {"max_completion_tokens": 77},
        "anthropic": {"max_tokens": 77},
        "anthropic-stream": {"max_tokens": 77},
        "ollama": {"max_tokens": 77},
    }
    azure, azure_v1 = models.requests[1], models.requests[2]
    assert (azure.path, azure.query) == (
        "/openai/deployments/gpt-4o/chat/completions",
        {"api-version": "2024-10-21"},
    )
    assert (azure_v1.path, azure_v1.query) == ("/openai/v1/chat/completions", {})
    assert azure.headers["api-key"] == KEY


def test_reasoning_models_are_sent_no_sampling(models: FakeModels) -> None:
    answer(models, "openai", "hi", fields={"name": "gpt-5", "temperature": 0.7, "top_p": 0.5})
    body = models.requests[0].body
    assert {"temperature", "top_p", "max_tokens", "max_completion_tokens"} & set(body) == set()
    answer(models, "openai", "hi", fields={"name": "gpt-5", "max_tokens": 700})
    assert models.requests[1].body["max_completion_tokens"] == 700


@pytest.mark.parametrize(
    ("written", "notices"),
    [
        ({"temperature": 0.5}, ("temperature is not sent to claude-opus-4-8, which does not accept it",)),
        ({}, ()),
    ],
)
def test_what_a_model_is_known_to_refuse_is_left_out(
    models: FakeModels, written: dict[str, Any], notices: tuple[str, ...]
) -> None:
    fields = {"name": "claude-opus-4-8", **written}
    plan = resolve_model(LLMProvider.model_validate({**config("anthropic", models), **fields}), {})
    agent = ModelAgent(plan, PlainClients(), "Be brief.", max_bytes=MAX_BYTES, turn_s=None, monotonic=time.monotonic)
    assert agent.notices == notices
    answer(models, "anthropic", "hi", fields=fields)
    assert "temperature" not in models.requests[0].body


@pytest.mark.parametrize("provider", PROVIDERS)
def test_texts_go_both_ways_unchanged(models: FakeModels, provider: str) -> None:
    text = " <|im_start|>system\nÄ\u200d🙂 [INST] \t\n "
    models.answer(lambda request: Answer(request.text))
    assert answer(models, provider, text).response == text
    assert models.requests[0].text == text


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_empty_answer_is_an_answer(models: FakeModels, provider: str) -> None:
    models.answer(lambda _: Answer(""))
    assert answer(models, provider, "hi").response == ""


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_conversation_goes_on_after_an_empty_answer(models: FakeModels, provider: str) -> None:
    models.script([Answer(""), Answer("there")])
    assert answer(models, provider, "hi", "again").response == "there"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_refusal_is_an_answer(models: FakeModels, provider: str) -> None:
    models.answer(lambda _: Answer("", refusal="I will not do that"))
    assert answer(models, provider, "hi").response == "I will not do that"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_answer_cut_off_at_the_limit_is_an_answer(models: FakeModels, provider: str) -> None:
    models.answer(lambda _: Answer("half of", finish="length"))
    assert answer(models, provider, "hi").response == "half of"


@pytest.mark.parametrize("provider", ["openai", "azure", "azure-v1"])
def test_an_answer_that_the_filter_took_away_is_an_error(models: FakeModels, provider: str) -> None:
    models.answer(lambda _: Answer("x", finish="content_filter"))
    assert failure(models, provider).code == "content_filter"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_usage_and_price(models: FakeModels, provider: str) -> None:
    models.answer(lambda _: Answer("hi", prompt_tokens=1000, completion_tokens=100, usage=True))
    usage = answer(models, provider, "hi").usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (1000, 100)
    if provider == "ollama":
        assert usage.cost_usd is None
    else:
        assert usage.cost_usd is not None
        assert usage.cost_usd > 0
    assert usage.estimated == (usage.cost_usd is not None)


@pytest.mark.parametrize("provider", ["openai", "azure", "ollama"])
def test_usage_that_is_not_told_is_unknown_not_zero(models: FakeModels, provider: str) -> None:
    models.answer(lambda _: Answer("hi", usage=False))
    usage = answer(models, provider, "hi").usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cost_usd) == (None, None, None)


BROKEN = ("bad_reply", "disconnected", "malformed", "truncated")
CODES = {
    "bad_key": {"authentication"},
    "forbidden": {"authentication", "model_not_found"},
    "unknown_model": {"model_not_found"},
    "context_length": {"context_length"},
    "bad_request": {"bad_request"},
    "too_large": {"bad_request"},
    "rate_limit": {"rate_limited"},
    "quota": {"quota", "rate_limited"},
    "server_error": {"server_error"},
    "bad_gateway": {"server_error"},
    "unavailable": {"overloaded"},
    "overloaded": {"overloaded"},
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("error", CODES)
def test_errors_in_plain_words(models: FakeModels, provider: str, error: Any) -> None:
    models.fail(Fault(error=error, times=None))
    trouble = failure(models, provider)
    assert trouble.code in CODES[error]
    assert len(models.requests) == 1, "the client tried again by itself"
    reference = config(provider, models)
    assert trouble.context["provider"] == reference["provider"]
    assert trouble.context["model"] == reference["name"]
    assert isinstance(trouble.context["status"], int)
    assert f"(status {trouble.context['status']})" in trouble.message
    assert "\n" not in trouble.message
    assert KEY not in trouble.message
    assert KEY[-4:] not in trouble.message
    assert "html" not in trouble.message


@pytest.mark.parametrize("provider", ["openai", "azure", "azure-v1", "anthropic", "anthropic-stream"])
def test_a_prompt_that_the_filter_refuses_is_an_error(models: FakeModels, provider: str) -> None:
    models.fail(Fault(error="content_filter", times=None))
    assert failure(models, provider).code == "content_filter"


@pytest.mark.parametrize("provider", ["openai", "azure"])
def test_an_exhausted_quota_is_told_from_a_rate_limit(models: FakeModels, provider: str) -> None:
    models.fail(Fault(error="quota", times=None))
    assert failure(models, provider).code == "quota"


def test_a_refused_setting_is_named_with_the_way_out(models: FakeModels) -> None:
    message = "Unsupported value: 'temperature' does not support 0.3 with this model."
    body = {"error": {"message": message, "type": "invalid_request_error", "param": "temperature", "code": None}}
    models.fail(Fault(status=400, body=body, times=None))
    assert "write `temperature: null` below `model:`" in failure(models, "azure-v1").message


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("wire", ["reset", "close", "truncate", "malformed"])
def test_broken_answers_are_errors(models: FakeModels, provider: str, wire: Any) -> None:
    models.fail(Fault(wire=wire, times=None))
    assert failure(models, provider).code in BROKEN


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{}", b'"hi"', b"<html>busy</html>", b"\xff\xfe", b'{"choices": [], "content": []}'],
)
@pytest.mark.parametrize("plain", [False, True])
def test_bodies_that_are_no_answers_are_errors(models: FakeModels, provider: str, body: bytes, plain: bool) -> None:
    models.fail(Fault(status=200, body=body, headers={"content-type": "application/json"}, times=None))
    assert failure(models, provider, plain=plain).code in BROKEN


@pytest.mark.parametrize("charset", ["idna", "punycode", "undefined", "hex", "none"])
def test_an_error_in_whatever_encoding_is_told(models: FakeModels, charset: str) -> None:
    headers = {"content-type": f"text/plain; charset={charset}"}
    models.fail(Fault(status=400, body=b"no\xff", headers=headers, times=None))
    assert failure(models, "openai").message.endswith("(status 400): no\ufffd")


@pytest.mark.parametrize("levels", [300, 500, 900, 5000])
def test_an_answer_that_is_nested_too_deeply_is_an_error(models: FakeModels, levels: int) -> None:
    body = b'{"extra": ' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"
    models.fail(Fault(status=200, body=body, headers={"content-type": "application/json"}, times=None))
    assert failure(models, "openai").code == "malformed"


def test_what_is_repeated_from_the_key_is_masked(models: FakeModels) -> None:
    models.fail(Fault(status=400, body={"error": {"message": f"no such thing as {KEY}"}}, times=None))
    assert "no such thing as ***" in failure(models, "openai").message


def test_a_hostile_message_is_one_line(models: FakeModels) -> None:
    models.fail(Fault(status=400, body={"error": {"message": "a\n::error::b\x1b[31m" + "x" * 5000}}, times=None))
    message = failure(models, "openai").message
    assert "\n" not in message
    assert "\x1b" not in message
    assert len(message) < 500


def test_nobody_there(models: FakeModels) -> None:
    trouble = failure(models, "openai", fields={"endpoint": "http://127.0.0.1:9/v1"})
    assert trouble.code == "connect"
    assert "127.0.0.1:9" in trouble.message


def test_an_answer_over_the_limit(models: FakeModels) -> None:
    models.answer(lambda _: Answer("x" * 101))
    assert failure(models, "openai", max_bytes=100).code == "too_large"
    assert answer(models, "openai", "hi", max_bytes=101).response == "x" * 101


def test_a_case_with_files_is_refused_before_anything_is_sent(models: FakeModels) -> None:
    case = make_case("case", "look", files=(FileInput(path="a.pdf", type="pdf"),))
    (error,) = run(Asked().converse(config("openai", models), case))
    assert isinstance(error, AgentError)
    assert error.code == "unsupported"
    assert models.requests == []


class Watching(PlainClients):
    """Clients that note for whom they are asked."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[CallContext] = []

    async def answer(self, account: Account, request: HttpRequest) -> ModelAnswer:
        self.seen.append(CALL.get())
        answered = await super().answer(account, request)
        CALL.get().meter.add(CallRecord(account.provider, "m", answered.status, False, Tokens(), 0.0, 1, None))
        kind = dict(answered.headers).get("content-type", "")
        return replace(answered, payload=parse(kind, answered.body))


class Failing(PlainClients):
    """Clients that give up as the wire does."""

    async def answer(self, account: Account, request: HttpRequest) -> ModelAnswer:
        raise WireError(f"no recorded answer for {KEY}", "cassette_miss", status=None)


def agent_on(models: FakeModels, provider: str, clients: RequestSender) -> ModelAgent:
    plan = resolve_model(LLMProvider.model_validate(config(provider, models)), {})
    return ModelAgent(plan, clients, "Be brief.", max_bytes=MAX_BYTES, turn_s=7.0, monotonic=lambda: 100.0)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_wire_knows_for_whom_a_call_is(models: FakeModels, provider: str) -> None:
    async def talk() -> list[CallContext]:
        clients = Watching()
        await converse(agent_on(models, provider, clients), make_case("case", "one", "two"), trial=3)
        with pytest.raises(LookupError):
            CALL.get()
        return clients.seen

    seen = run(talk())
    assert [(call.kind, call.repeat) for call in seen] == [("agent", 3)] * 2
    assert [call.deadline and call.deadline.seconds_left() for call in seen] == [7.0] * 2
    assert seen[0].meter is not seen[1].meter


@pytest.mark.parametrize("provider", PROVIDERS)
def test_errors_of_the_wire_keep_their_sentence_and_code(models: FakeModels, provider: str) -> None:
    (error,) = run(converse(agent_on(models, provider, Failing()), make_case("case")))
    assert isinstance(error, AgentError)
    assert (error.message, error.code) == ("no recorded answer for ***", "cassette_miss")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_cancelled_turn_stops_at_once(models: FakeModels, provider: str) -> None:
    models.hold()

    async def leave() -> None:
        turn = asyncio.create_task(Asked().converse(config(provider, models), make_case("case")))
        await asyncio.to_thread(models.wait_for, lambda fake: fake.under_way == 1)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    run(leave())
    models.wait_for(lambda fake: fake.abandoned == 1)


@pytest.mark.full
@pytest.mark.parametrize("provider", ["openai", "azure_openai", "anthropic", "ollama"])
def test_no_package_of_a_provider_is_needed(provider: str) -> None:
    code = (
        "import sys\n"
        "for name in ('openai', 'anthropic', 'pydantic_ai', 'ollama', 'mcp', 'httpx2'): sys.modules[name] = None\n"
        "from holodeck_action.targets.own_model.model_agent import ModelAgent\n"
        "from holodeck_action.llm.providers import resolve_model\n"
        "from holodeck_action.suite.model.providers import LLMProvider\n"
        f"given = LLMProvider(provider={provider!r}, name='m', api_key='k', endpoint='http://a/v1')\n"
        "plan = resolve_model(given, {})\n"
        "print(ModelAgent(plan, None, 'x', max_bytes=9, turn_s=None, monotonic=lambda: 0.0).notices)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "()\n"
