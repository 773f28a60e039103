"""What is asked directly is what the provider's package would have asked: the same request, answer and error."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from holodeck_action.llm.clients import DirectCalls, direct_anthropic, direct_openai
from tests.llm.models import Answer, FakeModels, Fault, Request, ToolCall

KEY = "sk-fake-0123456789abcdef"
DEPLOYMENT = "a model of 50 %?"
"""A name that must be quoted in a path."""
PROVIDERS = ("openai", "azure_openai", "azure_openai v1", "ollama", "anthropic")
# Those count the package's own attempts and time limits, of which there are none.
OWN_HEADERS = ("x-stainless-retry-count", "x-stainless-read-timeout", "x-stainless-timeout", "content-length")
TOOL = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}


@pytest.fixture
def models() -> Iterator[FakeModels]:
    with FakeModels() as models:
        yield models
        assert models.violations == []


def ask(models: FakeModels, provider: str, *, direct: bool, **given: Any) -> tuple[Any, Request | None]:
    """Ask one way; return the answer or the error, and the request that came."""
    before = len(models.requests)

    async def main() -> Any:
        async with httpx2.AsyncClient(trust_env=False, timeout=20) as http:
            resource = _resource(models, provider, http, direct=direct)
            try:
                return await resource.create(**given)
            except Exception as error:
                return error

    answer = asyncio.run(main())
    came = models.requests[before:]
    return answer, came[-1] if came else None


def _resource(models: FakeModels, provider: str, http: httpx2.AsyncClient, *, direct: bool) -> Any:
    shared: dict[str, Any] = {"max_retries": 0, "http_client": http}
    if provider == "anthropic":
        claude = anthropic.AsyncAnthropic(auth_token=KEY, base_url=models.anthropic_url, **shared)
        if direct:
            direct_anthropic(claude, http)
        return claude.beta.messages
    if provider == "azure_openai":
        azure = openai.AsyncAzureOpenAI(
            azure_endpoint=models.azure_url, api_version="2024-10-21", api_key=KEY, **shared
        )
        if direct:
            direct_openai(azure, http, deployments=True)
        return azure.chat.completions
    base, query = {
        "openai": (models.openai_url, None),
        "azure_openai v1": (f"{models.azure_url}/openai/v1", {"api-version": "preview"}),
        "ollama": (f"{models.ollama_url}/v1", None),
    }[provider]
    client = openai.AsyncOpenAI(base_url=base, api_key=KEY, default_query=query, **shared)
    if direct:
        direct_openai(client, http, deployments=False)
    return client.chat.completions


def question(provider: str, **more: Any) -> dict[str, Any]:
    """A conversation with a tool as pydantic-ai puts it, with everything that is left unset."""
    if provider == "anthropic":
        return {
            "model": "claude-chosen",
            "max_tokens": 100,
            "system": [{"type": "text", "text": "Be brief."}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Où est ‘A-17’?"}]}],
            "tools": [{"name": "find", "description": "Finds.", "input_schema": TOOL}],
            "tool_choice": anthropic.Omit(),
            "thinking": anthropic.Omit(),
            "betas": ["one-2025-01-01", "two-2025-01-01"],
            "stream": False,
            "timeout": anthropic.NotGiven(),
            "extra_headers": {"User-Agent": "tested"},
            "extra_body": {"temperature": 0.5},
            **more,
        }
    return {
        "model": DEPLOYMENT,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Où est ‘A-17’?"}],
        "tools": [{"type": "function", "function": {"name": "find", "description": "Finds.", "parameters": TOOL}}],
        "tool_choice": openai.Omit(),
        "stream": False,
        "stream_options": openai.Omit(),
        "timeout": openai.NotGiven(),
        "extra_headers": {"User-Agent": "tested"},
        "extra_body": {"temperature": 0.5},
        **more,
    }


def both(models: FakeModels, provider: str, **given: Any) -> tuple[Any, Any]:
    """Ask both ways and hold the requests against each other; return the answers, the package's own first."""
    usual, theirs = ask(models, provider, direct=False, **given)
    direct, ours = ask(models, provider, direct=True, **given)
    assert theirs is not None, usual
    assert ours is not None, direct
    assert (ours.path, ours.query, ours.body) == (theirs.path, theirs.query, theirs.body)
    headers = [{k: v for k, v in request.headers.items() if k not in OWN_HEADERS} for request in (ours, theirs)]
    assert headers[0] == headers[1]
    return usual, direct


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "said", [Answer("In Leeds."), Answer(tools=(ToolCall("find", {"order": "A-17"}),)), Answer(refusal="No.")]
)
def test_request_and_answer_are_the_packages(models: FakeModels, provider: str, said: Answer) -> None:
    models.answer(lambda _: said)
    usual, direct = both(models, provider, **question(provider))
    assert type(direct) is type(usual)
    # Ids tell the requests apart.
    left_out = (
        {"id": True, "created": True, "content": {"__all__": {"id"}}}
        if provider == "anthropic"
        else {
            "id": True,
            "created": True,
            "choices": {"__all__": {"message": {"tool_calls": {"__all__": {"id"}}}}},
        }
    )
    assert direct.model_dump(exclude=left_out) == usual.model_dump(exclude=left_out)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("error", ["bad_key", "quota", "rate_limit", "context_length", "content_filter", "bad_gateway"])
