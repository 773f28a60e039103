"""The fake model server against the providers' own clients, and against everything that it has to refuse."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx2
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.llm.models import KEY, Answer, FakeModels, ToolCall, echo, tools_first
from tests.llm.models.rules import least
from tests.llm.models.tokens import split
from tests.tables import walk

if TYPE_CHECKING:
    import anthropic
    import openai

pytestmark = pytest.mark.models(keys=None)
HI = [{"role": "user", "content": "hi there"}]
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OPENAI_TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
ANTHROPIC_TOOLS = [{"name": "weather", "input_schema": WEATHER}]
TWO_CALLS = Answer("Looking.", (ToolCall("weather", {"city": "Paris"}), ToolCall("weather", {"city": "Köln"})))
PROVIDERS = ("openai", "azure_openai", "anthropic", "ollama")
ANSWERS = {
    "text": Answer("The answer is 42."),
    "empty": Answer(""),
    "tools": TWO_CALLS,
    "refusal": Answer(refusal="I cannot help with that."),
    "thinking": Answer("So.", thinking="Well, let me see."),
    "cut": Answer("The ans", finish="length"),
    "cached": Answer("yes", prompt_tokens=100, cached_tokens=80),
    "no usage": Answer("yes", usage=False),
}


@pytest.fixture
def gpt(models: FakeModels) -> Iterator[openai.OpenAI]:
    import openai

    with openai.OpenAI(base_url=models.openai_url, api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture
def azure(models: FakeModels) -> Iterator[openai.AzureOpenAI]:
    import openai

    with openai.AzureOpenAI(
        azure_endpoint=models.azure_url, api_key=KEY, api_version="2024-10-21", max_retries=0
    ) as client:
        yield client


@pytest.fixture
def claude(models: FakeModels) -> Iterator[anthropic.Anthropic]:
    import anthropic

    with anthropic.Anthropic(base_url=models.anthropic_url, api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture
def llama(models: FakeModels) -> Iterator[openai.OpenAI]:
    import openai

    with openai.OpenAI(base_url=f"{models.ollama_url}/v1", api_key="ollama", max_retries=0) as client:
        yield client


@pytest.fixture
def http() -> Iterator[httpx2.Client]:
    with httpx2.Client(timeout=60, trust_env=False) as client:
        yield client


def address(models: FakeModels, provider: str) -> tuple[str, dict[str, str]]:
    """Where a provider's chats are asked for, and with which headers."""
    return {
        "openai": (f"{models.openai_url}/chat/completions", {"authorization": f"Bearer {KEY}"}),
        "azure_openai": (
            f"{models.azure_url}/openai/deployments/chat/chat/completions?api-version=2024-10-21",
            {"api-key": KEY},
        ),
        "anthropic": (f"{models.anthropic_url}/v1/messages", {"x-api-key": KEY, "anthropic-version": "2023-06-01"}),
        "ollama": (f"{models.ollama_url}/api/chat", {}),
    }[provider]


def body(provider: str, **more: Any) -> dict[str, Any]:
    """A whole chat request, without streaming."""
    own: dict[str, dict[str, Any]] = {"anthropic": {"max_tokens": 100}, "ollama": {"stream": False}}
    return {"model": "model-1", "messages": HI, **own.get(provider, {}), **more}


def extras(value: Any, at: str = "") -> Iterator[str]:
    """Names of what a provider's own client does not know, at any depth."""
    if isinstance(value, BaseModel):
        yield from (f"{at}.{name}" for name in value.model_extra or {})
        for name in type(value).model_fields:
            yield from extras(getattr(value, name), f"{at}.{name}")
    elif isinstance(value, list):
        for one in value:
            yield from extras(one, at)


# Shapes


