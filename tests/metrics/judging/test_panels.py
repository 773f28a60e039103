"""Panels of judges: their arithmetic against an independent one, and what becomes of judges that give no verdict."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, get_args

import pytest

from holodeck_action.llm.calls import CALL, CallContext, Meter
from holodeck_action.llm.errors import ModelCallError
from holodeck_action.metrics.base import BaseEvaluator, EvaluationResult
from holodeck_action.metrics.errors import DeepEvalError, EvaluationError
from holodeck_action.metrics.judging.panel import PanelEvaluator, PanelJudge, build_panel
from holodeck_action.metrics.judging.voting import JudgeVerdict, agreement_share, combine, score_spread
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.suite.model.judging import Aggregation
from tests.llm.ahead import run_ahead

THRESHOLDS = (0.0, 0.3, 0.5, 0.7, 1.0)


class Fixed(BaseEvaluator):
    """Gives what it is told to: a score, a result, or an error."""

    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.ACTUAL_OUTPUT}))

    def __init__(self, outcome: Any, threshold: float | None = 0.5, seconds: float = 0.0) -> None:
        super().__init__(timeout=None)
        self._outcome = outcome
        self._threshold = threshold
        self._seconds = seconds
        self.contexts: list[CallContext] = []
        self.at_once = 0

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        self.contexts.append(CALL.get())
        if self._seconds:
            await asyncio.sleep(self._seconds)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        if isinstance(self._outcome, EvaluationResult):
            return self._outcome
        return EvaluationResult(score=self._outcome, threshold=self._threshold, reasoning="so it is")


def down(code: str = "overloaded") -> EvaluationError:
    """What an evaluator raises whose judge cannot be asked."""
    return DeepEvalError("GEval", "GEval", ModelCallError("the model is overloaded", code))


def seats(*outcomes: Any, threshold: float | None = 0.5) -> list[tuple[PanelJudge, ...]]:
    """A seat for every outcome; several in a tuple stand in for each other."""
    return [
        tuple(
            PanelJudge(f"m{at}{'f' * place}", Fixed(each, threshold))
            for place, each in enumerate(outcome if isinstance(outcome, tuple) else (outcome,))
        )
        for at, outcome in enumerate(outcomes)
    ]


def all_evaluated(panels: Iterable[PanelEvaluator]) -> list[EvaluationResult]:
    async def work() -> list[EvaluationResult]:
        CALL.set(CallContext("judge", 0, None, Meter()))
        return [await panel.evaluate(response="an answer") for panel in panels]

    return run_ahead(work)[0]


def evaluated(panel: PanelEvaluator) -> EvaluationResult:
    (result,) = all_evaluated([panel])
    return result


def verdicts(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result["panel"]["verdicts"]
    return found


# -- arithmetic


def by_hand(aggregation: str, scores: list[float], threshold: float) -> tuple[Fraction, bool]:
    """The same in exact arithmetic and other words."""
    exact = sorted(map(Fraction, scores))
    if aggregation == "majority_vote":
        sides = {
            True: [s for s in exact if s >= Fraction(threshold)],
            False: [s for s in exact if s < Fraction(threshold)],
        }
        won = len(sides[True]) > len(sides[False])
        return sum(sides[won], Fraction(0)) / len(sides[won]), won
    middle = len(exact) // 2
    value = {
        "mean": sum(exact, Fraction(0)) / len(exact),
        "min": exact[0],
        "max": exact[-1],
        "median": exact[middle] if len(exact) % 2 else (exact[middle - 1] + exact[middle]) / 2,
    }[aggregation]
    return value, value >= Fraction(threshold)


@pytest.mark.parametrize("aggregation", get_args(Aggregation))
def test_verdicts_are_put_together_as_by_hand(aggregation: Aggregation) -> None:
    chance = random.Random(11)
    drawn = []
    for _ in range(400):
        threshold = chance.choice(THRESHOLDS)
        scores = [
            chance.choice([0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0, chance.random()]) for _ in range(chance.randint(1, 7))
        ]
        drawn.append((scores, threshold))
    results = all_evaluated(
        PanelEvaluator(seats(*scores, threshold=threshold), aggregation=aggregation) for scores, threshold in drawn
    )
    for (scores, threshold), result in zip(drawn, results, strict=True):
        score, passed = by_hand(aggregation, scores, threshold)
        assert result.score == pytest.approx(float(score), abs=1e-12)
        if abs(score - Fraction(threshold)) > Fraction(1, 10**9) or aggregation == "majority_vote":
            assert result.passed is passed, (scores, threshold)


@pytest.mark.parametrize("aggregation", ["majority_vote", "mean", "median"])
@pytest.mark.parametrize("score", [0.1, 0.3, 0.7, 1 / 3, 0.9])
@pytest.mark.parametrize("count", [1, 2, 3, 6, 7])
def test_rounding_fails_nobody(aggregation: Aggregation, score: float, count: int) -> None:
    result = evaluated(PanelEvaluator(seats(*([score] * count), threshold=score), aggregation=aggregation))
    assert (result.score, result.passed) == (score, True)


def test_a_tied_vote_fails() -> None:
    result = evaluated(PanelEvaluator(seats(0.9, 0.8, 0.4, 0.2)))
    assert result.passed is False
    assert result.score == pytest.approx(0.3)
    assert result.reasoning.startswith("2 of 4 judges pass it, a tie, which fails; m0 0.9: so it is; ")
    assert result["panel"]["agreement"] == 0.5


def test_low_scores_pass_where_low_is_good() -> None:
    results = [EvaluationResult(score=score, threshold=0.5, polarity="minimize") for score in (0.1, 0.4, 0.9)]
    result = evaluated(PanelEvaluator(seats(*results)))
    assert (result.score, result.passed, result.polarity) == (0.25, True, "minimize")


def test_own_verdicts_are_voted_on_without_a_threshold() -> None:
    def own(score: float | None, passed: bool) -> EvaluationResult:
        return EvaluationResult(score=score, passed=passed, reasoning="said")

    result = evaluated(PanelEvaluator(seats(own(0.9, False), own(0.2, True), own(0.4, True))))
    assert (result.passed, result.threshold) == (True, None)
    assert result.score == pytest.approx(0.3)
    for aggregation in get_args(Aggregation):
        result = evaluated(
            PanelEvaluator(seats(own(None, True), own(None, True), own(None, False)), aggregation=aggregation)
        )
        assert (result.score, result.passed) == (None, True)
    assert evaluated(PanelEvaluator(seats(True, False, threshold=None))).passed is False


def test_scores_alone_have_no_vote() -> None:
    result = evaluated(PanelEvaluator(seats(0.2, 0.4, 0.9, threshold=None)))
    assert (result.score, result.passed) == (0.4, None)
    assert result["panel"]["agreement"] is None
    assert result.reasoning.startswith("median of 3 judges; ")


def test_spread_and_agreement() -> None:
    given = [JudgeVerdict("m", score, score >= 0.5) for score in (0.9, 0.5, 0.2)]
    assert score_spread(given) == pytest.approx(0.7)
    assert score_spread(given[:1]) is None
    assert (agreement_share(True, given), agreement_share(False, given), agreement_share(None, given)) == (
        2 / 3,
        1 / 3,
        None,
    )
    assert combine("majority_vote", [JudgeVerdict("m", 0.5)]) == (0.5, None)


# -- judges without a verdict


def test_fewer_verdicts_than_asked_for_are_no_evaluation() -> None:
    panel = PanelEvaluator(seats(0.9, down(), EvaluationError("no JSON", code="bad_verdict")), min_successful=2)
    with pytest.raises(EvaluationError) as raised:
        evaluated(panel)
    assert raised.value.code == "too_few_judges"
    assert raised.value.message == (
        "1 of 3 judges gave a verdict; 2 are needed: m1: the model is overloaded; m2: no JSON"
    )
    found = verdicts({"panel": raised.value.context})
    assert [each["error"] and each["error"]["code"] for each in found] == [None, "overloaded", "bad_verdict"]


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        (down(), "overloaded"),
        (down("refused"), "refused"),
        (EvaluationError("no verdict twice", code="bad_verdict"), "bad_verdict"),
        (KeyError("a defect of a judge's library"), "evaluator_error"),
        (EvaluationResult(score="excellent"), "invalid_result"),
        (EvaluationResult(score=None), "invalid_result"),
    ],
)
def test_a_judge_without_a_verdict_is_replaced_in_order(trouble: Any, code: str) -> None:
    result = evaluated(PanelEvaluator(seats(0.9, (trouble, down("connect"), 0.2, 0.3))))
    first, second = verdicts(result)
    assert (first["fallback"], first["error"]) == (False, None)
    assert (second["model"], second["score"], second["fallback"], second["error"]["code"]) == ("m1ff", 0.2, True, code)
    assert second["error"]["message"].startswith("m1: ")
    assert result["panel"]["fallback_share"] == 0.5
    assert "m1ff (fallback) 0.2" in result.reasoning


def test_nobody_is_asked_in_the_place_of_a_judge_that_answers() -> None:
    (seat,) = seats((0.9, 0.1))
    evaluated(PanelEvaluator([seat]))
    assert [len(juror.evaluator.contexts) for juror in seat] == [1, 0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("code", ["budget_exhausted", "price_unknown"])
def test_what_ends_the_run_is_no_judges_trouble(code: str) -> None:
    (seat, other) = seats((down(code), 0.9), 0.9)
    with pytest.raises(DeepEvalError) as raised:
        evaluated(PanelEvaluator([seat, other]))
    assert raised.value.original_error.code == code  # type: ignore[union-attr]
    assert seat[1].evaluator.contexts == []  # type: ignore[attr-defined]


def test_a_missing_input_is_missing_for_all() -> None:
    async def work() -> None:
        await PanelEvaluator(seats(0.9, 0.9)).evaluate(query="a question")

    with pytest.raises(EvaluationError) as raised:
        asyncio.run(work())
    assert raised.value.code == "missing_input"
    assert "actual_output" in raised.value.message


# -- time and order


def slow(*seconds: float, score: float = 0.9) -> list[tuple[PanelJudge, ...]]:
    return [(PanelJudge(f"m{at}", Fixed(score, seconds=each)),) for at, each in enumerate(seconds)]


def test_a_slow_judge_is_given_up_and_the_others_count() -> None:
    result = evaluated(PanelEvaluator(slow(0.0, 60.0, 0.0), timeout=10))
    assert [each["error"] and each["error"]["code"] for each in verdicts(result)] == [None, "timeout", None]
    assert result.passed is True


def test_there_is_time_left_for_who_stands_in() -> None:
    jurors = (
        PanelJudge("slow", Fixed(0.1, seconds=60)),
        PanelJudge("slow too", Fixed(0.2, seconds=60)),
        PanelJudge("ready", Fixed(0.9, seconds=1)),
    )
    result = evaluated(PanelEvaluator([jurors], timeout=30))
    assert (verdicts(result)[0]["model"], result.score) == ("ready", 0.9)


@pytest.mark.parametrize("at_once", [1, 2])
def test_judges_in_turn_share_the_time(at_once: int) -> None:
    panel = PanelEvaluator(slow(60, 60, 60, 1), max_concurrent=at_once, timeout=30)
    result = evaluated(panel)
    assert [each["score"] for each in verdicts(result)] == [None, None, None, 0.9]


class Counted(Fixed):
    """Notes how many of its kind are at work."""

    now = most = 0

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        Counted.now += 1
        Counted.most = max(Counted.most, Counted.now)
        try:
            await asyncio.sleep(0.01)
            return await super()._evaluate_impl(**kwargs)
        finally:
            Counted.now -= 1


@pytest.mark.parametrize(("limit", "most"), [(1, 1), (2, 2), (9, 5), (None, 5)])
def test_only_so_many_are_asked_at_once(limit: int | None, most: int) -> None:
    Counted.most = 0
    evaluated(PanelEvaluator([(PanelJudge("m", Counted(0.9)),) for _ in range(5)], max_concurrent=limit))
    assert Counted.most == most


def test_the_deadline_of_the_calls_is_that_of_the_attempt() -> None:
    ((judge,),) = panel = seats(0.9)
    evaluated(PanelEvaluator(panel, timeout=30))
    (context,) = judge.evaluator.contexts  # type: ignore[attr-defined]
    assert context.deadline.seconds_left() == pytest.approx(30)


# -- seats


class Model:
    """As much of a judge as seats look at."""

    def __init__(self, label: str) -> None:
        self.label = label


def samples(judges: str, fallbacks: str = "") -> list[list[tuple[str, int]]]:
    models = {name: Model(name) for name in judges + fallbacks}
    build: Callable[[Any], BaseEvaluator] = lambda model: Fixed(0.9)  # noqa: E731
    chains = build_panel([models[name] for name in judges], [models[name] for name in fallbacks], build)
    return [[(juror.label, juror.sample) for juror in seat] for seat in chains]


def test_answers_of_one_model_are_told_apart() -> None:
    assert samples("aba") == [[("a", 0)], [("b", 0)], [("a", 1)]]
    assert samples("aab", "cb") == [
        [("a", 0), ("c", 3), ("b", 3)],
        [("a", 1), ("c", 4), ("b", 4)],
        [("b", 0), ("c", 5)],
    ]
    for judges in itertools.product("ab", repeat=4):
        found = list(itertools.chain(*samples("".join(judges), "ac")))
        assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("given", "options", "says"),
    [
        ([], {}, "at least one judge"),
        ([()], {}, "at least one judge"),
        ("one", {"min_successful": 2}, "min_successful must be 1 to 1"),
        ("one", {"min_successful": 0}, "min_successful must be 1 to 1"),
        ("one", {"max_concurrent": 0}, "max_concurrent must be at least 1"),
    ],
)
def test_panels_that_could_never_judge_are_refused(given: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        PanelEvaluator(seats(0.9) if given == "one" else given, **options)
