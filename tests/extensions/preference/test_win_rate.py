"""Win rate, interval and p-value against an oracle that computes them by other methods."""

from __future__ import annotations

import hashlib
import math
import random
from collections import Counter
from fractions import Fraction

import pytest
from msgspec.structs import replace

from holodeck_action.decide.compare.comparing import compare
from holodeck_action.decide.compare.comparison import Comparison, Preference
from holodeck_action.decide.survey import judge_cases
from holodeck_action.record.evaluation import ErrorInfo, Evaluation
from holodeck_action.record.record import BaseRun, CaseRecord, Record, TrialRecord
from holodeck_action.record.result_files import read_record
from holodeck_action.suite.model.policy import Baseline
from tests.commands.project import Project
from tests.extensions.preference.shop import Shop
from tests.llm.models import FakeModels

pytestmark = pytest.mark.needs("preference")

Verdicts = list[list[int | None]]
"""For each case the verdicts on its trials: 1, 0 or −1; None for a pair that could not be judged."""
_RECORDS = 250


def loglikelihood(gained: float, lost: float, n: int, share: float, delta: float) -> float:
    """Of `gained` wins and `lost` losses in n pairs, if losses have this share and wins `share + delta`."""
    found = 0.0
    for count, chance in ((gained, share + delta), (lost, share), (n - gained - lost, 1 - 2 * share - delta)):
        if count > 0:
            found += count * math.log(chance) if chance > 0 else -math.inf
    return found


def score_statistic(gained: float, lost: float, n: int, delta: float) -> float:
    """Tango's statistic, with the share of losses found by a search for the greatest likelihood."""
    low, high = max(0.0, -delta), (1 - delta) / 2
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(45):
        one, two = high - golden * (high - low), low + golden * (high - low)
        if loglikelihood(gained, lost, n, one, delta) < loglikelihood(gained, lost, n, two, delta):
            low = one
        else:
            high = two
    share = (low + high) / 2
    variance = n * (2 * share + delta - delta * delta)
    distance = gained - lost - n * delta
    return distance / math.sqrt(variance) if variance > 1e-15 else math.copysign(math.inf, distance)


def oracle_interval(values: list[Fraction]) -> tuple[float, float]:
    """The ends of the win rate's 95 % interval, by bisection of the statistic."""
    n = len(values)
    gained, lost = float(sum(v for v in values if v > 0)), float(-sum(v for v in values if v < 0))
    ends = []
    for sign in (-1, 1):
        inside, outside = (gained - lost) / n, float(sign)
        for _ in range(26):
            middle = (inside + outside) / 2
            if abs(score_statistic(gained, lost, n, middle)) <= 1.959963984540054:
                inside = middle
            else:
                outside = middle
        ends.append((1 + inside) / 2)
    return ends[0], ends[1]


def oracle_p(values: list[Fraction]) -> float:
    """Mid-p of the sign test for whole values, else the exact sign-flip test, by convolution of the sums."""
    if all(value.denominator == 1 for value in values):
        wins, losses = values.count(Fraction(1)), values.count(Fraction(-1))
        n = wins + losses
        chance = [Fraction(math.comb(n, k), 2**n) for k in range(n + 1)]
        seen = abs(wins - losses)
        further = sum(p for k, p in enumerate(chance) if abs(2 * k - n) > seen)
        equal = sum(p for k, p in enumerate(chance) if abs(2 * k - n) == seen)
        return float(further + equal / 2) if seen else 1.0
    sums, whole = Counter({0: 1}), [int(60 * value) for value in values]
    for value in whole:
        sums = _flip(sums, value)
    seen = abs(sum(whole))
    return sum(count for total, count in sums.items() if abs(total) >= seen) / sum(sums.values())


def _flip(sums: Counter[int], value: int) -> Counter[int]:
    found: Counter[int] = Counter()
    for total, count in sums.items():
        found[total + value] += count
        found[total - value] += count
    return found


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Made:
    """Records with given verdicts, made of the two records of a real run."""

    def __init__(self, base: Record, head: Record) -> None:
        self.base, self.head = base, head

    def compared(self, verdicts: Verdicts, lengths: tuple[int, int] = (3, 5)) -> Comparison:
        base = replace(self.base, cases=tuple(self._case(self.base, at, row, None) for at, row in enumerate(verdicts)))
        head = replace(
            self.head, cases=tuple(self._case(self.head, at, row, lengths) for at, row in enumerate(verdicts))
        )
        return compare(base, head, Baseline(), base_run=BaseRun("base"), judged=judge_cases(head))

    def _case(self, record: Record, at: int, row: list[int | None], lengths: tuple[int, int] | None) -> CaseRecord:
        case = record.cases[0]
        trials = tuple(
            self._trial(case.trials[0], index, value, f"base {at} {index}", lengths) for index, value in enumerate(row)
        )
        return replace(case, id=f"case-{at}", repeat=len(row), min_pass=len(row), trials=trials)

    def _trial(
        self, trial: TrialRecord, index: int, value: int | None, text: str, lengths: tuple[int, int] | None
    ) -> TrialRecord:
        (turn,) = trial.turns
        if lengths is None:
            return replace(trial, index=index, turns=(replace(turn, response=text),))
        others = [each for each in turn.evaluations if each.criteria.kind != "preference"]
        judged = next(each for each in turn.evaluations if each.criteria.kind == "preference")
        evaluations = (*others, self._evaluation(judged, value, text, lengths))
        return replace(trial, index=index, turns=(replace(turn, evaluations=evaluations),))

    def _evaluation(self, judged: Evaluation, value: int | None, text: str, lengths: tuple[int, int]) -> Evaluation:
        if value is None:
            error = ErrorInfo("EvaluationError", "the base has no answer", "base_failed")
            return replace(judged, status="failed", score=None, metadata={}, error=error)
        facts = {"value": value, "flipped": False, "identical": False, "lengths": list(lengths)}
        metadata = {"preference": {**facts, "base_digest": digest(text)}}
        return replace(judged, score=(value + 1) / 2, metadata=metadata)


