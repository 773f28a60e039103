"""Another try: for what, when, how often, until when; in time that runs ahead. Connections break on sockets."""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.llm.calls import Answer as WireAnswer
from holodeck_action.llm.calls import Meter, WireError
from holodeck_action.llm.limits.window import FIRST_BACKOFF_S, MAX_BACKOFF_S
from holodeck_action.llm.outcomes import parse, retry_after
from holodeck_action.llm.retries import refusal_wait
from holodeck_action.llm.wire import Wire, WireSettings
from tests.llm.ahead import STARTED_AT, run_ahead
from tests.llm.models import KEY, Answer, FakeModels, Fault
from tests.llm.models.values import ErrorKind
from tests.llm.wiring import account, chat, opened, post, run, said
from tests.tables import walk


def _highest(low: float, high: float) -> float:
    return high


def _lowest(low: float, high: float) -> float:
    return low


def _waits(models: FakeModels) -> list[float]:
    """Return the seconds between each request and the one before."""
    return [later.time - earlier.time for earlier, later in pairwise(models.requests)]


async def _answered_at_last(
    fault: Fault, stream: bool, models: FakeModels, opening: AbstractAsyncContextManager[Wire]
) -> None:
    models.answer(lambda _: Answer("at last"))
    models.fail(fault)
    meter = Meter()
    async with opening as wire:
        response = await post(wire, account(models.openai_url), chat(stream=stream), meter=meter)
    assert response.status_code == 200
    assert b"last" in response.content
    assert len(models.requests) == 2
    assert meter.records[0].attempts == 2


@walk(
    "fault",
    [
        Fault("rate_limit"),
        Fault("server_error"),
        Fault("bad_gateway"),
        Fault("unavailable"),
        Fault(status=408),
        Fault(status=409),
        Fault(status=529),
        Fault(wire="malformed"),
    ],
)
@walk("stream", [False, True])
def test_passing_trouble_is_tried_again(fault: Fault, stream: bool) -> None:
    models = FakeModels()
    run_ahead(lambda: _answered_at_last(fault, stream, models, opened(models=models)))


@walk("fault", [Fault(wire="reset"), Fault(wire="close"), Fault(wire="truncate")])
@walk("stream", [False, True])
def test_a_call_whose_connection_breaks_is_tried_again(fault: Fault, stream: bool) -> None:
    with FakeModels() as models:
        run(lambda: _answered_at_last(fault, stream, models, opened()))


@walk("kind", ["bad_key", "forbidden", "unknown_model", "context_length", "content_filter", "bad_request", "quota"])
def test_what_another_try_cannot_help_is_handed_out_at_once(kind: ErrorKind) -> None:
    models = FakeModels()
    models.fail(Fault(kind, times=None))

    async def work() -> None:
        async with opened(models=models) as wire:
            response = await post(wire, account(models.openai_url), chat())
        assert 400 <= response.status_code < 500
        assert response.json()["error"]["message"]

    _, passed = run_ahead(work)
    assert len(models.requests) == 1
    assert passed == 0


def test_the_provider_decides_where_it_says_so() -> None:
    models = FakeModels()

    async def work() -> None:
        async with opened(WireSettings(max_retries=2), models=models) as wire:
            models.fail(Fault(status=503, headers={"x-should-retry": "false"}))
            assert (await post(wire, account(models.openai_url), chat("a"))).status_code == 503
            models.fail(Fault(status=400, headers={"x-should-retry": "true"}))
            assert (await post(wire, account(models.openai_url), chat("b"))).status_code == 200

    run_ahead(work)
    assert len(models.requests) == 3


def test_the_last_answer_is_handed_out_as_it_is_and_waits_grow() -> None:
    models = FakeModels()
    models.fail(Fault("server_error", times=None))

    async def work() -> None:
        async with opened(WireSettings(max_retries=3), models=models, uniform=_highest) as wire:
            response = await post(wire, account(models.openai_url), chat())
        assert response.status_code == 500
        assert response.json()["error"]

    run_ahead(work)
    assert _waits(models) == pytest.approx([FIRST_BACKOFF_S, 2 * FIRST_BACKOFF_S, 4 * FIRST_BACKOFF_S])


