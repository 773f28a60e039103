import unittest
from datetime import date

from larkfield.orders import Order
from larkfield.refunds import refund

DAY = date(2026, 5, 4)


class Twice(unittest.TestCase):
    def test_refund_once(self):
        self.assertEqual(refund(Order("A-1", ["Harbour"], DAY), DAY), 1290)

    def test_refund_twice(self):
        order = Order("A-1", ["Harbour"], DAY)
        refund(order, DAY)
        with self.assertRaises(ValueError):
            refund(order, DAY)
