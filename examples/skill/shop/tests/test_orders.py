import unittest
from datetime import date

from larkfield.orders import Order


class Orders(unittest.TestCase):
    def test_total(self):
        self.assertEqual(Order("A-1", ["Dawn", "Harbour"], date(2026, 5, 4)).total, 2440)

    def test_total_with_discount(self):
        self.assertEqual(Order("A-2", ["grinder"], date(2026, 5, 4), discount=900).total, 8000)


if __name__ == "__main__":
    unittest.main()