@pytest.mark.parametrize("name", ANSWERS)
def test_whole_answers_fit_the_clients_types(models: FakeModels, http: httpx2.Client, name: str) -> None:
    from anthropic.types import Message as AnthropicMessage
    from openai.types.chat import ChatCompletion

    answer = ANSWERS[name]
    models.answer(lambda _: answer)
    for provider, shape, known in (
        ("openai", ChatCompletion, set()),
        ("azure_openai", ChatCompletion, {".prompt_filter_results", ".choices.content_filter_results"}),
        ("anthropic", AnthropicMessage, set()),
    ):
        url, headers = address(models, provider)
        given = http.post(url, headers=headers, json=body(provider)).json()
        assert set(extras(shape.model_validate(given))) == known
        assert shape.model_validate(given).model_dump(exclude_unset=True, mode="json", warnings="error") == given


def test_text_usage_and_finish_arrive(models: FakeModels, gpt: Any, azure: Any, claude: Any, llama: Any) -> None:
    models.answer(lambda _: Answer("yes", prompt_tokens=100, completion_tokens=7, cached_tokens=80))
    for client in (gpt, azure, llama):
        result = client.chat.completions.create(model="m", messages=HI)
        assert result.choices[0].message.content == "yes"
        assert result.choices[0].finish_reason == "stop"
        assert (result.usage.prompt_tokens, result.usage.completion_tokens, result.usage.total_tokens) == (100, 7, 107)
    assert gpt.chat.completions.create(model="m", messages=HI).usage.prompt_tokens_details.cached_tokens == 80
    told = claude.messages.create(model="m", max_tokens=9, messages=HI)
    assert (told.content[0].text, told.stop_reason) == ("yes", "end_turn")
    assert (told.usage.input_tokens, told.usage.cache_read_input_tokens, told.usage.output_tokens) == (20, 80, 7)


@pytest.mark.parametrize("name", ANSWERS)
def test_streams_bring_what_whole_answers_bring(
    models: FakeModels, gpt: Any, azure: Any, llama: Any, name: str
) -> None:
    from openai.types.chat import ChatCompletionChunk

    models.answer(lambda _: ANSWERS[name])
    for client in (gpt, azure, llama):
        whole = client.chat.completions.create(model="m", messages=HI)
        chunks = list(
            client.chat.completions.create(model="m", messages=HI, stream=True, stream_options={"include_usage": True})
        )
        # Azure's first chunk, about the prompt's filter, is empty but for that.
        for chunk in chunks if client is not azure else chunks[1:]:
            ChatCompletionChunk.model_validate(chunk.model_dump(warnings="error"))
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        message = whole.choices[0].message
        assert "".join(delta.content or "" for delta in deltas) == (message.content or "")
        assert "".join(delta.refusal or "" for delta in deltas) == (message.refusal or "")
        assert joined_calls(deltas) == [
            (call.function.name, call.function.arguments) for call in message.tool_calls or ()
        ]
        finishes = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
        assert [one for one in finishes if one] == [whole.choices[0].finish_reason]
        assert [chunk.usage for chunk in chunks if chunk.usage] == ([whole.usage] if whole.usage else [])


def joined_calls(deltas: list[Any]) -> list[tuple[str, str]]:
    calls: dict[int, list[str]] = {}
    for delta in deltas:
        for part in delta.tool_calls or ():
            if part.id:
                calls[part.index] = [part.function.name, ""]
            calls[part.index][1] += part.function.arguments or ""
    return [(name, arguments) for name, arguments in calls.values()]


@pytest.mark.parametrize("name", ANSWERS)
def test_anthropics_streams_bring_what_whole_answers_bring(models: FakeModels, claude: Any, name: str) -> None:
    models.answer(lambda _: ANSWERS[name])
    whole = claude.messages.create(model="m", max_tokens=99, messages=HI)
    with claude.messages.stream(model="m", max_tokens=99, messages=HI) as stream:
        streamed = stream.get_final_message()
    left_out = {"id": True, "content": {"__all__": {"id", "parsed_output"}}}
    assert streamed.model_dump(exclude=left_out) == whole.model_dump(exclude=left_out)


