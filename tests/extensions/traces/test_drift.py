"""`drift`: last night's conversations against those of the weeks before."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holodeck_action.extensions.traces.drift import find_drifts
from holodeck_action.extensions.traces.two_samples import newcombe, welch
from holodeck_action.record.record import Record
from tests.commands.project import Project
from tests.extensions.traces.spans import exchange
from tests.extensions.traces.test_trace_target import night, suite, trace
from tests.record.records import case_of, evaluation, record, turn

CHECK = {"type": "contains", "value": "Leeds"}


def judge(project: Project, name: str, first: int, answers: list[str]) -> None:
    """Judge the traces of a night, and keep the results in a folder."""
    spans = (exchange(trace(first + at), "Where?", answer, at=at) for at, answer in enumerate(answers))
    night(project, *spans, name=f"{name}.jsonl")
    done = project.run("run", "agent.yaml", "-o", f"nights/{name}", "--target", f"traces:{name}.jsonl", "--no-html")
    assert done.code in (0, 1), done.stderr


def answers(dice: random.Random, count: int, rate: float) -> list[str]:
    return ["In Leeds." if dice.random() < rate else "No." for _ in range(count)]


@pytest.fixture
def nights(project: Project) -> Project:
    suite(project, CHECK)
    dice = random.Random(1)
    judge(project, "mon", 1, answers(dice, 80, 0.9))
    judge(project, "tue", 1001, answers(dice, 80, 0.9))
    judge(project, "good", 2001, answers(dice, 90, 0.9))
    judge(project, "bad", 3001, answers(dice, 90, 0.6))
    judge(project, "few", 4001, answers(dice, 49, 0.1))
    return project


def weeks(*more: str) -> tuple[str, ...]:
    return ("--before", "nights/mon", "--before", "nights/tue", *more)


@pytest.mark.full
@pytest.mark.proves("drift: RESULTS --before --format")
def test_a_planted_drift_is_found_and_none_otherwise(nights: Project) -> None:
    found = nights.run("drift", "nights/bad", *weeks("--format", "json"))
    rate, metric = json.loads(found.stdout)
    assert found.code == 1
    assert (rate["name"], rate["state"], rate["before"], rate["now"]) == ("pass rate", "worse", 160, 90)
    assert rate["difference"]["high"] < 0
    assert metric["state"] == "worse"

    same = nights.run("drift", "nights/good", *weeks())
    assert same.code == 0
    assert "no drift" in same.stdout
    assert "worse" not in same.stdout

    back = nights.run("drift", "nights/good", "--before", "nights/bad/results.json", "--format", "markdown")
    assert back.code == 0
    assert back.stdout.startswith("| number | before | now |")
    assert back.stdout.count("| better |") == 2


@pytest.mark.full
def test_too_few_conversations_show_nothing(nights: Project) -> None:
    few = nights.run("drift", "nights/few", *weeks())
    assert few.code == 3
    assert few.stdout.count("too few: at least 50 on each side") == 2
    # Conversations that both sides have count once, as the later ones.
    twice = nights.run("drift", "nights/good", "--before", "nights/good", "--format", "json")
    assert [each["before"] for each in json.loads(twice.stdout)] == [0]
    assert twice.code == 3


@pytest.mark.full
def test_what_cannot_be_compared_is_refused(nights: Project) -> None:
    suite(nights, CHECK, name="other")
    judge(nights, "other", 9001, answers(random.Random(2), 60, 0.9))
    done = nights.run("drift", "nights/other", *weeks())
    assert done.code == 2
    assert done.errors == ["drift compares runs of one suite, not of other, tested; give the runs of a single suite"]
    assert nights.run("drift", "nights/none", *weeks()).code == 2


@pytest.mark.parametrize(("one", "two"), [((56, 70), (48, 80)), ((9, 10), (3, 10)), ((10, 10), (20, 20))])
def test_rates_agree_with_newcombe(one: tuple[int, int], two: tuple[int, int]) -> None:
    first, second = ([(1.0, 1.0)] * hits + [(0.0, 1.0)] * (size - hits) for hits, size in (two, one))
    found = newcombe(first, second, 0.05)

    (a, m), (b, n) = one, two
    ends = [scipy.stats.binomtest(k, size).proportion_ci(method="wilson") for k, size in (one, two)]
    p, q = a / m, b / n
    assert found.value == pytest.approx(p - q)
    assert found.low == pytest.approx(p - q - np.hypot(p - ends[0].low, ends[1].high - q), abs=1e-9)
    assert found.high == pytest.approx(p - q + np.hypot(ends[0].high - p, q - ends[1].low), abs=1e-9)
    if (one, two) == ((56, 70), (48, 80)):
        # Table II of Newcombe 1998, method 10.
        assert (round(found.low, 4), round(found.high, 4)) == (0.0524, 0.3339)


def test_means_agree_with_welch() -> None:
    dice = np.random.default_rng(5)
    one, two = dice.beta(8, 2, 60), dice.beta(5, 3, 85)
    found = welch([(value, 1.0) for value in one], [(value, 1.0) for value in two], 0.01)
    ends = scipy.stats.ttest_ind(two, one, equal_var=False).confidence_interval(0.99)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))
    # Whole weights are as good as repeated values for the mean.
    weighted = welch([(value, 2.0) for value in one], [(value, 2.0) for value in two], 0.01)
    assert (weighted.low, weighted.high) == pytest.approx((ends.low, ends.high))


@settings(max_examples=25, deadline=None)
@given(
    st.floats(0, 1, allow_nan=False),
    st.lists(st.floats(0.01, 5), min_size=50, max_size=52),
    st.lists(st.floats(0.01, 5), min_size=50, max_size=52),
)
def test_equal_scores_never_drift(score: float, before: list[float], now: list[float]) -> None:
    found = find_drifts([of_scores("a", score, before)], [of_scores("b", score, now)])
    assert {each.state for each in found} <= {"no drift"}, found


def test_equal_scores_over_more_turns_never_drift() -> None:
    """The mean of three 0.3 is not 0.3 in floating point."""
    score, weights = 0.1 + 0.2, [1.0] * 50
    found = find_drifts([of_scores("a", score, weights)], [of_scores("b", 0.3, weights)])
    assert {each.state for each in found} == {"no drift"}


def of_scores(name: str, score: float, weights: list[float]) -> Record:
    """A night whose conversations all have one score."""
    cases = [replace(case_of(turn(evaluation(score))), weight=weight) for weight in weights]
    made = record(*cases)
    return replace(made, cases=tuple(replace(case, id=f"{name}-{case.id}") for case in made.cases))
