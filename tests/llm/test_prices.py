"""Prices by the model are the price list's own, for every shape of counts."""

from __future__ import annotations

import random

import pytest
from genai_prices import Usage, calc_price
from genai_prices.data import providers

from holodeck_action.llm.calls import Tokens
from holodeck_action.llm.usage import cost_usd, price_of_named
from tests.tables import walk

MODELS = [(seller.id, model.id) for seller in providers for model in seller.models]


def listed(provider: str, model: str, prompt: int, completion: int, read: int) -> float | None:
    usage = Usage(input_tokens=prompt, output_tokens=completion, cache_read_tokens=read, cache_write_tokens=0)
    try:
        return float(calc_price(usage, model, provider_id=provider).total_price)
    except (LookupError, ValueError):
        return None


@pytest.mark.parametrize("part", range(4))
def test_every_model_has_the_price_of_the_list(part: int) -> None:
    drawn = random.Random(part)
    for provider, model in MODELS[part::4]:
        prompt = drawn.choice([0, 1, drawn.randrange(10**4), drawn.randrange(10**7)])
        completion = drawn.choice([0, 3, drawn.randrange(10**5)])
        # More than the prompt contradicts it.
        read = drawn.choice([0, drawn.randrange(prompt + 2)])
        found = price_of_named(f"{provider}/{model}", Tokens(prompt, completion, read))
        assert found == listed(provider, model, prompt, completion, read), (provider, model, prompt, completion, read)


@walk(("read", "written"), [(0, 0), (700, 0), (700, 200), (900, 200), (0, 1001)])
def test_what_the_cache_gave_and_took_has_its_own_price(read: int, written: int) -> None:
    usage = Usage(input_tokens=1000, output_tokens=50, cache_read_tokens=read, cache_write_tokens=written)
    model = "claude-sonnet-4-5"
    found = cost_usd(
        "anthropic",
        model,
        prompt_tokens=1000,
        completion_tokens=50,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
    if read + written > 1000:
        assert found is None
    else:
        assert found == float(calc_price(usage, model, provider_id="anthropic").total_price)
