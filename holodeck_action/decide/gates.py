"""Gates of the suite: requirements on the whole run (docs/verdict.md).

Each gate is passed, failed, or undetermined if missing evaluations could change its state. Missing evaluations that
`min_completeness` tolerates are ignored. Each gate has a function that judges it, registered under the gate's key with
a decorator.

A gate on one metric checks the mean of its scores, one end of the mean's 95 % confidence interval, or the 10 % quantile
of the scores, counted from the worst. Lower bounds are for metrics whose high scores are good, upper bounds for metrics
whose low scores are good. An upper bound b on scores x is equivalent to a lower bound 1 − b on 1 − x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from holodeck_action.decide.consumption import KnownTotal, Latencies
from holodeck_action.decide.number_texts import count_phrase, decisive_numbers, decisive_percentages
from holodeck_action.decide.statistics import (
    MIN_SAMPLE,
    effective_sample_size,
    equal_quantile,
    exact_fraction,
    mean_lower_bound,
    mean_upper_bound,
    quantile,
    total_weight,
    wilson_lower_bound,
)
from holodeck_action.decide.summaries import summary_score
from holodeck_action.decide.verdict import GateState, GateVerdict, MetricSummary
from holodeck_action.record.record import CustomSummary
from holodeck_action.suite.model.policy import BOUNDS_OF_METRICS, GateMetric, Gates, active_gates

MIN_PASS_RATE = "min_pass_rate"  # noqa: S105
MAX_LOST_NAMED = 3
"""Maximum number of missing evaluations that the reason of a gate names."""
_P95 = 0.95
_ZERO = KnownTotal(0.0, 0)
_NO_LATENCIES = Latencies((), 0)
_TENTH = 0.10
NOT_DETERMINED = "not determined: stopped"
"""Reason of a gate that is undetermined because the run stopped."""
TOLERANCE = 1e-12
"""Tolerance for rounding errors of sums, so that a mean of 0.9 reaches a gate of 0.9."""

Scores = Sequence[tuple[float, float]]
"""(score, weight) of each case."""


class GateInputs(Struct, frozen=True):
    """The inputs of gates, without quarantined and informational cases.

    `passed`, `failed` and `missing` are the case weights by outcome (missing: in error or not run). `lost` is the
    number of missing evaluations of passing cases, `lost_first` names the first of them. `scores` holds the score of
    each case with its weight, by metric. `tokens` and `cost_usd` include all cases; `unrun` counts all cases that the
    run did not finish. `unreported` counts evaluations with an unknown input, which no gate tolerates. A case that has
    trials without a verdict could be flaky: `unseen` counts such cases if those trials were not run because the case
    was decided, `undecided` counts the others. If `asserting` is false, no case can pass or fail, so gates on the pass
    rate do not apply.
    """

    passed: Sequence[float]
    failed: Sequence[float]
    missing: Sequence[float]
    errors: int
    flaky: int
    planned: int
    completed: int
    metrics: Mapping[str, MetricSummary]
    minimized: frozenset[str]
    lost: int = 0
    lost_first: tuple[str, ...] = ()
    scores: Mapping[str, Scores] = field(default_factory=dict)
    tokens: KnownTotal = _ZERO
    cost_usd: KnownTotal = _ZERO
    latencies: Latencies = _NO_LATENCIES
    first_tokens: Latencies = _NO_LATENCIES
    unrun: int = 0
    unreported: int = 0
    unseen: int = 0
    undecided: int = 0
    summary: CustomSummary | None = None
    asserting: bool = True

    @property
    def completeness(self) -> float:
        """Proportion of the planned evaluations that were completed; 1 if no evaluation was planned."""
        return self.completed / self.planned if self.planned else 1.0

    @property
    def has_outcome(self) -> bool:
        """Whether any case passed or failed; true if no case has an assertion."""
        return bool(self.passed or self.failed) or not self.asserting

    @property
    def pass_rate(self) -> float | None:
        """Weighted proportion of passed cases among passed and failed cases; None if there are no such cases. Below 1
        if a case failed, even if the quotient rounds to 1.
        """
        if not self.passed and not self.failed:
            return None
        passed = total_weight(self.passed)
        rate = float(passed / (passed + total_weight(self.failed)))
        return math.nextafter(1.0, 0.0) if rate == 1.0 and self.failed else rate


GateResult = tuple[GateState, float | None, str]
"""The state of a gate, the measured number (None if unknown), and a sentence with both numbers."""
GateFunction = Callable[[float, GateInputs, bool], GateResult]
"""A function that judges a gate from its limit, the inputs, and whether missing evaluations are tolerated."""
_GATE_FUNCTIONS: dict[str, GateFunction] = {}


def _register_gate(name: str) -> Callable[[GateFunction], GateFunction]:
    """Return a decorator that registers the function that judges the gate `name`, a key of `Gates`."""

    def register(function: GateFunction) -> GateFunction:
        _GATE_FUNCTIONS[name] = function
        return function

    return register


def judge_gates(gates: Gates, inputs: GateInputs) -> tuple[GateVerdict, ...]:
    """Judge every configured gate."""
    return tuple(_judge_all(gates, inputs))


def _judge_all(gates: Gates, inputs: GateInputs) -> Iterator[GateVerdict]:
    complete = _tolerates_missing(gates.min_completeness, inputs)
    for name, gate, limit in active_gates(gates):
        if gate.looks_at != "base" and (inputs.asserting or gate.looks_at != "answers"):
            state, actual, reason = _GATE_FUNCTIONS[name](limit, inputs, complete)
            yield GateVerdict(name, state, actual, limit, reason)
    for name in sorted(gates.metrics):
        summary = inputs.metrics.get(name)
        missing = 0 if summary is None or complete else summary.errors
        yield from judge_metric_gates(
            gates.metrics[name], MetricResults(name, inputs.scores.get(name, ()), summary, missing)
        )
    if gates.summary is not None:
        yield _judge_summary(gates, inputs, tolerated=complete)


def _missing_clause(inputs: GateInputs) -> str:
    """Return a clause with the first missing evaluations of passing cases; an empty string if none is missing."""
    if not inputs.lost:
        return ""
    more = f"; and {inputs.lost - MAX_LOST_NAMED} more" if inputs.lost > MAX_LOST_NAMED else ""
    return f"; missing in passing cases: {'; '.join(inputs.lost_first)}{more}"


def _unknown_inputs_clause(inputs: GateInputs) -> str:
    verb = "has" if inputs.unreported == 1 else "have"
    what = count_phrase(inputs.unreported, "evaluation")
    return f"; {what} {verb} an unknown input, which no gate tolerates" if inputs.unreported else ""


def _tolerates_missing(required_rate: float | None, inputs: GateInputs) -> bool:
    """Return whether missing evaluations are tolerated, given the required completeness. If `required_rate` is None,
    all missing evaluations are tolerated except those with an unknown input.
    """
    if inputs.unreported:
        return False
    if required_rate is None:
        return True
    everything = required_rate >= 1.0
    return reaches(inputs.completeness, required_rate) and not (everything and inputs.missing)


@_register_gate(MIN_PASS_RATE)
def _judge_pass_rate(required_rate: float, inputs: GateInputs, tolerated: bool) -> GateResult:
    passed, failed, missing = map(total_weight, (inputs.passed, inputs.failed, inputs.missing))
    rate, bound = inputs.pass_rate, exact_fraction(required_rate)
    total = passed + failed + missing
    state: GateState
    if rate is None:
        return "undetermined", None, "no case could be judged"
    if tolerated:
        state = "passed" if passed >= bound * (passed + failed) else "failed"
    elif passed + missing < bound * total:
        state = "failed"
    else:
        state = "passed" if passed >= bound * total else "undetermined"
    decided = len(inputs.passed) + len(inputs.failed)
    weighted = len({*inputs.passed, *inputs.failed}) > 1
    share = _share_clause(rate, required_rate, "must pass", " by weight" if weighted else "", is_met=state == "passed")
    reason = f"{len(inputs.passed)} of {decided} passed{share}{_unjudged_clause(inputs)}"
    return state, rate, reason


@_register_gate("min_completeness")
def _judge_completeness(required_rate: float, inputs: GateInputs, tolerated: bool) -> GateResult:
    reason = f"{inputs.completed} of {inputs.planned} evaluations were completed"
    reason += _share_clause(inputs.completeness, required_rate, "are required", is_met=tolerated)
    reason += _unjudged_clause(inputs) + _missing_clause(inputs) + _unknown_inputs_clause(inputs)
    return "passed" if tolerated else "undetermined", inputs.completeness, reason


def _share_clause(rate: float, required_rate: float, verb: str, clause: str = "", *, is_met: bool) -> str:
    """Return the measured and the required rate as a clause, to be appended to a count of cases."""
    if required_rate >= 1.0:
        return f", all {verb}"
    found, bound = decisive_percentages(rate, required_rate, is_met=is_met)
    return f" ({found}{clause}), at least {bound} {verb}"


def _unjudged_clause(inputs: GateInputs) -> str:
    return f"; {count_phrase(len(inputs.missing), 'case')} could not be judged" if inputs.missing else ""


@_register_gate("min_pass_rate_lower_bound")
def _judge_lower_bound(required_rate: float, inputs: GateInputs, tolerated: bool) -> GateResult:
    rate = inputs.pass_rate
    if rate is None:
        return "undetermined", None, "no case could be judged"
    everything = [*inputs.passed, *inputs.failed, *inputs.missing]
    bound = wilson_lower_bound(rate, effective_sample_size([*inputs.passed, *inputs.failed]))
    best = wilson_lower_bound(
        (sum(inputs.passed) + sum(inputs.missing)) / sum(everything), effective_sample_size(everything)
    )
    state: GateState = "passed" if reaches(bound, required_rate) else "failed"
    if not tolerated:
        state = "undetermined" if reaches(best, required_rate) else "failed"
    found, needed = decisive_percentages(bound, required_rate, is_met=reaches(bound, required_rate))
    cases = len(inputs.passed) + len(inputs.failed)
    reason = (
        f"{found} is the lower end of the pass rate's 95 % interval over {count_phrase(cases, 'case')}; "
        f"at least {needed} is needed"
    )
    return state, bound, reason + _unjudged_clause(inputs)


def _judge_count(actual: int, limit: float, phrase: str) -> GateResult:
    """Judge a count by its limit; `phrase` is the count as a phrase."""
    allowed = "none is" if limit == 0 else f"at most {limit:,} {'is' if limit == 1 else 'are'}"
    return "passed" if actual <= limit else "failed", actual, f"{phrase}; {allowed} allowed"


@_register_gate("max_errors")
def _judge_errors(limit: float, inputs: GateInputs, tolerated: bool) -> GateResult:
    return _judge_count(inputs.errors, limit, f"{count_phrase(inputs.errors, 'case')} in error")


@_register_gate("max_flaky")
def _judge_flaky(limit: float, inputs: GateInputs, tolerated: bool) -> GateResult:
    """Judge the number of flaky cases. The gate is undetermined if trials without a verdict could make too many cases
    flaky.
    """
    state, actual, reason = _judge_count(inputs.flaky, limit, count_phrase(inputs.flaky, "flaky case"))
    missing = inputs.unseen + (0 if tolerated else inputs.undecided)
    if state == "failed" or inputs.flaky + missing <= limit:
        return state, actual, reason
    more = f"{count_phrase(missing, 'other case')} may be flaky in trials that were not judged"
    return "undetermined", actual, f"{reason}; {more}"


@_register_gate("max_cost_usd")
def _judge_cost(limit: float, inputs: GateInputs, tolerated: bool) -> GateResult:
    return _judge_spending(
        limit, inputs.cost_usd, inputs.unrun, decimals=4, template="${} spent; at most ${} is allowed"
    )


@_register_gate("max_total_tokens")
def _judge_tokens(limit: float, inputs: GateInputs, tolerated: bool) -> GateResult:
    return _judge_spending(
        limit, inputs.tokens, inputs.unrun, decimals=0, template="{} tokens used; at most {} are allowed"
    )


def _judge_spending(
    limit: float, total: KnownTotal, unfinished_cases: int, *, decimals: int, template: str
) -> GateResult:
    """Judge a limit on tokens or dollars. The gate is undetermined if unknown amounts or cases that were not run could
    exceed it.
    """
    holds = reaches(limit, total.known)
    state: GateState = "failed" if not holds else "undetermined" if total.unknown or unfinished_cases else "passed"
    # A part of a sum is never shown as the sum.
    at_least = "at least " if total.unknown else ""
    reason = at_least + template.format(
        *decisive_numbers(total.known, limit, minimize=True, is_met=holds, decimals=decimals)
    )
    if total.unknown:
        reason += f"; the usage of {total.unknown:,} turns and evaluations is unknown"
    if unfinished_cases:
        reason += f"; {count_phrase(unfinished_cases, 'case')} not run"
    return state, None if state != "failed" and total.unknown else total.known, reason


@_register_gate("p95_latency_ms")
def _judge_latency(limit: float, inputs: GateInputs, tolerated: bool) -> GateResult:
    return _judge_time(limit, inputs.latencies, inputs.unrun, ("an answer", "came"), tolerated=tolerated)


@_register_gate("p95_first_token_ms")
def _judge_first_token(limit: float, inputs: GateInputs, tolerated: bool) -> GateResult:
    return _judge_time(limit, inputs.first_tokens, inputs.unrun, ("a first token", "began"), tolerated=tolerated)


def _judge_time(
    limit: float, latencies: Latencies, unfinished_cases: int, units: tuple[str, str], *, tolerated: bool
) -> GateResult:
    # An unknown time is not a missing evaluation that `min_completeness` could tolerate.
    answered, missing = latencies.answered, latencies.unreported + (0 if tolerated else latencies.missing)
    unreported = (
        f"; {count_phrase(latencies.unreported, 'answer')} did not report this time" if latencies.unreported else ""
    )
    actual = equal_quantile(answered, _P95)
    if actual is None:
        return "undetermined", None, f"no turn reports the time to {units[0]}{unreported}"
    # Turns without an answer could have taken any time.
    fast, slow = (equal_quantile([*answered, *([end] * missing)], _P95) for end in (0.0, math.inf))
    assert fast is not None
    assert slow is not None
    shown, allowed = decisive_numbers(actual, limit, minimize=True, is_met=reaches(limit, actual), decimals=0)
    reason = (
        f"95 % of {count_phrase(len(answered), 'answer')} {units[1]} within {shown} ms; at most {allowed} ms is allowed"
    )
    if missing > latencies.unreported:
        reason += f"; {count_phrase(latencies.missing, 'turn')} unanswered"
    reason += unreported
    if not reaches(limit, fast):
        return "failed", actual, reason
    settled = reaches(limit, slow) and (tolerated or not unfinished_cases)
    return "passed" if settled else "undetermined", actual, reason


def _judge_summary(gates: Gates, inputs: GateInputs, *, tolerated: bool) -> GateVerdict:
    summary = gates.summary
    assert summary is not None
    if summary.function is not None:
        found = inputs.summary
        if found is None or found.function != summary.function:
            reason = f"{summary.function} is called during a run, but this run did not call it"
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
    shown, needed = decisive_numbers(score, summary.min, minimize=False, is_met=state == "passed")
    reason = f"summary score {shown} ({summary.function or summary.method}), needs {needed}"
    missing = any(metric.errors for metric in inputs.metrics.values())
    return GateVerdict("summary", "undetermined" if missing and not tolerated else state, score, summary.min, reason)


def gate_sentence(gate: GateVerdict) -> str:
    """Return the reason of a gate's state, with a note if the gate is undetermined."""
    known = gate.state != "undetermined" or gate.reason == NOT_DETERMINED
    return gate.reason if known else f"{gate.reason} (cannot be decided)"


