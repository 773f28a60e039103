"""What is said of two records: which cases are the same, what is comparable, and what changed."""

from __future__ import annotations

from datetime import date
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holodeck_action.decide.compare.comparing import compare
from holodeck_action.decide.compare.comparison import Comparison, Difference, MetricComparison
from holodeck_action.decide.compare.winner import Winner, find_winner
from holodeck_action.decide.statistics import Z_95
from holodeck_action.decide.survey import judge_cases
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.judge_card import Configuration
from holodeck_action.record.record import (
    BaseRun,
    CaseRecord,
    Record,
    Timing,
    ToolAssertion,
    ToolInvocation,
    TrialRecord,
    TurnRecord,
    Usage,
)
from holodeck_action.suite.model.policy import Baseline, QuarantineEntry
from tests.record.records import FAILED_EVALUATION, case, case_of, evaluation, record, turn
from tests.tables import walk

AGAINST = BaseRun("file:base.json")


def compared(base: Record, head: Record, **baseline: Any) -> Comparison:
    return compare(base, head, Baseline(**baseline), base_run=AGAINST, judged=judge_cases(head))


def of_letters(letters: str, **changes: Any) -> Record:
    """One case with one trial for each letter."""
    return record(*(case(letter) for letter in letters), **changes)


def of_scores(*scores: float, **criteria: Any) -> Record:
    return record(*(case_of(turn(evaluation(score, **criteria))) for score in scores))


def metric(comparison: Comparison, name: str = "bleu") -> MetricComparison:
    (found,) = (each for each in comparison.metrics if each.name == name)
    return found


def change(comparison: Comparison, name: str = "bleu") -> Difference:
    found = metric(comparison, name).change
    assert found is not None
    return found


def rate(comparison: Comparison) -> Difference:
    assert comparison.pass_rate is not None
    return comparison.pass_rate


def regressed(comparison: Comparison) -> list[str]:
    return [each.id for each in comparison.regressed]


def test_identical_records_show_no_change() -> None:
    head = of_letters("P" * 40 + "F" * 5)
    found = compared(head, head)
    end = Z_95**2 / (45 + Z_95**2)
    assert (found.paired, found.regressed, found.fixed, found.unpaired, found.notices) == (45, (), (), (), ())
    assert (rate(found).base, rate(found).head, rate(found).difference) == (40 / 45, 40 / 45, 0.0)
    assert (rate(found).low, rate(found).high) == pytest.approx((-end, end))
    assert (rate(found).state, rate(found).p_value, rate(found).settles) == ("non_inferior", 1.0, "")
    assert (change(found).difference, change(found).state) == (0.0, "non_inferior")


def test_cases_are_the_same_by_id_and_content() -> None:
    base = record(*(case("P") for _ in range(4)))
    head = record(*(case("F") for _ in range(4)), replace(case("P"), name="new one"))
    other = replace(head.cases[1], content_hash="1" * 64)
    head = replace(head, cases=(head.cases[3], other, head.cases[0], head.cases[4]))
    found = compared(base, head)
    assert sorted(regressed(found)) == ["case-0", "case-3"]
    assert [(each.id, each.why) for each in found.unpaired] == [
        ("case-4", "added"),
        ("case-1", "changed"),
        ("case-2", "removed"),
    ]
    assert found.unpaired[0].title == "new one"
    assert (found.paired, rate(found).pairs) == (2, 2)


def test_a_change_is_explained_by_metric_turn_and_answers() -> None:
    good = turn(evaluation(0.9), evaluation(1.0, evaluator_name="rouge"), response="yes")
    second = replace(good, index=1, input="and then?")
    bad = turn(evaluation(0.2), evaluation(0.4, evaluator_name="rouge"), index=1, input="and then?", response="no")
    base, head = record(case_of(good, second)), record(case_of(good, bad))
    (found,) = compared(base, head).regressed
    assert (found.kind, found.turn, found.turns, found.trial) == ("regressed", 1, 2, None)
    assert (found.question, found.before, found.after) == ("and then?", "yes", "no")
    assert [(step.name, step.turn, step.base, step.head, step.threshold) for step in found.steps] == [
        ("bleu", 1, 0.9, 0.2, 0.5),
        ("rouge", 1, 1.0, 0.4, 0.5),
    ]
    assert "bleu 0.20, needs 0.50" in found.steps[0].reason
    (fixed,) = compared(head, base).fixed
    assert (fixed.before, fixed.after, fixed.steps[0].base, fixed.steps[0].head) == ("no", "yes", 0.2, 0.9)


