"""What a record is judged to be: exit codes, their precedence, and every gate."""

from __future__ import annotations

import itertools
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holodeck_action.decide.case_verdicts import deciding_prefix, judge_evaluation, judge_turn, trials_surely_needed
from holodeck_action.decide.decision import Terms, decide
from holodeck_action.decide.verdict import GateVerdict, Outcome, Verdict
from holodeck_action.record.evaluation import ErrorInfo
from holodeck_action.record.record import ToolAssertion
from holodeck_action.suite.model.policy import GateMetric, Gates, GateSummary, QuarantineEntry
from tests.record.records import FAILED_EVALUATION, case, case_of, evaluation, record, turn
from tests.tables import walk


def gate(verdict: Verdict, name: str) -> GateVerdict:
    return next(item for item in verdict.gates if item.name == name)


@walk(
    ("cases", "changes", "code", "outcome"),
    [
        (["P", "P"], {}, 0, "passed"),
        (["P", "F"], {}, 1, "failed"),
        (["P", "E"], {}, 3, "incomplete"),
        (["E", "F"], {}, 1, "failed"),
        (["P", ""], {"stopped": "SIGINT was received"}, 4, "stopped"),
        (["F", ""], {"stopped": "SIGINT was received"}, 1, "failed"),
        (["E", ""], {"stopped": "SIGINT was received"}, 4, "stopped"),
        (["P", "S"], {}, 3, "incomplete"),
        (["E", "E"], {}, 3, "incomplete"),
        ([], {}, 0, "passed"),
    ],
)
def test_exit_code_follows_the_precedence(cases: list[str], changes: dict[str, Any], code: int, outcome: str) -> None:
    verdict = decide(record(*[case(trials) for trials in cases], **changes))
    assert (verdict.exit_code, verdict.outcome) == (code, outcome)


@given(st.lists(st.sampled_from(["P", "F", "E", ""]), min_size=1, max_size=6), st.sampled_from([1.0, 0.75, 0.5, 0.2]))
def test_a_violation_with_something_missing_is_one_whatever_the_missing_would_have_been(
    cases: list[str], rate: float
) -> None:
    gates = Gates(min_pass_rate=rate)
    code = decide(record(*[case(trials) for trials in cases], gates=gates)).exit_code
    missing = [position for position, trials in enumerate(cases) if trials in ("E", "")]
    completed = []
    for letters in itertools.product("PF", repeat=len(missing)):
        whole = list(cases)
        for position, letter in zip(missing, letters, strict=True):
            whole[position] = letter
        completed.append(decide(record(*[case(trials) for trials in whole], gates=gates)).exit_code)
    if not missing:
        assert completed == [code]
    elif code == 1:
        assert set(completed) == {1}
    else:
        assert code == 3
        assert 0 in completed


def test_tolerated_incompleteness_judges_what_is_there() -> None:
    cases = [case("P")] * 9 + [case("E")]
    assert decide(record(*cases)).exit_code == 3
    assert decide(record(*cases), Terms(Gates(min_completeness=0.9))).exit_code == 0
    assert decide(record(*cases), Terms(Gates(min_completeness=0.91))).exit_code == 3
    assert decide(record(*cases), Terms(Gates(min_completeness=None))).exit_code == 0


@pytest.mark.parametrize(("lost", "more"), [(3, ""), (4, "; and 1 more"), (6, "; and 3 more")])
def test_the_first_three_missing_evaluations_of_passing_cases_are_named(lost: int, more: str) -> None:
    gates = decide(record(*[case("S", name=f"c{at}") for at in range(lost)])).gates
    (reason,) = (gate.reason for gate in gates if gate.name == "min_completeness")
    named = "; ".join(f"c{at} (agent.yaml:3:5): bleu not evaluated: no judge" for at in range(3))
    assert reason.endswith(f"; missing in passing cases: {named}{more}")


def test_nothing_decided_is_never_green() -> None:
    tolerant = Gates(min_completeness=0.0, min_pass_rate=0.0)
    assert decide(record(case("E")), Terms(tolerant)).exit_code == 3
    assert decide(record(case("E")), Terms(Gates(min_completeness=None, min_pass_rate=None))).exit_code == 3


@pytest.mark.parametrize(("limit", "code"), [(0, 1), (1, 1), (2, 0)])
def test_max_errors(limit: int, code: int) -> None:
    gates = Gates(max_errors=limit, min_completeness=0.1)
    assert decide(record(case("P"), case("E"), case("E")), Terms(gates)).exit_code == code


@pytest.mark.parametrize(("limit", "code"), [(0, 1), (1, 0)])
def test_max_flaky_counts_cases_with_both_outcomes(limit: int, code: int) -> None:
    flaky = case("FP", repeat=2, min_pass=1)
    steady = case("PP", repeat=2, min_pass=2)
    verdict = decide(record(flaky, steady), Terms(Gates(max_flaky=limit)))
    assert verdict.exit_code == code
    assert [item.flaky for item in verdict.cases] == [True, False]