@pytest.fixture
def made(project: Project, models: FakeModels) -> Made:
    shop = Shop(project, models)
    shop.suite(1)
    shop.base(["bad"])
    finished = shop.head(["good"])
    assert finished.code == 0, finished.stderr
    return Made(read_record(project.folder / "base/results.json"), read_record(project.out / "results.json"))


def random_verdicts(drawn: random.Random) -> Verdicts:
    cases, trials = drawn.randint(1, 40), drawn.choice([1, 1, 1, 2, 3, 5])
    chances = [drawn.random() + 0.01, drawn.random() + 0.01, drawn.random() + 0.01, drawn.choice([0, 0.1, 0.4])]
    return [drawn.choices([1, 0, -1, None], chances, k=trials) for _ in range(cases)]


def preference_of(comparison: Comparison) -> Preference | None:
    return next(iter(comparison.preferences), None)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2))
def test_an_oracle_agrees_on_random_records(made: Made, seed: int) -> None:
    drawn, graded = random.Random(seed), 0
    for _ in range(_RECORDS):
        verdicts = random_verdicts(drawn)
        found = preference_of(made.compared(verdicts))
        rows = [[value for value in row if value is not None] for row in verdicts]
        values = [Fraction(sum(row), len(row)) for row in rows if row]
        flat = [value for row in rows for value in row]
        if not values:
            assert found is None
            continue
        assert found is not None
        assert (found.wins, found.ties, found.losses) == (flat.count(1), flat.count(0), flat.count(-1))
        assert (found.cases, found.pairs, found.missing) == (
            len(values),
            len(flat),
            sum(map(len, verdicts)) - len(flat),
        )
        assert found.win_rate == pytest.approx(float((1 + sum(values) / len(values)) / 2), abs=1e-12)
        if len(values) < 10:
            assert (found.low, found.high, found.p_value) == (None, None, None)
            continue
        assert (found.low, found.high) == pytest.approx(oracle_interval(values), abs=1e-5), verdicts
        whole = all(value.denominator == 1 for value in values)
        exact = whole or sum(value != 0 for value in values) <= 14
        graded += not whole
        # Above 14 values that are not 0, the test draws 9,999 sign patterns.
        assert found.p_value == pytest.approx(oracle_p(values), abs=1e-9 if exact else 0.025), verdicts
    assert graded > 50


def test_p_values_are_adjusted_with_those_of_all_gating_measures(made: Made) -> None:
    comparison = made.compared([[1]] * 12)
    (metric,) = [each for each in comparison.metrics if each.name == "preference"]
    assert metric.change is not None
    # Without the gate on the win rate, it does not gate.
    assert (metric.gates, metric.change.p_gating) == (False, None)
    assert metric.change.p_value == pytest.approx(2**-12)


@pytest.mark.parametrize("against", [("--against-target", "recorded:base.jsonl"), ("--baseline", "file:base")])
def test_a_side_that_judged_no_pair_has_no_other_version(
    project: Project, models: FakeModels, against: tuple[str, str]
) -> None:
    shop = Shop(project, models)
    shop.suite(3)
    shop.base(["good"] * 3)
    shop.suite(3, policy={"baseline": {"on_loosened": "fail"}})
    shop.answers("head.jsonl", ["good", "good too", "good as well"])
    finished = shop.run("run", "--target", "recorded:head.jsonl", *against, "-o", "out")
    assert "another version" not in finished.stdout + finished.stderr
    assert finished.code == 0, finished.stdout


@pytest.mark.parametrize(("bound", "count", "needed"), [(0.45, 12, 35), (0.45, 34, 35), (0.45, 35, None), (0.4, 3, 16)])
def test_the_least_number_of_cases_of_a_bound_is_named(
    project: Project, models: FakeModels, bound: float, count: int, needed: int | None
) -> None:
    shop = Shop(project, models)
    shop.suite(count, policy={"gates": {"min_win_rate_lower_bound": bound}, "baseline": {"source": "file:base"}})
    finished = shop.run("validate")
    assert finished.code == 0, finished.stderr
    said = f"needs at least {needed} cases if all pairs tie, as with an unchanged agent; this suite has {count}"
    assert (said in finished.stderr) == (needed is not None), finished.stderr
    if needed is not None:
        assert finished.stderr.count("if all pairs tie") == 1


@pytest.mark.parametrize("count", [34, 35])
def test_ties_reach_the_bound_with_as_many_cases_as_are_named(project: Project, models: FakeModels, count: int) -> None:
    shop = Shop(project, models)
    shop.suite(count)
    shop.base(["good"] * count)
    shop.suite(count, policy={"gates": {"min_win_rate_lower_bound": 0.45}})
    assert shop.head(["good"] * count).code == (0 if count == 35 else 1)
