"""Embeddings over the wire: who is asked and how, batches, memory, and answers that are none."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from holodeck_action.llm.calls import CALL, CallContext, Meter
from holodeck_action.llm.embeddings import MOST_CHARACTERS, MOST_TEXTS, Embedder, EmbeddingPlan, resolve_embedding
from holodeck_action.llm.errors import ModelCallError
from holodeck_action.llm.limits.pauses import Deadline
from holodeck_action.llm.providers import ModelConfigError
from holodeck_action.llm.usage import list_price
from holodeck_action.llm.wire import WireSettings
from holodeck_action.suite.model.agent import AgentConfig
from tests.llm.models import KEY, Answer, FakeModels, Fault, Request
from tests.llm.wiring import opened

OPENAI = {"provider": "openai", "name": "gpt-4o"}


def agent(model: dict[str, Any], embedding_provider: dict[str, Any] | None = None) -> AgentConfig:
    return AgentConfig.model_validate(
        {
            "name": "a",
            "instructions": {"inline": "x"},
            "model": model,
            "embedding_provider": embedding_provider,
            "test_cases": [],
        }
    )


def plan(chat: dict[str, Any], embedding: dict[str, Any] | None = None, **asked: Any) -> EmbeddingPlan:
    given = {"model": None, "dimensions": None, "path": "tools.kb", **asked}
    environ = {"OPENAI_API_KEY": KEY, "AZURE_OPENAI_API_KEY": KEY}
    return resolve_embedding(agent(chat, embedding), environ, **given)


def openai_plan(models: FakeModels, **asked: Any) -> EmbeddingPlan:
    return plan({**OPENAI, "endpoint": models.openai_url}, **asked)


def embed(chosen: EmbeddingPlan, *texts: str, **options: Any) -> Any:
    async def main() -> Any:
        async with opened(WireSettings(max_retries=0, rate_limit_wait_s=0), **options) as wire:
            return await Embedder(chosen, wire).embed(texts)

    return asyncio.run(main())


def failure(chosen: EmbeddingPlan, *texts: str) -> ModelCallError:
    with pytest.raises(ModelCallError) as caught:
        embed(chosen, *texts)
    return caught.value


def embeddings(models: FakeModels) -> list[Request]:
    return [request for request in models.requests if request.operation == "embeddings"]


# -- who is asked


@pytest.mark.parametrize(
    ("kind", "more", "path"),
    [
        ("openai", {}, "/v1/embeddings"),
        ("azure_openai", {"api_version": "2024-10-21"}, "/openai/deployments/text-embedding-3-small/embeddings"),
        ("azure_openai", {}, "/openai/v1/embeddings"),
        ("ollama", {"api_key": KEY}, "/v1/embeddings"),
    ],
)
def test_every_provider_that_embeds(models: FakeModels, kind: str, more: dict[str, str], path: str) -> None:
    url = {"openai": models.openai_url, "azure_openai": models.azure_url, "ollama": models.ollama_url}[kind]
    rows = embed(plan({"provider": kind, "name": "chat", "endpoint": url, **more}), "red plums", "blue plums", "tea")
    assert rows.shape == (3, 64)
    assert str(rows.dtype) == "float32"
    assert all(math.isclose(float(row @ row), 1.0, abs_tol=1e-6) for row in rows)
    assert float(rows[0] @ rows[1]) > float(rows[0] @ rows[2])
    (request,) = models.requests
    assert (request.path, request.key, request.inputs) == (path, KEY, ("red plums", "blue plums", "tea"))
    assert request.query == ({"api-version": "2024-10-21"} if more.get("api_version") else {})
    assert sorted(request.body) == ["encoding_format", "input", "model"]


def test_the_model_is_the_tools_else_the_providers_else_the_default() -> None:
    local = {"provider": "ollama", "name": "mxbai-embed-large"}
    assert plan(OPENAI).name == "text-embedding-3-small"
    assert plan({"provider": "ollama", "name": "llama3"}).name == "nomic-embed-text:latest"
    assert plan(OPENAI, local).name == "mxbai-embed-large"
    assert plan(OPENAI, local, model="bge-m3").name == "bge-m3"
    assert plan(OPENAI, local).provider == "ollama"


def test_what_no_embedding_model_takes_is_named() -> None:
    given = {**OPENAI, "name": "e", "temperature": 0.1, "top_p": 0.5}
    assert plan(OPENAI, given).notices == (
        "embedding_provider: temperature and top_p are not sent: an embedding model takes no such setting",
    )
    assert plan({**OPENAI, "temperature": 0.1}).notices == ()


@pytest.mark.parametrize(
    ("model", "asked", "told"),
    [
        ({"provider": "anthropic", "name": "c"}, {}, "tools.kb: anthropic has no embedding models"),
        (OPENAI, {"model": "text-embedding-ada-002", "dimensions": 8}, "tools.kb.embedding_dimensions is 8, but"),
    ],
)
def test_what_cannot_embed_is_a_configuration_error(model: Any, asked: dict[str, Any], told: str) -> None:
    config = agent(OPENAI).model_copy(update={"model": agent(OPENAI).model.model_copy(update=model)})
    with pytest.raises(ModelConfigError) as caught:
        resolve_embedding(
            config, {"OPENAI_API_KEY": KEY}, **{"model": None, "dimensions": None, "path": "tools.kb", **asked}
        )
    assert told in str(caught.value)


def test_a_missing_key_is_told_with_the_place_to_write_it() -> None:
    with pytest.raises(ModelConfigError) as caught:
        resolve_embedding(agent(OPENAI, {**OPENAI, "name": "e"}), {}, model=None, dimensions=None, path="tools.kb")
    assert "below `embedding_provider:`" in str(caught.value)


def test_dimensions_are_sent_but_to_the_model_that_takes_none(models: FakeModels) -> None:
    assert embed(openai_plan(models, dimensions=16), "a").shape == (1, 16)
    fixed = openai_plan(models, model="text-embedding-ada-002", dimensions=1536)
    assert "has 64 numbers, embedding_dimensions asks for 1536" in failure(fixed, "a").message
    assert [request.body.get("dimensions") for request in models.requests] == [16, None]


# -- requests


def test_texts_go_out_in_batches_and_come_back_in_order(models: FakeModels) -> None:
    texts = [f"text number {number}" for number in range(2 * MOST_TEXTS + 3)]
    rows = embed(openai_plan(models, dimensions=256), *texts, *texts[:5])
    assert rows.shape == (len(texts) + 5, 256)
    assert sorted(len(request.inputs) for request in models.requests) == [3, MOST_TEXTS, MOST_TEXTS]
    assert sorted(text for request in models.requests for text in request.inputs) == sorted(texts)
    alone = embed(openai_plan(models, dimensions=256), texts[200])
    assert (rows[200] == alone[0]).all()
    assert (rows[len(texts)] == rows[0]).all()


def test_a_batch_is_bounded_in_characters(models: FakeModels) -> None:
    texts = ["a " * (MOST_CHARACTERS // 4), "b " * (MOST_CHARACTERS // 4), "c", "d " * MOST_CHARACTERS]
    embed(openai_plan(models), *texts)
    assert sorted(len(request.inputs) for request in models.requests) == [1, 1, 2]


def test_batches_are_under_way_at_once(models: FakeModels) -> None:
    models.hold()

    async def main() -> None:
        async with opened() as wire:
            work = asyncio.create_task(
                Embedder(openai_plan(models), wire).embed([f"text {number}" for number in range(3 * MOST_TEXTS)])
            )
            await asyncio.to_thread(models.wait_for, lambda server: server.under_way == 3)
            models.release()
            await work

    asyncio.run(main())


def test_an_answer_may_come_in_another_order(models: FakeModels) -> None:
    body = {"data": [{"index": 1, "embedding": [0, 2.0]}, {"index": 0, "embedding": [3, 0.0]}], "model": "m"}
    models.fail(Fault(status=200, body=body, headers={"content-type": "application/json"}))
    assert embed(openai_plan(models), "a", "b").tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_no_texts_are_no_request(models: FakeModels) -> None:
    assert embed(openai_plan(models)).shape[0] == 0
    assert models.requests == []


def test_lone_surrogates_are_replaced(models: FakeModels) -> None:
    embed(openai_plan(models), "a\ud800b")
    assert models.requests[0].inputs == ("a?b",)


# -- for whom


def test_a_query_is_sent_once_and_costs_every_turn_the_same(models: FakeModels) -> None:
    models.answer(lambda _: Answer(prompt_tokens=7))

    async def main() -> None:
        async with opened(price=list_price) as wire:
            embedder = Embedder(openai_plan(models), wire)
            usages = []
            for trial in range(3):
                meter = Meter()
                CALL.set(CallContext("agent", trial, None, meter))
                await embedder.embed(["plums"])
                usages.append(meter.usage())
            assert usages[0] is not None
            assert usages[0].prompt_tokens == 7
            assert usages[0].completion_tokens == 0
            assert usages[0].cost_usd is not None
            assert usages[0].cost_usd > 0
            assert usages[1:] == usages[:1] * 2

    asyncio.run(main())
    assert len(models.requests) == 1


def test_the_calls_deadline_holds(models: FakeModels) -> None:
    models.hold()

    async def main() -> ModelCallError:
        async with opened() as wire:
            CALL.set(CallContext("agent", 0, Deadline(0.1), Meter()))
            with pytest.raises(ModelCallError) as caught:
                await Embedder(openai_plan(models), wire).embed(["plums"])
            return caught.value

    assert asyncio.run(main()).code == "timeout"
    models.release()


# -- answers that are none


def _data(*vectors: Any) -> dict[str, Any]:
    return {"data": [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "it holds no list `data`"),
        ({"data": "x"}, "it holds no list `data`"),
        (_data([1.0]), "it holds 1 vectors for 2 texts"),
        (_data([1.0], [1.0], [1.0]), "it holds 3 vectors for 2 texts"),
        ({"data": [{"index": 0, "embedding": [1.0]}] * 2}, "data[1].index is missing, duplicate or out of range"),
        ({"data": [{"index": 2, "embedding": [1.0]}] * 2}, "data[0].index is missing, duplicate or out of range"),
        ({"data": [None, None]}, "data[0].index is missing, duplicate or out of range"),
        (_data([1.0], []), "data[1].embedding is not a list of numbers"),
        (_data([1.0], ["1"]), "data[1].embedding is not a list of numbers"),
        (_data([1.0], [True]), "data[1].embedding is not a list of numbers"),
        (_data([1.0], [1.0, 2.0]), "its vectors differ in length"),
        (_data([1.0, 0.0], [0.0, 0.0]), "a vector is zero"),
        (_data([1.0, 0.0], [float("nan"), 0.0]), "a vector holds a number that is not finite"),
        (_data([1.0, 0.0], [float("inf"), 0.0]), "a vector holds a number that is not finite"),
        (_data([1.0, 0.0], [10**400, 0.0]), "a vector holds a number that is too large"),
    ],
)
def test_a_broken_answer_is_an_error(models: FakeModels, body: Any, told: str) -> None:
    models.fail(Fault(status=200, body=json.dumps(body), headers={"content-type": "application/json"}))
    error = failure(openai_plan(models), "a", "b")
    assert error.code == "bad_reply"
    assert told in error.message
    assert "OpenAI model text-embedding-3-small gave a broken answer" in error.message


def test_a_length_that_changes_is_an_error(models: FakeModels) -> None:
    models.answer(lambda request: Answer(vectors=((1.0,) * (2 + (request.inputs == ("b",))),)))

    async def main() -> None:
        async with opened() as wire:
            embedder = Embedder(openai_plan(models), wire)
            await embedder.embed(["a"])
            with pytest.raises(ModelCallError, match="a vector has 3 numbers, earlier ones have 2"):
                await embedder.embed(["b"])

    asyncio.run(main())


@pytest.mark.parametrize(
    ("fault", "code", "told"),
    [
        (Fault(error="bad_key"), "authentication", "refused the key (status 401); check OPENAI_API_KEY"),
        (Fault(error="unknown_model"), "model_not_found", "is unknown or not accessible at"),
        (Fault(error="quota"), "quota", "no quota or credit left"),
        (Fault(error="rate_limit"), "rate_limited", "because of its rate limit"),
        (Fault(error="context_length"), "context_length", "longer than"),
        (Fault(error="bad_request"), "bad_request", "refused the request"),
        (Fault(error="server_error"), "server_error", "failed (status 500)"),
        (Fault(error="unavailable"), "overloaded", "overloaded or not available"),
        (Fault(error="bad_gateway"), "server_error", "an HTML page"),
        (Fault(status=301), "http_status", "answered with status 301"),
        (Fault(wire="reset"), "disconnected", "closed the connection early"),
        (Fault(wire="malformed"), "malformed", "not in the expected JSON form"),
    ],
)
def test_refusals_in_the_words_of_a_chat(models: FakeModels, fault: Fault, code: str, told: str) -> None:
    models.fail(fault)
    error = failure(openai_plan(models), "a", "b")
    assert (error.code, KEY in error.message) == (code, False)
    assert told in error.message


def test_refused_dimensions_name_the_field(models: FakeModels) -> None:
    body = {"error": {"message": "This model does not support specifying dimensions.", "type": "invalid_request_error"}}
    models.fail(Fault(status=400, body=body))
    error = failure(openai_plan(models, dimensions=8), "a")
    assert error.message.endswith("; remove embedding_dimensions to get vectors of the model's default length")


def test_a_blank_text_is_not_sent(models: FakeModels) -> None:
    assert failure(openai_plan(models), " \n").code == "bad_request"
    assert models.requests == []


def test_one_failed_batch_ends_the_others(models: FakeModels) -> None:
    failing: Callable[[Request], bool] = lambda request: "text 0" in request.inputs  # noqa: E731
    models.fail(Fault(error="quota", about=failing))
    assert failure(openai_plan(models), *(f"text {number}" for number in range(400))).code == "quota"


# -- the same on every processor


def test_vectors_do_not_depend_on_the_order_of_sums(models: FakeModels) -> None:
    """Lengths are made of whole numbers that a float64 adds exactly: held against whole-number arithmetic."""
    numbers = [((number * 7919) % 1009 - 504) / 977 for number in range(1536)]
    models.answer(lambda _: Answer(vectors=(tuple(numbers),)))
    row = embed(openai_plan(models), "a")[0]
    largest = max(map(abs, numbers))
    steps = [round(number / largest * 2**19) for number in numbers]
    length = math.sqrt(sum(step * step for step in steps))
    assert row.tolist() == [float(np.float32(step / length)) for step in steps]