@pytest.mark.parametrize(("limit", "code"), [(0, 1), (1, 3), (2, 0)])
def test_trials_that_nobody_ran_could_make_a_case_flaky(limit: int, code: int) -> None:
    flaky, decided = case("FP", repeat=2, min_pass=1), case("P", repeat=2, min_pass=1)
    assert decide(record(flaky, decided), Terms(Gates(max_flaky=limit))).exit_code == code


@pytest.mark.parametrize(("required", "code"), [(0.5, 0), (0.51, 1)])
def test_metric_mean_counts_zeros(required: float, code: int) -> None:
    cases = [case_of(turn(evaluation(score, threshold=None))) for score in (1.0, 0.0)]
    gates = Gates(metrics={"bleu": GateMetric(min_mean=required)}, min_pass_rate=None)
    verdict = decide(record(*cases, gates=gates))
    assert verdict.metrics["bleu"].mean == 0.5
    assert verdict.exit_code == code


def test_metric_mean_is_undetermined_only_while_the_missing_could_lift_it() -> None:
    half = case_of(turn(evaluation(0.5), evaluation(0.5)))
    broken = case_of(turn(evaluation(0.5), FAILED_EVALUATION))
    reachable = Gates(metrics={"bleu": GateMetric(min_mean=0.6)})
    out_of_reach = Gates(metrics={"bleu": GateMetric(min_mean=0.9)})
    assert gate(decide(record(half, broken, gates=reachable)), "metrics.bleu.min_mean").state == "undetermined"
    assert gate(decide(record(half, broken, gates=out_of_reach)), "metrics.bleu.min_mean").state == "failed"


def test_trials_and_turns_are_never_pooled_as_cases() -> None:
    many = case_of(turn(evaluation(1.0)), turn(evaluation(1.0), index=1))
    one = case_of(turn(evaluation(0.5)))
    assert decide(record(many, one)).metrics["bleu"].mean == 0.75


def test_case_weight_counts_in_rate_and_mean() -> None:
    cases = [case("P", weight=3.0), case("F", weight=1.0)]
    verdict = decide(record(*cases, gates=Gates(min_pass_rate=0.75)))
    assert verdict.pass_rate == 0.75
    assert verdict.exit_code == 0
    assert verdict.metrics["bleu"].mean == pytest.approx((3 * 0.9 + 0.1) / 4)


@pytest.mark.parametrize(
    ("summary", "score"),
    [
        ({"method": "simple_average", "min": 0.5}, 0.5),
        ({"method": "minimum", "min": 0.5}, 0.2),
        ({"method": "weighted_average", "weights": {"a": 3, "b": 1}, "min": 0.5}, (3 * 0.8 + 0.2) / 4),
    ],
)
def test_summary_gate(summary: dict[str, Any], score: float) -> None:
    answered = turn(evaluation(0.8, None, evaluator_name="a"), evaluation(0.2, None, evaluator_name="b"))
    gates = Gates(summary=GateSummary.model_validate(summary), min_pass_rate=None)
    judged = gate(decide(record(case_of(answered)), Terms(gates)), "summary")
    assert judged.actual == pytest.approx(score)
    assert judged.state == ("passed" if score >= 0.5 else "failed")


def test_minimized_metrics_enter_the_summary_as_one_minus_score() -> None:
    toxic = turn(evaluation(0.1, 0.3, polarity="minimize", evaluator_name="toxicity"))
    gates = Gates(summary=GateSummary(method="simple_average", min=0.85))
    verdict = decide(record(case_of(toxic)), Terms(gates))
    assert verdict.exit_code == 0
    assert gate(verdict, "summary").actual == pytest.approx(0.9)


def test_wilson_lower_bound_gate() -> None:
    # Wilson lower bound of 20/20 is 20/(20 + 1.96²) = .8389 (docs/results.md).
    cases = [case("P")] * 20
    assert decide(record(*cases), Terms(Gates(min_pass_rate_lower_bound=0.838))).exit_code == 0
    assert decide(record(*cases), Terms(Gates(min_pass_rate_lower_bound=0.84))).exit_code == 1


def test_quarantine_runs_and_reports_but_never_gates_until_it_expires() -> None:
    entry = QuarantineEntry(case="case-1", reason="upstream", owner="@team", expires=date(2026, 11, 21))
    made = record(case("P"), case("F"), quarantine=(entry,))
    verdict = decide(made)
    assert verdict.exit_code == 0
    assert [(item.outcome, item.judged) for item in verdict.cases] == [("passed", "passed"), ("quarantined", "failed")]
    assert verdict.counts.quarantined == 1
    late = replace(made, run=replace(made.run, started_at="2026-11-22T00:00:00+00:00"))
    assert decide(late).exit_code == 1


