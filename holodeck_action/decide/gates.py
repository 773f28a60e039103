"""Suite-level gates: what the whole run must reach (docs/results.md).

Each gate is passed, failed, or undetermined while what is missing could still turn it. Missing evaluations that
`min_completeness` tolerates are left out of the numbers. A function with the key of a gate judges it.

Gates on one metric look at its mean, the end of the mean's interval and its worst tenth. A lower bound asks for high
scores, an upper one for low ones; each is the other's mirror image: an upper bound of b on scores x is a lower bound of
1 − b on 1 − x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from holodeck_action.decide.consumption import Latencies, Total
from holodeck_action.decide.figures import counted, decisive, decisive_percent
from holodeck_action.decide.statistics import (
    MANY_ENOUGH,
    effective_sample_size,
    equal_quantile,
    exactly,
    mean_lower_bound,
    mean_upper_bound,
    quantile,
    total_weight,
    wilson_lower_bound,
)
from holodeck_action.decide.summaries import summary_score
from holodeck_action.decide.verdict import GateState, GateVerdict, MetricSummary
from holodeck_action.record.record import CustomSummary
from holodeck_action.suite.model.policy import BOUNDS_OF_METRICS, GateMetric, Gates, given_gates

LOST_SHOWN = 3
"""Evaluations that passing cases lack and a gate names."""
_P95 = 0.95
_NOTHING = Total(0.0, 0)
_NO_TURN = Latencies((), 0)
_TENTH = 0.10
TOLERANCE = 1e-12
"""Slack for sums of floats, so that a mean of 0.9 reaches a gate of 0.9."""

Scores = Sequence[tuple[float, float]]
"""The score of each case with its weight."""


class GateInputs(Struct, frozen=True):
    """What gates look at, quarantined and informational cases left out.

    `passed`, `failed` and `missing` are the case weights by outcome (missing: in error or not run). `lost` is the
    number of evaluations of passing cases that did not happen, `lost_first` names the first of them. `scores` holds the
    score of each case with its weight, by metric. Of what was spent (`tokens`, `cost_usd`) nothing is left out; `unrun`
    counts all cases that were not run. `untold` counts evaluations for which a fact is unknown: no gate tolerates that.
    Cases with several trials that are not flaky yet may be so in trials that were not run, as the case was decided
    (`unseen`), or that could not be judged (`undecided`). Without `asserting` no case can pass or fail: there is no
    pass rate, and gates on it do not apply.
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
    tokens: Total = _NOTHING
    cost_usd: Total = _NOTHING
    latencies: Latencies = _NO_TURN
    first_tokens: Latencies = _NO_TURN
    unrun: int = 0
    untold: int = 0
    unseen: int = 0
    undecided: int = 0
    summary: CustomSummary | None = None
    asserting: bool = True

    @property
    def completeness(self) -> float:
        """Share of the planned evaluations that happened; 1 when none was planned."""
        return self.completed / self.planned if self.planned else 1.0

    @property
    def decided(self) -> bool:
        """Whether a case is decided, or none can be."""
        return bool(self.passed or self.failed) or not self.asserting

    @property
    def pass_rate(self) -> float | None:
        """Weighted share of passed among decided cases, below 1 when one failed; None when no case is decided."""
        if not self.passed and not self.failed:
            return None
        passed = total_weight(self.passed)
        rate = float(passed / (passed + total_weight(self.failed)))
        return math.nextafter(1.0, 0.0) if rate == 1.0 and self.failed else rate


Found = tuple[GateState, float | None, str]
"""How a gate ends, the number that was found (None if unknown), and the sentence with both numbers."""
Judge = Callable[[float, GateInputs, bool], Found]
"""Judges a gate by its limit and the inputs; the last is whether missing evaluations are tolerated."""
_JUDGES: dict[str, Judge] = {}


def _judges(name: str) -> Callable[[Judge], Judge]:
    """Return a decorator that names the gate, a key of `Gates`, which a function judges."""

    def added(judge: Judge) -> Judge:
        _JUDGES[name] = judge
        return judge

    return added


def judge_gates(gates: Gates, inputs: GateInputs) -> tuple[GateVerdict, ...]:
    """Judge every configured gate."""
    return tuple(_judge(gates, inputs))


def _judge(gates: Gates, inputs: GateInputs) -> Iterator[GateVerdict]:
    complete = _complete(gates.min_completeness, inputs)
    for name, gate, limit in given_gates(gates):
        if gate.looks_at != "base" and (inputs.asserting or gate.looks_at != "answers"):
            state, actual, reason = _JUDGES[name](limit, inputs, complete)
            yield GateVerdict(name, state, actual, limit, reason)
    for name in sorted(gates.metrics):
        summary = inputs.metrics.get(name)
        missing = 0 if summary is None or complete else summary.errors
        yield from metric_gates(gates.metrics[name], Measured(name, inputs.scores.get(name, ()), summary, missing))
    if gates.summary is not None:
        yield _summary(gates, inputs, tolerated=complete)