@pytest.mark.parametrize(
    ("fault", "asked"),
    [
        (Fault("rate_limit", retry_after="7"), 7),
        (Fault("rate_limit", retry_after=format_datetime(STARTED_AT + timedelta(seconds=9), usegmt=True)), 9),
        (Fault("rate_limit", retry_after_ms="7500", retry_after="60"), 7.5),
    ],
    ids=["seconds", "date", "ms"],
)
def test_the_wait_that_is_asked_for_is_kept(fault: Fault, asked: float) -> None:
    models = FakeModels()
    models.fail(fault)

    async def work() -> None:
        async with opened(models=models, uniform=_lowest) as wire:
            assert (await post(wire, account(models.openai_url), chat())).status_code == 200

    run_ahead(work)
    assert _waits(models) == [pytest.approx(asked)]


def test_a_wait_that_is_beyond_belief_is_backed_off_from() -> None:
    past = format_datetime(STARTED_AT - timedelta(seconds=90), usegmt=True)
    models = FakeModels()

    async def work() -> None:
        async with opened(models=models, uniform=_highest) as wire:
            for asked in ("7200", "1e9", "-1", "nan", "inf", past, "soon", ""):
                models.fail(Fault("rate_limit", retry_after=asked))
                assert (await post(wire, account(models.openai_url), chat(asked))).status_code == 200

    run_ahead(work)
    assert _waits(models)[::2] == pytest.approx([FIRST_BACKOFF_S] * 8)


def test_waiting_for_a_rate_limit_is_charged_to_nobody() -> None:
    models = FakeModels()
    models.fail(Fault("rate_limit", retry_after="70"))

    async def work() -> None:
        async with opened(models=models, uniform=_lowest) as wire:
            assert (await post(wire, account(models.openai_url), chat("a"), within=60)).status_code == 200

    run_ahead(work)
    assert _waits(models) == [pytest.approx(70)]


def test_waiting_for_other_trouble_is_charged() -> None:
    models = FakeModels()
    models.fail(Fault("server_error", retry_after="100", times=None))

    async def work() -> None:
        async with opened(models=models) as wire:
            assert (await post(wire, account(models.openai_url), chat("a"), within=60)).status_code == 500

    _, passed = run_ahead(work)
    assert len(models.requests) == 1
    assert passed == 0


@pytest.mark.parametrize(
    ("asked", "longest", "requests"), [("120", 300, 3), ("70", 300, 4), (None, 300, 20), ("1", 0, 1)]
)
def test_a_call_that_is_refused_for_ever_ends(asked: str | None, longest: float, requests: int) -> None:
    models = FakeModels()
    models.fail(Fault("rate_limit", retry_after=asked, times=None))

    async def work() -> None:
        async with opened(WireSettings(rate_limit_wait_s=longest), models=models, uniform=_highest) as wire:
            assert (await post(wire, account(models.openai_url), chat())).status_code == 429

    _, passed = run_ahead(work)
    assert passed <= longest
    assert len(models.requests) == requests


@given(st.integers(1, 40), st.none() | st.floats(0, 120), st.floats(0, 1))
def test_the_wait_after_a_refusal_is_at_least_what_is_asked_and_grows(
    refusals: int, asked: float | None, chance: float
) -> None:
    def uniform(low: float, high: float) -> float:
        return low + chance * (high - low)

    wait = refusal_wait(refusals, asked, uniform)
    assert (asked or 0.0) <= wait <= 1.1 * (asked or 0.0) + 0.05 + MAX_BACKOFF_S
    assert wait <= refusal_wait(refusals + 1, asked, uniform)


