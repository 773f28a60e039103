"""Reads the model and the token counts of a call from the provider's answer, and computes the price from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from holodeck_action.llm.calls import Account, Answer, Call, CallRecord, Tokens
from holodeck_action.llm.prices import price_usd
from holodeck_action.record.facts import within_bounds
from holodeck_action.suite.model.providers import COMPATIBLE

Price = Callable[[Account, str, Tokens], float | None]
"""Returns the price in US dollars of a model's tokens; None if it is unknown."""


def record_of(call: Call, answer: Answer, price: Price) -> CallRecord:
    """Return the record of an answered call."""
    model = _model_name(answer.payload) or _model_name(call.request.document)
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
    """Return the record of a call without an answer."""
    return CallRecord(
        call.account.provider,
        _model_name(call.request.document),
        status,
        False,
        Tokens(),
        0.0,
        call.attempts,
        None,
        code,
    )


def tokens_of(payload: Any) -> Tokens:
    """Return the token counts that an answer reports; in a stream later events override earlier ones."""
    merged: dict[str, Any] = {}
    for part in _usage_parts(payload):
        merged.update((name, value) for name, value in part.items() if value is not None)
    if not merged:
        return Tokens()
    if "prompt_tokens" in merged:  # OpenAI's chat completions and embeddings, and compatible services
        return Tokens(
            _count(merged["prompt_tokens"]),
            _count(merged.get("completion_tokens", 0)),
            _detail(merged, "prompt_tokens_details", "cached_tokens"),
            _detail(merged, "completion_tokens_details", "reasoning_tokens"),
        )
    if "input_tokens_details" in merged:  # OpenAI's Responses API
        return Tokens(
            _count(merged.get("input_tokens")),
            _count(merged.get("output_tokens")),
            _detail(merged, "input_tokens_details", "cached_tokens"),
            _detail(merged, "output_tokens_details", "reasoning_tokens"),
        )
    if "prompt_eval_count" in merged or "eval_count" in merged:  # Ollama's own interface
        return Tokens(_count(merged.get("prompt_eval_count")), _count(merged.get("eval_count", 0)), None)
    prompt, read = _count(merged.get("input_tokens")), _count(merged.get("cache_read_input_tokens"))
    if prompt is not None:  # Anthropic counts cached tokens separately
        prompt += (read or 0) + (_count(merged.get("cache_creation_input_tokens")) or 0)
    return Tokens(prompt, _count(merged.get("output_tokens")), read)


def _usage_parts(payload: Any) -> Iterator[Mapping[str, Any]]:
    for event in payload if isinstance(payload, list) else [payload]:
        if not isinstance(event, Mapping):
            continue
        for holder in _holders(event):
            usage = holder.get("usage") if isinstance(holder, Mapping) else None
            if isinstance(usage, Mapping):
                yield usage
        if "prompt_eval_count" in event or "eval_count" in event:
            yield {name: event.get(name) for name in ("prompt_eval_count", "eval_count")}


def _holders(event: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the objects of an event that may have a model and usage: it, and the message or response in it."""
    return event.get("message"), event.get("response"), event


def _detail(usage: Mapping[str, Any], group: str, name: str) -> int | None:
    details = usage.get(group)
    return _count(details.get(name)) if isinstance(details, Mapping) else None


def _model_name(payload: Any) -> str:
    for event in payload if isinstance(payload, list) else [payload]:
        if isinstance(event, Mapping):
            for holder in _holders(event):
                model = holder.get("model") if isinstance(holder, Mapping) else None
                if isinstance(model, str) and model:
                    return model
    return ""


def _count(value: Any) -> int | None:
    return within_bounds(value) if isinstance(value, int) and not isinstance(value, bool) else None


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
    """Return the list price of one call in US dollars; None if unknown, which does not mean zero.

    Args:
        provider: the provider's name in agent.yaml; Ollama has no prices.
        model: the model's name in the answer; for Azure OpenAI the name of the model, not of the deployment.
        prompt_tokens: number of all tokens of the prompt, including those read from the provider's cache; None if not
            reported.
        completion_tokens: number of tokens of the answer, including reasoning; None if not reported.
        cache_read_tokens: number of prompt tokens that the provider read from its cache.
        cache_write_tokens: number of prompt tokens that the provider wrote into its cache.
    """
    if provider not in _PRICED_AS or prompt_tokens is None or completion_tokens is None:
        return None
    seller = _PRICED_AS[provider]
    # Vertex AI prefixes the model's name with the name of its maker.
    name = model.removeprefix(f"{seller}/")
    return price_usd(
        seller,
        name,
        prompt=prompt_tokens,
        completion=completion_tokens,
        read=cache_read_tokens,
        written=cache_write_tokens,
    )


def list_price(account: Account, model: str, tokens: Tokens) -> float | None:
    """Return the list price in US dollars of tokens counted by the wire; None if unknown."""
    return cost_usd(
        account.provider,
        model,
        prompt_tokens=tokens.prompt,
        completion_tokens=tokens.completion,
        cache_read_tokens=tokens.cached or 0,
    )


def price_of_named(model: str, tokens: Tokens) -> float | None:
    """Return the list price of usage that a target reports for its model calls; None if unknown.

    Args:
        model: `provider/name`, with the provider's name in agent.yaml or in the package genai-prices, or a name that
            only one provider uses.
        tokens: the token counts; prompt tokens include cached ones.
    """
    provider, slash, name = model.partition("/")
    if tokens.prompt is None or tokens.completion is None:
        return None
    known = _PRICED_AS.get(provider, provider) if slash else None
    return price_usd(
        known,
        name if slash else model,
        prompt=tokens.prompt,
        completion=tokens.completion,
        read=tokens.cached or 0,
        written=0,
    )
