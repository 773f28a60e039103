"""What reckonings of a run have in common: spans, trials and list prices."""

from __future__ import annotations

import math
from dataclasses import dataclass

from holodeck_action.llm.usage import cost_usd
from holodeck_action.prepare.preflight import Prepared
from holodeck_action.suite.providers import LLMProvider
from holodeck_action.suite.values import Case

_PER_UNIT = 1_000
"""Tokens at which the price of one is looked up: some models charge more for long prompts."""


@dataclass(frozen=True, slots=True)
class Span:
    """The least and the most of something, without calls of tools, which nobody can foretell."""

    low: int
    high: int

    def __str__(self) -> str:
        """Show both, or the one that they are."""
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


def fewest_trials(item: Prepared, case: Case) -> int:
    """Return how many trials a case takes at least."""
    if not item.settings.stop_when_decided:
        return case.repeat
    return min(case.min_pass, case.repeat - case.min_pass + 1)


def list_price(model: LLMProvider, prompt: int, completion: int) -> float | None:
    """Return the list price of tokens in US dollars; None when it is not known."""
    parts = [
        cost_usd(model.provider, model.name, prompt_tokens=sent, completion_tokens=_PER_UNIT - sent)
        for sent in (_PER_UNIT, 0)
    ]
    costs = [
        part * count / _PER_UNIT for part, count in zip(parts, (prompt, completion), strict=True) if part is not None
    ]
    return math.fsum(costs) if len(costs) == len(parts) else None


def noun(count: int, singular: str) -> str:
    """Return a noun in the number of a count."""
    return singular if count == 1 else f"{singular}s"
