import unittest
from datetime import date

from larkfield import refunds
from larkfield.orders import Order

DAY = date(2026, 5, 4)


class Ledger(unittest.TestCase):
    def test_a_refund_is_a_line(self):
        refunds.refund(Order("A-1", ["Harbour"], DAY), DAY)
        self.assertIn(("A-1", -1290), refunds.LEDGER)
