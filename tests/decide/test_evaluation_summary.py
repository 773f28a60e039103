"""What all evaluations of a run came to: counts by hand, correlations against numpy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from holodeck_action.decide.decision import decide
from holodeck_action.decide.summaries import EvaluationSummary
from holodeck_action.record.evaluation import ErrorInfo
from holodeck_action.record.record import CaseRecord
from holodeck_action.reports.report_building import build_report
from holodeck_action.reports.report_views import canonical_report
from tests.record.records import case_of, evaluation, record, turn


def summary(*cases: CaseRecord) -> EvaluationSummary:
    made = record(*cases)
    return build_report(made, decide(made)).evaluations


def pair(first: float, second: float, threshold: float = 0.5) -> CaseRecord:
    one = evaluation(first, threshold, evaluator_name="a")
    return case_of(turn(one, evaluation(second, threshold, evaluator_name="b")))


def test_performance_counts_what_was_tried() -> None:
    judged: dict[str, Any] = {"kind": "geval", "metric": "x"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    done = [
        evaluation(0.0, duration_ms=float(took), cost_usd=0.01, metadata={"usage": usage}, **judged)
        for took in range(1, 21)
    ]
    failed = evaluation(None, status="failed", error=ErrorInfo("E", "no", "x"), duration_ms=79.0, **judged)
    skipped = evaluation(None, status="skipped", explanation="does not apply", duration_ms=None)
    found = summary(case_of(turn(*done, skipped))).performance
    assert (found.total, found.successful, found.failed, found.success_rate) == (20, 20, 0, 1.0)
    assert (found.average_duration_ms, found.p95_duration_ms) == (10.5, 19.0)
    assert found.total_cost_usd == pytest.approx(0.2)
    found = summary(case_of(turn(*done, failed))).performance
    assert (found.total, found.failed, found.success_rate) == (21, 1, 20 / 21)
    assert found.average_duration_ms == pytest.approx((210 + 79) / 21)
    # Of an evaluation that failed nobody knows what it cost.
    assert found.total_cost_usd is None


def test_correlations_are_numpy_s_over_the_cases_that_have_both() -> None:
    chance = random.Random(7)
    scores = [(chance.random(), chance.random()) for _ in range(12)]
    alone = case_of(turn(evaluation(0.3, evaluator_name="a")))
    (found,) = summary(*(pair(*each) for each in scores), alone).quality.correlations
    assert (found.metrics, found.cases) == (("a", "b"), 12)
    assert found.r == pytest.approx(np.corrcoef(np.array(scores).T)[0, 1])
    assert summary(*(pair(*each) for each in scores[:9])).quality.correlations == ()
    (flat,) = summary(*(pair(first, 0.5) for first, _ in scores)).quality.correlations
    assert flat.r is None


def test_agreement_is_the_share_of_pairs_with_one_verdict() -> None:
    # Eight cases agree, two do not; a case with three metrics of which one differs agrees in one pair of three.
    cases = [*(pair(0.9, 0.8) for _ in range(7)), pair(0.1, 0.2), pair(0.9, 0.1), pair(0.2, 0.7)]
    found = summary(*cases).quality
    assert found.agreement == pytest.approx(0.8)
    assert found.agreement_cases == 10
    three = [evaluation(score, 0.5, evaluator_name=name) for name, score in (("a", 0.9), ("b", 0.9), ("c", 0.1))]
    assert summary(*cases, case_of(turn(*three))).quality.agreement == pytest.approx((8 + 1 / 3) / 11)
    few = summary(*cases[1:]).quality
    assert (few.agreement, few.agreement_cases) == (None, 9)


def test_confidence_in_three_shares() -> None:
    sure = [replace(evaluation(0.9), confidence=value) for value in (1.0, 0.8, 0.79, 0.5, 0.49)]
    found = summary(case_of(turn(*sure, evaluation(0.9)))).quality.confidence
    assert (found.stated, found.high, found.medium) == (5, 0.4, 0.4)
    assert found.low == pytest.approx(0.2)
    nobody = summary(case_of(turn(evaluation(0.9)))).quality.confidence
    assert (nobody.stated, nobody.high) == (0, None)


def test_a_canonical_report_has_no_durations() -> None:
    made = record(case_of(turn(evaluation(0.9, duration_ms=5.0))))
    found = canonical_report(build_report(made, decide(made))).evaluations.performance
    assert (found.total, found.average_duration_ms, found.p95_duration_ms) == (1, None, None)
