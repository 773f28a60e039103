import unittest
from datetime import date

from larkfield.orders import Order
from larkfield.refunds import refund

ORDER = ("A-1", ["Harbour"], date(2026, 5, 1))


class Window(unittest.TestCase):
    def test_day_30(self):
        self.assertEqual(refund(Order(*ORDER), date(2026, 5, 31)), 1290)

    def test_day_31(self):
        with self.assertRaises(ValueError):
            refund(Order(*ORDER), date(2026, 6, 1))
