"""Failing cases by cause: what is one cause, what is not, in which order, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holodeck_action.decide.decision import Terms, decide
from holodeck_action.record.evaluation import ErrorInfo
from holodeck_action.record.record import BaseRun, CaseRecord, Record, RecordedBaseline, ToolAssertion
from holodeck_action.reports.causes import Cause, causes_of
from holodeck_action.reports.report_building import build_report
from holodeck_action.suite.model.policy import Baseline
from tests.record.records import case_of, evaluation, record, turn
from tests.reports.shown import report_of


def scored(bleu: float, rouge: float = 0.9, **changes: Any) -> CaseRecord:
    return case_of(turn(evaluation(bleu, title="BLEU"), evaluation(rouge, evaluator_name="rouge"), **changes))


def tool(reason: str, bleu: float = 0.9) -> CaseRecord:
    return case_of(turn(evaluation(bleu), tool_assertions=(ToolAssertion("f", False, -1, reason),)))


def broken(message: str, code: str = "crashed") -> CaseRecord:
    return case_of(turn(response=None, error=ErrorInfo("AgentError", message, code)))


def ungraded(code: str, message: str, **context: Any) -> CaseRecord:
    failed = evaluation(None, status="failed", error=ErrorInfo("EvaluationError", message, code, context))
    return case_of(turn(failed))


def told(*cases: CaseRecord) -> list[tuple[int, str]]:
    return [(len(cause.cases), cause.reason) for cause in causes_of(report_of(record(*cases)))]


def test_the_same_metrics_below_their_marks_by_about_as_much_are_one_cause() -> None:
    far, near = [scored(0.1 + n / 100) for n in range(5)], [scored(0.42), scored(0.45)]
    both = scored(0.1, 0.2)
    assert told(*far, *near, both, scored(0.9)) == [
        (5, "BLEU about 0.12, needs 0.50"),
        (2, "BLEU about 0.43, needs 0.50"),
        (1, "BLEU 0.10, needs 0.50; rouge 0.20, needs 0.50: compared"),
    ]


def test_a_wrong_tool_explains_low_scores_and_values_may_differ() -> None:
    wrong = [tool(f'tool refund: id is "LF-{n}", expected "LF-{n + 1}"', 0.1) for n in range(3)]
    other = tool('tool refund: reason is "x", expected "y"')
    assert told(*wrong, other, tool("tool mail was not called (calls: refund)")) == [
        (3, "tool refund: id is …, expected …"),
        (1, 'tool refund: reason is "x", expected "y"'),
        (1, "tool mail was not called (calls: refund)"),
    ]


def test_errors_are_one_cause_but_for_numbers_and_a_status_is_none_of_these() -> None:
    slow = [broken(f"no answer after {seconds} s", "timeout") for seconds in (60.1, 61, 7200)]
    assert told(*slow, broken("it answered 503"), broken("it answered 429")) == [
        (3, "no answer after … s"),
        (1, "it answered 503"),
        (1, "it answered 429"),
    ]


@pytest.mark.parametrize(
    ("case", "actor"),
    [
        (broken("it crashed"), "agent"),
        (broken("no such transcript", "missing_transcript"), "configuration"),
        (broken("the budget is used up", "budget_exhausted"), "budget"),
        (ungraded("judge_failed", "openai refused the key (status 401)", cause="authentication"), "configuration"),
        (ungraded("judge_failed", "openai refused the call (status 429)", cause="rate_limited"), "service"),
        (ungraded("bad_verdict", "the judge gave no number"), "judge"),
        (ungraded("evaluator_error", "division by zero"), "metric"),
    ],
)
def test_every_error_says_who_must_act(case: CaseRecord, actor: str) -> None:
    (cause,) = causes_of(report_of(record(case)))
    assert (cause.outcome, cause.actor) == ("error", actor)


def test_what_got_worse_comes_first_and_what_failed_before_last() -> None:
    good, bad = scored(0.9), scored(0.1)
    base = record(bad, bad, good)
    added = replace(scored(0.1), content_hash="1" * 64)
    head = record(bad, bad, bad, added)
    causes = compared(base, head)
    assert [(cause.standing, [case.id for case in cause.cases]) for cause in causes] == [
        ("worse", ["case-2"]),
        ("failing", ["case-3"]),
        ("before", ["case-0", "case-1"]),
    ]


def compared(base: Record, head: Record) -> tuple[Cause, ...]:
    recorded = RecordedBaseline(Baseline(source="artifact"), BaseRun("artifact", None, None, 0, (), "main"))
    made = replace(head, baseline=recorded, run=replace(head.run, base_digest="d"))
    return causes_of(build_report(made, decide(made, Terms(base=base))))
