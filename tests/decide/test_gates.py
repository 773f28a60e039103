"""Gates on what was spent, on time, and on intervals and quantiles of scores; statistics against scipy and numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from holodeck_action.decide.decision import decide
from holodeck_action.decide.gates import MetricResults, Scores, judge_metric_gates
from holodeck_action.decide.number_texts import format_number, gate_numbers
from holodeck_action.decide.statistics import (
    effective_sample_size,
    mean_lower_bound,
    quantile,
    student_t_quantile,
    wilson_lower_bound,
)
from holodeck_action.decide.verdict import GateVerdict, MetricSummary
from holodeck_action.record.evaluation import ErrorInfo
from holodeck_action.record.record import CaseRecord, Timing, TurnRecord, Usage
from holodeck_action.suite.model.policy import BOUNDS_OF_METRICS, GateMetric, Gates, QuarantineEntry
from tests.record.records import case, case_of, evaluation, record, turn
from tests.tables import walk

PAID = Usage(prompt_tokens=70, completion_tokens=30, cost_usd=0.01)
ERROR = ErrorInfo("AgentError", "it crashed", "crashed")


def asked(usage: Usage | None = PAID, took: float = 10.0, model: float | None = None, **changes: Any) -> TurnRecord:
    return turn(evaluation(0.9), usage=usage, timing=Timing("2026-01-01T00:00:00+00:00", took, model), **changes)


def unanswered() -> TurnRecord:
    return asked(None, response=None, error=ERROR)


def judged(*cases: CaseRecord, **gates: Any) -> tuple[GateVerdict, int]:
    """The verdict of the one gate that is given, and the exit code; `quarantine` may stand among the gates."""
    quarantine: tuple[QuarantineEntry, ...] = gates.pop("quarantine", ())
    verdict = decide(
        record(*cases, gates=Gates(min_pass_rate=None, min_completeness=None, **gates), quarantine=quarantine)
    )
    (gate,) = verdict.gates
    return gate, verdict.exit_code


# -- tokens and dollars

SPENT = {"max_cost_usd": (0.02, 0.0199), "max_total_tokens": (200, 199)}


@pytest.mark.parametrize("name", SPENT)
def test_what_is_spent_is_summed_over_all_turns(name: str) -> None:
    cases = [case_of(asked()), case_of(asked())]
    for limit, state, code in zip(SPENT[name], ("passed", "failed"), (0, 1), strict=True):
        gate, exit_code = judged(*cases, **{name: limit})
        assert (gate.state, exit_code) == (state, code)
        assert gate.actual == pytest.approx(SPENT[name][0])


@walk("name", SPENT)
@walk("unknown", [None, Usage(70, 30), Usage(70, None, None), Usage(None, 30, 0.0)])
def test_what_is_not_known_is_never_free(name: str, unknown: Usage | None) -> None:
    known = unknown is not None and (
        unknown.cost_usd is not None if name == "max_cost_usd" else unknown.completion_tokens and unknown.prompt_tokens
    )
    gate, code = judged(case_of(asked()), case_of(asked(unknown)), **{name: 1000})
    assert (gate.state, code, gate.actual is None) == (("passed", 0, False) if known else ("undetermined", 3, True))
    assert ("unknown" in gate.reason) is not bool(known)
    # What is known exceeds it already.
    gate, code = judged(case_of(asked()), case_of(asked()), case_of(asked(unknown)), **{name: SPENT[name][1]})
    assert (gate.state, code) == ("failed", 1)
    assert gate.actual is not None


@pytest.mark.parametrize("name", SPENT)
def test_a_turn_that_failed_may_have_cost_something(name: str) -> None:
    gate, _ = judged(case_of(asked()), case_of(unanswered()), **{name: 1000})
    assert gate.state == "undetermined"
    skipped = turn(response=None, skipped="not run: turn 0 of the conversation failed")
    gate, _ = judged(case_of(asked(), skipped), **{name: 1000})
    assert gate.state == "passed"


@pytest.mark.parametrize("name", SPENT)
def test_a_case_that_was_not_run_could_still_cost_something(name: str) -> None:
    gate, code = judged(case_of(asked()), case(""), **{name: 1000})
    assert (gate.state, code) == ("undetermined", 3)
    assert "1 case not run" in gate.reason


@pytest.mark.parametrize("name", SPENT)
def test_a_case_in_quarantine_is_paid_for_like_any_other(name: str) -> None:
    entry = QuarantineEntry.model_validate({"case": "case-1", "reason": "r", "owner": "@o", "expires": "2999-01-31"})
    gate, _ = judged(case_of(asked()), case_of(asked()), quarantine=(entry,), **{name: SPENT[name][1]})
    assert gate.state == "failed"


@walk(
    ("cost", "usage", "states"),
    [
        (0.01, {"prompt_tokens": 60, "completion_tokens": 40}, ("passed", "passed")),
        (None, {"prompt_tokens": 60, "completion_tokens": 40}, ("undetermined", "passed")),
        (0.01, None, ("passed", "undetermined")),
        (0.01, {"prompt_tokens": 60, "completion_tokens": True}, ("passed", "undetermined")),
        (0.0101, {"prompt_tokens": 60, "completion_tokens": 41}, ("failed", "failed")),
    ],
)
@walk("kind", ["geval", "rag", "standard"])
def test_judges_are_paid_for(cost: float | None, usage: Any, states: tuple[str, str], kind: str) -> None:
    metric = "coherence" if kind == "standard" else "x"
    by_judge = evaluation(
        0.9, kind=kind, metric=metric, cost_usd=cost, metadata={} if usage is None else {"usage": usage}
    )
    graded = replace(asked(), evaluations=(evaluation(0.9, metadata={"usage": {"prompt_tokens": 9**9}}), by_judge))
    found = [judged(case_of(graded), **{name: limit})[0].state for name, (limit, _) in SPENT.items()]
    assert tuple(found) == states


# -- time


def timed(*milliseconds: float) -> list[CaseRecord]:
    return [case_of(asked(took=took)) for took in milliseconds]


def test_p95_is_the_time_within_which_95_of_100_turns_are_answered() -> None:
    times = [float(took) for took in range(1, 101)]
    assert [judged(*timed(*times), p95_latency_ms=limit)[0].state for limit in (95, 94.9)] == ["passed", "failed"]
    assert judged(*timed(*times), p95_latency_ms=50)[0].actual == 95


def test_the_working_time_of_the_models_counts_where_it_is_known() -> None:
    gate, _ = judged(case_of(asked(took=900.0, model=40.0)), p95_latency_ms=50)
    assert (gate.state, gate.actual) == ("passed", 40.0)


def test_a_turn_without_an_answer_could_be_fast_or_slow() -> None:
    assert judged(*timed(10), case_of(unanswered()), p95_latency_ms=50)[0].state == "passed"
    verdict = decide(
        record(*timed(10), case_of(unanswered()), gates=Gates(min_pass_rate=None, p95_latency_ms=50))
    ).gates
    assert {gate.name: gate.state for gate in verdict} == {
        "min_completeness": "undetermined",
        "p95_latency_ms": "undetermined",
    }
    slow = decide(
        record(*timed(*[100] * 20), case_of(unanswered()), gates=Gates(min_pass_rate=None, p95_latency_ms=50))
    )
    assert {gate.name: gate.state for gate in slow.gates}["p95_latency_ms"] == "failed"
    nobody, code = judged(case_of(unanswered()), p95_latency_ms=50)
    assert (nobody.state, nobody.actual, code) == ("undetermined", None, 3)


# -- scores


def scored(*scores: float, weight: float = 1.0) -> list[CaseRecord]:
    return [case_of(turn(evaluation(score, threshold=0.0)), weight=weight) for score in scores]


def bounds(*cases: CaseRecord, **given: float) -> GateVerdict:
    return judged(*cases, metrics={"bleu": given})[0]


SPREAD = [0.5, 0.6, 0.7, 0.8, 0.9, 0.55, 0.65, 0.75, 0.85, 0.95]


def test_the_lower_bound_of_a_mean_is_student_s() -> None:
    low = scipy.stats.t.interval(0.95, 9, loc=np.mean(SPREAD), scale=scipy.stats.sem(SPREAD))[0]
    assert bounds(*scored(*SPREAD), min_lower_bound=low - 1e-9).state == "passed"
    assert bounds(*scored(*SPREAD), min_lower_bound=low + 1e-9).state == "failed"


def test_the_lower_bound_of_a_mean_of_ones_is_wilson_s() -> None:
    found = bounds(*scored(*[1.0] * 10), min_lower_bound=0.8)
    assert found.state == "failed"
    assert found.actual == pytest.approx(scipy.stats.binomtest(10, 10).proportion_ci(method="wilson").low)


def test_too_few_cases_have_no_lower_bound() -> None:
    found = bounds(*scored(*SPREAD[:9]), min_lower_bound=0.1)
    assert (found.state, found.actual) == ("undetermined", None)
    assert found.reason == "too few cases: 9 have a score of bleu; at least 10 are needed"


def test_p10_is_a_score_that_a_tenth_of_the_cases_has() -> None:
    assert bounds(*scored(*SPREAD), min_p10=0.5).state == "passed"
    assert bounds(*scored(*SPREAD), min_p10=0.51).state == "failed"
    heavy = [*scored(0.1), *scored(0.9, weight=20)]
    assert bounds(*heavy, min_p10=0.9).state == "passed"


def low_is_good(*scores: float, weight: float = 1.0) -> list[CaseRecord]:
    return [case_of(turn(evaluation(score, 1.0, polarity="minimize")), weight=weight) for score in scores]


def test_the_upper_bound_of_a_mean_is_student_s() -> None:
    high = scipy.stats.t.interval(0.95, 9, loc=np.mean(SPREAD), scale=scipy.stats.sem(SPREAD))[1]
    for limit, state in ((high + 1e-9, "passed"), (high - 1e-9, "failed")):
        found = bounds(*low_is_good(*SPREAD), max_upper_bound=limit)
        assert found.state == state
        assert found.actual == pytest.approx(high)


def test_the_upper_bound_of_a_mean_of_zeros_is_wilson_s() -> None:
    found = bounds(*low_is_good(*[0.0] * 10), max_upper_bound=0.2)
    assert found.state == "failed"
    assert found.actual == pytest.approx(scipy.stats.binomtest(0, 10).proportion_ci(method="wilson").high)
    few = bounds(*low_is_good(*SPREAD[:9]), max_upper_bound=1)
    assert (few.state, few.actual) == ("undetermined", None)


def test_the_highest_mean_and_p90_count_from_the_other_end() -> None:
    # The mean of 0.5, 0.55, … 0.95 is 0.725; a tenth of them scores 0.95.
    for key, actual in (("max_mean", 0.725), ("max_p90", 0.95)):
        for off, state in ((0, "passed"), (-0.001, "failed")):
            found = bounds(*low_is_good(*SPREAD), **{key: actual + off})
            assert (found.name, found.state) == (f"metrics.bleu.{key}", state)
            assert found.actual == pytest.approx(actual)
    assert bounds(*low_is_good(0.9), *low_is_good(0.1, weight=20), max_p90=0.1).state == "passed"
    assert bounds(*low_is_good(0.9), *low_is_good(0.1, weight=9), max_p90=0.1).state == "failed"


@given(
    st.lists(st.tuples(st.integers(0, 64), st.integers(1, 4)), min_size=1, max_size=30),
    st.integers(0, 64),
    st.integers(0, 3),
)
def test_bounds_from_above_are_those_from_below_in_a_mirror(
    scores: list[tuple[int, int]], limit: int, missing: int
) -> None:
    # 64ths: 1 − x is exact.
    pairs = [(score / 64, float(weight)) for score, weight in scores]

    def states(found: Scores, bound: float, side: int) -> list[str]:
        mean = math.fsum(score * weight for score, weight in found) / math.fsum(weight for _, weight in found)
        summary = MetricSummary(mean, len(found), None, 0, 0, missing, 0, 0)
        given = GateMetric(**{pair[side]: bound for pair in BOUNDS_OF_METRICS})
        return [gate.state for gate in judge_metric_gates(given, MetricResults("m", found, summary, missing))]

    below = states(tuple((1 - score, weight) for score, weight in pairs), 1 - limit / 64, 0)
    assert states(tuple(pairs), limit / 64, 1) == below


BROKEN = case_of(turn(evaluation(None, status="failed", error=ErrorInfo("E", "no judge", "x"))))


@walk(
    ("bound", "low", "high"),
    [
        ("min_mean", 0.72, 0.76),
        ("min_lower_bound", 0.72, 0.8),
        ("min_p10", 0.5, 0.56),
        # (10·0.725 + 0)/11 = 0.6591 is the least that a mean of 0.725 can become; 0.95 and 0.9 are left of eleven.
        ("max_mean", 0.66, 0.65),
        ("max_upper_bound", 0.66, 0.65),
        ("max_p90", 0.9, 0.89),
    ],
)
def test_a_missing_score_could_still_turn_a_bound(bound: str, low: float, high: float) -> None:
    for limit, state in ((low, "undetermined"), (high, "failed")):
        gates = Gates(min_pass_rate=None, metrics={"bleu": {bound: limit}})  # type: ignore[dict-item]
        verdict = decide(record(*scored(*SPREAD), BROKEN, gates=gates))
        assert {gate.name: gate.state for gate in verdict.gates}[f"metrics.bleu.{bound}"] == state
    # Tolerated, it is left out.
    assert bounds(*scored(*SPREAD), BROKEN, **{bound: 0.5 if bound[:3] == "min" else 0.95}).state == "passed"


@walk("bound", [key for pair in BOUNDS_OF_METRICS for key in pair])
def test_a_metric_that_was_evaluated_nowhere_decides_nothing(bound: str) -> None:
    assert bounds(BROKEN, **{bound: 0.0}).state == "undetermined"


# -- numbers


@given(st.floats(0.9, 0.9999), st.floats(0.5, 5000))
def test_the_quantile_of_student_is_scipy_s(share: float, freedom: float) -> None:
    assert student_t_quantile(share, freedom) == pytest.approx(scipy.stats.t.ppf(share, freedom), rel=1e-9, abs=1e-12)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=60))
def test_the_lower_bound_is_scipy_s(scores: list[float]) -> None:
    assume(not all(score in (0.0, 1.0) for score in scores))
    low = scipy.stats.t.ppf(0.025, len(scores) - 1) * scipy.stats.sem(scores) + np.mean(scores)
    found = mean_lower_bound([(score, 1.0) for score in scores])
    assert found == pytest.approx(max(0.0, low), abs=1e-9)


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=60))
def test_the_lower_bound_of_yes_and_no_is_wilson_s(scores: list[float]) -> None:
    found = mean_lower_bound([(score, 2.0) for score in scores])
    low = scipy.stats.binomtest(int(sum(scores)), len(scores)).proportion_ci(method="wilson").low
    assert found == pytest.approx(low, abs=1e-9)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 10)), min_size=2, max_size=40))
def test_weights_count_as_the_effective_number_of_cases(pairs: list[tuple[float, float]]) -> None:
    values = [value for value, _ in pairs]
    weights = [weight for _, weight in pairs]
    n = effective_sample_size(weights)
    mean = np.average(values, weights=weights)
    found = mean_lower_bound(pairs)
    slack = 1e-8
    if all(value in (0.0, 1.0) for value in values):
        expected = wilson_lower_bound(float(mean), n)
    else:
        variance = np.average((np.array(values) - mean) ** 2, weights=weights) * n / (n - 1)
        factor = scipy.stats.t.ppf(0.975, n - 1)
        expected = max(0.0, mean - factor * math.sqrt(variance / n))
        # Near one effective case the factor reaches 1e10, which makes much of the mean's last digit.
        slack += factor * 1e-15
    assert found == pytest.approx(expected, abs=slack)


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.integers(1, 9)), min_size=1, max_size=40),
    st.sampled_from([0.05, 0.1, 0.3, 0.5, 0.9, 0.95, 1.0]),
)
def test_a_quantile_is_numpy_s(pairs: list[tuple[float, int]], share: float) -> None:
    repeated = np.repeat([value for value, _ in pairs], [weight for _, weight in pairs])
    # Exact arithmetic: the rank is the smallest whole number that reaches the share.
    rank = math.ceil(round(share * len(repeated), 9))
    assert quantile([(value, float(weight)) for value, weight in pairs], share) == np.sort(repeated)[rank - 1]


def test_one_case_with_all_the_weight_has_no_interval() -> None:
    assert mean_lower_bound([(0.9, 1e30), (0.5, 1e-30)]) == 0.0
    assert mean_lower_bound([(0.9, 1e8), (0.5, 1.0)]) == 0.0


def test_a_single_score_has_no_interval_and_none_no_quantile() -> None:
    assert mean_lower_bound([(0.5, 1.0)]) is None
    assert quantile([], 0.5) is None


@walk(
    ("value", "text"),
    [(0.87654321, "0.8765"), (2, "2"), (999.96, "1000"), (91204, "91,204"), (0.000123456, "0.0001235")],
)
def test_numbers_of_gates(value: float, text: str) -> None:
    assert format_number(value) == text


# -- weights and what is shown


def rate(*cases: CaseRecord, required: float) -> GateVerdict:
    """The verdict of a gate on the pass rate."""
    (gate,) = decide(record(*cases, gates=Gates(min_pass_rate=required, min_completeness=None))).gates
    return gate


def weighted(letter: str, *weights: float) -> list[CaseRecord]:
    return [replace(case(letter), weight=weight) for weight in weights]


@walk("weight", [1e3, 1e9, 1e20, 1e300])
def test_no_weight_hides_a_failure(weight: float) -> None:
    gate = rate(*weighted("P", weight), *weighted("F", 1.0), required=1.0)
    assert gate.state == "failed"
    assert gate.actual is not None
    assert gate.actual < 1.0
    actual, required = gate_numbers(gate)
    assert (float(actual) < 1.0, required) == (True, "1")


@given(
    st.lists(st.integers(1, 1_000_000), max_size=12),
    st.lists(st.integers(1, 1_000_000), max_size=12),
    st.integers(1, 1000),
)
def test_the_pass_rate_is_compared_exactly_as_weights_are_written(
    passed: list[int], failed: list[int], required: int
) -> None:
    assume(passed or failed)
    cases = weighted("P", *(n / 1000 for n in passed)) + weighted("F", *(n / 1000 for n in failed))
    gate = rate(*cases, required=required / 1000)
    assert (gate.state == "passed") is (1000 * sum(passed) >= required * (sum(passed) + sum(failed)))


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 30))
def test_a_rate_that_was_reached_by_counting_passes(passed: int, failed: int, digits: int) -> None:
    assert rate(*weighted("P", passed), *weighted("F", failed), required=0.0).state == "passed"
    share = passed / (passed + failed)
    rounded = math.floor(share * 10 ** min(digits, 12)) / 10 ** min(digits, 12)
    assert rate(*weighted("P", passed), *weighted("F", failed), required=rounded).state == "passed"


@given(
    st.sampled_from(["min_pass_rate", "metrics.m.min_mean", "metrics.m.max_mean", "p95_latency_ms", "max_cost_usd"]),
    st.floats(0, 1e7),
    st.floats(1e-12, 1),
    st.sampled_from([None, 4]),
)
def test_a_violated_gate_never_looks_satisfied(name: str, bound: float, off: float, places: int | None) -> None:
    above = name in ("metrics.m.max_mean", "p95_latency_ms", "max_cost_usd")
    found = bound + off if above else bound - off
    assume(abs(found - bound) > 1e-12 * max(bound, 1))
    actual, required = (
        float(text.replace(",", ""))
        for text in gate_numbers(GateVerdict(name, "failed", found, bound, ""), decimals=places)
    )
    assert actual > required if above else actual < required


def test_a_gate_that_is_not_violated_keeps_its_short_numbers() -> None:
    assert gate_numbers(GateVerdict("min_pass_rate", "passed", 0.99996, 0.99995, "")) == ("1", "1")
    assert gate_numbers(GateVerdict("min_pass_rate", "failed", 0.99996, 1.0, "")) == ("0.99996", "1")
    assert gate_numbers(GateVerdict("min_pass_rate", "failed", 0.99996, 1.0, ""), decimals=4) == ("0.99996", "1")
    assert gate_numbers(GateVerdict("max_total_tokens", "failed", 100_001, 100_000, "")) == ("100,001", "100,000")
    assert gate_numbers(GateVerdict("p95_latency_ms", "failed", 1000.4, 1000.0, "")) == ("1,000.4", "1,000.0")
    assert gate_numbers(GateVerdict("summary", "undetermined", None, 0.5, "")) == ("unknown", "0.5")
