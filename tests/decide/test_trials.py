"""pass@k and pass^k: the formulas against enumeration, and what missing trials leave open against every completion."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.decide.decision import decide
from holodeck_action.decide.statistics import mean_lower_bound, mean_upper_bound
from holodeck_action.decide.trials import Bounds, pass_at_k, pass_hat_k
from holodeck_action.record.record import TrialRecord
from holodeck_action.reports.report_views import CaseView
from holodeck_action.suite.model.policy import Gates, QuarantineEntry
from tests.record.records import case, case_of, evaluation, record, turn
from tests.reports.shown import report_of
from tests.tables import walk


def enumerated(trials: str, k: int) -> tuple[Fraction, Fraction]:
    """The shares of choices of k trials with at least one, and with nothing but, passing ones."""
    choices = list(itertools.combinations(trials, k))
    some = sum("P" in choice for choice in choices)
    return Fraction(some, len(choices)), Fraction(sum("F" not in choice for choice in choices), len(choices))


@walk("n", range(1, 9))
def test_the_formulas_are_shares_of_all_choices(n: int) -> None:
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        some, every = enumerated("P" * c + "F" * (n - c), k)
        assert pass_at_k(n, c, k) == float(some)
        assert pass_hat_k(n, c, k) == float(every)


def test_the_formulas_are_unbiased() -> None:
    """Over the binomial distribution of c, the estimates have the means 1 − (1 − p)^k and p^k."""
    n, p = 7, 0.3
    passing = [sum(outcomes) for outcomes in itertools.product((0, 1), repeat=n)]
    for k in range(1, n + 1):
        chances = [(c, p**c * (1 - p) ** (n - c)) for c in passing]
        assert sum(chance * pass_at_k(n, c, k) for c, chance in chances) == pytest.approx(1 - (1 - p) ** k)
        assert sum(chance * pass_hat_k(n, c, k) for c, chance in chances) == pytest.approx(p**k)


def test_many_trials_are_no_trouble() -> None:
    assert pass_at_k(100_000, 1, 100_000) == 1
    assert pass_hat_k(100_000, 99_999, 50_000) == 0.5


def view(letters: str, repeat: int, min_pass: int, *, stop: bool) -> CaseView:
    made = record(case(letters, repeat, min_pass), stop_when_decided=stop, gates=Gates(min_completeness=None))
    report = report_of(made)
    return (*report.attention, *report.passing)[0]


@given(st.data())
def test_the_ends_are_those_of_every_completion(data: st.DataObject) -> None:
    repeat = data.draw(st.integers(2, 6))
    letters = "".join(data.draw(st.lists(st.sampled_from("PFE"), min_size=1, max_size=repeat)))
    found = view(letters, repeat, repeat, stop=False).trial_rates
    known = letters.replace("E", "")
    if not known:
        assert found is None
        return
    assert found is not None
    missing = repeat - len(known)
    assert (found.passed, found.failed, found.missing) == (known.count("P"), known.count("F"), missing)
    for rates in found.rates:
        ends = [enumerated(known + "".join(rest), rates.k) for rest in itertools.product("PF", repeat=missing)]
        some, every = zip(*ends, strict=True)
        assert rates.pass_at_k == Bounds(float(min(some)), float(max(some)))
        assert rates.pass_hat_k == Bounds(float(min(every)), float(max(every)))


def test_rates_of_a_whole_case() -> None:
    shown = view("PFPFP", 5, 3, stop=False)
    found = shown.trial_rates
    assert found is not None
    assert shown.flaky
    assert (found.rate, found.missing, found.truncated) == (0.6, 0, False)
    assert [rates.k for rates in found.rates] == [1, 2, 3, 4, 5]
    assert found.rates[0].pass_at_k == found.rates[0].pass_hat_k == Bounds(0.6, 0.6)
    assert found.rates[1].pass_at_k == Bounds(0.9, 0.9)
    assert found.rates[1].pass_hat_k == Bounds(0.3, 0.3)
    assert found.rates[-1].pass_at_k == Bounds(1, 1)
    assert found.rates[-1].pass_hat_k == Bounds(0, 0)


@walk(
    ("letters", "min_pass", "stop", "truncated"),
    [
        ("PF", 3, True, True),
        ("PP", 2, True, True),
        ("PPF", 3, True, False),
        ("PFP", 2, False, False),
        # Neither was decided: something else left the others out.
        ("P", 3, True, False),
        ("PE", 3, True, False),
        ("PF", 3, False, False),
    ],
)
def test_only_a_decision_truncates(letters: str, min_pass: int, stop: bool, truncated: bool) -> None:
    found = view(letters, 3, min_pass, stop=stop).trial_rates
    assert found is not None
    assert found.truncated == truncated


def test_long_lists_of_k_are_cut() -> None:
    found = view("P" * 25, 25, 25, stop=True).trial_rates
    assert found is not None
    assert [rates.k for rates in found.rates] == [*range(1, 11), 25]


def test_the_suite_is_the_weighted_mean_over_cases_that_gate() -> None:
    quarantine = QuarantineEntry.model_validate(
        {"case": "case-3", "reason": "known", "owner": "me", "expires": "2999-01-01"}
    )
    made = record(
        case("PPFF", 4, 1, weight=3),
        case("PPPP", 4, 4),
        case("PPPFFF", 6, 1),
        case("FFFF", 4, 4),
        case("EEEE", 4, 4),
        case("P"),
        stop_when_decided=False,
        quarantine=(quarantine,),
    )
    found = report_of(made).trial_rates
    assert found is not None
    assert (found.cases, found.repeat, found.trials, found.missing) == (3, 4, 14, 0)
    assert (found.flaky, found.truncated) == (2, 0)
    assert found.rate == pytest.approx((3 * 0.5 + 1 + 0.5) / 5)
    for rates in found.rates:
        each = [(3, "PPFF"), (1, "PPPP"), (1, "PPPFFF")]
        some = sum(weight * enumerated(trials, rates.k)[0] for weight, trials in each) / 5
        every = sum(weight * enumerated(trials, rates.k)[1] for weight, trials in each) / 5
        assert rates.pass_at_k.low == rates.pass_at_k.high == pytest.approx(float(some))
        assert rates.pass_hat_k.low == rates.pass_hat_k.high == pytest.approx(float(every))


def test_without_repeated_cases_there_is_nothing_to_say() -> None:
    report = report_of(record(case("P"), case("E", 2, 2)))
    assert report.trial_rates is None
    assert all(each.trial_rates is None for each in (*report.attention, *report.passing))


def test_where_all_must_pass_the_last_number_is_the_pass_rate_of_cases() -> None:
    """Stopping early costs nothing there: one failure settles pass^n."""
    chance = random.Random(7)
    cases = []
    for _ in range(30):
        trials = "".join(chance.choices("PF", (4, 1), k=3))
        cases.append(case(trials[: trials.find("F") + 1 or None], 3, 3))
    made = record(*cases)
    found = report_of(made).trial_rates
    assert found is not None
    assert found.truncated > 0
    assert found.rates[-1].pass_hat_k.low == found.rates[-1].pass_hat_k.high == decide(made).pass_rate


# -- scores


@walk(
    ("scores", "threshold", "polarity", "noisy"),
    [
        ([0.6, 0.8] * 5, 0.72, "maximize", True),
        ([0.6, 0.8] * 5, 0.62, "maximize", False),
        ([0.6, 0.8] * 5, 0.68, "minimize", True),
        ([0.6, 0.8] * 5, 0.78, "minimize", False),
        # Equal scores leave no doubt; too few say nothing.
        ([0.71] * 12, 0.7, "maximize", False),
        ([0.6, 0.8] * 4, 0.7, "maximize", False),
        # Yes or no: Wilson's interval, and a threshold that no mean can exceed.
        ([1.0] * 11 + [0.0], 0.9, "maximize", True),
        ([1.0] * 12, 1.0, "maximize", False),
        ([0.0] * 12, 0.0, "minimize", False),
    ],
)
def test_a_mean_within_noise_of_its_threshold(
    scores: list[float], threshold: float, polarity: str, noisy: bool
) -> None:
    cases = [case_of(turn(evaluation(score, threshold, polarity=polarity))) for score in scores]
    (metric,) = report_of(record(*cases)).metrics
    assert metric.within_noise == noisy
    if len(scores) < 10:
        assert (metric.low, metric.high) == (None, None)
        return
    values = [(score, 1.0) for score in scores]
    assert (metric.low, metric.high) == (mean_lower_bound(values), mean_upper_bound(values))


def test_lowest_and_highest_are_those_of_trials_not_of_turns() -> None:
    first = (turn(evaluation(0.2)), turn(evaluation(0.8), index=1))
    second = (turn(evaluation(0.6)), turn(evaluation(0.9), evaluation(True, evaluator_name="said"), index=1))
    trials = (TrialRecord(0, first), TrialRecord(1, second))
    report = report_of(record(case_of(repeat=2, min_pass=2, trials=trials), stop_when_decided=False))
    (shown,) = report.attention
    bleu, said = shown.scores
    assert (bleu.metric, bleu.lowest, bleu.highest) == ("bleu", 0.5, 0.75)
    assert bleu.mean == pytest.approx(0.625)
    assert (said.mean, said.lowest, said.highest) == (1.0, None, None)
