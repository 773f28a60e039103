"""What may be spent: reservations on a simulated clock, and calls against real HTTP."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holodeck_action.llm.calls import Account, Call, CallContext, HttpRequest, Kind, Meter, Tokens, WireError
from holodeck_action.llm.limits.budget import (
    BYTES_PER_TOKEN,
    COMPLETION_GUESS,
    IMAGE_TOKENS,
    Amount,
    Budget,
    estimate,
    format_dollars,
    text_tokens,
)
from holodeck_action.llm.wire import WireSettings
from tests.llm.ahead import run_ahead
from tests.llm.models import Answer, FakeModels, Fault
from tests.llm.wiring import account, chat, opened, post, run, said
from tests.tables import walk

# -- reservations


@dataclass(frozen=True)
class Planned:
    """A call: when it comes, what it reserves, what it takes and how long, and when it is given up."""

    at: int
    reserves: int
    takes: int
    seconds: int
    given_up_after: int | None


CALLS = st.lists(
    st.builds(
        lambda at, reserves, share, seconds, end: Planned(at, reserves, reserves * share // 10, seconds, end),
        st.integers(0, 20),
        st.integers(0, 50),
        st.integers(0, 10),
        st.integers(0, 9),
        st.none() | st.integers(0, 12),
    ),
    max_size=25,
)


@pytest.mark.full
@settings(max_examples=300, deadline=None)
@given(CALLS, st.integers(0, 200), st.booleans())
def test_no_order_of_calls_overspends_or_releases_twice(calls: list[Planned], limit: int, in_dollars: bool) -> None:
    scale = 0.001 if in_dollars else 1.0
    budget = Budget(max_cost_usd=limit * scale) if in_dollars else Budget(max_tokens=limit)
    taken: list[int] = []
    told: list[str] = []
    refused: list[tuple[str, bool, str]] = []
    busy_at_refusal: list[int] = []

    def amount(units: int) -> Amount:
        return Amount(units, units * scale)

    async def one(call: Planned) -> None:
        await asyncio.sleep(call.at)
        try:
            await budget.reserve(amount(call.reserves))
        except WireError as error:
            refused.append((error.code, error.retry_worthy, error.message))
            # Nobody is refused while a call under way could leave more.
            busy_at_refusal.append(budget.reserved_amount.tokens)
            return
        used = None
        try:
            await asyncio.sleep(call.seconds)
            used = amount(call.takes)
            taken.append(call.takes)
        finally:
            held = budget.reserved_amount.tokens + budget.spent_amount.tokens
            assert held <= limit
            budget.replace_reservation(amount(call.reserves), used)

    async def work() -> None:
        with budget.notify_refusal(told.append):
            tasks = [asyncio.create_task(one(call)) for call in calls]
            for call, task in zip(calls, tasks, strict=True):
                if call.given_up_after is not None:
                    asyncio.get_running_loop().call_later(call.at + call.given_up_after, task.cancel)
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert [end for end in ended if end is not None and not isinstance(end, asyncio.CancelledError)] == []

    run_ahead(work)
    assert budget.reserved_amount == Amount(0)
    assert budget.spent_amount.tokens == sum(taken) <= limit
    assert math.isclose(budget.spent_amount.cost_usd, sum(taken) * scale, abs_tol=1e-9)
    assert told == ([] if budget.refusal is None else [budget.refusal])
    assert {*refused} <= {("budget_exhausted", False, budget.refusal)}
    assert {*busy_at_refusal} <= {0}
    # Everything that fits together is made.
    if sum(call.reserves for call in calls) <= limit:
        assert refused == []


def test_who_waits_gets_what_those_under_way_leave() -> None:
    async def work() -> None:
        budget = Budget(max_tokens=100)
        await budget.reserve(Amount(80))
        waiting = asyncio.create_task(budget.reserve(Amount(60)))
        behind = asyncio.create_task(budget.reserve(Amount(10)))
        await asyncio.sleep(1)
        # First come, first served: a small call does not pass a large one for ever.
        assert (waiting.done(), behind.done()) == (False, False)
        budget.replace_reservation(Amount(80), Amount(20))
        await asyncio.gather(waiting, behind)
        assert budget.reserved_amount == Amount(70)
        for amount in (Amount(60), Amount(10)):
            budget.replace_reservation(amount, None)
        with pytest.raises(ValueError, match="not in list"):
            budget.replace_reservation(Amount(60), None)
        assert (budget.spent_amount, budget.refusal) == (Amount(20), None)

    run_ahead(work)


def test_who_waits_is_refused_when_those_under_way_leave_too_little() -> None:
    async def work() -> None:
        budget = Budget(max_cost_usd=0.5)
        await budget.reserve(Amount(9, 0.4))
        waiting = [asyncio.create_task(budget.reserve(Amount(9, cost))) for cost in (0.3, 0.01)]
        await asyncio.sleep(1)
        budget.replace_reservation(Amount(9, 0.4), Amount(9, 0.3987))
        errors = await asyncio.gather(*waiting, return_exceptions=True)
        sentence = "the budget of $0.50 is used up: $0.3987 of it spent in 1 call, and the next call may cost $0.30"
        assert [str(error) for error in errors] == [sentence] * 2
        with pytest.raises(WireError, match="is used up"):
            await budget.reserve(Amount(0))

    run_ahead(work)


def test_who_gives_up_lets_the_next_one_go() -> None:
    async def work() -> None:
        budget = Budget(max_tokens=100)
        await budget.reserve(Amount(60))
        large = asyncio.create_task(budget.reserve(Amount(90)))
        small = asyncio.create_task(budget.reserve(Amount(40)))
        await asyncio.sleep(1)
        large.cancel()
        await small
        assert budget.reserved_amount == Amount(100)

    run_ahead(work)


def test_a_ticket_given_to_someone_who_is_cancelled_at_that_moment_comes_back() -> None:
    async def work() -> None:
        budget = Budget(max_tokens=100)
        await budget.reserve(Amount(90))
        waiting = asyncio.create_task(budget.reserve(Amount(50)))
        await asyncio.sleep(1)
        budget.replace_reservation(Amount(90), None)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert budget.reserved_amount == Amount(0)

    run_ahead(work)


@walk(
    ("value", "text"),
    [
        (0.5, "$0.50"),
        (0.4987, "$0.4987"),
        (0.0, "$0.00"),
        (12, "$12.00"),
        (0.000031, "$0.000031"),
        (1234.5, "$1,234.50"),
    ],
)
def test_dollars(value: float, text: str) -> None:
    assert format_dollars(value) == text


# -- estimates


def _call(document: Any, kind: Kind = "agent", provider: str = "openai") -> Call:
    url, content = "https://models.example/v1", json.dumps(document).encode()
    request = HttpRequest(f"{url}/chat/completions", {}, content, document)
    return Call(Account(provider, url, "k"), request, CallContext(kind, 0, None, Meter()))


def sent(document: dict[str, Any]) -> int:
    """The tokens that `post` reserves for a document."""
    return math.ceil(len(json.dumps(document)) / BYTES_PER_TOKEN) + int(document["max_tokens"])


def _prompt(document: Any) -> int:
    return math.ceil(len(_call(document).request.content) / BYTES_PER_TOKEN)


@walk(
    ("more", "most"),
    [
        ({}, COMPLETION_GUESS),
        ({"max_tokens": 7}, 7),
        ({"max_completion_tokens": 8}, 8),
        ({"options": {"num_predict": 9}}, 9),
        ({"options": {"num_predict": -1}}, COMPLETION_GUESS),
        ({"max_tokens": None}, COMPLETION_GUESS),
    ],
)
def test_the_answer_counts_for_the_most_it_may_have(more: dict[str, Any], most: int) -> None:
    assert estimate(_call(chat("Hello", **more))) == Tokens(_prompt(chat("Hello", **more)), most)


@walk(("limit", "most"), [(127_999, 127_999), (128_000, COMPLETION_GUESS)])
def test_the_limit_of_the_model_itself_is_none(limit: int, most: int) -> None:
    document = {**chat("Hello", max_tokens=limit), "model": "claude-opus-5"}
    assert estimate(_call(document, provider="anthropic")).completion == most


def test_an_embedding_has_no_answer_to_pay() -> None:
    document = {"model": "text-embedding-3-small", "input": ["a", "b"]}
    assert estimate(_call(document, "embedding")) == Tokens(_prompt(document), 0)


def test_the_prompt_counts_by_its_bytes() -> None:
    assert [text_tokens(text) for text in ("", "a", "abcd", "abcde", "日本")] == [0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 100_000}},
    ],
)
def test_an_image_counts_for_a_flat_number(part: dict[str, Any]) -> None:
    content = [{"type": "text", "text": "What is it?"}, part, part]
    document = {"model": "gpt-4o", "messages": [{"role": "user", "content": content}], "max_tokens": 1}
    found = estimate(_call(document)).prompt
    assert found is not None
    assert 2 * IMAGE_TOKENS < found < 2 * IMAGE_TOKENS + 200


# -- calls


def price(who: Account, model: str, tokens: Tokens) -> float | None:
    """A dollar for a thousand tokens of `gpt-4o…`; other models have no price."""
    if not model.startswith("gpt-4o") or tokens.prompt is None or tokens.completion is None:
        return None
    return (tokens.prompt + tokens.completion) / 1000


def test_many_calls_at_once_never_spend_more_than_the_budget() -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.answer(lambda _: Answer("x", prompt_tokens=30, completion_tokens=20))
            budget = Budget(max_cost_usd=1.0)
            refused = 0
            async with opened(price=price, budgets=[budget]) as wire:
                answers = await asyncio.gather(
                    *(post(wire, account(models.openai_url), chat(str(at), max_tokens=80)) for at in range(60)),
                    return_exceptions=True,
                )
            for answer in answers:
                if isinstance(answer, BaseException):
                    assert isinstance(answer, WireError)
                    assert answer.code == "budget_exhausted"
                    refused += 1
            spent = len(models.requests) * 50 / 1000
            assert math.isclose(budget.spent_amount.cost_usd, spent)
            # What is left is less than what one call reserves.
            assert 1.0 - 0.11 < spent <= 1.0
            assert refused == 60 - len(models.requests)
            assert models.statuses.keys() == {200}

    run(work)


def test_a_budget_in_tokens_needs_no_price() -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.answer(lambda _: Answer("x", prompt_tokens=30, completion_tokens=20))
            budget = Budget(max_tokens=160)
            async with opened(budgets=[budget]) as wire:
                for at in range(2):
                    await post(wire, account(models.openai_url), chat(str(at), max_tokens=50))
                with pytest.raises(WireError) as refused:
                    await post(wire, account(models.openai_url), chat("2", max_tokens=50))
            assert refused.value.message == (
                "the budget of 160 tokens is used up: 100 of them in 2 calls, and the next call may use "
                f"{sent(chat('2', max_tokens=50))}"
            )
            assert len(models.requests) == 2

    run(work)


def test_what_is_kept_or_shared_costs_nothing(tmp_path: Any) -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.answer(lambda _: Answer("x", prompt_tokens=30, completion_tokens=20))
            models.hold()
            asked = chat("same", max_tokens=50)
            budget = Budget(max_tokens=100)
            async with opened(WireSettings(cache=tmp_path), budgets=[budget]) as wire:
                who = account(models.openai_url)
                meeting = asyncio.gather(*(post(wire, who, asked) for _ in range(5)))
                await asyncio.to_thread(models.wait_for, lambda seen: seen.under_way == 1)
                models.release()
                await meeting
                await post(wire, who, asked)
            assert (budget.spent_amount.tokens, len(models.requests)) == (50, 1)
            nothing = Budget(max_tokens=0)
            async with opened(WireSettings(cache=tmp_path), budgets=[nothing]) as wire:
                assert said(await post(wire, who, asked)) == "x"
                with pytest.raises(WireError, match="is used up"):
                    await post(wire, who, chat("other"))

    run(work)


def test_an_answer_that_does_not_tell_its_tokens_counts_as_its_estimate() -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.answer(lambda _: Answer("x", usage=False))
            budget = Budget(max_cost_usd=1.0)
            document = chat("Hello", max_tokens=50)
            async with opened(price=price, budgets=[budget]) as wire:
                await post(wire, account(models.openai_url), document)
            assert budget.spent_amount.tokens == sent(document)
            assert math.isclose(budget.spent_amount.cost_usd, sent(document) / 1000)

    run(work)


@pytest.mark.parametrize(("fault", "lost"), [(Fault(error="bad_request"), 0), (Fault(wire="malformed"), 1)])
def test_errors_cost_nothing_and_lost_answers_their_estimate(fault: Fault, lost: int) -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.fail(fault)
            models.answer(lambda _: Answer("x", prompt_tokens=30, completion_tokens=20))
            budget = Budget(max_tokens=1000)
            async with opened(budgets=[budget]) as wire:
                await post(wire, account(models.openai_url), chat("Hello", max_tokens=50))
            assert budget.spent_amount.tokens == lost * (sent(chat("Hello", max_tokens=50)) + 50)
            assert budget.reserved_amount == Amount(0)

    run(work)


def test_a_call_that_is_given_up_gives_its_reservation_back() -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.hold()
            budget = Budget(max_tokens=100)
            async with opened(budgets=[budget]) as wire:
                who = account(models.openai_url)
                first = asyncio.create_task(post(wire, who, chat("Hello", max_tokens=50)))
                waiting = asyncio.create_task(post(wire, who, chat("Bye", max_tokens=50)))
                await asyncio.to_thread(models.wait_for, lambda seen: seen.under_way == 1)
                held = sent(chat("Hello", max_tokens=50))
                assert budget.reserved_amount.tokens == held
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
                assert (budget.reserved_amount.tokens, budget.spent_amount.tokens) == (held, 0)
                first.cancel()
                await asyncio.gather(first, return_exceptions=True)
                # The provider may have charged what it was asked and never told.
                assert (budget.reserved_amount.tokens, budget.spent_amount.tokens) == (0, held)
            models.release()

    run(work)


def test_a_call_without_a_price_is_refused_where_dollars_are_counted() -> None:
    async def work() -> None:
        with FakeModels() as models:
            budget = Budget(max_cost_usd=1.0)
            async with opened(price=price, budgets=[budget]) as wire:
                with pytest.raises(WireError) as refused:
                    await post(wire, account(models.openai_url), {**chat(), "model": "mine"})
            assert refused.value.code == "price_unknown"
            assert "the price of openai model mine is unknown" in refused.value.message
            assert (models.requests, budget.refusal) == ([], None)

    run(work)


def test_a_call_needs_room_in_every_budget() -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.answer(lambda _: Answer("x", prompt_tokens=30, completion_tokens=20))
            wide, narrow = Budget(max_tokens=1000), Budget(max_cost_usd=0.08)
            async with opened(price=price, budgets=[wide, narrow]) as wire:
                await post(wire, account(models.openai_url), chat("1", max_tokens=50))
                with pytest.raises(WireError, match=r"the budget of \$0.08 is used up"):
                    await post(wire, account(models.openai_url), chat("2", max_tokens=50))
            assert (wide.reserved_amount.tokens, wide.spent_amount.tokens, narrow.spent_amount.tokens) == (0, 50, 50)

    run(work)