class MetricResults(Struct, frozen=True):
    """The results of a metric over the cases that gates count.

    Attributes:
        name: name of the metric.
        scores: (score, weight) of each case that has a score.
        summary: summary of the scores; None if the metric was not evaluated on any case.
        missing: number of missing evaluations that are not tolerated. Their scores could be anything from 0 to 1.
    """

    name: str
    scores: Scores
    summary: MetricSummary | None
    missing: int


class _Bound(Struct, frozen=True):
    """A bound on a metric. `key` is the bound's key in the suite, `best` the best possible score: 1 for a lower bound,
    0 for an upper bound.
    """

    key: str
    required: float
    best: float

    def holds(self, actual: float) -> bool:
        return reaches(actual, self.required) if self.best else reaches(self.required, actual)


def judge_metric_gates(bounds: GateMetric, results: MetricResults) -> Iterator[GateVerdict]:
    """Judge the bounds on a metric; yield a verdict for each."""
    for kind, (low, high) in zip(
        (_judge_mean, _judge_interval_end, _judge_worst_tenth), BOUNDS_OF_METRICS, strict=True
    ):
        for key, best in ((low, 1.0), (high, 0.0)):
            required = getattr(bounds, key)
            if required is not None:
                yield kind(_Bound(key, required, best), results)


