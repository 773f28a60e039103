"""What a model call costs, by the list prices that genai-prices ships."""

from __future__ import annotations

from functools import lru_cache

from holodeck_action.llm.calls import Account, Tokens

_PRICED_AS = {"openai": "openai", "azure_openai": "azure", "anthropic": "anthropic"}


def cost_usd(
    provider: str,
    model: str,
    *,
    prompt_tokens: int | None,
    completion_tokens: int | None,
    cache_read_tokens: int = 0,
    cache_write_tokens: int = 0,
) -> float | None:
    """Return the list price of one call in US dollars; None when it is not known, which is not zero.

    Args:
        provider: the format's name of the provider; Ollama has no prices.
        model: the model's name as the answer gave it (the real one, also for an Azure deployment).
        prompt_tokens: all tokens of the prompt, those from the provider's cache included; None when not told.
        completion_tokens: tokens of the answer, reasoning included; None when not told.
        cache_read_tokens: prompt tokens that the provider read from its cache.
        cache_write_tokens: prompt tokens that the provider wrote into its cache.
    """
    if provider not in _PRICED_AS or prompt_tokens is None or completion_tokens is None:
        return None
    return _price(_PRICED_AS[provider], model, prompt_tokens, completion_tokens, cache_read_tokens, cache_write_tokens)


def list_price(account: Account, model: str, tokens: Tokens) -> float | None:
    """Return the list price of a call as the wire counts it, in US dollars; None when it is not known."""
    return cost_usd(
        account.provider,
        model,
        prompt_tokens=tokens.prompt,
        completion_tokens=tokens.completion,
        cache_read_tokens=tokens.cached or 0,
    )


@lru_cache(maxsize=4096)
def _price(provider: str, model: str, prompt: int, completion: int, cache_read: int, cache_write: int) -> float | None:
    from genai_prices import Usage, calc_price

    usage = Usage(
        input_tokens=prompt,
        output_tokens=completion,
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
    )
    try:
        return float(calc_price(usage, model, provider_id=provider).total_price)
    except (LookupError, ValueError):
        # No such model in the list, or counts that contradict each other.
        return None