def test_a_call_that_hangs_ends_at_its_deadline() -> None:
    models = FakeModels()
    models.fail(Fault(wire="stall", times=None))

    async def work() -> None:
        async with opened(models=models) as wire:
            with pytest.raises(WireError) as caught:
                await post(wire, account(models.openai_url), chat(), within=60)
        assert caught.value.code == "timeout"

    _, passed = run_ahead(work)
    assert passed == 60


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault(wire="malformed", times=None), "malformed"),
        (Fault(wire="truncate", times=None), "disconnected"),
        (Fault(wire="reset", times=None), "disconnected"),
    ],
)
def test_trouble_that_stays_has_a_code_and_a_sentence_without_secrets(fault: Fault, code: str) -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.fail(fault)
            async with opened(WireSettings(max_retries=1)) as wire:
                with pytest.raises(WireError) as caught:
                    await post(wire, account(models.openai_url), chat())
            assert caught.value.code == code
            assert caught.value.message.startswith("openai (127.0.0.1:")
            assert KEY not in caught.value.message
            assert len(models.requests) == 2

    run(work)


def test_user_and_password_of_an_address_are_not_shown() -> None:
    assert account("https://me:hunter22@models.example:8443/v1?key=1").label == "openai (models.example:8443)"


def test_nobody_listening_is_said() -> None:
    async def work() -> None:
        async with opened(WireSettings(max_retries=1)) as wire:
            with pytest.raises(WireError) as caught:
                await post(wire, account("http://127.0.0.1:1/v1"), chat())
            assert caught.value.code == "connect"

    run(work)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_an_error_inside_a_stream_is_tried_again(provider: str) -> None:
    models = FakeModels()
    models.answer(lambda _: Answer("at last"))
    models.fail(Fault("overloaded", streamed=True))

    async def work() -> None:
        async with opened(models=models) as wire:
            if provider == "openai":
                await post(wire, account(models.openai_url), chat(stream=True))
            else:
                who = account(models.anthropic_url, "anthropic")
                body = {**chat(stream=True), "model": "claude-test-1", "max_tokens": 5}
                assert b"message_stop" in (await post(wire, who, body, path="/v1/messages")).content

    run_ahead(work)
    assert len(models.requests) == 2


def test_a_storm_of_faults_loses_no_call() -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.answer(lambda request: request.text)
            for fault in ("rate_limit", "server_error", "bad_gateway"):
                models.fail(Fault(fault, times=15))
            models.fail(*(Fault(wire=kind, times=5) for kind in ("reset", "truncate", "malformed")))
            async with opened(WireSettings(max_retries=60)) as wire:
                who = account(models.openai_url)
                texts = [f"case {index}" for index in range(100)]
                answers = await asyncio.gather(*(post(wire, who, chat(text)) for text in texts))
            assert [said(answer) for answer in answers] == texts
            assert len(models.requests) == 160

    run(work)


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_header_of_a_provider_breaks_the_wait(seconds: str, ms: str) -> None:
    answer = WireAnswer(429, (("retry-after", seconds), ("retry-after-ms", ms)), b"", None, 0.0)
    wait = retry_after(answer, datetime(2026, 1, 1, tzinfo=UTC))
    assert wait is None or 0 <= wait < float("inf")


@given(st.binary(max_size=200), st.sampled_from(["application/json", "text/event-stream", "application/x-ndjson"]))
def test_any_body_is_read_or_refused(body: bytes, kind: str) -> None:
    with suppress(ValueError):
        parse(kind, body)


@pytest.mark.parametrize("body", [b'{"errors": [{"message": "no"}]}', b'[{"errors": [{"message": "no"}]}]', b"7"])
def test_whole_json_of_another_shape_is_not_asked_again(body: bytes) -> None:
    models = FakeModels()
    models.fail(Fault(status=200, body=body, headers={"content-type": "application/json"}, times=None))

    async def work() -> None:
        async with opened(models=models) as wire:
            assert (await post(wire, account(models.openai_url), chat())).json() == json.loads(body)

    run_ahead(work)
    assert len(models.requests) == 1
