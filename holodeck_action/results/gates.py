"""Suite-level gates: what the whole run must reach (statistics reference, Gates; DESIGN §4).

Each gate is passed, failed, or undetermined while what is missing could still turn it. Missing evaluations that
`min_completeness` tolerates are left out of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holodeck_action.results.statistics import effective_sample_size, wilson_lower_bound
from holodeck_action.results.summary import summary_score
from holodeck_action.results.verdict import GateState, GateVerdict, MetricSummary
from holodeck_action.suite.policy import Gates

_LOST_SHOWN = 3
TOLERANCE = 1e-12
"""Slack for sums of floats, so that a mean of 0.9 reaches a gate of 0.9."""


@dataclass(frozen=True, slots=True)
class GateInputs:
    """What gates look at, quarantined and informational cases left out.

    `passed`, `failed` and `missing` are the case weights by outcome (missing: in error or not run). `lost` says, one by
    one, which evaluations of passing cases did not happen.
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

    @property
    def completeness(self) -> float:
        """Share of the planned evaluations that happened; 1 when none was planned."""
        return self.completed / self.planned if self.planned else 1.0

    @property
    def pass_rate(self) -> float | None:
        """Weighted share of passed among decided cases; None when no case is decided."""
        decided = sum(self.passed) + sum(self.failed)
        return sum(self.passed) / decided if decided else None


def judge_gates(gates: Gates, inputs: GateInputs) -> tuple[GateVerdict, ...]:
    """Judge every configured gate."""
    return tuple(_judge(gates, inputs))


def _judge(gates: Gates, inputs: GateInputs) -> Iterator[GateVerdict]:
    complete = _complete(gates.min_completeness, inputs)
    if gates.min_pass_rate is not None:
        yield _pass_rate(gates.min_pass_rate, inputs, tolerated=complete)
    if gates.min_pass_rate_lower_bound is not None:
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
    for name in sorted(gates.metrics):
        minimum = gates.metrics[name].min_mean
        if minimum is not None:
            yield _mean(name, minimum, inputs, tolerated=complete)
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
    passed, failed, missing = sum(inputs.passed), sum(inputs.failed), sum(inputs.missing)
    rate = inputs.pass_rate
    total = passed + failed + missing
    state: GateState
    if rate is None:
        return GateVerdict("min_pass_rate", "undetermined", None, required, "no case was decided")
    if tolerated:
        state = "passed" if reaches(rate, required) else "failed"
    elif not reaches((passed + missing) / total, required):
        state = "failed"
    else:
        state = "passed" if reaches(passed / total, required) else "undetermined"
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


def _mean(name: str, required: float, inputs: GateInputs, *, tolerated: bool) -> GateVerdict:
    gate = f"metrics.{name}.min_mean"
    summary = inputs.metrics.get(name)
    if summary is None or summary.mean is None:
        return GateVerdict(gate, "undetermined", None, required, f"{name} was evaluated on no case")
    reached = reaches(summary.mean, required)
    reason = f"mean over {summary.cases} case(s)"
    if summary.errors and not tolerated:
        # With m scores missing of n + m, the mean can still reach (n·mean + m)/(n + m).
        best = (summary.cases * summary.mean + summary.errors) / (summary.cases + summary.errors)
        state: GateState = "undetermined" if reaches(best, required) else "failed"
        return GateVerdict(gate, state, summary.mean, required, f"{reason}, {summary.errors} evaluation(s) missing")
    return GateVerdict(gate, "passed" if reached else "failed", summary.mean, required, reason)


def _summary(gates: Gates, inputs: GateInputs, *, tolerated: bool) -> GateVerdict:
    summary = gates.summary
    assert summary is not None
    means = {name: metric.mean for name, metric in inputs.metrics.items() if metric.mean is not None}
    score = summary_score(summary.method, summary.weights or {}, means, inputs.minimized)
    lost = sorted(name for name, metric in inputs.metrics.items() if metric.mean is None and metric.errors)
    if score is None or (lost and summary.weights is None):
        which = ", ".join(lost) or "a weighted metric"
        return GateVerdict("summary", "undetermined", None, summary.min, f"{which} was evaluated on no case")
    state: GateState = "passed" if reaches(score, summary.min) else "failed"
    missing = any(metric.errors for metric in inputs.metrics.values())
    return GateVerdict(
        "summary", "undetermined" if missing and not tolerated else state, score, summary.min, summary.method
    )


def reaches(actual: float, required: float) -> bool:
    """Tell whether a rate or mean reaches what is required, rounding of sums forgiven."""
    return actual >= required - TOLERANCE
