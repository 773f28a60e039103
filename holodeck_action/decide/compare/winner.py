"""The better of two runs, if a comparison can determine it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from holodeck_action.decide.compare.comparison import SIGNIFICANT, Comparison, Difference


class Winner(Struct, frozen=True):
    """The better run (None if undetermined), and the reason as the end of a sentence."""

    side: Literal["head", "base"] | None
    reason: str


def find_winner(comparison: Comparison) -> Winner:
    """Return the run with the better pass rate, or no winner if the comparison does not suffice.

    The comparison suffices under three conditions: every case was evaluated on both sides; the interval of the
    difference rules out that the winner's pass rate is worse by the margin; and no gating metric of the winner is worse
    beyond chance.
    """
    rate = comparison.pass_rate
    unevaluated = sum(case.why == "not evaluated" for case in comparison.unpaired)
    if rate is None:
        return Winner(None, "no case could be compared")
    if unevaluated:
        return Winner(None, f"{unevaluated} case(s) were not evaluated on one side")
    rates = f"pass rate {rate.head:.3g} against {rate.base:.3g}"
    if not rate.difference:
        return Winner(None, f"{rates}, which is a tie")
    side: Literal["head", "base"] = "head" if rate.difference > 0 else "base"
    ruled_out = rate.low if side == "head" else None if rate.high is None else -rate.high
    if ruled_out is None or ruled_out <= -comparison.margin:
        return Winner(None, f"{rates}, which is inconclusive{f': {rate.settles}' if rate.settles else ''}")
    worse = list(_worse_metrics(comparison, side))
    if worse:
        return Winner(None, f"{rates}, but the {side} is worse in {', '.join(worse)}")
    return Winner(side, rates)


def _worse_metrics(comparison: Comparison, side: Literal["head", "base"]) -> Iterator[str]:
    """Yield the names of the gating metrics that are worse beyond chance in the run `side`."""
    for metric in comparison.metrics:
        change = metric.change
        if change is None or not metric.gates:
            continue
        if change.state == "regressed" if side == "head" else _is_better(change):
            yield metric.name


def _is_better(change: Difference) -> bool:
    p_value = change.p_shown if change.p_gating is None else change.p_gating
    return change.low is not None and change.low > 0 and p_value is not None and p_value <= SIGNIFICANT
