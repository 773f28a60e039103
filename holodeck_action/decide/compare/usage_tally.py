"""The usage of one run in compared cases: cost, tokens, latency, tool calls."""

from __future__ import annotations

from holodeck_action.decide.compare.comparison import Consumed
from holodeck_action.decide.consumption import Consumption, KnownTotal, Timings
from holodeck_action.decide.statistics import equal_quantile
from holodeck_action.record import facts
from holodeck_action.record.facts import items_of
from holodeck_action.record.record import CaseRecord


class UsageTally:
    """The usage of one run in the cases that both runs have with the same questions and expectations."""

    def __init__(self) -> None:
        """Create a tally of no cases."""
        self._times, self._took = Timings(), Consumption()
        self._tool_calls: int | None = 0

    def add(self, case: CaseRecord) -> None:
        """Add the usage of a case's trials."""
        for trial in case.trials:
            self._took.add_trial(trial)
        for turn in case.turns:
            self._times.add(turn)
            calls = items_of(turn.calls)
            # One unknown number makes the sum unknown.
            if isinstance(calls, facts.Unknown) or self._tool_calls is None:
                self._tool_calls = None
            else:
                self._tool_calls += len(calls)

    @property
    def consumed(self) -> Consumed:
        """The usage of all added cases; what is unknown for one of them is None."""
        answered, begun = self._times.answers, self._times.first_tokens
        tokens = _known_total(self._took.tokens)
        return Consumed(
            cost_usd=_known_total(self._took.cost_usd),
            tokens=None if tokens is None else round(tokens),
            p50_latency_ms=answered.quantile(0.5),
            p95_latency_ms=answered.quantile(0.95),
            p95_first_token_ms=equal_quantile(begun.answered, 0.95),
            tool_calls=self._tool_calls,
        )


def _known_total(total: KnownTotal) -> float | None:
    return None if total.unknown else total.known