def test_the_worst_comes_first_and_quarantine_last() -> None:
    base = of_scores(0.9, 0.9, 0.9, 0.9)
    head = of_scores(0.4, 0.1, 0.3, 0.0)
    entry = QuarantineEntry(case="case-3", reason="r", owner="o", expires=date(2030, 1, 1))
    found = compared(base, replace(head, quarantine=(entry,)))
    assert regressed(found) == ["case-1", "case-2", "case-0", "case-3"]
    assert [each.quarantined for each in found.regressed] == [False, False, False, True]
    assert (found.paired, rate(found).pairs, change(found).pairs) == (3, 3, 3)
    heavy = replace(head, cases=(replace(head.cases[0], weight=9.0), *head.cases[1:]))
    assert regressed(compared(base, heavy))[0] == "case-0"


def test_broken_tool_expectations_explain_a_change() -> None:
    def asked(matched: bool) -> TurnRecord:
        return turn(
            tool_assertions=(
                ToolAssertion("refund()", matched, 0 if matched else -1, None if matched else "not called"),
            )
        )

    (found,) = compared(record(case_of(asked(True))), record(case_of(asked(False)))).regressed
    assert [(step.name, step.reason) for step in found.steps] == [("tools", "not called")]


def test_a_raised_threshold_is_no_regression_and_is_told() -> None:
    base, head = of_scores(0.6, 0.9), of_scores(0.6, 0.9, threshold=0.7)
    found = compared(base, head)
    assert (found.regressed, rate(found).base, rate(found).head) == ((), 0.5, 0.5)
    assert found.notices == (
        "bleu has the threshold 0.7, but had 0.5 on the base; both runs are judged by the criteria of this one.",
    )
    assert regressed(compared(of_scores(0.8), of_scores(0.6, threshold=0.7))) == ["case-0"]


def test_a_new_metric_is_no_regression_and_is_told() -> None:
    new = evaluation(0.0, evaluator_name="rouge")
    base = of_scores(0.9)
    head = record(case_of(turn(evaluation(0.8), new)))
    for one, other, reason in ((base, head, "the base does not have it"), (head, base, "only the base has it")):
        found = compared(one, other)
        assert (found.regressed, found.fixed, rate(found).difference) == ((), (), 0.0)
        assert (metric(found, "rouge").change, metric(found, "rouge").incomparable) == (None, reason)
        assert found.notices == (f"rouge does not affect which cases pass here: {reason}.",)
    partly = record(case_of(turn(evaluation(0.8), new)), case_of(turn(evaluation(0.8))))
    both = record(case_of(turn(evaluation(0.8), new)), case_of(turn(evaluation(0.8), new)))
    found = compared(partly, both)
    assert found.regressed == ()
    assert found.notices == ("rouge is used on only one side in 1 case, so it does not count there.",)


CONFIGURATION = Configuration(("openai/gpt-4o",), "a", "s", "p", "m", "1.0.0")