def test_informational_cases_count_neither_way() -> None:
    shown = case_of(turn(evaluation(0.1, None, asserts=False)), asserting=False)
    verdict = decide(record(shown, case("P"), gates=Gates(min_pass_rate=1.0)))
    assert verdict.exit_code == 0
    assert verdict.counts.informational == 1
    assert verdict.pass_rate == 1.0


@walk(
    ("made", "outcome"),
    [
        (evaluation(0.5, 0.5), "passed"),
        (evaluation(0.49, 0.5), "failed"),
        (evaluation(0.5, 0.4, polarity="minimize"), "failed"),
        (evaluation(0.4, 0.4, polarity="minimize"), "passed"),
        (evaluation(0.0, 0.0), "passed"),
        (evaluation(True, None), "passed"),
        (evaluation(False, None), "failed"),
        (evaluation("good", None, pass_values=("good", "excellent")), "passed"),
        (evaluation("bad", None, pass_values=("good",)), "failed"),
        (evaluation("good", None), "informational"),
        (evaluation(None, 0.5), "informational"),
        (evaluation(0.1, 0.5, asserts=False), "informational"),
        (evaluation(0.1, 0.5, metadata={"passed": True}), "passed"),
        (evaluation(0.9, 0.5, metadata={"passed": False}), "failed"),
        (evaluation(None, status="skipped", explanation="no ground_truth"), "skipped"),
        (evaluation(None, status="pending"), "error"),
        (FAILED_EVALUATION, "error"),
    ],
)
def test_evaluation_verdicts(made: Any, outcome: str) -> None:
    assert judge_evaluation(made).outcome == outcome


def test_soft_and_hard_evaluation_errors() -> None:
    hard = replace(FAILED_EVALUATION, criteria=replace(FAILED_EVALUATION.criteria, fail_on_error=True))
    assert judge_turn(turn(evaluation(0.9), FAILED_EVALUATION)).outcome == "passed"
    assert judge_turn(turn(evaluation(0.9), hard)).outcome == "failed"
    assert judge_turn(turn(FAILED_EVALUATION)).outcome == "error"


def test_a_broken_tool_assertion_fails_the_turn_with_its_reason() -> None:
    broken = ToolAssertion("search", False, -1, "no call to 'search' was made")
    verdict = judge_turn(turn(evaluation(0.9), tool_assertions=(broken,)))
    assert (verdict.outcome, verdict.tools) == ("failed", "failed")
    assert "no call to 'search' was made" in verdict.reason


def test_a_turn_that_was_not_run_leaves_its_conversation_in_error() -> None:
    error = turn(response=None, error=ErrorInfo("AgentError", "it crashed", "crashed"))
    skipped = turn(response=None, index=1, skipped="not run: turn 0 of the conversation failed")
    verdict = decide(record(case_of(error, skipped, multi_turn=True)))
    assert verdict.cases[0].outcome == "error"
    assert "it crashed" in verdict.cases[0].reason


@given(st.integers(1, 6), st.data())
def test_the_deciding_prefix_is_the_shortest_one(repeat: int, data: st.DataObject) -> None:
    min_pass = data.draw(st.integers(1, repeat))
    outcomes: list[Any] = data.draw(st.lists(st.sampled_from(["passed", "failed"]), max_size=repeat))

    def decided(length: int) -> bool:
        """Every way to complete the prefix ends the same."""
        endings = {
            (outcomes[:length] + list(rest)).count("passed") >= min_pass
            for rest in itertools.product(["passed", "failed"], repeat=repeat - length)
        }
        return len(endings) == 1

    shortest = next((length for length in range(len(outcomes) + 1) if decided(length)), len(outcomes))
    assert deciding_prefix(outcomes, repeat, min_pass) == shortest


@given(st.integers(2, 5), st.data())
def test_a_trial_in_error_counts_neither_way(repeat: int, data: st.DataObject) -> None:
    min_pass = data.draw(st.integers(1, repeat))
    letters = data.draw(st.lists(st.sampled_from("PFE"), min_size=repeat, max_size=repeat))
    judged = decide(record(case("".join(letters), repeat, min_pass), stop_when_decided=False)).cases[0].outcome
    passes, failures = letters.count("P"), letters.count("F")
    expected = "passed" if passes >= min_pass else "failed" if failures > repeat - min_pass else "error"
    assert judged == expected


@given(st.integers(1, 6), st.data())
def test_running_only_surely_needed_trials_never_overshoots(repeat: int, data: st.DataObject) -> None:
    min_pass = data.draw(st.integers(1, repeat))
    ends: list[Outcome] = ["passed", "failed"]
    future = data.draw(st.lists(st.sampled_from(ends), min_size=repeat, max_size=repeat))
    done: list[Outcome] = []
    while wanted := trials_surely_needed(done, repeat, min_pass):
        done += future[len(done) : len(done) + wanted]
    assert len(done) == deciding_prefix(future, repeat, min_pass)
