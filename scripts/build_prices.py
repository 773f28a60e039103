"""Builds holodeck_action/llm/data/prices.json from the pinned genai-prices; `--check` only compares.

python -m scripts.build_prices [--check]

The table has what the price of a call depends on: the rules for names, and the rates of prompts, answers, the cache and
requests, each with its tiers, days and times of day.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import msgspec
from genai_prices import types
from genai_prices.data import providers
from msgspec.structs import replace

from holodeck_action.llm.prices import Model, Names, Prices, Rate, Seller, Tiered

TABLE = Path(__file__).parents[1] / "holodeck_action" / "llm" / "data" / "prices.json"
_RATES = {
    "prompt": "input_mtok",
    "answer": "output_mtok",
    "read": "cache_read_mtok",
    "written": "cache_write_mtok",
    "request": "requests_kcount",
}
_WAYS = {
    types.ClauseStartsWith: "starts_with",
    types.ClauseEndsWith: "ends_with",
    types.ClauseContains: "contains",
    types.ClauseEquals: "equals",
    types.ClauseRegex: "regex",
}


def build_table() -> str:
    """Return the text of the table, with a line for each model."""
    return "{\n" + ",\n".join(_seller_lines()) + "\n}\n"


def _seller_lines() -> Iterator[str]:
    for provider in providers:
        seller = Seller(
            _names(provider.provider_match),
            _names(provider.model_match),
            tuple(provider.fallback_model_providers or ()),
        )
        head = msgspec.json.encode(seller).decode().removesuffix("}")
        models = ",\n".join(msgspec.json.encode(_model(model)).decode() for model in provider.models)
        yield f'"{provider.id}":{head}{"," if head != "{" else ""}"models":[\n{models}\n]}}'


def _names(clause: Any) -> Names | None:
    return None if clause is None else _rule(clause)


def _rule(clause: Any) -> Names:
    if isinstance(clause, types.ClauseOr):
        return Names(any=tuple(map(_rule, clause.or_)))
    if isinstance(clause, types.ClauseAnd):
        return Names(all=tuple(map(_rule, clause.and_)))
    way = _WAYS[type(clause)]
    text: str = getattr(clause, way)
    # Names are compared in lower case; the case of a regular expression counts.
    return replace(Names(), **{way: text if way == "regex" else text.lower()})


def _model(model: types.ModelInfo) -> Model:
    listed = model.prices if isinstance(model.prices, list) else [types.ConditionalPrice(prices=model.prices)]
    return Model(_rule(model.match), tuple(map(_prices, listed)))


def _prices(listed: types.ConditionalPrice) -> Prices:
    prices = replace(Prices(), **{name: _rate(getattr(listed.prices, key)) for name, key in _RATES.items()})
    constraint = listed.constraint
    match constraint:
        case None:
            return prices
        case types.StartDateConstraint():
            return replace(prices, since=constraint.start_date)
        case types.TimeOfDateConstraint():
            return replace(prices, between=(_in_utc(constraint.start_time), _in_utc(constraint.end_time)))
        case _:
            raise SystemExit(f"genai-prices has a new kind of condition: {constraint!r}")


def _rate(price: Any) -> Rate | None:
    if isinstance(price, types.TieredPrices):
        return Tiered(price.base, tuple((tier.start, tier.price) for tier in price.tiers))
    return price if isinstance(price, Decimal) else None


def _in_utc(value: time) -> time:
    if value.tzinfo is None:
        return value
    return datetime.combine(datetime(1970, 1, 1), value).astimezone(UTC).time()


@click.command()
@click.option("--check", is_flag=True, help="Only say whether the table is as it would be written.")
def main(check: bool) -> None:
    """Write the table, or compare it."""
    text = build_table()
    if not check:
        TABLE.write_text(text, encoding="utf-8")
    elif TABLE.read_text(encoding="utf-8") != text:
        sys.exit(f"{TABLE.name} is not what genai-prices says: run make prices")


if __name__ == "__main__":
    main()
