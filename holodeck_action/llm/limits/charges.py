"""Deducts from the budget the usage that agents report for their own model calls."""

from __future__ import annotations

from collections.abc import Sequence

from holodeck_action.llm.limits.budget import Amount, Budget
from holodeck_action.record.record import Usage


class Charges:
    """Deducts usage from budgets after the answers of an agent, because only the answers report the usage."""

    def __init__(self, budgets: Sequence[Budget]) -> None:
        """Create the instance; usage is deducted from each of the budgets."""
        self._budgets = tuple(budgets)
        self._uncounted = 0

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices for the reader of the record, one sentence each."""
        if not self._uncounted:
            return ()
        answers = "1 answer" if self._uncounted == 1 else f"{self._uncounted:,} answers"
        return (f"the budget does not count {answers} of the target, which did not report their usage (`usage`)",)

    def add(self, usage: Usage | None) -> None:
        """Deduct the reported usage of one answer."""
        known = usage or Usage()
        for budget in self._budgets:
            budget.charge(Amount(known.tokens or 0, known.cost_usd or 0.0))
        unknown = (
            (budget.max_tokens is not None and known.tokens is None)
            or (budget.max_cost_usd is not None and known.cost_usd is None)
            for budget in self._budgets
        )
        self._uncounted += any(unknown)