@walk(
    ("changes", "reason"),
    [
        ({"judges": ("openai/gpt-5",)}, "its judge is openai/gpt-5 now, but was openai/gpt-4o on the base"),
        ({"addresses": "b"}, "its judges are called at another address"),
        ({"model_settings": "t"}, "its judges have other settings"),
        ({"panel": "q"}, "the verdicts of its panel are combined in another way"),
        ({"metric": "n"}, "it has other settings"),
        ({"version": "2"}, "its version is 2 now, but was 1.0.0 on the base"),
    ],
)
def test_scores_of_another_judge_show_no_change(changes: dict[str, Any], reason: str) -> None:
    base = replace(of_letters("PP"), configurations={"bleu": CONFIGURATION})
    head = replace(of_letters("FF"), configurations={"bleu": replace(CONFIGURATION, **changes)})
    found = compared(base, head)
    assert (metric(found).incomparable, metric(found).change, found.paired) == (reason, None, 0)
    assert (found.regressed, found.pass_rate) == ((), None)
    unsaid = compared(of_letters("PP"), head)
    assert metric(unsaid).incomparable == "only one of the runs records which models grade it"
    embedded = replace(evaluation(0.9), criteria=replace(evaluation(0.9).criteria, settings={"embedding_model": "x"}))
    both = (replace(record(case_of(turn(embedded))), configurations=each.configurations) for each in (base, head))
    word = reason.replace("its judge is", "its embedding model is").replace(
        "its judges have", "its embedding model has"
    )
    assert metric(compared(*both)).incomparable == word.replace("its judges are", "its embedding model is")


@walk(
    ("changes", "reason"),
    [
        ({"evaluator_version": "2.0.0"}, "its version is 2.0.0 now, but was 1.0.0 on the base"),
        ({"polarity": "minimize"}, "low scores are good on one side, high ones on the other"),
        ({"metric": "rouge"}, "the base has another metric under this name (standard bleu)"),
        ({"settings": {"variant": "rougeL"}}, "it has other settings: variant"),
    ],
)
def test_scores_that_measure_something_else_show_no_change(changes: dict[str, Any], reason: str) -> None:
    now = evaluation(0.1)
    for name, value in changes.items():
        holder = now if name == "evaluator_version" else now.criteria
        changed: Any = replace(holder, **{name: value})
        now = changed if name == "evaluator_version" else replace(now, criteria=changed)
    found = compared(of_scores(0.9), record(case_of(turn(now))))
    assert (metric(found).incomparable, found.regressed) == (reason, ())


def test_a_verdict_of_its_own_by_another_threshold_does_not_count() -> None:
    def own(score: float, threshold: float) -> Evaluation:
        return evaluation(score, threshold, metadata={"passed": score >= threshold, "raw_score": score})

    found = compared(record(case_of(turn(own(0.6, 0.5)))), record(case_of(turn(own(0.6, 0.7)))))
    assert (found.regressed, found.pass_rate, change(found).difference) == ((), None, 0.0)
    assert "its verdicts cannot be repeated" in found.notices[0]
    assert regressed(compared(record(case_of(turn(own(0.6, 0.5)))), record(case_of(turn(own(0.4, 0.5)))))) == ["case-0"]


def test_what_was_not_evaluated_is_no_low_score() -> None:
    errors = compared(of_letters("PPEP"), of_letters("EPPF"))
    assert regressed(errors) == ["case-3"]
    assert [(each.id, each.why, each.reason) for each in errors.unpaired] == [
        ("case-0", "not evaluated", "in this run: it crashed"),
        ("case-2", "not evaluated", "on the base: it crashed"),
    ]
    assert (errors.paired, change(errors).pairs) == (2, 2)
    stopped = replace(
        of_letters("P" * 3), cases=(*of_letters("PP").cases, replace(case("", id="case-2"))), stopped="deadline"
    )
    assert [each.id for each in compared(stopped, of_letters("PPF")).unpaired] == ["case-2"]
    assert compared(stopped, of_letters("PPF")).notices == ("The base stopped early: deadline.",)


def test_a_metric_that_one_side_could_not_evaluate_explains_nothing() -> None:
    lost = replace(FAILED_EVALUATION, evaluator_name="rouge")
    soft = record(case_of(turn(evaluation(0.9), lost)))
    low = record(case_of(turn(evaluation(0.9), evaluation(0.1, evaluator_name="rouge"))))
    for base, head in ((soft, low), (low, soft)):
        found = compared(base, head)
        assert (found.regressed, found.fixed, found.paired) == ((), (), 0)
        assert found.unpaired[0].why == "not evaluated"
    fatal = replace(lost, criteria=replace(lost.criteria, fail_on_error=True))
    high = record(case_of(turn(evaluation(0.9), evaluation(0.9, evaluator_name="rouge"))))
    found = compared(high, record(case_of(turn(evaluation(0.9), fatal))))
    assert (found.regressed, found.unpaired[0].why) == ((), "not evaluated")


