"""Prices by our table are those of the package genai-prices, for every model, shape of counts and time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta

import pytest
from genai_prices import Usage, calc_price
from genai_prices.data import providers
from genai_prices.types import (
    ConditionalPrice,
    ModelInfo,
    StartDateConstraint,
    TieredPrices,
    TimeOfDateConstraint,
)

from holodeck_action.llm.calls import Tokens
from holodeck_action.llm.prices import price_usd
from holodeck_action.llm.usage import cost_usd, price_of_named
from tests.tables import walk

MODELS = [(seller.id, model) for seller in providers for model in seller.models]
FIRST = datetime(2023, 1, 1, tzinfo=UTC)


def listed(
    provider: str | None, model: str, prompt: int, completion: int, read: int, written: int, at: datetime
) -> float | None:
    usage = Usage(input_tokens=prompt, output_tokens=completion, cache_read_tokens=read, cache_write_tokens=written)
    try:
        return float(calc_price(usage, model, provider_id=provider, genai_request_timestamp=at).total_price)
    except (LookupError, ValueError):
        return None


def lengths(model: ModelInfo) -> list[int]:
    """Return the numbers of prompt tokens around which the model has other rates."""
    rates = [rate for each in conditions(model) for rate in vars(each.prices).values()]
    starts = {tier.start for rate in rates if isinstance(rate, TieredPrices) for tier in rate.tiers}
    return [start + more for start in sorted(starts) for more in (0, 1)] or [0]


def moments(model: ModelInfo) -> list[datetime]:
    """Return the times around which the model has other prices."""
    found = []
    for each in conditions(model):
        if isinstance(each.constraint, StartDateConstraint):
            found.append(datetime.combine(each.constraint.start_date, time(), UTC))
        elif isinstance(each.constraint, TimeOfDateConstraint):
            found += [datetime.combine(FIRST, edge.replace(tzinfo=UTC)) for edge in vars(each.constraint).values()]
    return [moment + timedelta(seconds=more) for moment in found for more in (-1, 0)] or [FIRST]


def conditions(model: ModelInfo) -> list[ConditionalPrice]:
    return model.prices if isinstance(model.prices, list) else [ConditionalPrice(prices=model.prices)]


def ways_to_name(drawn: random.Random, provider: str, model: str) -> Iterator[tuple[str | None, str]]:
    """Yield the model's own names, and names that other rules find or do not find."""
    yield provider, model
    yield drawn.choice([None, provider.upper(), f" {provider}-eu", "litellm", "unknown"]), model
    yield (
        drawn.choice([provider, "azure", "google", "openai"]),
        f"{model}{drawn.choice(['-20251211', '-20259999', ':x'])}",
    )
    yield "litellm", f"{provider}/{model.upper()}"


def test_the_table_is_what_the_pinned_package_says() -> None:
    from scripts.build_prices import TABLE, build_table

    assert TABLE.read_text(encoding="utf-8") == build_table(), "run make prices"


@pytest.mark.full
@pytest.mark.parametrize("part", range(4))
def test_every_model_has_the_price_of_the_package(part: int) -> None:
    drawn = random.Random(part)
    for seller, entry in MODELS[part::4]:
        for provider, model in ways_to_name(drawn, seller, entry.id):
            prompt = drawn.choice([0, drawn.randrange(10**4), drawn.randrange(10**7), *lengths(entry)])
            completion = drawn.choice([0, 3, drawn.randrange(10**5)])
            # More than the prompt contradicts it.
            read = drawn.choice([0, drawn.randrange(prompt + 2)])
            written = drawn.choice([0, drawn.randrange(prompt - read + 2) if read <= prompt else 1])
            at = drawn.choice([FIRST + timedelta(seconds=drawn.randrange(5 * 365 * 86_400)), *moments(entry)])
            found = price_usd(provider, model, prompt=prompt, completion=completion, read=read, written=written, at=at)
            of = (provider, model, prompt, completion, read, written, at)
            assert (found, of) == (listed(*of), of)


@walk(("read", "written"), [(0, 0), (700, 0), (700, 200), (900, 200), (0, 1001)])
def test_what_the_cache_gave_and_took_has_its_own_price(read: int, written: int) -> None:
    found = cost_usd(
        "anthropic",
        "claude-sonnet-4-5",
        prompt_tokens=1000,
        completion_tokens=50,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
    expected = listed("anthropic", "claude-sonnet-4-5", 1000, 50, read, written, datetime.now(UTC))
    assert (found is None) == (read + written > 1000)
    assert found == expected


def test_a_reported_model_has_the_price_of_its_seller() -> None:
    expected = listed("openai", "gpt-4o", 1000, 50, 700, 0, datetime.now(UTC))
    assert expected is not None
    for name in ("openai/gpt-4o", "gpt-4o"):
        assert price_of_named(name, Tokens(1000, 50, 700)) == expected
