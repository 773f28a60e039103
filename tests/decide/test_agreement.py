"""How judges agree: Krippendorff's α against its published example and against its definition pair by pair."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from holodeck_action.decide.agreement import krippendorff_alpha
from holodeck_action.decide.decision import decide
from holodeck_action.record.evaluation import ErrorInfo, Evaluation
from holodeck_action.reports.report_building import build_report
from tests.record.records import case_of, evaluation, record, turn
from tests.tables import walk

Units = list[list[float | None]]

# Krippendorff 2011, part C: four observers, twelve units, missing values; interval α = .849.
_OBSERVERS = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3),
    (None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None),
)


def by_pairs(units: Sequence[Sequence[float | None]]) -> Fraction | None:
    """α by its definition: every ordered pair of values, in exact arithmetic."""
    exact = [[Fraction(value) for value in unit if value is not None] for unit in units]
    pairable = [unit for unit in exact if len(unit) > 1]
    values = [value for unit in pairable for value in unit]
    n = len(values)
    total = sum(((a - b) ** 2 for a, b in permutations(values, 2)), Fraction(0))
    if not total:
        return None
    within = sum(
        (
            Fraction(1, len(unit) - 1) * sum(((a - b) ** 2 for a, b in permutations(unit, 2)), Fraction(0))
            for unit in pairable
        ),
        Fraction(0),
    )
    return 1 - (within / n) / (total / (n * (n - 1)))


def test_alpha_is_that_of_the_published_example() -> None:
    found = krippendorff_alpha(list(zip(*_OBSERVERS, strict=True)))
    assert found is not None
    assert round(found, 3) == 0.849


@pytest.mark.parametrize("seed", range(60))
def test_alpha_is_that_of_its_definition(seed: int) -> None:
    chance = random.Random(seed)
    levels = [0.0, 0.1, 0.3, 0.7, 1.0] if seed % 2 else [chance.random() for _ in range(40)]
    units: Units = [
        [None if chance.random() < 0.2 else chance.choice(levels) for _ in range(chance.randint(1, 5))]
        for _ in range(chance.randint(1, 30))
    ]
    found, expected = krippendorff_alpha(units), by_pairs(units)
    assert (found is None) == (expected is None)
    assert found is None or math.isclose(found, float(expected or 0), rel_tol=1e-9, abs_tol=1e-9)


@walk(
    ("units", "expected"),
    [
        ([], None),
        ([[0.5], [0.7]], None),
        ([[0.7, 0.7, 0.7], [0.7, 0.7, 0.7]], None),
        ([[0.1 + 0.2, 0.3], [0.3, 0.1 + 0.2]], None),
        ([[0.2, 0.2], [0.9, 0.9]], 1.0),
        # Two judges who always say the opposite.
        ([[0.0, 1.0], [1.0, 0.0]], -0.5),
    ],
)
def test_alpha_at_its_edges(units: Units, expected: float | None) -> None:
    assert krippendorff_alpha(units) == expected


def judged(*scores: float | None, fallback: frozenset[int] = frozenset(), **panel: Any) -> Evaluation:
    """An evaluation by a panel."""
    verdicts = [
        {
            "model": f"m{at}",
            "score": score,
            "passed": None if score is None else score >= 0.5,
            "fallback": at in fallback,
        }
        for at, score in enumerate(scores)
    ]
    return evaluation(0.9, metadata={"panel": {"verdicts": verdicts, **panel}})


def too_few(count: int) -> Evaluation:
    verdicts = [{"model": f"m{at}", "score": None, "passed": None, "fallback": False} for at in range(count)]
    error = ErrorInfo("EvaluationError", "0 of 3", "too_few_judges", {"verdicts": verdicts})
    return evaluation(None, status="failed", error=error)


def test_a_panel_is_summed_up_over_the_cases() -> None:
    cases = [
        case_of(turn(judged(0.9, 0.7, 0.8, spread=0.2, agreement=1.0))),
        case_of(turn(judged(0.2, 0.9, None, spread=0.7, agreement=0.5))),
        case_of(turn(judged(0.1, 0.3, 0.9, fallback=frozenset({2}), spread=0.8, agreement=2 / 3))),
        case_of(turn(too_few(3))),
    ]
    (found,) = decide(record(*cases)).panels
    assert (found.metric, found.judges, found.evaluations) == ("bleu", 3, 4)
    assert (found.verdicts, found.fallbacks, found.missing) == (8, 1, 4)
    assert found.mean_spread == pytest.approx((0.2 + 0.7 + 0.8) / 3)
    assert found.agreement == pytest.approx((1 + 0.5 + 2 / 3) / 3)
    expected = by_pairs([[0.9, 0.7, 0.8], [0.2, 0.9], [0.1, 0.3]])
    assert expected is not None
    assert found.alpha == pytest.approx(float(expected))


def test_trials_that_do_not_count_take_no_part() -> None:
    item = case_of(turn(judged(0.9, 0.8)))
    (first,) = item.trials
    # One passing trial decides this case: the second does not count.
    again = replace(first, index=1, turns=(turn(judged(0.1, 0.2)),))
    decided = replace(item, repeat=2, trials=(first, again))
    (found,) = decide(record(decided)).panels
    assert found.evaluations == 1


def test_verdicts_of_fallbacks_are_noted() -> None:
    fallen = record(case_of(turn(judged(0.9, 0.7, 0.8, fallback=frozenset({1})))), notices=("before",))
    report = build_report(fallen, decide(fallen))
    assert report.notices == (
        "before",
        "bleu: 1 of 3 verdicts (33%) came from fallback models and not from the chosen judges",
    )
    sound = record(case_of(turn(judged(0.9, 0.7, 0.8))))
    assert build_report(sound, decide(sound)).notices == ()


def part(*scores: float | None, **panel: Any) -> dict[str, Any]:
    """What a preset or a composite tells of one of its metrics."""
    found = judged(*scores, **panel).metadata
    return {**found, "score": 0.9, "passed": True, "explanation": "e"}


def test_every_metric_of_a_preset_or_a_composite_has_a_panel_of_its_own() -> None:
    scores = {
        "completeness": [[0.9, 0.7], [0.1, 0.2], [0.5, 0.9]],
        "redundancy": [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]],
        "refusal": [[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]],
    }
    cases = []
    for at in range(3):
        generation = {name: part(*given[at], spread=0.5) for name, given in scores.items() if name != "refusal"}
        generation["refusal"] = {"explanation": "e", **judged(*scores["refusal"][at]).metadata}
        preset = evaluation(0.9, metadata={"refused": False, "judge": "m", **generation})
        whole = {"score": 0.9, "passed": True, "explanation": "e", "refused": False, **generation}
        agent = {"score": 0.9, "passed": True, "explanation": "e", "generation": whole}
        held = evaluation(0.9, evaluator_name="all", metadata={"metrics": {"panel": part(0.1, 0.9), "agent": agent}})
        cases.append(case_of(turn(preset, held)))
    found = {panel.metric: panel for panel in decide(record(*cases)).panels}
    for place in ("bleu: ", "all: agent: generation: "):
        for name, given in scores.items():
            panel, expected = found.pop(f"{place}{name}"), by_pairs(given)
            assert (panel.judges, panel.evaluations, panel.verdicts, panel.missing) == (2, 3, 6, 0)
            assert panel.alpha == pytest.approx(float(expected or 0))
            assert panel.mean_spread == (None if name == "refusal" else 0.5)
    assert found.pop("all: panel").evaluations == 3
    assert found == {}


def test_parts_with_too_few_judges_count_beside_those_that_had_enough() -> None:
    silent = {"score": None, "passed": None, "explanation": "0 of 2", "error": "too_few_judges"}
    verdicts = [{"model": f"m{at}", "score": None, "passed": None, "fallback": False} for at in range(2)]
    context = {"metrics": {"fluency": {**silent, "verdicts": verdicts}, "coherence": part(0.2, 0.4)}}
    error = ErrorInfo("EvaluationError", "fluency: 0 of 2", "too_few_judges", context)
    whole = case_of(turn(evaluation(None, status="failed", error=error)))
    sound = case_of(turn(evaluation(0.9, metadata={"fluency": part(0.5, 0.7), "coherence": part(0.9, 0.8)})))
    coherence, fluency = decide(record(whole, sound)).panels
    assert (fluency.metric, fluency.evaluations, fluency.verdicts, fluency.missing) == ("bleu: fluency", 2, 2, 2)
    assert (coherence.evaluations, coherence.missing) == (2, 0)
    expected = by_pairs([[0.2, 0.4], [0.9, 0.8]])
    assert coherence.alpha == pytest.approx(float(expected or 0))


@walk(
    "told",
    [
        {"panel": "of wood"},
        {"panel": {"verdicts": "guilty"}},
        {"panel": {"verdicts": [{"model": "m"}]}},
        {"panel": {"verdicts": [{"score": "high", "passed": True, "fallback": False}]}},
        {"verdicts": [1, 2]},
        {"metrics": {"x": 3, "y": {"explanation": 4, "panel": []}}},
    ],
)
def test_what_a_grader_of_the_suite_tells_is_no_panel(told: dict[str, Any]) -> None:
    assert decide(record(case_of(turn(evaluation(0.9, metadata=told))))).panels == ()
