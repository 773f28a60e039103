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
from holodeck_action.reports.terminal.console import console_report
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


def titled(
    title: str, bleu: float, tags: tuple[str, ...] = (), file: str = "agent.yaml", answer: str = ""
) -> CaseRecord:
    case = scored(bleu, response=answer or f"answer about {title}")
    return replace(case, name=title, tags=tags, source=replace(case.source, file=file))


def test_scores_are_one_cause_however_far_they_are_from_their_thresholds() -> None:
    several = [titled(f"t{n}", score) for n, score in enumerate((0.1, 0.12, 0.42, 0.45))]
    both = scored(0.1, 0.2)
    assert told(*several, both, scored(0.9)) == [
        (4, "bleu 0.10 to 0.45, needs 0.50"),
        (1, 'answered "answer" (bleu 0.10, needs 0.50; rouge 0.20, needs 0.50: compared)'),
    ]


@pytest.mark.parametrize(("polarity", "within"), [("maximize", (0.5, 0.6)), ("minimize", (0.5, 0.4))])
def test_a_metric_that_fails_within_its_threshold_is_not_told_by_its_scores(
    polarity: str, within: tuple[float, float]
) -> None:
    def refused(score: float) -> CaseRecord:
        changes: dict[str, Any] = {"polarity": polarity, "explanation": "forbidden word"}
        return case_of(turn(evaluation(score, title="BLEU", metadata={"passed": False}, **changes)))

    assert told(*map(refused, within)) == [(2, "bleu …")]


def test_a_trait_that_sets_failing_cases_apart_is_named() -> None:
    refunds = [titled(f"a{n}", 0.1, ("refund", "all")) for n in range(3)]
    voices = [titled(f"b{n}", 0.2, ("all",), "voice.csv") for n in range(2)]
    orders = [titled(f"{word} the order", 0.3, ("all",)) for word in ("See", "Get", "End")]
    silent = [titled(f"c{n}", 0.4, ("all",), answer=f"Please  contact{' ' * n} our team.") for n in range(2)]
    passing = [titled(f"p{n}", 0.9, ("all",)) for n in range(6)]
    assert told(*refunds, *voices, *orders, *silent, titled("odd", 0.25), *passing) == [
        (3, 'tag "refund" (bleu 0.10, needs 0.50)'),
        (3, '"order" in the title (bleu 0.30, needs 0.50)'),
        (2, 'file "voice.csv" (bleu 0.20, needs 0.50)'),
        (2, 'the same answer "Please contact our team." (bleu 0.40, needs 0.50)'),
        (1, 'answered "answer about odd" (bleu 0.25, needs 0.50)'),
    ]


def test_no_trait_is_named_that_passing_cases_share_or_that_nothing_can_be_compared_with() -> None:
    failing = [titled(f"a{n}", 0.1, ("refund",)) for n in range(3)]
    (alone,) = told(*failing)
    (common,) = told(*failing, *(titled(f"p{n}", 0.9, ("refund",)) for n in range(3)))
    assert alone == common == (3, "bleu 0.10, needs 0.50")


def test_a_check_is_one_cause_whatever_the_answers_are() -> None:
    def lacks(word: str, near: str) -> CaseRecord:
        reason = f'the answer does not contain "{word}" (nearest: "{near}")'
        return case_of(turn(evaluation(0.0, 1.0, evaluator_name=f'contains "{word}"', explanation=reason)))

    missing = [lacks("Thursday", near) for near in ("Tuesday", "Thirsty")]
    assert told(*missing, lacks("Friday", "Fry"))[0] == (2, 'contains "Thursday" fails')


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


def test_an_error_with_other_values_in_each_case_is_shown_with_those_of_the_first() -> None:
    different = [broken(f'no tool "{name}"') for name in ("find", "buy", "sell")]
    report = report_of(record(*different))
    [cause] = causes_of(report)
    assert (cause.reason, cause.example) == ("no tool …", 'no tool "find"')
    assert '    no tool …\n    for example: no tool "find"\n' in "".join(console_report(report))
    [cause] = causes_of(report_of(record(*different[:1] * 3)))
    assert (cause.reason, cause.example) == ('no tool "find"', "")