def test_ollamas_own_interface(models: FakeModels, http: httpx2.Client) -> None:
    models.answer(lambda _: TWO_CALLS)
    url, _ = address(models, "ollama")
    whole = http.post(url, json=body("ollama")).json()
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in whole["message"]["tool_calls"]]
    assert calls == [("weather", {"city": "Paris"}), ("weather", {"city": "Köln"})]
    assert (whole["done"], whole["done_reason"]) == (True, "stop")
    assert whole["prompt_eval_count"] == 5
    models.answer(echo)
    streamed = http.post(url, json={"model": "m", "messages": HI})
    lines = [json.loads(line) for line in streamed.text.splitlines()]
    assert streamed.headers["content-type"] == "application/x-ndjson"
    assert "".join(line["message"]["content"] for line in lines) == "echo: hi there"
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert lines[-1]["eval_count"] == len(split("echo: hi there"))


@given(text=st.text(st.characters(codec="utf-8"), max_size=200))
def test_tokens_joined_are_the_text(text: str) -> None:
    assert "".join(split(text)) == text


def test_any_text_comes_through_every_stream(models: FakeModels, gpt: Any, claude: Any) -> None:
    text = 'line\u2028sep \U0001f600 "quotes" \\ \x00 data: [DONE]\n\nevent: error\r\n'
    models.answer(lambda _: text)
    parts = gpt.chat.completions.create(model="m", messages=HI, stream=True)
    assert "".join(part.choices[0].delta.content or "" for part in parts) == text
    with claude.messages.stream(model="m", max_tokens=200, messages=HI) as stream:
        assert stream.get_final_text() == text


# Meaning


def test_tools_are_called_in_parallel_and_their_results_are_seen(models: FakeModels, gpt: Any, claude: Any) -> None:
    models.answer(lambda request: echo(request) if request.results else TWO_CALLS)
    first = gpt.chat.completions.create(model="m", messages=HI, tools=OPENAI_TOOLS).choices[0]
    assert first.finish_reason == "tool_calls"
    calls = first.message.tool_calls
    assert [json.loads(call.function.arguments) for call in calls] == [{"city": "Paris"}, {"city": "Köln"}]
    results = [{"role": "tool", "tool_call_id": call.id, "content": f"sun {at}"} for at, call in enumerate(calls)]
    second = gpt.chat.completions.create(
        model="m", messages=[*HI, first.message.model_dump(exclude_none=True), *results], tools=OPENAI_TOOLS
    )
    assert second.choices[0].message.content == "echo: sun 0 | sun 1"
    told = claude.messages.create(model="m", max_tokens=99, messages=HI, tools=ANTHROPIC_TOOLS)
    assert told.stop_reason == "tool_use"
    uses = [block for block in told.content if block.type == "tool_use"]
    assert [use.input for use in uses] == [{"city": "Paris"}, {"city": "Köln"}]
    answers = [{"type": "tool_result", "tool_use_id": use.id, "content": f"rain {at}"} for at, use in enumerate(uses)]
    content = [block.model_dump(exclude_none=True) for block in told.content]
    after = claude.messages.create(
        model="m",
        max_tokens=99,
        messages=[*HI, {"role": "assistant", "content": content}, {"role": "user", "content": answers}],
        tools=ANTHROPIC_TOOLS,
    )
    assert after.content[0].text == "echo: rain 0 | rain 1"
    assert models.requests[-1].messages[1].calls[1].arguments == {"city": "Köln"}


