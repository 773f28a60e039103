import unittest
from datetime import date

from larkfield.orders import Order
from larkfield.refunds import refund_item

DAY = date(2026, 5, 4)


class Item(unittest.TestCase):
    def setUp(self):
        self.order = Order("A-1", ["Harbour", "grinder"], DAY)

    def test_price_of_the_item(self):
        self.assertEqual(refund_item(self.order, "grinder", DAY), 8900)

    def test_item_twice(self):
        refund_item(self.order, "grinder", DAY)
        with self.assertRaises(ValueError):
            refund_item(self.order, "grinder", DAY)

    def test_item_of_another_order(self):
        with self.assertRaises(ValueError):
            refund_item(self.order, "Dawn", DAY)
