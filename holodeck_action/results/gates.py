"""Suite-level gates: what the whole run must reach (docs/results.md).

Each gate is passed, failed, or undetermined while what is missing could still turn it. Missing evaluations that
`min_completeness` tolerates are left out of the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from holodeck_action.results.consumption import Latencies, Total
from holodeck_action.results.metric_gates import Measured, Scores, metric_gates, reaches
from holodeck_action.results.record import CustomSummary
from holodeck_action.results.statistics import (
    effective_sample_size,
    exactly,
    quantile,
    total_weight,
    wilson_lower_bound,
)
from holodeck_action.results.summary import summary_score
from holodeck_action.results.verdict import GateState, GateVerdict, MetricSummary
from holodeck_action.suite.policy import Gates

_LOST_SHOWN = 3
_P95 = 0.95
_MOST_DIGITS = 14
_LATENCY = "p95_latency_ms"
_NOTHING = Total(0.0, 0)
_NO_TURN = Latencies((), 0)


@dataclass(frozen=True, slots=True)
class GateInputs:
    """What gates look at, quarantined and informational cases left out.

    `passed`, `failed` and `missing` are the case weights by outcome (missing: in error or not run). `lost` says, one by
    one, which evaluations of passing cases did not happen. `scores` holds the score of each case with its weight, by
    metric. Of what was spent (`tokens`, `cost_usd`) nothing is left out; `unrun` counts all cases that were not run.
    Without `asserting` no case can pass or fail: there is no pass rate, and gates on it do not apply.
    """

    passed: tuple[float, ...]
    failed: tuple[float, ...]
    missing: tuple[float, ...]
    errors: int
    flaky: int
    planned: int
    completed: int
    metrics: Mapping[str, MetricSummary]
    minimized: frozenset[str]
    lost: tuple[str, ...] = ()
    scores: Mapping[str, Scores] = field(default_factory=dict)
    tokens: Total = _NOTHING
    cost_usd: Total = _NOTHING
    latencies: Latencies = _NO_TURN
    unrun: int = 0
    summary: CustomSummary | None = None
    asserting: bool = True

    @property
    def completeness(self) -> float:
        """Share of the planned evaluations that happened; 1 when none was planned."""
        return self.completed / self.planned if self.planned else 1.0

    @property
    def decided(self) -> bool:
        """Whether a case is decided, or none can be."""
        return bool(self.passed + self.failed) or not self.asserting

    @property
    def pass_rate(self) -> float | None:
        """Weighted share of passed among decided cases, below 1 when one failed; None when no case is decided."""
        if not self.passed + self.failed:
            return None
        passed = total_weight(self.passed)
        rate = float(passed / (passed + total_weight(self.failed)))
        return math.nextafter(1.0, 0.0) if rate == 1.0 and self.failed else rate


def judge_gates(gates: Gates, inputs: GateInputs) -> tuple[GateVerdict, ...]:
    """Judge every configured gate."""
    return tuple(_judge(gates, inputs))


def _judge(gates: Gates, inputs: GateInputs) -> Iterator[GateVerdict]:
    complete = _complete(gates.min_completeness, inputs)
    if gates.min_pass_rate is not None and inputs.asserting:
        yield _pass_rate(gates.min_pass_rate, inputs, tolerated=complete)
    if gates.min_pass_rate_lower_bound is not None and inputs.asserting:
        yield _lower_bound(gates.min_pass_rate_lower_bound, inputs, tolerated=complete)
    if gates.min_completeness is not None:
        yield GateVerdict(
            "min_completeness",
            "passed" if complete else "undetermined",
            inputs.completeness,
            gates.min_completeness,
            f"{inputs.completed} of {inputs.planned} planned evaluations happened"
            + (f", {len(inputs.missing)} case(s) could not be judged" if inputs.missing else "")
            + _lost(inputs.lost),
        )
    if gates.max_errors is not None:
        yield _at_most("max_errors", inputs.errors, gates.max_errors, "case(s) in error")
    if gates.max_flaky is not None:
        yield _at_most("max_flaky", inputs.flaky, gates.max_flaky, "flaky case(s)")
    if gates.max_cost_usd is not None:
        yield _spent("max_cost_usd", inputs.cost_usd, gates.max_cost_usd, inputs)
    if gates.max_total_tokens is not None:
        yield _spent("max_total_tokens", inputs.tokens, gates.max_total_tokens, inputs)
    if gates.p95_latency_ms is not None:
        yield _latency(gates.p95_latency_ms, inputs, tolerated=complete)
    for name in sorted(gates.metrics):
        summary = inputs.metrics.get(name)
        missing = 0 if summary is None or complete else summary.errors
        yield from metric_gates(gates.metrics[name], Measured(name, inputs.scores.get(name, ()), summary, missing))
    if gates.summary is not None:
        yield _summary(gates, inputs, tolerated=complete)


def _lost(lost: tuple[str, ...]) -> str:
    """Name the first evaluations that passing cases lack: nothing else in a report does."""
    if not lost:
        return ""
    more = f"; and {len(lost) - _LOST_SHOWN} more" if len(lost) > _LOST_SHOWN else ""
    return f"; missing in passing cases: {'; '.join(lost[:_LOST_SHOWN])}{more}"


def _complete(required: float | None, inputs: GateInputs) -> bool:
    """Tell whether what is missing is tolerated: it is left out of the numbers then."""
    if required is None:
        return True
    everything = required >= 1.0
    return reaches(inputs.completeness, required) and not (everything and inputs.missing)


def _pass_rate(required: float, inputs: GateInputs, *, tolerated: bool) -> GateVerdict:
    passed, failed, missing = map(total_weight, (inputs.passed, inputs.failed, inputs.missing))
    rate, bound = inputs.pass_rate, exactly(required)
    total = passed + failed + missing
    state: GateState
    if rate is None:
        return GateVerdict("min_pass_rate", "undetermined", None, required, "no case was decided")
    if tolerated:
        state = "passed" if passed >= bound * (passed + failed) else "failed"
    elif passed + missing < bound * total:
        state = "failed"
    else:
        state = "passed" if passed >= bound * total else "undetermined"
    decided = len(inputs.passed) + len(inputs.failed)
    reason = f"{len(inputs.passed)} of {decided} decided cases passed"
    if len({*inputs.passed, *inputs.failed}) > 1:
        reason += ", counted by their weights"
    if missing:
        reason += f", {len(inputs.missing)} undecided"
    return GateVerdict("min_pass_rate", state, rate, required, reason)


def _lower_bound(required: float, inputs: GateInputs, *, tolerated: bool) -> GateVerdict:
    name = "min_pass_rate_lower_bound"
    rate = inputs.pass_rate
    if rate is None:
        return GateVerdict(name, "undetermined", None, required, "no case was decided")
    everything = inputs.passed + inputs.failed + inputs.missing
    bound = wilson_lower_bound(rate, effective_sample_size(inputs.passed + inputs.failed))
    best = wilson_lower_bound(
        (sum(inputs.passed) + sum(inputs.missing)) / sum(everything), effective_sample_size(everything)
    )
    reason = f"95 % Wilson interval of the pass rate {rate:.4g} over {len(inputs.passed) + len(inputs.failed)} cases"
    if not tolerated:
        return GateVerdict(name, "undetermined" if reaches(best, required) else "failed", bound, required, reason)
    return GateVerdict(name, "passed" if reaches(bound, required) else "failed", bound, required, reason)


def _at_most(name: str, actual: int, limit: int, what: str) -> GateVerdict:
    return GateVerdict(
        name, "passed" if actual <= limit else "failed", actual, limit, f"{actual} {what}, {limit} allowed"
    )


def _spent(name: str, total: Total, limit: float, inputs: GateInputs) -> GateVerdict:
    """Judge tokens or dollars: what is not known, or was not run, could still exceed the limit."""
    what = "tokens" if name == "max_total_tokens" else "US dollars"
    reason = f"{figure(total.known)} {what} known"
    if total.unknown:
        reason += f", those of {total.unknown} turn(s) or evaluation(s) unknown"
    if inputs.unrun:
        reason += f", {inputs.unrun} case(s) not run"
    state: GateState
    if not reaches(limit, total.known):
        state = "failed"
    else:
        state = "undetermined" if total.unknown or inputs.unrun else "passed"
    return GateVerdict(name, state, None if state != "failed" and total.unknown else total.known, limit, reason)


def _latency(limit: float, inputs: GateInputs, *, tolerated: bool) -> GateVerdict:
    name = _LATENCY
    answered, missing = inputs.latencies.answered, 0 if tolerated else inputs.latencies.missing
    actual = quantile([(took, 1.0) for took in answered], _P95)
    if actual is None:
        return GateVerdict(name, "undetermined", None, limit, "no turn was answered")
    # Turns without an answer could be as fast or as slow as can be.
    fast, slow = (
        quantile([*((took, 1.0) for took in answered), *([(end, 1.0)] * missing)], _P95) for end in (0.0, math.inf)
    )
    assert fast is not None
    assert slow is not None
    reason = f"95 % of {len(answered)} answers took no longer"
    if missing:
        reason += f", {missing} turn(s) unanswered"
    if not reaches(limit, fast):
        return GateVerdict(name, "failed", actual, limit, reason)
    settled = reaches(limit, slow) and (tolerated or not inputs.unrun)
    return GateVerdict(name, "passed" if settled else "undetermined", actual, limit, reason)


def _summary(gates: Gates, inputs: GateInputs, *, tolerated: bool) -> GateVerdict:
    summary = gates.summary
    assert summary is not None
    if summary.function is not None:
        found = inputs.summary
        if found is None or found.function != summary.function:
            reason = f"{summary.function} is called in a run, and this one did not call it"
            return GateVerdict("summary", "undetermined", None, summary.min, reason)
        if found.score is None:
            return GateVerdict("summary", "undetermined", None, summary.min, found.reason)
        score: float | None = found.score
    else:
        means = {name: metric.mean for name, metric in inputs.metrics.items() if metric.mean is not None}
        score = summary_score(summary.method, summary.weights or {}, means, inputs.minimized)
    lost = sorted(name for name, metric in inputs.metrics.items() if metric.mean is None and metric.errors)
    if score is None or (lost and summary.weights is None):
        which = ", ".join(lost) or "a weighted metric"
        return GateVerdict("summary", "undetermined", None, summary.min, f"{which} was evaluated on no case")
    state: GateState = "passed" if reaches(score, summary.min) else "failed"
    missing = any(metric.errors for metric in inputs.metrics.values())
    return GateVerdict(
        "summary",
        "undetermined" if missing and not tolerated else state,
        score,
        summary.min,
        summary.function or summary.method,
    )


def at_most(name: str) -> bool:
    """Tell whether a gate of this name is an upper limit."""
    # The name of a metric may begin with anything.
    key = name.rpartition(".")[2] if name.startswith("metrics.") else name
    return key.startswith("max_") or key == _LATENCY


def figures(gate: GateVerdict, *, places: int | None = None) -> tuple[str, str]:
    """Show what a gate found (`unknown` for nothing) and what it requires.

    Both get as many digits as it takes that a violated gate does not look satisfied.

    Args:
        gate: the gate.
        places: digits behind the point of what was found; None for significant ones, as `figure`.
    """
    if gate.actual is None:
        return "unknown", figure(gate.required)
    for more in range(_MOST_DIGITS):
        actual = figure(gate.actual, more) if places is None else f"{gate.actual:.{places + more}f}"
        required = figure(gate.required, more)
        if gate.state != "failed" or _looks_violated(gate.name, actual, required):
            break
    return actual, required


def _looks_violated(name: str, actual: str, required: str) -> bool:
    found, bound = (float(text.replace(",", "")) for text in (actual, required))
    return found > bound if at_most(name) else found < bound


def figure(value: float, more: int = 0) -> str:
    """Show a gate's number: with four significant digits, from a thousand on as a whole; `more` adds digits."""
    return f"{value:,.{more}f}" if abs(value) >= 1000 else f"{value:.{4 + more}g}"
