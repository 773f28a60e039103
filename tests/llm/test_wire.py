"""The whole chain: clients of providers, accounts, meters, de-duplication, cost."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from holodeck_action.llm.calls import Account, Meter, Tokens, WireError
from holodeck_action.llm.connections import Routes
from holodeck_action.llm.wire import WireSettings
from holodeck_action.record.record import Usage
from tests.llm.ahead import LATENCY_S, Service, run_ahead, wire_ahead
from tests.llm.models import KEY, Answer, FakeModels, Fault
from tests.llm.wiring import account, chat, opened, post, run, said


def test_a_call_passes_and_is_metered() -> None:
    models = FakeModels(keys=[KEY], latency=2.0)
    models.answer(lambda _: Answer("Paris", prompt_tokens=11, completion_tokens=2, cached_tokens=4))

    def price(who: Account, model: str, tokens: Tokens) -> float | None:
        return 0.5 if model.startswith("gpt-4o") else None

    async def work() -> None:
        meter = Meter()
        async with opened(models=models, price=price) as wire:
            response = await post(wire, account(models.openai_url), chat(), meter=meter)
        assert said(response) == "Paris"
        (record,) = meter.records
        assert (record.provider, record.status, record.cached, record.attempts) == ("openai", 200, False, 1)
        assert record.model.startswith("gpt-4o")
        assert record.tokens == Tokens(11, 2, 4, 0)
        assert record.latency_s == 2.0
        assert meter.usage() == Usage(11, 2, 0.5)
        assert wire.counts.requests == wire.counts.calls == 1

    run_ahead(work)
    assert models.violations == []


def test_usage_that_one_call_does_not_say_is_unknown() -> None:
    models = FakeModels()
    models.script([Answer("a"), Answer("b", usage=False)])

    async def work() -> None:
        meter = Meter()
        async with opened(models=models) as wire:
            for text in ("1", "2"):
                await post(wire, account(models.openai_url), chat(text), meter=meter)
        assert meter.usage() == Usage(None, None, None)
        assert Meter().usage() is None

    run_ahead(work)


def test_connections_are_kept_per_account() -> None:
    async def work() -> None:
        with FakeModels() as models:
            async with opened() as wire:
                for index in range(5):
                    await post(wire, account(models.openai_url), chat(str(index)))
                assert models.connections == 1
                await post(wire, account(models.openai_url, key="sk-other"), chat("5"))
                assert models.connections == 2

    run(work)


def test_calls_at_once_have_a_connection_each_and_those_after_them_take_it_over() -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.hold()
            models.fail(Fault(wire="reset"))
            async with opened(WireSettings(max_in_flight=5)) as wire:
                who = account(models.openai_url)
                jobs = [asyncio.create_task(post(wire, who, chat(str(index)))) for index in range(40)]
                await asyncio.to_thread(models.wait_for, lambda seen: seen.under_way == 5)
                jobs[3].cancel()
                models.release()
                done = await asyncio.gather(*jobs, return_exceptions=True)
            assert [isinstance(each, asyncio.CancelledError) for each in done].count(True) == 1
            # One was broken off, one was given up.
            assert models.connections <= 5 + 2

    run(work)


def test_the_key_stands_in_no_text() -> None:
    who = account("https://api.openai.com/v1")
    assert KEY not in repr(who)


def test_equal_calls_that_meet_are_made_once_and_say_so() -> None:
    models = FakeModels(latency=LATENCY_S)
    meters = [Meter() for _ in range(6)]

    async def work() -> None:
        async with opened(models=models) as wire:
            who = account(models.openai_url)
            answers = await asyncio.gather(
                *(post(wire, who, chat("same"), repeat=index % 2, meter=meters[index]) for index in range(6))
            )
        assert len({said(answer) for answer in answers}) == 1

    run_ahead(work)
    assert len(models.requests) == models.peak == 2  # one for each repeat
    assert sorted(meter.records[0].cached for meter in meters) == [False] * 2 + [True] * 4


def test_a_call_is_taken_over_when_the_first_is_cancelled() -> None:
    service = Service(lambda service, text, now: None)

    async def work() -> None:
        wire, who = wire_ahead(service, 5), account("http://models")
        first = asyncio.create_task(post(wire, who, chat("same")))
        await asyncio.sleep(LATENCY_S / 4)
        second = asyncio.create_task(post(wire, who, chat("same")))
        await asyncio.sleep(LATENCY_S / 4)
        first.cancel()
        assert (await second).status_code == 200
        assert first.cancelled()
        assert service.requests == 2
        await wire.close()

    run_ahead(work)


class CutOff(Service):
    """A service whose first answer does not arrive."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if self.statuses.total() == 1:
            raise httpx2.ReadError("cut off")
        return response


@pytest.mark.parametrize(
    ("kind", "within", "code"), [(Service, LATENCY_S / 2, "timeout"), (CutOff, LATENCY_S * 1.1, "disconnected")]
)
def test_who_has_more_time_does_not_share_the_failure_of_who_had_less(
    kind: type[Service], within: float, code: str
) -> None:
    service = kind(lambda service, text, now: None)

    async def work() -> None:
        wire, who = wire_ahead(service, 5), account("http://models")
        first = asyncio.create_task(post(wire, who, chat("same"), within=within))
        await asyncio.sleep(LATENCY_S / 4)
        second = asyncio.create_task(post(wire, who, chat("same"), within=30))
        with pytest.raises(WireError) as caught:
            await first
        assert caught.value.code == code
        assert (await second).status_code == 200
        assert service.requests == 2
        await wire.close()

    run_ahead(work)


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
    routes = Routes({"https": "http://proxy:3128", "no": "internal.example"})
    assert routes.proxy("https://api.openai.com/v1") == "http://proxy:3128"
    assert routes.proxy("https://internal.example/v1") is None
    assert Routes({"http": "http://proxy:3128"}).proxy("http://127.0.0.1:9/v1") is None
    assert Routes({"all": "http://proxy:1"}).proxy("http://llm/v1") == "http://proxy:1"


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="folder"):
        WireSettings(mode="replay")
    with pytest.raises(ValueError, match="max_in_flight"):
        WireSettings(max_in_flight=0)
