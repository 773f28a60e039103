"""Prices of the shop, in cents."""

PRICES = {
    "Dawn": 1150,
    "Harbour": 1290,
    "grinder": 8900,
}
