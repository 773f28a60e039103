"""Suite-level gates: what the whole run must reach (docs/results.md).

Each gate is passed, failed, or undetermined while what is missing could still turn it. Missing evaluations that
`min_completeness` tolerates are left out of the numbers.

Gates on one metric look at its mean, the end of the mean's interval and its worst tenth. A lower bound asks for high
scores, an upper one for low ones; each is the other's mirror image: an upper bound of b on scores x is a lower bound of
1 − b on 1 − x.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from holodeck_action.results.consumption import Latencies, Total
from holodeck_action.results.record import CustomSummary
from holodeck_action.results.statistics import (
    MANY_ENOUGH,
    effective_sample_size,
    exactly,
    mean_lower_bound,
    mean_upper_bound,
    quantile,
    total_weight,
    wilson_lower_bound,
)
from holodeck_action.results.summaries import summary_score
from holodeck_action.results.verdict import GateState, GateVerdict, MetricSummary
from holodeck_action.suite.policy import BOUNDS_OF_METRICS, GateMetric, Gates

_LOST_SHOWN = 3
_P95 = 0.95
_MOST_DIGITS = 14
_LATENCY, _FIRST_TOKEN = "p95_latency_ms", "p95_first_token_ms"
_NOTHING = Total(0.0, 0)
_NO_TURN = Latencies((), 0)
_TENTH = 0.10
TOLERANCE = 1e-12
"""Slack for sums of floats, so that a mean of 0.9 reaches a gate of 0.9."""

Scores = tuple[tuple[float, float], ...]
"""The score of each case with its weight."""


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
    first_tokens: Latencies = _NO_TURN
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
        yield _latency(_LATENCY, gates.p95_latency_ms, inputs.latencies, inputs.unrun, tolerated=complete)
    if gates.p95_first_token_ms is not None:
        yield _latency(_FIRST_TOKEN, gates.p95_first_token_ms, inputs.first_tokens, inputs.unrun, tolerated=complete)
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


def _latency(name: str, limit: float, found: Latencies, unrun: int, *, tolerated: bool) -> GateVerdict:
    # What an answer does not tell is no missing evaluation, which `min_completeness` could tolerate.
    answered, missing = found.answered, found.untold + (0 if tolerated else found.missing)
    actual = quantile([(took, 1.0) for took in answered], _P95)
    if actual is None:
        reason = f"{found.untold} answer(s) do not tell it" if found.untold else "no turn was answered"
        return GateVerdict(name, "undetermined", None, limit, reason)
    # Turns without an answer could be as fast or as slow as can be.
    fast, slow = (
        quantile([*((took, 1.0) for took in answered), *([(end, 1.0)] * missing)], _P95) for end in (0.0, math.inf)
    )
    assert fast is not None
    assert slow is not None
    what = "took" if name == _LATENCY else "waited for their first token"
    reason = f"95 % of {len(answered)} answers {what} no longer"
    if missing > found.untold:
        reason += f", {found.missing} turn(s) unanswered"
    if found.untold:
        reason += f", {found.untold} answer(s) do not tell it"
    if not reaches(limit, fast):
        return GateVerdict(name, "failed", actual, limit, reason)
    settled = reaches(limit, slow) and (tolerated or not unrun)
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
    return key.startswith(("max_", "baseline.")) or key in (_LATENCY, _FIRST_TOKEN)


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


def gate_sentence(gate: GateVerdict) -> str:
    """Say what a gate found and required, and why."""
    actual, required = figures(gate)
    return f"{gate.name} is {actual}, {required} required ({gate.reason})"


def _looks_violated(name: str, actual: str, required: str) -> bool:
    found, bound = (float(text.replace(",", "")) for text in (actual, required))
    return found > bound if at_most(name) else found < bound


def figure(value: float, more: int = 0) -> str:
    """Show a gate's number: with four significant digits, from a thousand on as a whole; `more` adds digits."""
    return f"{value:,.{more}f}" if abs(value) >= 1000 else f"{value:.{4 + more}g}"


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known of a metric over the cases that gate.

    Attributes:
        name: the metric's.
        scores: of the cases that have one.
        summary: None where the metric was evaluated nowhere.
        missing: evaluations that did not happen and are not tolerated: they could have any score.
    """

    name: str
    scores: Scores
    summary: MetricSummary | None
    missing: int


@dataclass(frozen=True, slots=True)
class _Bound:
    """A bound with its key; `best` is the score, 1 or 0, that is as good as can be."""

    key: str
    required: float
    best: float

    def holds(self, actual: float) -> bool:
        return reaches(actual, self.required) if self.best else reaches(self.required, actual)


def metric_gates(bounds: GateMetric, found: Measured) -> Iterator[GateVerdict]:
    """Judge the bounds that are given on a metric."""
    for kind, (low, high) in zip((_mean, _end_of_interval, _worst_tenth), BOUNDS_OF_METRICS, strict=True):
        for key, best in ((low, 1.0), (high, 0.0)):
            required = getattr(bounds, key)
            if required is not None:
                yield kind(_Bound(key, required, best), found)


def _mean(bound: _Bound, found: Measured) -> GateVerdict:
    summary = found.summary
    if summary is None or summary.mean is None:
        return _nowhere(bound, found)
    reason = f"mean over {summary.cases} case(s)"
    return _decided(bound, found, summary.mean, _best_mean(bound, summary, found.missing), reason)


def _end_of_interval(bound: _Bound, found: Measured) -> GateVerdict:
    end = (mean_lower_bound if bound.best else mean_upper_bound)(found.scores)
    if end is None or len(found.scores) < MANY_ENOUGH or found.summary is None:
        reason = f"too few cases: {len(found.scores)} have a score, {MANY_ENOUGH} are needed"
        return GateVerdict(_gate(bound, found), "undetermined", None, bound.required, reason)
    reason = f"95 % interval of the mean over {len(found.scores)} cases"
    # No interval lies beyond its mean, and the mean can still reach this.
    return _decided(bound, found, end, _best_mean(bound, found.summary, found.missing), reason)


def _worst_tenth(bound: _Bound, found: Measured) -> GateVerdict:
    actual = _tenth(found.scores, bound)
    if actual is None:
        return _nowhere(bound, found)
    heaviest = max(weight for _, weight in found.scores)
    best = _tenth([*found.scores, *([(bound.best, heaviest)] * found.missing)], bound)
    assert best is not None
    reason = f"at least 10 % of {len(found.scores)} case(s) score no {'higher' if bound.best else 'lower'}"
    return _decided(bound, found, actual, best, reason)


def _tenth(scores: Sequence[tuple[float, float]], bound: _Bound) -> float | None:
    """Return the score that a tenth of the weight does not exceed in goodness, counted from the worst."""
    sign = 1.0 if bound.best else -1.0
    end = quantile([(sign * score, weight) for score, weight in scores], _TENTH)
    return None if end is None else sign * end


def _best_mean(bound: _Bound, summary: MetricSummary, missing: int) -> float:
    """Return what the mean of n scores can still become with m missing ones: (n·mean + m·best)/(n + m)."""
    assert summary.mean is not None
    return (summary.cases * summary.mean + missing * bound.best) / (summary.cases + missing)


def _decided(bound: _Bound, found: Measured, actual: float, best: float, reason: str) -> GateVerdict:
    """Judge a number; with scores missing, `best` is what it can still become."""
    if found.missing:
        reason += f", {found.missing} evaluation(s) missing"
        state: GateState = "undetermined" if bound.holds(best) else "failed"
    else:
        state = "passed" if bound.holds(actual) else "failed"
    return GateVerdict(_gate(bound, found), state, actual, bound.required, reason)


def _nowhere(bound: _Bound, found: Measured) -> GateVerdict:
    reason = f"{found.name} was evaluated on no case"
    return GateVerdict(_gate(bound, found), "undetermined", None, bound.required, reason)


def _gate(bound: _Bound, found: Measured) -> str:
    return f"metrics.{found.name}.{bound.key}"


def reaches(actual: float, required: float) -> bool:
    """Tell whether a rate or mean reaches what is required, rounding of sums forgiven."""
    return actual >= required - TOLERANCE