def test_a_missing_score_of_a_turn_leaves_the_case_out_of_the_metric() -> None:
    last = turn(evaluation(0.9), evaluation(0.9, evaluator_name="rouge"), index=1)
    whole = case_of(turn(evaluation(0.9)), last)
    half = case_of(turn(evaluation(0.9)), turn(FAILED_EVALUATION, evaluation(0.9, evaluator_name="rouge"), index=1))
    found = compared(record(whole, whole), record(whole, half))
    assert change(found).pairs == 1
    assert (
        found.notices[-1]
        == "bleu leaves out 1 case that one side did not evaluate (case-1, in this run: bleu not evaluated: no judge)."
    )


def test_polarity_makes_a_rise_a_loss() -> None:
    base = of_scores(*[0.1] * 12, polarity="minimize")
    found = change(compared(base, of_scores(*[0.3 + n / 100 for n in range(12)], polarity="minimize")))
    assert found.difference == pytest.approx(-0.255)
    assert (found.state, round(found.base, 3), round(found.head, 3)) == ("regressed", 0.1, 0.355)


def test_informational_metrics_are_shown_and_do_not_gate() -> None:
    base, head = of_scores(*[0.9] * 20, asserts=False), of_scores(*[0.2] * 20, asserts=False)
    asserting = replace(base, cases=tuple(replace(each, asserting=False) for each in base.cases))
    after = replace(head, cases=tuple(replace(each, asserting=False) for each in head.cases))
    found = compared(asserting, after)
    assert (found.pass_rate, found.paired, metric(found).gates) == (None, 20, False)
    assert (change(found).state, change(found).p_gating) == ("regressed", None)


def test_a_category_counts_one_if_it_passes_and_zero_if_it_fails() -> None:
    base, head = (
        record(*[case_of(turn(evaluation(word, None, pass_values=("good",))))] * 12) for word in ("good", "bad")
    )
    found = change(compared(base, head))
    assert (found.base, found.head, found.difference) == (1.0, 0.0, -1.0)


def test_below_ten_pairs_there_is_no_interval() -> None:
    nine, ten = compared(of_letters("P" * 9), of_letters("F" * 9)), compared(of_letters("P" * 10), of_letters("F" * 10))
    assert (rate(nine).low, rate(nine).p_value, rate(nine).detectable, rate(nine).state) == (
        None,
        None,
        None,
        "inconclusive",
    )
    assert len(nine.regressed) == 9
    assert (rate(ten).state, rate(ten).settles) == ("regressed", "")
    assert rate(nine).settles == "77 cases × 1 trial would detect a change of 10 points"


def test_the_run_with_the_better_pass_rate_wins_on_either_side() -> None:
    good, bad = of_letters("P" * 40), of_letters("F" * 40)
    assert find_winner(compared(good, bad)) == Winner("base", "pass rate 0 against 1")
    assert find_winner(compared(bad, good)) == Winner("head", "pass rate 1 against 0")
    assert find_winner(compared(good, good)) == Winner(None, "pass rate 1 against 1, which is a tie")
    # Below ten pairs there is no interval.
    few = [of_letters("P" * 5), of_letters("F" * 5)]
    for base, head in (few, few[::-1]):
        won = find_winner(compared(base, head))
        assert won.side is None
        assert "which is inconclusive" in won.reason


def test_three_states_and_the_margin() -> None:
    base = of_letters("P" * 50)
    lost = {k: rate(compared(base, of_letters("F" * k + "P" * (50 - k)))) for k in (0, 2, 12)}
    assert {k: each.state for k, each in lost.items()} == {0: "non_inferior", 2: "inconclusive", 12: "regressed"}
    assert rate(compared(base, of_letters("FF" + "P" * 48), margin=0.2)).state == "non_inferior"
    assert [bool(each.settles) for each in lost.values()] == [False, True, False]