def test_an_error_is_the_packages(models: FakeModels, provider: str, error: Any) -> None:
    models.fail(Fault(error, times=2))
    usual, direct = both(models, provider, **question(provider))
    package = anthropic if provider == "anthropic" else openai
    assert isinstance(usual, package.APIStatusError)
    assert isinstance(direct, package.APIStatusError)
    assert direct.status_code == usual.status_code
    assert direct.response.text == usual.response.text or provider == "anthropic"
    assert _without_ids(direct.body) == _without_ids(usual.body)
    if provider != "anthropic":
        assert (direct.code, direct.type, direct.param) == (usual.code, usual.type, usual.param)


def _without_ids(body: Any) -> Any:
    return {name: value for name, value in body.items() if name != "request_id"} if isinstance(body, dict) else body


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_stream_goes_the_packages_way(models: FakeModels, provider: str) -> None:
    usual, direct = both(models, provider, **question(provider, stream=True))
    assert type(direct) is type(usual)


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"<html>soon</html>"), (200, b"[1]"), (200, b"null"), (302, b""), (500, b"\xff{")]
)
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_body_that_is_no_answer_is_told_as_it_is(models: FakeModels, provider: str, status: int, body: bytes) -> None:
    models.fail(Fault(status=status, body=body, headers={"content-type": "text/html"}))
    answer, _ = ask(models, provider, direct=True, **question(provider))
    if status == 200:
        assert answer == body.decode()
    else:
        assert isinstance(answer, anthropic.APIStatusError | openai.APIStatusError)
        assert answer.status_code == status


def test_half_a_character_is_sent_as_json_says_it(models: FakeModels) -> None:
    models.answer(lambda _: "Half.")
    messages = [{"role": "user", "content": "a\ud800b"}]
    answer, request = ask(models, "openai", direct=True, **question("openai", messages=messages))
    assert request is not None
    assert request.text == "a\ud800b"
    assert answer.choices[0].message.content == "Half."


def test_a_number_that_json_has_not_is_refused(models: FakeModels) -> None:
    answer, request = ask(models, "openai", direct=True, **question("openai", top_p=float("nan")))
    assert isinstance(answer, ValueError)
    assert request is None


def test_pydantic_ai_asks_directly() -> None:
    """Else nothing here is about what runs."""
    from holodeck_action.llm.clients import build_model
    from holodeck_action.llm.providers import resolve_model
    from holodeck_action.suite.providers import LLMProvider

    class Clients:
        def client(self, account: Any) -> httpx2.AsyncClient:
            return httpx2.AsyncClient(trust_env=False)

    for provider, more in (
        ("openai", {}),
        ("azure_openai", {"endpoint": "https://a.example", "api_version": "2024-10-21"}),
        ("azure_openai", {"endpoint": "https://a.example"}),
        ("ollama", {}),
        ("anthropic", {}),
    ):
        config = LLMProvider.model_validate({"provider": provider, "name": "chosen", "api_key": KEY, **more})
        model: Any = build_model(resolve_model(config, {}), Clients()).model
        asked = model.client.beta.messages if provider == "anthropic" else model.client.chat.completions
        assert isinstance(asked, DirectCalls)