def _lost(inputs: GateInputs) -> str:
    """Name the first evaluations that passing cases lack: nothing else in a report does."""
    if not inputs.lost:
        return ""
    more = f"; and {inputs.lost - LOST_SHOWN} more" if inputs.lost > LOST_SHOWN else ""
    return f"; missing in passing cases: {'; '.join(inputs.lost_first)}{more}"


def _untold(inputs: GateInputs) -> str:
    return f"; {counted(inputs.untold, 'evaluation')} lack a fact, which no gate tolerates" if inputs.untold else ""


def _complete(required: float | None, inputs: GateInputs) -> bool:
    """Tell whether what is missing is tolerated: it is left out of the numbers then."""
    if inputs.untold:
        return False
    if required is None:
        return True
    everything = required >= 1.0
    return reaches(inputs.completeness, required) and not (everything and inputs.missing)


@_judges("min_pass_rate")
def _pass_rate(required: float, inputs: GateInputs, tolerated: bool) -> Found:
    passed, failed, missing = map(total_weight, (inputs.passed, inputs.failed, inputs.missing))
    rate, bound = inputs.pass_rate, exactly(required)
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
    share = _share(rate, required, " by weight" if weighted else "", holds=state == "passed")
    reason = f"{len(inputs.passed)} of {decided} passed{share}{_unjudged(inputs)}"
    return state, rate, reason


@_judges("min_completeness")
def _completeness(required: float, inputs: GateInputs, tolerated: bool) -> Found:
    reason = f"{inputs.completed} of {inputs.planned} evaluations happened"
    reason += _share(inputs.completeness, required, holds=tolerated)
    reason += _unjudged(inputs) + _lost(inputs) + _untold(inputs)
    return "passed" if tolerated else "undetermined", inputs.completeness, reason


def _share(rate: float, required: float, counted_how: str = "", *, holds: bool) -> str:
    """Say what share is required of a count that was told, and what share that is."""
    if required >= 1.0:
        return ", all must"
    found, bound = decisive_percent(rate, required, holds=holds)
    return f" ({found}{counted_how}), {bound} must"


def _unjudged(inputs: GateInputs) -> str:
    return f"; {counted(len(inputs.missing), 'case')} could not be judged" if inputs.missing else ""


@_judges("min_pass_rate_lower_bound")
def _lower_bound(required: float, inputs: GateInputs, tolerated: bool) -> Found:
    rate = inputs.pass_rate
    if rate is None:
        return "undetermined", None, "no case could be judged"
    everything = [*inputs.passed, *inputs.failed, *inputs.missing]
    bound = wilson_lower_bound(rate, effective_sample_size([*inputs.passed, *inputs.failed]))
    best = wilson_lower_bound(
        (sum(inputs.passed) + sum(inputs.missing)) / sum(everything), effective_sample_size(everything)
    )
    state: GateState = "passed" if reaches(bound, required) else "failed"
    if not tolerated:
        state = "undetermined" if reaches(best, required) else "failed"
    found, needed = decisive_percent(bound, required, holds=reaches(bound, required))
    cases = len(inputs.passed) + len(inputs.failed)
    reason = f"{found} is the lower end of the pass rate's 95 % interval over {counted(cases, 'case')}, {needed} needed"
    return state, bound, reason + _unjudged(inputs)


def _at_most(actual: int, limit: float, found: str) -> Found:
    """Judge a number of something; `found` says it in words."""
    allowed = "none" if limit == 0 else f"{limit:,}"
    return "passed" if actual <= limit else "failed", actual, f"{found}, {allowed} allowed"


@_judges("max_errors")
def _errors(limit: float, inputs: GateInputs, tolerated: bool) -> Found:
    return _at_most(inputs.errors, limit, f"{counted(inputs.errors, 'case')} in error")


@_judges("max_flaky")
def _flaky(limit: float, inputs: GateInputs, tolerated: bool) -> Found:
    """Judge the flaky cases: trials that nobody judged could make one of any case."""
    state, actual, reason = _at_most(inputs.flaky, limit, counted(inputs.flaky, "flaky case"))
    missing = inputs.unseen + (0 if tolerated else inputs.undecided)
    if state == "failed" or inputs.flaky + missing <= limit:
        return state, actual, reason
    more = f"{counted(missing, 'other case')} may be flaky in trials that nobody judged"
    return "undetermined", actual, f"{reason}; {more}"


@_judges("max_cost_usd")
def _cost(limit: float, inputs: GateInputs, tolerated: bool) -> Found:
    return _spent(limit, inputs.cost_usd, inputs.unrun, places=4, said="${} spent, ${} allowed")


@_judges("max_total_tokens")
def _tokens(limit: float, inputs: GateInputs, tolerated: bool) -> Found:
    return _spent(limit, inputs.tokens, inputs.unrun, places=0, said="{} tokens used, {} allowed")


