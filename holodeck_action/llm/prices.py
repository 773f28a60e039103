"""List prices of models, from `data/prices.json`, which `make prices` makes of the package genai-prices.

Tests compare them with those of the package, which is slow to import.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path

import msgspec
from msgspec import Struct

from holodeck_action.text.foreign import read_file

_MOST_BYTES = 4 * 1024 * 1024
_PER = 1_000_000
"""Tokens for which a rate is the price."""
_REQUESTS = 1_000
"""Requests for which a rate is the price."""
_ANY_SELLER = "litellm"
"""A provider that sells the models of others: their names start with the seller's."""
_COMPACT_DATE = r"(-)(20\d{2})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)"


class Names(Struct, frozen=True, omit_defaults=True):
    """A rule for names in lower case: one comparison, or several rules of which one or all must hold."""

    equals: str | None = None
    starts_with: str | None = None
    ends_with: str | None = None
    contains: str | None = None
    regex: str | None = None
    any: tuple[Names, ...] | None = None
    all: tuple[Names, ...] | None = None

    def match(self, name: str) -> bool:
        """Return whether the rule holds for a name."""
        if self.equals is not None:
            return name == self.equals
        if self.starts_with is not None:
            return name.startswith(self.starts_with)
        if self.ends_with is not None:
            return name.endswith(self.ends_with)
        if self.contains is not None:
            return self.contains in name
        if self.regex is not None:
            return re.search(self.regex, name) is not None
        if self.any is not None:
            return any(rule.match(name) for rule in self.any)
        return self.all is not None and all(rule.match(name) for rule in self.all)


class Tiered(Struct, frozen=True, array_like=True):
    """A rate that depends on the length of the prompt.

    `tiers` are pairs of a number of prompt tokens, and the rate of all tokens if the prompt has more; in ascending
    order.
    """

    usual: Decimal
    tiers: tuple[tuple[int, Decimal], ...]


Rate = Decimal | Tiered
"""US dollars for a million tokens, or for a thousand requests."""


class Prices(Struct, frozen=True, omit_defaults=True):
    """The rates of a model, from a day on, or between two times of each day (UTC)."""

    prompt: Rate | None = None
    answer: Rate | None = None
    read: Rate | None = None
    written: Rate | None = None
    request: Rate | None = None
    since: date | None = None
    between: tuple[time, time] | None = None

    def hold(self, at: datetime) -> bool:
        """Return whether these prices hold at a time in UTC."""
        if self.since is not None:
            return at.date() >= self.since
        if self.between is None:
            return True
        start, end = self.between
        now = at.time()
        return start <= now < end if start <= end else now >= start or now < end


class Model(Struct, frozen=True):
    """A model of a seller: its names, and its prices, of which the last that hold apply."""

    names: Names
    prices: tuple[Prices, ...]

    def prices_at(self, at: datetime) -> Prices:
        """Return the prices at a time in UTC."""
        return next((prices for prices in reversed(self.prices) if prices.hold(at)), self.prices[0])


class Seller(Struct, frozen=True, omit_defaults=True):
    """A provider: rules for its names and for those of its models, its models, and the sellers of its other models."""

    names: Names | None = None
    model_names: Names | None = None
    others: tuple[str, ...] = ()
    models: msgspec.Raw = msgspec.Raw(b"[]")
    """A list of `Model`. Most runs need those of one seller."""


def price_usd(
    provider: str | None,
    model: str,
    *,
    prompt: int,
    completion: int,
    read: int,
    written: int,
    at: datetime | None = None,
) -> float | None:
    """Return the list price of a call in US dollars; None if it is not listed, or the counts contradict each other.

    Args:
        provider: the provider's name in genai-prices; None derives it from the model's name.
        model: the model's name.
        prompt: tokens of the prompt, including those that the provider read from its cache or wrote into it.
        completion: tokens of the answer.
        read: tokens that the provider read from its cache.
        written: tokens that the provider wrote into its cache.
        at: the time of the call in UTC; None is now.
    """
    found = _find_model(provider, model)
    if found is None:
        return None
    prices = found.prices[0] if len(found.prices) == 1 else found.prices_at(at or datetime.now(UTC))
    # Cached tokens cost as much as other tokens unless they have their own price.
    plain = prompt - (0 if prices.read is None else read) - (0 if prices.written is None else written)
    if prices.prompt is not None and plain < 0:
        return None
    counted = ((prices.prompt, plain), (prices.answer, completion), (prices.read, read), (prices.written, written))
    total = _of_prompt(prices.request, prompt) / _REQUESTS
    for rate, count in counted:
        total += _of_prompt(rate, prompt) * count / _PER
    return float(total)


def _of_prompt(rate: Rate | None, tokens: int) -> Decimal:
    """Return the rate for a prompt of this length; 0 if nothing is charged."""
    if isinstance(rate, Tiered):
        return next((each for start, each in reversed(rate.tiers) if tokens > start), rate.usual)
    return rate or Decimal(0)


@cache
def _sellers() -> dict[str, Seller]:
    table = read_file(Path(__file__).with_name("data") / "prices.json", _MOST_BYTES)
    return table.parse(msgspec.json.Decoder(dict[str, Seller]).decode)


@cache
def _models_of(seller: str) -> tuple[Model, ...]:
    return msgspec.json.decode(_sellers()[seller].models, type=tuple[Model, ...])


@lru_cache(maxsize=1024)
def _find_model(provider: str | None, model: str) -> Model | None:
    name = model.lower()
    if provider is not None and provider.lower() == _ANY_SELLER:
        maker, slash, rest = name.partition("/")
        if slash and maker and _seller_named(maker) is not None:
            provider, name = maker, rest
    seller = _find_seller(provider, name)
    if seller is None:
        return None
    return _model_named(seller, name) or _model_named(seller, re.sub(_COMPACT_DATE, _with_dashes, name))


def _find_seller(provider: str | None, model: str) -> str | None:
    if provider is not None:
        seller = _seller_named(provider)
        if seller is not None or provider.lower() != _ANY_SELLER:
            return seller
    named = ((key, seller.model_names) for key, seller in _sellers().items())
    return next((key for key, names in named if model and names is not None and names.match(model)), None)


def _seller_named(provider: str) -> str | None:
    name = provider.lower().strip()
    if name in _sellers():
        return name
    named = ((key, seller.names) for key, seller in _sellers().items())
    return next((key for key, names in named if names is not None and names.match(name)), None)


def _model_named(seller: str, name: str) -> Model | None:
    return next((model for model in _candidates(seller) if model.names.match(name)), None)


def _candidates(seller: str) -> Iterator[Model]:
    yield from _models_of(seller)
    for other in _sellers()[seller].others:
        if other in _sellers():
            yield from _models_of(other)


def _with_dashes(compact: re.Match[str]) -> str:
    """Return `-2025-12-11` for `-20251211`; what is no date stays."""
    year, month, day = compact.group(2, 3, 4)
    try:
        date(int(year), int(month), int(day))
    except ValueError:
        return compact[0]
    return f"-{year}-{month}-{day}"
