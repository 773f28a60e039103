"""Which model answered and what it took, read from answers of every provider and kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from holodeck_action.llm.calls import Account, Answer, Call, CallRecord, Tokens
from holodeck_action.record.facts import bounded
from holodeck_action.suite.model.providers import COMPATIBLE

Price = Callable[[Account, str, Tokens], float | None]
"""US dollars for tokens of a model; None when the price is not known."""


def record_of(call: Call, answer: Answer, price: Price) -> CallRecord:
    """Describe an answered call."""
    model = _model(answer.payload) or _model(call.request.document)
    tokens = tokens_of(answer.payload)
    return CallRecord(
        provider=call.account.provider,
        model=model,
        status=answer.status,
        cached=answer.cached,
        tokens=tokens,
        latency_s=answer.latency_s,
        attempts=0 if answer.cached else call.attempts,
        cost_usd=price(call.account, model, tokens) if answer.status < 300 else None,
    )


def error_record(call: Call, code: str, status: int | None) -> CallRecord:
    """Describe a call that got no answer."""
    return CallRecord(
        call.account.provider, _model(call.request.document), status, False, Tokens(), 0.0, call.attempts, None, code
    )


def tokens_of(payload: Any) -> Tokens:
    """Return the tokens that an answer declares; in a stream later events correct earlier ones."""
    merged: dict[str, Any] = {}
    for part in _parts(payload):
        merged.update((name, value) for name, value in part.items() if value is not None)
    if not merged:
        return Tokens()
    if "prompt_tokens" in merged:  # OpenAI's chat completions and embeddings, and all that follow them
        details = merged.get("prompt_tokens_details")
        return Tokens(
            _count(merged["prompt_tokens"]),
            _count(merged.get("completion_tokens", 0)),
            _count(details.get("cached_tokens")) if isinstance(details, Mapping) else None,
        )
    if "prompt_eval_count" in merged or "eval_count" in merged:  # Ollama's own interface
        return Tokens(_count(merged.get("prompt_eval_count")), _count(merged.get("eval_count", 0)), None)
    prompt, read = _count(merged.get("input_tokens")), _count(merged.get("cache_read_input_tokens"))
    if prompt is not None:  # Anthropic counts what its cache gave apart
        prompt += (read or 0) + (_count(merged.get("cache_creation_input_tokens")) or 0)
    return Tokens(prompt, _count(merged.get("output_tokens")), read)


def _parts(payload: Any) -> Iterator[Mapping[str, Any]]:
    for event in payload if isinstance(payload, list) else [payload]:
        if not isinstance(event, Mapping):
            continue
        message = event.get("message")
        for holder in (message, event):
            usage = holder.get("usage") if isinstance(holder, Mapping) else None
            if isinstance(usage, Mapping):
                yield usage
        if "prompt_eval_count" in event or "eval_count" in event:
            yield {name: event.get(name) for name in ("prompt_eval_count", "eval_count")}


def _model(payload: Any) -> str:
    for event in payload if isinstance(payload, list) else [payload]:
        if isinstance(event, Mapping):
            for holder in (event, event.get("message")):
                model = holder.get("model") if isinstance(holder, Mapping) else None
                if isinstance(model, str) and model:
                    return model
    return ""


def _count(value: Any) -> int | None:
    return bounded(value) if isinstance(value, int) and not isinstance(value, bool) else None


_PRICED_AS: dict[str, str] = {
    "openai": "openai",
    "azure_openai": "azure",
    "anthropic": "anthropic",
    **{str(name): service.priced_as for name, service in COMPATIBLE.items() if service.priced_as},
}


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
    seller = _PRICED_AS[provider]
    # Vertex AI names the maker before the model.
    name = model.removeprefix(f"{seller}/")
    return _price(seller, name, prompt_tokens, completion_tokens, cache_read_tokens, cache_write_tokens)


def list_price(account: Account, model: str, tokens: Tokens) -> float | None:
    """Return the list price of a call as the wire counts it, in US dollars; None when it is not known."""
    return cost_usd(
        account.provider,
        model,
        prompt_tokens=tokens.prompt,
        completion_tokens=tokens.completion,
        cache_read_tokens=tokens.cached or 0,
    )


def price_of_named(model: str, tokens: Tokens) -> float | None:
    """Return the list price of what a model took that somebody else called; None when it is not known.

    Args:
        model: `provider/name`, with the format's name of the provider or that of the package genai-prices, or a name
            that only one maker gives to its models.
        tokens: all of them; those of the prompt include cached ones.
    """
    provider, slash, name = model.partition("/")
    if tokens.prompt is None or tokens.completion is None:
        return None
    known = _PRICED_AS.get(provider, provider) if slash else None
    return _price(known, name if slash else model, tokens.prompt, tokens.completion, tokens.cached or 0, 0)


_PER = 1_000_000
_RATES = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
"""The prices of most models; those of others depend on more, such as the time or how many tokens there are."""


def _price(
    provider: str | None, model: str, prompt: int, completion: int, cache_read: int, cache_write: int
) -> float | None:
    """Return the list price; without a provider that of the one whose models have such names."""
    known = _listed(provider, model)
    if known is None:
        return None
    seller, listed = known
    rates = _rates(provider, model)
    try:
        if rates is None:
            from genai_prices import Usage

            usage = Usage(
                input_tokens=prompt,
                output_tokens=completion,
                cache_read_tokens=cache_read,
                cache_write_tokens=cache_write,
            )
            return float(listed.calc_price(usage, seller).total_price)
        given, answered, read, written = rates
        # What the cache gave or took has the price of other tokens unless it has one of its own.
        plain = prompt - (0 if read is None else cache_read) - (0 if written is None else cache_write)
        if given is not None and plain < 0:
            return None
        counted = ((given, plain), (answered, completion), (read, cache_read), (written, cache_write))
        return float(sum((rate * count / _PER for rate, count in counted if rate is not None), Decimal(0)))
    except (LookupError, ValueError):
        # Counts that contradict each other.
        return None


@lru_cache(maxsize=1024)
def _listed(provider: str | None, model: str) -> tuple[Any, Any] | None:
    """Return the provider and the model as the price list has them; None where it does not have them."""
    from genai_prices.data_snapshot import get_snapshot

    try:
        return get_snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return None


@lru_cache(maxsize=1024)
def _rates(provider: str | None, model: str) -> tuple[Decimal | None, ...] | None:
    """Return US dollars a million tokens for each of `_RATES`; None where the price depends on more."""
    known = _listed(provider, model)
    prices = {} if known is None or isinstance(known[1].prices, list) else vars(known[1].prices)
    found = {name: price for name, price in prices.items() if price is not None}
    plain = all(name in _RATES and isinstance(price, Decimal) for name, price in found.items())
    return tuple(found.get(name) for name in _RATES) if found and plain else None