def _spent(limit: float, total: Total, unrun: int, *, places: int, said: str) -> Found:
    """Judge tokens or dollars: what is not known, or was not run, could still exceed the limit."""
    holds = reaches(limit, total.known)
    state: GateState = "failed" if not holds else "undetermined" if total.unknown or unrun else "passed"
    # A part of a sum is never shown as the sum.
    at_least = "≥ " if total.unknown else ""
    reason = at_least + said.format(*decisive(total.known, limit, minimize=True, holds=holds, places=places))
    if total.unknown:
        reason += f"; unknown for {total.unknown:,} of the turns and evaluations"
    if unrun:
        reason += f"; {counted(unrun, 'case')} not run"
    return state, None if state != "failed" and total.unknown else total.known, reason


@_judges("p95_latency_ms")
def _latency(limit: float, inputs: GateInputs, tolerated: bool) -> Found:
    return _in_time(limit, inputs.latencies, inputs.unrun, ("an answer", "came"), tolerated=tolerated)


@_judges("p95_first_token_ms")
def _first_token(limit: float, inputs: GateInputs, tolerated: bool) -> Found:
    return _in_time(limit, inputs.first_tokens, inputs.unrun, ("a first token", "began"), tolerated=tolerated)


def _in_time(limit: float, found: Latencies, unrun: int, words: tuple[str, str], *, tolerated: bool) -> Found:
    # What an answer does not tell is no missing evaluation, which `min_completeness` could tolerate.
    answered, missing = found.answered, found.untold + (0 if tolerated else found.missing)
    untold = f"; {counted(found.untold, 'answer')} did not tell" if found.untold else ""
    actual = equal_quantile(answered, _P95)
    if actual is None:
        return "undetermined", None, f"no turn tells the time to {words[0]}{untold}"
    # Turns without an answer could be as fast or as slow as can be.
    fast, slow = (equal_quantile([*answered, *([end] * missing)], _P95) for end in (0.0, math.inf))
    assert fast is not None
    assert slow is not None
    shown, allowed = decisive(actual, limit, minimize=True, holds=reaches(limit, actual), places=0)
    reason = f"95 % of {counted(len(answered), 'answer')} {words[1]} within {shown} ms, {allowed} ms allowed"
    if missing > found.untold:
        reason += f"; {counted(found.missing, 'turn')} unanswered"
    reason += untold
    if not reaches(limit, fast):
        return "failed", actual, reason
    settled = reaches(limit, slow) and (tolerated or not unrun)
    return "passed" if settled else "undetermined", actual, reason


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
    shown, needed = decisive(score, summary.min, minimize=False, holds=state == "passed")
    reason = f"summary score {shown} ({summary.function or summary.method}), needs {needed}"
    missing = any(metric.errors for metric in inputs.metrics.values())
    return GateVerdict("summary", "undetermined" if missing and not tolerated else state, score, summary.min, reason)


def gate_sentence(gate: GateVerdict) -> str:
    """Say what a gate found and requires: its reason, and of one that cannot be decided that it cannot."""
    return f"{gate.reason} (cannot be decided)" if gate.state == "undetermined" else gate.reason


class Measured(Struct, frozen=True):
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


class _Bound(Struct, frozen=True):
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
    reason = f"mean {found.name} {{}} over {counted(summary.cases, 'case')}, {{}}"
    return _decided(bound, found, summary.mean, _best_mean(bound, summary, found.missing), reason)


def _end_of_interval(bound: _Bound, found: Measured) -> GateVerdict:
    end = (mean_lower_bound if bound.best else mean_upper_bound)(found.scores)
    cases = len(found.scores)
    if end is None or cases < MANY_ENOUGH or found.summary is None:
        reason = f"too few cases: {cases} have a score of {found.name}, {MANY_ENOUGH} are needed"
        return GateVerdict(_gate(bound, found), "undetermined", None, bound.required, reason)
    side = "lower" if bound.best else "upper"
    reason = f"{side} end of the 95 % interval of mean {found.name} {{}} over {counted(cases, 'case')}, {{}}"
    # No interval lies beyond its mean, and the mean can still reach this.
    return _decided(bound, found, end, _best_mean(bound, found.summary, found.missing), reason)


def _worst_tenth(bound: _Bound, found: Measured) -> GateVerdict:
    actual = _tenth(found.scores, bound)
    if actual is None:
        return _nowhere(bound, found)
    heaviest = max(weight for _, weight in found.scores)
    best = _tenth([*found.scores, *([(bound.best, heaviest)] * found.missing)], bound)
    assert best is not None
    side = "no more" if bound.best else "no less"
    reason = f"a tenth of {counted(len(found.scores), 'case')} scores {side} than {found.name} {{}}, {{}}"
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
    """Judge a number; with scores missing, `best` is what it can still become. `reason` has room for both numbers."""
    shown, needed = decisive(actual, bound.required, minimize=not bound.best, holds=bound.holds(actual))
    # The name of a metric may have braces.
    before, middle, after = reason.rsplit("{}", 2)
    reason = f"{before}{shown}{middle}{'needs' if bound.best else 'at most'} {needed}{after}"
    if found.missing:
        reason += f"; {counted(found.missing, 'evaluation')} missing"
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