def test_a_request_is_understood(models: FakeModels, azure: Any, claude: Any) -> None:
    system = {"role": "system", "content": "Be brief."}
    azure.chat.completions.create(
        model="my-deployment", messages=[system, *HI], tools=OPENAI_TOOLS, temperature=0.5, max_tokens=5
    )
    claude.messages.create(
        model="claude-1",
        max_tokens=5,
        system=[{"type": "text", "text": "Be brief."}],
        messages=[{"role": "user", "content": [{"type": "text", "text": "hi there"}]}],
        tools=ANTHROPIC_TOOLS,
        tool_choice={"type": "any"},
    )
    first, second = models.requests
    assert (first.number, first.provider, first.operation, first.model) == (0, "azure_openai", "chat", "my-deployment")
    assert first.query == {"api-version": "2024-10-21"}
    assert first.headers["user-agent"].startswith("AzureOpenAI/")
    assert first.body["temperature"] == 0.5
    assert (second.provider, second.model, second.forced) == ("anthropic", "claude-1", "")
    for request in (first, second):
        assert (request.system, request.text, request.key, request.stream) == ("Be brief.", "hi there", KEY, False)
        assert request.tools == {"weather": WEATHER}
        assert request.time <= time.monotonic()


def test_a_forced_tool_is_called(models: FakeModels, gpt: Any) -> None:
    forced = {"type": "function", "function": {"name": "weather"}}
    result = gpt.chat.completions.create(model="m", messages=HI, tools=OPENAI_TOOLS, tool_choice=forced)
    assert result.choices[0].message.tool_calls[0].function.arguments == '{"city": "x"}'


def test_structured_output_fits_its_schema(models: FakeModels, gpt: Any) -> None:
    class Verdict(BaseModel):
        score: int
        reasons: list[str]
        passed: bool | None

    parsed = gpt.chat.completions.parse(model="m", messages=HI, response_format=Verdict).choices[0].message.parsed
    assert parsed == Verdict(score=0, reasons=[], passed=False)
    models.answer(lambda request: {"score": 7, "reasons": [request.text], "passed": None})
    parsed = gpt.chat.completions.parse(model="m", messages=HI, response_format=Verdict).choices[0].message.parsed
    assert parsed == Verdict(score=7, reasons=["hi there"], passed=None)
    schema = models.requests[-1].schema
    assert schema is not None
    assert set(schema["properties"]) == {"score", "reasons", "passed"}


def test_log_probabilities(models: FakeModels, gpt: Any) -> None:
    models.answer(lambda _: Answer('{"score": 8}', alternatives={"8": {"8": 0.7, "9": 0.2, "7": 0.1}}))
    result = gpt.chat.completions.create(model="m", messages=HI, logprobs=True, top_logprobs=2)
    content = result.choices[0].logprobs.content
    assert "".join(one.token for one in content) == '{"score": 8}'
    score = next(one for one in content if one.token == "8")
    assert math.isclose(score.logprob, math.log(0.7))
    assert [(top.token, round(math.exp(top.logprob), 6)) for top in score.top_logprobs] == [("8", 0.7), ("9", 0.2)]
    assert content[0].logprob == 0.0
    assert gpt.chat.completions.create(model="m", messages=HI).choices[0].logprobs is None


def test_an_answer_is_cut_at_its_limit(models: FakeModels, gpt: Any, claude: Any, http: httpx2.Client) -> None:
    models.answer(lambda _: "one two three four five")
    choice = gpt.chat.completions.create(model="m", messages=HI, max_completion_tokens=2).choices[0]
    assert (choice.message.content, choice.finish_reason) == ("one two", "length")
    told = claude.messages.create(model="m", max_tokens=3, messages=HI)
    assert (told.content[0].text, told.stop_reason) == ("one two three", "max_tokens")
    url, _ = address(models, "ollama")
    own = http.post(url, json=body("ollama", options={"num_predict": 1})).json()
    assert (own["message"]["content"], own["done_reason"]) == ("one", "length")


