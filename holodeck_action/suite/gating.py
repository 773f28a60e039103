"""Which gates can fail: a run that none of them can turn red is green for the wrong reason (DESIGN §4).

`min_completeness` is none of them: what is missing leaves a run incomplete, however bad the answers are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holodeck_action.suite.policy import BOUNDS_OF_METRICS, Gates

_LEAST = 1e-9
"""Bounds nearer to the end of the scale are lost in the rounding of means."""


@dataclass(frozen=True, slots=True)
class GatedCases:
    """What gates can fail on: how many cases there are, in how many something asserts, how many are repeated."""

    cases: int
    asserting: int
    repeated: int


def unable_to_fail(gates: Gates, found: GatedCases) -> str | None:
    """Return why no gate can fail, naming those that are given, with the way out; None when one can.

    Where nothing asserts, only gates on scores count: the others would be green whatever is answered.
    """
    if gates_scores(gates) or (found.asserting and _gates_cases(gates, found)):
        return None
    if not found.asserting:
        return "no gate can fail: nothing asserts; give gates.metrics a bound on scores, such as min_mean"
    reasons = "; ".join(_reasons(gates, found))
    return f"no gate can fail: {reasons}; ask for a min_pass_rate above 0 or give another gate, such as gates.metrics"


def gates_scores(gates: Gates) -> bool:
    """Tell whether a gate that can fail looks at the scores of metrics."""
    if gates.summary is not None and gates.summary.min > _LEAST:
        return True
    return any(_can_fail(key, bound) for _, key, bound in _bounds(gates))


def gates_answers(gates: Gates) -> bool:
    """Tell whether a gate that can fail looks at answers: at whether cases pass, or at scores."""
    return bool(gates.min_pass_rate or gates.min_pass_rate_lower_bound) or gates_scores(gates)


def _gates_cases(gates: Gates, found: GatedCases) -> bool:
    """Tell whether a gate that does not look at scores can fail."""
    return (
        bool(gates.min_pass_rate or gates.min_pass_rate_lower_bound)
        or (gates.max_errors is not None and gates.max_errors < found.cases)
        or (gates.max_flaky is not None and gates.max_flaky < found.repeated)
        or any(limit is not None for limit in (gates.max_cost_usd, gates.max_total_tokens, gates.p95_latency_ms))
    )


def _reasons(gates: Gates, found: GatedCases) -> Iterator[str]:
    yield "min_pass_rate is off" if gates.min_pass_rate is None else "min_pass_rate 0 is always reached"
    if gates.min_pass_rate_lower_bound is not None:
        yield "min_pass_rate_lower_bound 0 is always reached"
    if gates.max_errors is not None:
        yield f"max_errors {gates.max_errors} allows all of {found.cases} case(s)"
    if gates.max_flaky is not None:
        yield f"max_flaky {gates.max_flaky} allows all of {found.repeated} repeated case(s)"
    for name, key, bound in _bounds(gates):
        yield f"metrics.{name}.{key} {bound:g} is always reached"
    if gates.summary is not None:
        yield f"summary.min {gates.summary.min:g} is always reached"


def _bounds(gates: Gates) -> Iterator[tuple[str, str, float]]:
    """Yield every bound on a metric: the metric, the bound's key, its value."""
    for name, bounds in sorted(gates.metrics.items()):
        for key in (key for pair in BOUNDS_OF_METRICS for key in pair):
            bound = getattr(bounds, key)
            if bound is not None:
                yield name, key, bound


def _can_fail(key: str, bound: float) -> bool:
    return bound > _LEAST if key.startswith("min_") else bound < 1.0 - _LEAST