def test_several_metrics_need_stronger_evidence_to_gate() -> None:
    def scored(lost: int, others: int) -> Record:
        parts = [
            [evaluation(0.1 if n < lost and m == 0 else 0.9, evaluator_name=f"m{m}") for m in range(others + 1)]
            for n in range(60)
        ]
        return record(*(case_of(turn(*found)) for found in parts))

    alone = compared(scored(0, 0), scored(5, 0))
    many = compared(scored(0, 9), scored(5, 9))
    one, other = change(alone, "m0"), change(many, "m0")
    assert one.p_value == other.p_value
    assert one.p_gating is not None
    assert other.p_gating is not None
    assert other.p_shown is not None
    assert one.p_gating < other.p_shown < other.p_gating


def test_different_numbers_of_trials_are_compared_over_those_that_both_have() -> None:
    base = record(*(case("P") for _ in range(12)))
    head = record(*(case("PF", repeat=5, min_pass=5) for _ in range(12)))
    found = compared(base, head)
    assert (found.regressed, rate(found).difference, change(found).difference) == ((), 0.0, 0.0)
    assert "repeat cases a different number of times" in found.notices[0]
    assert len(compared(base, record(*(case("FP", repeat=5, min_pass=1) for _ in range(12)))).regressed) == 12
    short = compared(record(case("PPP", repeat=3, min_pass=3)), record(case("P", repeat=3, min_pass=1)))
    assert (short.paired, short.unpaired) == (1, ())
    unequal = compared(record(case("P", repeat=3, min_pass=1)), record(case("PPF", repeat=3, min_pass=3)))
    assert [each.reason for each in unequal.unpaired] == ["on the base: only 1 of 3 trials ran before the run stopped"]


def test_repeated_cases_are_compared_by_trial_where_all_trials_ran() -> None:
    base = record(*(case("PPPPF", repeat=5, min_pass=3) for _ in range(12)), stop_when_decided=False)
    head = record(*(case("PPPFF", repeat=5, min_pass=3) for _ in range(12)), stop_when_decided=False)
    found = compared(base, head)
    assert (rate(found).base, rate(found).head) == pytest.approx((0.8, 0.6))
    assert found.regressed == ()
    assert (rate(found).state, found.notices) == (
        "regressed",
        ("Cases are repeated, so the pass rate is compared as the share of passing trials.",),
    )
    stopping = compared(replace(base, stop_when_decided=True), head)
    assert (rate(stopping).base, rate(stopping).head, stopping.notices) == (1.0, 1.0, ())
    (flaky,) = compared(record(case("PPP", repeat=3, min_pass=3)), record(case("PF", repeat=3, min_pass=3))).regressed
    assert (flaky.trial, flaky.after) == (1, "answer")


def test_more_trials_settle_what_repeating_explains() -> None:
    random = Random(5)

    def noisy() -> Record:
        return record(
            *(case("".join(random.choice("PPPF") for _ in range(2)), repeat=2) for _ in range(60)),
            stop_when_decided=False,
        )

    found = rate(compared(noisy(), noisy()))
    assert found.state == "inconclusive"
    assert found.settles.startswith("60 cases × ")
    assert " trials would detect a change of " in found.settles


def test_what_was_consumed_is_that_of_the_cases_both_have() -> None:
    def run(cost: float, cases: int) -> Record:
        timing = Timing("2026-01-01T00:00:00+00:00", 100.0 * cost)
        calls = (ToolInvocation("search", {}, None),)
        used = turn(evaluation(0.9), usage=Usage(10, 5, cost), timing=timing, tool_invocations=calls)
        return record(*(case_of(used) for _ in range(cases)))

    found = compared(run(1.0, 4), run(2.0, 6))
    assert (found.base_consumed.cost_usd, found.head_consumed.cost_usd) == (4.0, 8.0)
    assert (found.head_consumed.tokens, found.head_consumed.p50_latency_ms, found.base_consumed.p95_latency_ms) == (
        60,
        200.0,
        100.0,
    )
    assert found.head_consumed.tool_calls == found.base_consumed.tool_calls == 4
    unknown = compared(run(1.0, 4), of_letters("PPPP"))
    assert unknown.head_consumed.tool_calls is None
    assert (unknown.head_consumed.cost_usd, unknown.head_consumed.p95_latency_ms) == (None, None)