def _judge_mean(bound: _Bound, results: MetricResults) -> GateVerdict:
    summary = results.summary
    if summary is None or summary.mean is None:
        return _unevaluated_gate(bound, results)
    reason = f"mean {results.name} {{}} over {count_phrase(summary.cases, 'case')}, {{}}"
    return _judge_bound(bound, results, summary.mean, _best_mean(bound, summary, results.missing), reason)


def _judge_interval_end(bound: _Bound, results: MetricResults) -> GateVerdict:
    end = (mean_lower_bound if bound.best else mean_upper_bound)(results.scores)
    cases = len(results.scores)
    if end is None or cases < MIN_SAMPLE or results.summary is None:
        reason = f"too few cases: {cases} have a score of {results.name}; at least {MIN_SAMPLE} are needed"
        return GateVerdict(_gate_name(bound, results), "undetermined", None, bound.required, reason)
    side = "lower" if bound.best else "upper"
    reason = f"{side} end of the 95 % interval of mean {results.name} {{}} over {count_phrase(cases, 'case')}, {{}}"
    # The interval's end cannot exceed the mean, which can still reach this value.
    return _judge_bound(bound, results, end, _best_mean(bound, results.summary, results.missing), reason)


def _judge_worst_tenth(bound: _Bound, results: MetricResults) -> GateVerdict:
    actual = _worst_tenth_score(results.scores, bound)
    if actual is None:
        return _unevaluated_gate(bound, results)
    heaviest = max(weight for _, weight in results.scores)
    best = _worst_tenth_score([*results.scores, *([(bound.best, heaviest)] * results.missing)], bound)
    assert best is not None
    side = "no more" if bound.best else "no less"
    reason = f"a tenth of {count_phrase(len(results.scores), 'case')} scores {side} than {results.name} {{}}, {{}}"
    return _judge_bound(bound, results, actual, best, reason)


