"""The shop's books in miniature: what the service desk can look up and do."""

from __future__ import annotations

ORDERS = {
    "H-2041": {"items": ["helmet"], "status": "arrives on Thursday"},
    "H-2056": {"items": ["tyre", "pump"], "status": "delivered 9 days ago"},
    "H-1987": {"items": ["saddle"], "status": "delivered 44 days ago"},
    "H-2063": {"items": ["chain"], "status": "held by customs"},
}
STOCK = {"gravel tyre": (4, 38.50), "tube": (60, 7.90), "bell": (12, 14.00), "child seat": (0, 119.00)}
SERVICES = {"full service": 89.00, "brake service": 35.00, "new chain": 54.50}
OPEN = ("Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


def find_order(order: str) -> dict[str, object]:
    """Return the items and the state of an order."""
    if order not in ORDERS:
        raise ValueError(f"there is no order {order}")
    return {"order": order, **ORDERS[order]}


def stock(item: str) -> dict[str, object]:
    """Return how many of an item are in the shop, and its price."""
    count, price = STOCK[item]
    return {"item": item, "in_shop": count, "euros": price}


def price_of(service: str) -> float:
    """Return the price of a service."""
    return SERVICES[service]


def book_service(service: str, day: str) -> str:
    """Book a service, and return the number of the booking."""
    if day not in OPEN:
        raise ValueError(f"the workshop is closed on {day}")
    return f"booking B-{list(SERVICES).index(service) + 1}{OPEN.index(day) + 1}"


def start_return(order: str, item: str) -> str:
    """Start the return of an item, and return the number of its label."""
    if item not in ORDERS[order]["items"]:
        raise ValueError(f"there is no {item} in {order}")
    return f"label R-{order[2:]}"