def test_embeddings(models: FakeModels, gpt: Any, azure: Any, llama: Any, http: httpx2.Client) -> None:
    from openai.types import CreateEmbeddingResponse

    texts = ["red apples", "green apples", "tax law"]

    def likeness(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))

    for client in (gpt, azure, llama):
        packed = client.embeddings.create(model="e", input=texts)
        plain = client.embeddings.create(model="e", input=texts, encoding_format="float")
        assert isinstance(CreateEmbeddingResponse.model_validate(plain.model_dump()), BaseModel)
        vectors = [one.embedding for one in plain.data]
        for one, other in zip(packed.data, vectors, strict=True):
            assert all(math.isclose(x, y, abs_tol=1e-6) for x, y in zip(one.embedding, other, strict=True))
        assert likeness(vectors[0], vectors[1]) > 0.4 > likeness(vectors[0], vectors[2])
        assert math.isclose(likeness(vectors[0], vectors[0]), 1.0)
    own = http.post(f"{models.ollama_url}/api/embed", json={"model": "e", "input": texts}).json()
    assert own["embeddings"] == vectors
    models.answer(lambda request: Answer(vectors=tuple((float(len(text)), 0.0) for text in request.inputs)))
    assert gpt.embeddings.create(model="e", input="four", encoding_format="float").data[0].embedding == [4.0, 0.0]
    assert models.count(operation="embeddings") == 8


# With pydantic-ai, which asks in its own way


def model_of_pydantic_ai(models: FakeModels, provider: str, client: httpx2.AsyncClient) -> Any:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.ollama import OllamaModel
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.azure import AzureProvider
    from pydantic_ai.providers.ollama import OllamaProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    return {
        "openai": OpenAIChatModel(
            "gpt-4o", provider=OpenAIProvider(base_url=models.openai_url, api_key=KEY, http_client=client)
        ),
        "azure_openai": OpenAIChatModel(
            "chat",
            provider=AzureProvider(
                azure_endpoint=models.azure_url, api_version="2024-10-21", api_key=KEY, http_client=client
            ),
        ),
        "anthropic": AnthropicModel(
            "claude-sonnet-4-6",
            provider=AnthropicProvider(base_url=models.anthropic_url, api_key=KEY, http_client=client),
        ),
        "ollama": OllamaModel(
            "llama3.2", provider=OllamaProvider(base_url=f"{models.ollama_url}/v1", http_client=client)
        ),
    }[provider]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_agent_uses_its_tools_over_two_turns(models: FakeModels, provider: str) -> None:
    from pydantic_ai import Agent, ModelSettings

    async def talk() -> tuple[str, str, Any]:
        client = httpx2.AsyncClient(trust_env=False)
        # Without the setting, the client puts a paragraph of its own before the instructions for some models.
        settings = ModelSettings(temperature=0.3, max_tokens=1000, framing_announcement="never")
        model = model_of_pydantic_ai(models, provider, client)
        agent = Agent(model, instructions="Be brief.", model_settings=settings)

        @agent.tool_plain
        def weather(city: str) -> str:
            return f"sun in {city}"

        @agent.tool_plain
        def clock() -> str:
            return "noon"

        async with client:
            first = await agent.run("How is it?")
            second = await agent.run("And then?", message_history=first.all_messages())
        return first.output, second.output, second.usage

    models.answer(tools_first)
    first, second, usage = asyncio.run(talk())
    assert (first, second) == ("echo: sun in x | noon", "echo: sun in x | noon")
    assert [request.provider for request in models.requests] == [provider] * 4
    assert models.requests[0].system == "Be brief."
    assert [request.text for request in models.requests] == ["How is it?"] * 2 + ["And then?"] * 2
    assert [len(request.messages) for request in models.requests] == [2, 5, 7, 10]
    assert usage.requests == 2
    assert usage.input_tokens > usage.output_tokens > 0


@walk(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}, {"a": "x"}),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"enum": ["one", "two"]}}}, "one"),
        ({"anyOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]}, 3),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, [False, False]),
        ({"type": ["null", "string"]}, None),
        ({"type": "string", "minLength": 3}, "xxx"),
        ({"const": 5}, 5),
    ],
)
def test_the_least_value_fits_its_schema(schema: dict[str, Any], value: Any) -> None:
    assert least(schema) == value
    jsonschema.validate(value, schema)