def _worst_tenth_score(scores: Sequence[tuple[float, float]], bound: _Bound) -> float | None:
    """Return the 10 % quantile of the scores, counted from the worst; None if there are no scores."""
    sign = 1.0 if bound.best else -1.0
    end = quantile([(sign * score, weight) for score, weight in scores], _TENTH)
    return None if end is None else sign * end


def _best_mean(bound: _Bound, summary: MetricSummary, missing_count: int) -> float:
    """Return the best possible mean of n scores with m missing ones: (n·mean + m·best)/(n + m)."""
    assert summary.mean is not None
    return (summary.cases * summary.mean + missing_count * bound.best) / (summary.cases + missing_count)


def _judge_bound(bound: _Bound, results: MetricResults, actual: float, best_mean: float, reason: str) -> GateVerdict:
    """Judge a measured number by a bound on a metric.

    `best_mean` is the best number that is possible if missing scores are perfect. `reason` is a template with two `{}`,
    for the number and the bound.
    """
    shown, needed = decisive_numbers(actual, bound.required, minimize=not bound.best, is_met=bound.holds(actual))
    # The name of a metric may have braces.
    before, middle, after = reason.rsplit("{}", 2)
    reason = f"{before}{shown}{middle}{'needs' if bound.best else 'at most'} {needed}{after}"
    if results.missing:
        reason += f"; {count_phrase(results.missing, 'evaluation')} missing"
        state: GateState = "undetermined" if bound.holds(best_mean) else "failed"
    else:
        state = "passed" if bound.holds(actual) else "failed"
    return GateVerdict(_gate_name(bound, results), state, actual, bound.required, reason)


def _unevaluated_gate(bound: _Bound, results: MetricResults) -> GateVerdict:
    reason = f"{results.name} was evaluated on no case"
    return GateVerdict(_gate_name(bound, results), "undetermined", None, bound.required, reason)


def _gate_name(bound: _Bound, results: MetricResults) -> str:
    return f"metrics.{results.name}.{bound.key}"


def reaches(actual: float, required_rate: float) -> bool:
    """Return whether a number is at least the required one, up to rounding errors of sums."""
    return actual >= required_rate - TOLERANCE
