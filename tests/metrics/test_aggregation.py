"""Several metrics as one: success, score and explanation of the whole."""

from __future__ import annotations

import pytest

from holodeck_action.metrics.aggregation import Part, aggregate_explanation, aggregate_score, aggregate_success
from tests.tables import walk

GOOD = Part("completeness", 0.9, True, "maximize", 0.5, "all is there")
BAD = Part("groundedness", 0.25, False, "maximize", 0.5, "one claim is made up")
LOW = Part("redundancy", 0.1, True, "minimize", 0.5, "little is said twice")
HIGH = Part("redundancy", 0.75, False, "minimize", 0.5, "all is said twice")
SHOWN = Part("trajectory", 0.0, None, "neutral", None, "it went astray")
INFORMATIONAL = Part("tone", 0.5, None, "maximize", None, "plain")
RIGHT = Part("refusal", None, True, "maximize", None, "it did not refuse")
LOST = Part("fluency", None, None, "maximize", 0.5, "the judge is down")
SILENT = Part("notes", None, None, "neutral", None, "nothing to say")


@walk(
    ("parts", "success", "score"),
    [
        ([GOOD], True, 0.9),
        ([GOOD, BAD], False, 0.575),
        # Low is good: 0.1 counts as 0.9, 0.75 as 0.25.
        ([GOOD, LOW], True, 0.9),
        ([GOOD, HIGH], False, 0.575),
        ([GOOD, SHOWN], True, 0.9),
        ([GOOD, SILENT], True, 0.9),
        ([GOOD, RIGHT], True, 0.9),
        ([GOOD, INFORMATIONAL], True, 0.7),
        ([RIGHT], True, None),
        ([INFORMATIONAL], None, 0.5),
        ([SHOWN], None, None),
        # What is missing could still fail, but makes no failure undone.
        ([GOOD, LOST], None, None),
        ([BAD, LOST], False, None),
        ([LOST], None, None),
        ([], None, None),
    ],
)
def test_success_and_score(parts: list[Part], success: bool | None, score: float | None) -> None:
    assert aggregate_success(parts) is success
    assert aggregate_score(parts) == (None if score is None else pytest.approx(score))


def test_the_explanation_names_what_failed_first() -> None:
    assert aggregate_explanation([GOOD, BAD, HIGH, LOST, SHOWN, RIGHT]) == (
        "2 of 6 failed: groundedness 0.25 is below its threshold 0.5 (one claim is made up); "
        "redundancy 0.75 is above its threshold 0.5 (all is said twice). "
        "not evaluated: fluency: the judge is down. passed: completeness 0.9, refusal. reported only: trajectory 0"
    )
    assert aggregate_explanation([RIGHT]) == "passed: refusal"
    assert aggregate_explanation([]) == "there was nothing to evaluate"


def test_a_failure_without_a_number_is_told() -> None:
    refused = Part("refusal", None, False, "maximize", None, "it refused")
    assert aggregate_explanation([refused]) == "1 of 1 failed: refusal (it refused)"
