"""Orders of customers."""

from dataclasses import dataclass, field
from datetime import date

from larkfield.prices import PRICES


@dataclass
class Order:
    """An order that was delivered."""

    number: str
    items: list
    delivered: date
    discount: int = 0
    refunded: int = 0
    refunded_items: list = field(default_factory=list)

    @property
    def total(self):
        """What the customer paid, in cents."""
        return sum(PRICES[item] for item in self.items)
