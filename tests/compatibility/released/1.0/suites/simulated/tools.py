"""The books of the shop: orders that only these functions know, and refunds that they remember."""

from __future__ import annotations

ORDERS: dict[str, dict[str, object]] = {
    "A-17": {"delivered_days_ago": 9, "prices": {"kettle": 30}},
    "B-4": {"delivered_days_ago": 240, "prices": {"grinder": 85}},
    "C-9": {"delivered_days_ago": 3, "prices": {"teapot": 40, "cup": 12}},
}
"""Prices in euros, by item."""

refunded: dict[tuple[str, str], int] = {}
"""What was paid back in this conversation, by order and item."""


def find_order(order: str) -> dict[str, object]:
    """Return the prices of an order's items, and how many days ago it was delivered."""
    return {"order": order, **ORDERS[order]}


def refund(order: str, item: str) -> str:
    """Pay the price of one item back, once."""
    prices = ORDERS[order]["prices"]
    assert isinstance(prices, dict)
    if (order, item) in refunded:
        raise ValueError(f"{item} of {order} is refunded already")
    refunded[order, item] = prices[item]
    return f"{prices[item]} euros are paid back"
