"""The whole chain against real HTTP: clients of providers, accounts, meters, de-duplication, cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

import anthropic
import httpx2
import openai
import pytest
from anthropic.types import MessageParam

from holodeck_action.llm.calls import CALL, CallContext, Meter, Tokens, WireError, wire_error
from holodeck_action.llm.wire import WireSettings, _proxy
from holodeck_action.results.record import Usage
from tests.llm.models import Answer, FakeModels, Fault
from tests.llm.wiring import KEY, account, chat, opened, post, run, said


def test_a_call_passes_and_is_metered() -> None:
    async def work() -> None:
        with FakeModels(keys=[KEY]) as models:
            models.answer(lambda _: Answer("Paris", prompt_tokens=11, completion_tokens=2, cached_tokens=4))
            meter = Meter()
            async with opened(price=lambda who, model, tokens: 0.5 if model.startswith("gpt-4o") else None) as wire:
                response = await post(wire, account(models.openai_url), chat(), meter=meter)
            assert said(response) == "Paris"
            (record,) = meter.records
            assert (record.provider, record.status, record.cached, record.attempts) == ("openai", 200, False, 1)
            assert record.model.startswith("gpt-4o")
            assert record.tokens == Tokens(11, 2, 4)
            assert record.latency_s > 0
            assert meter.usage() == Usage(11, 2, 0.5)
            assert wire.counts.requests == wire.counts.calls == 1
            assert models.violations == []

    run(work)


def test_usage_that_one_call_does_not_say_is_unknown() -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.script([Answer("a"), Answer("b", usage=False)])
            meter = Meter()
            async with opened() as wire:
                for text in ("1", "2"):
                    await post(wire, account(models.openai_url), chat(text), meter=meter)
            assert meter.usage() == Usage(None, None, None)
            assert Meter().usage() is None

    run(work)


@pytest.mark.parametrize("stream", [False, True])
def test_anthropic_client_reads_its_answer_through_the_chain(stream: bool) -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.answer(lambda _: Answer("Salut", prompt_tokens=9, completion_tokens=3))
            meter = Meter()
            CALL.set(CallContext("agent", 0, None, meter))
            async with opened() as wire:
                client = anthropic.AsyncAnthropic(
                    api_key=KEY,
                    base_url=models.anthropic_url,
                    max_retries=0,
                    http_client=wire.client(account(models.anthropic_url, "anthropic")),
                )
                messages: list[MessageParam] = [{"role": "user", "content": "Hi"}]
                if stream:
                    async with client.messages.stream(model="claude-test-1", max_tokens=9, messages=messages) as events:
                        text = await events.get_final_text()
                else:
                    message = await client.messages.create(model="claude-test-1", max_tokens=9, messages=messages)
                    block = message.content[0]
                    assert block.type == "text"
                    text = block.text
            assert text == "Salut"
            assert meter.records[0].tokens.prompt == 9
            assert meter.records[0].tokens.completion == 3
            assert models.violations == []

    run(work)


def test_openai_client_streams_and_raises_its_own_errors() -> None:
    async def work() -> None:
        with FakeModels() as models:
            who = account(models.openai_url)
            async with opened() as wire:
                client = openai.AsyncOpenAI(
                    api_key=KEY, base_url=models.openai_url, max_retries=0, http_client=wire.client(who)
                )
                models.answer(lambda _: Answer("one two three"))
                stream = await client.chat.completions.create(
                    model="gpt-4o", messages=[{"role": "user", "content": "count"}], stream=True
                )
                parts = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
                assert "".join(parts) == "one two three"
                models.fail(Fault("context_length"))
                with pytest.raises(openai.BadRequestError, match="context"):
                    await client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "x"}])

    run(work)


@pytest.mark.parametrize("library", ["openai", "anthropic"])
def test_a_wire_error_is_found_behind_the_error_of_a_client(library: str) -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.fail(Fault(wire="reset", times=None))
            url = models.openai_url if library == "openai" else models.anthropic_url
            async with opened(WireSettings(max_retries=1)) as wire:
                http = wire.client(account(url, library))
                asking: Awaitable[object]
                if library == "openai":
                    gpt = openai.AsyncOpenAI(api_key=KEY, base_url=url, max_retries=0, http_client=http)
                    asking = gpt.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "x"}])
                else:
                    claude = anthropic.AsyncAnthropic(api_key=KEY, base_url=url, max_retries=0, http_client=http)
                    asking = claude.messages.create(
                        model="claude-test-1", max_tokens=9, messages=[{"role": "user", "content": "x"}]
                    )
                with pytest.raises((WireError, openai.APIConnectionError, anthropic.APIConnectionError)) as caught:
                    await asking
            error = wire_error(caught.value)
            assert error is not None
            assert error.code == "disconnected"
            assert len(models.requests) == 2

    run(work)


def test_one_client_and_its_connections_are_kept_per_account() -> None:
    async def work() -> None:
        with FakeModels() as models:
            async with opened() as wire:
                one, two = account(models.openai_url), account(models.openai_url, key="sk-other")
                assert wire.client(one) is wire.client(account(models.openai_url))
                assert wire.client(one) is not wire.client(two)
                for index in range(5):
                    await post(wire, one, chat(str(index)))
                assert models.connections == 1

    run(work)


def test_calls_at_once_have_a_connection_each_and_those_after_them_take_it_over() -> None:
    async def work() -> None:
        with FakeModels(latency=0.05) as models:
            models.fail(Fault(wire="reset"))
            async with opened(WireSettings(max_in_flight=5)) as wire:
                who = account(models.openai_url)
                jobs = [asyncio.create_task(post(wire, who, chat(str(index)))) for index in range(40)]
                await asyncio.sleep(0.03)
                jobs[3].cancel()
                done = await asyncio.gather(*jobs, return_exceptions=True)
            assert [isinstance(each, asyncio.CancelledError) for each in done].count(True) == 1
            # One was broken off, one was given up.
            assert models.connections <= 5 + 2

    run(work)


def test_the_key_stands_in_no_text() -> None:
    who = account("https://api.openai.com/v1")
    assert KEY not in repr(who)


def test_equal_calls_that_meet_are_made_once_and_say_so() -> None:
    async def work() -> None:
        with FakeModels(latency=0.1) as models:
            async with opened() as wire:
                who = account(models.openai_url)
                meters = [Meter() for _ in range(6)]
                jobs = [
                    asyncio.create_task(post(wire, who, chat("same"), repeat=index % 2, meter=meters[index]))
                    for index in range(6)
                ]
                answers = [said(response) for response in await asyncio.gather(*jobs)]
            assert len(set(answers)) == 1
            assert len(models.requests) == 2  # one for each repeat
            assert sorted(meter.records[0].cached for meter in meters) == [False] * 2 + [True] * 4

    run(work)


def test_a_call_is_taken_over_when_the_first_is_cancelled() -> None:
    async def work() -> None:
        with FakeModels(latency=0.1) as models:
            async with opened() as wire:
                who = account(models.openai_url)
                first = asyncio.create_task(post(wire, who, chat("same")))
                await asyncio.sleep(0.02)
                second = asyncio.create_task(post(wire, who, chat("same")))
                await asyncio.sleep(0.02)
                first.cancel()
                assert (await second).status_code == 200
                assert first.cancelled()

    run(work)


def test_who_has_more_time_does_not_share_the_failure_of_who_had_less() -> None:
    async def work() -> None:
        with FakeModels(latency=0.12) as models:
            async with opened() as wire:
                who = account(models.openai_url)
                first = asyncio.create_task(post(wire, who, chat("same"), within=0.06))
                await asyncio.sleep(0.02)
                second = asyncio.create_task(post(wire, who, chat("same"), within=30))
                with pytest.raises(WireError) as caught:
                    await first
                assert caught.value.code == "timeout"
                assert (await second).status_code == 200

    run(work)


def test_a_failed_call_is_metered_with_its_code() -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.fail(Fault(wire="reset", times=None))
            meter = Meter()
            async with opened(WireSettings(max_retries=2)) as wire:
                with pytest.raises(WireError):
                    await post(wire, account(models.openai_url), chat(), meter=meter)
            (record,) = meter.records
            assert (record.status, record.error, record.attempts, record.cost_usd) == (None, "disconnected", 3, None)
            assert wire.counts.failed == 1

    run(work)


def test_proxies_are_used_but_never_for_loopback() -> None:
    proxies = {"https": "http://proxy:3128", "no": "internal.example"}
    assert _proxy("https://api.openai.com/v1", proxies) == "http://proxy:3128"
    assert _proxy("https://internal.example/v1", proxies) is None
    assert _proxy("http://127.0.0.1:9/v1", {"http": "http://proxy:3128"}) is None
    assert _proxy("http://llm/v1", {"all": "http://proxy:1"}) == "http://proxy:1"


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="folder"):
        WireSettings(mode="replay")
    with pytest.raises(ValueError, match="max_in_flight"):
        WireSettings(max_in_flight=0)


def test_the_chain_costs_less_than_a_third_of_a_millisecond() -> None:
    body = b'{"model":"m","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}'

    class Instant(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(200, headers={"content-type": "application/json"}, content=body)

    async def work() -> None:
        async with opened(network=Instant()) as wire, httpx2.AsyncClient(transport=Instant(), trust_env=False) as bare:
            who = account("http://127.0.0.1:1/v1")

            async def cost(client: httpx2.AsyncClient) -> float:
                started = time.process_time()
                for index in range(300):
                    await client.post("http://127.0.0.1:1/v1/chat/completions", json=chat(f"{index} " * 200))
                return (time.process_time() - started) / 300

            await cost(wire.client(who))
            differences = [await cost(wire.client(who)) - await cost(bare) for _ in range(5)]
            print(f"{min(differences) * 1000:.3f} ms")
            assert min(differences) < 0.3e-3

    run(work)