def suite_of(random: Random, cases: int, turns: int = 1, trials: int = 1) -> Record:
    def exchange(index: int) -> TurnRecord:
        names = ("bleu", "rouge", "geval")
        return turn(
            *(evaluation(round(random.betavariate(5, 1), 3), evaluator_name=name) for name in names), index=index
        )

    made = []
    for _ in range(cases):
        repeated = tuple(TrialRecord(n, tuple(exchange(index) for index in range(turns))) for n in range(trials))
        made.append(replace(case_of(), repeat=trials, min_pass=1, trials=repeated))
    return record(*made, stop_when_decided=False)


@pytest.mark.full
@given(
    st.integers(0, 10_000),
    st.integers(0, 3),
    st.integers(0, 199),
    st.integers(0, 4),
    st.sampled_from(["bleu", "rouge", "geval"]),
)
@settings(max_examples=5, deadline=None)
def test_a_planted_regression_is_named_first(seed: int, noise: int, number: int, place: int, name: str) -> None:
    random = Random(seed)
    base = suite_of(random, 200, 5)

    def with_score(given: CaseRecord, index: int, named: str, score: float) -> CaseRecord:
        (trial,) = given.trials
        turns = tuple(
            replace(
                each,
                evaluations=tuple(
                    replace(one, score=score) if (each.index, one.evaluator_name) == (index, named) else one
                    for one in each.evaluations
                ),
            )
            for each in trial.turns
        )
        return replace(given, trials=(replace(trial, turns=turns),))

    good = [with_all(each, 0.9) for each in base.cases]
    base = replace(base, cases=tuple(good))
    after = list(good)
    for _ in range(noise):
        after[random.randrange(200)] = with_score(good[random.randrange(200)], random.randrange(5), "bleu", 0.45)
    after = [replace(each, id=old.id) for each, old in zip(after, good, strict=True)]
    after[number] = with_score(good[number], place, name, 0.0)
    (first, *_) = compared(base, replace(base, cases=tuple(after))).regressed
    assert (first.id, first.turn, first.steps[0].name, first.steps[0].head) == (good[number].id, place, name, 0.0)


def with_all(given: CaseRecord, score: float) -> CaseRecord:
    trials = tuple(
        replace(
            trial,
            turns=tuple(
                replace(each, evaluations=tuple(replace(one, score=score) for one in each.evaluations))
                for each in trial.turns
            ),
        )
        for trial in given.trials
    )
    return replace(given, trials=trials)


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(1, 3), st.integers(1, 2))
@settings(max_examples=20, deadline=None)
def test_the_order_of_cases_and_trials_changes_nothing(seed: int, cases: int, trials: int, turns: int) -> None:
    random = Random(seed)
    base, head = suite_of(random, cases, turns, trials), suite_of(random, cases, turns, trials)

    def shuffled(found: Record) -> Record:
        moved = [replace(each, trials=tuple(random.sample(each.trials, trials))) for each in found.cases]
        return replace(found, cases=tuple(random.sample(moved, cases)))

    assert (compared(shuffled(base), shuffled(head))) == (compared(base, head))


@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_swapping_the_runs_mirrors_the_differences(seed: int, cases: int, trials: int) -> None:
    random = Random(seed)
    base, head = suite_of(random, cases, 1, trials), suite_of(random, cases, 1, trials)
    there, back = compared(base, head), compared(head, base)
    assert [each.id for each in there.regressed] == [each.id for each in back.fixed]
    assert [each.id for each in there.fixed] == [each.id for each in back.regressed]
    for one, other in (
        (rate(there), rate(back)),
        *((change(there, n), change(back, n)) for n in ("bleu", "rouge", "geval")),
    ):
        assert one.difference == -other.difference
        assert (one.low, one.high) == (
            None if other.high is None else -other.high,
            None if other.low is None else -other.low,
        )
        assert (one.p_value, one.p_gating, one.p_shown, one.detectable) == (
            other.p_value,
            other.p_gating,
            other.p_shown,
            other.detectable,
        )
