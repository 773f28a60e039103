"""Equality and numeric against independent statements of their rules."""

from __future__ import annotations

import asyncio
import math
import re
import string
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holodeck_action.metrics.deterministic import EqualityEvaluator, NumericEvaluator
from holodeck_action.metrics.errors import EvaluationError
from tests.tables import walk

text = st.text(alphabet=st.sampled_from("aAßſ .,!-\n\t\u00a0éÉİ"), max_size=12) | st.text(max_size=8)


def equality(response: str, expected: str, **settings: bool) -> bool:
    return EqualityEvaluator(**settings).compute(response=response, ground_truth=expected).score == 1.0


def numeric(response: str, expected: str, **settings: Any) -> bool:
    result = NumericEvaluator(**settings).compute(response=response, ground_truth=expected)
    assert result.passed == (result.score == 1.0)
    return bool(result.passed)


def why(response: str, expected: str, **settings: Any) -> str:
    return NumericEvaluator(**settings).compute(response=response, ground_truth=expected).reasoning


@given(text, text, st.booleans(), st.booleans(), st.booleans())
@example("Straße", "STRASSE", True, False, False)
@example(" a\u2003b ", "a b", False, True, False)
@example("a - b", "a b", False, True, True)
def test_equality_is_casefold_then_punctuation_then_white_space(
    one: str, two: str, case: bool, space: bool, punctuation: bool
) -> None:
    def rule(value: str) -> str:
        if case:
            value = value.casefold()
        if punctuation:
            value = "".join(character for character in value if character not in string.punctuation)
        if space:
            value = re.sub(r"\s+", " ", value).strip()
        return value

    settings = {"case_insensitive": case, "strip_whitespace": space, "strip_punctuation": punctuation}
    assert equality(one, two, **settings) == (rule(one) == rule(two))
    assert equality(one, one, **settings)


def test_equality_is_exact_by_default() -> None:
    assert not equality("Paris\n", "Paris")
    assert not equality("e\u0301", "é")
    assert equality("", "")


def test_equality_says_where_two_texts_differ() -> None:
    common = "the same words over and over " * 50
    result = EqualityEvaluator().compute(response=common + "left" + "!" * 500, ground_truth=common + "right")
    assert result.score == 0.0
    assert result.passed is False
    assert "left!!!" in result.reasoning
    assert "right'" in result.reasoning
    assert f"from character {len(common) + 1} on" in result.reasoning
    assert len(result.reasoning) < 500


@given(st.text(alphabet="ab", max_size=60), st.text(alphabet="ab", max_size=60))
def test_equality_points_at_the_first_difference(one: str, two: str) -> None:
    if one == two:
        return
    first = next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    reasoning = EqualityEvaluator().compute(response=one, ground_truth=two).reasoning
    start = max(0, first - 20)
    assert reasoning.startswith(("..." if start else "") + repr(one[start:]))
    assert (f"from character {first + 1} on" in reasoning) == (start > 0)


def test_hostile_text_is_quoted_on_one_bounded_line() -> None:
    hostile = "\x1b[31m::error::\n\u202e\ud800" * 100
    reasoning = EqualityEvaluator().compute(response=hostile, ground_truth="x").reasoning
    assert reasoning.isprintable()
    reasoning.encode()
    assert len(reasoning) < 4000


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, finite, st.floats(0, 1e6), st.sampled_from([0.0, 1e-9, 0.01, 0.5, 2.0]))
@example(60.940001, 60.94, 1e-6, 0.0)
@example(1.7e308, -1.7e308, 0.0, 1.5)
@example(5.0, 5.0, 0.0, 0.0)
def test_numeric_is_within_either_tolerance(actual: float, wanted: float, absolute: float, relative: float) -> None:
    difference = abs(actual - wanted)
    expected = math.isfinite(difference) and (
        difference <= absolute or (relative > 0 and difference <= relative * abs(wanted))
    )
    settings = {"absolute_tolerance": absolute, "relative_tolerance": relative}
    assert numeric(repr(actual), repr(wanted), **settings) == expected


@given(st.integers(-(10**15), 10**15), st.integers(0, 10**15))
def test_numeric_difference_is_the_one_between_the_numbers(actual: int, wanted: int) -> None:
    assert numeric(str(actual), str(wanted), absolute_tolerance=0.0) == (actual == wanted)


@walk("number", ["nan", "inf", "-inf", "Infinity", "NaN", "1e999", "-1e999"])
def test_what_is_not_finite_equals_nothing(number: str) -> None:
    for settings in ({}, {"relative_tolerance": 1.0, "absolute_tolerance": 1e300}):
        assert not numeric(number, number, **settings)
        assert not numeric("5", number, **settings)
        assert not numeric(number, "5", **settings)
    assert "is not a finite number" in why(number, "5")


@walk(
    ("written", "value"),
    [
        ("+5", 5),
        (" 5. ", 5),
        (".5", 0.5),
        ("1e2", 100),
        ("1E-2", 0.01),
        ("٥", 5),
        ("\n42\t", 42),
        ("-0", 0),
        ("\u00a042", 42),
    ],
)
def test_numbers_as_python_reads_them(written: str, value: float) -> None:
    assert numeric(written, repr(value))
    assert numeric(repr(value), written)


@walk("written", ["about 5", "$5", "5 EUR", "(5)", "\u22125", "0x10", "1 000", "five", "5%%", "--5", "5\x00", "\ud800"])
def test_no_number_is_searched_for(written: str) -> None:
    assert not numeric(written, "5", accept_percent=True, accept_thousands_separators=True)
    assert "is not a number" in why(written, "5", accept_percent=True, accept_thousands_separators=True)


def test_percent_counts_on_each_side_by_itself() -> None:
    assert numeric("50%", "0.5", accept_percent=True)
    assert numeric("50 %", "50%", accept_percent=True)
    assert not numeric("50%", "50", accept_percent=True)
    assert why("50%", "0.5") == "the answer '50%' has a percent sign, which needs accept_percent: true"
    assert why("0.5", "50%") == "the expected value '50%' has a percent sign, which needs accept_percent: true"


@walk("separator", [",", "_", "\u00a0", "\u202f"])
def test_thousands_separators_need_their_flag(separator: str) -> None:
    written = separator.join("1000")
    assert numeric(written, "1000", accept_thousands_separators=True)
    assert not numeric(written, "1000")
    assert why(written, "1000").endswith(" has thousands separators, which need accept_thousands_separators: true")


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**6), max_value=10**6))
def test_separators_and_percent_keep_the_value(value: Decimal) -> None:
    grouped = f"{value:,f}%"
    settings = {"accept_percent": True, "accept_thousands_separators": True}
    number = NumericEvaluator(**settings).parse(grouped)
    assert abs(Fraction(number) - Fraction(value) / 100) <= abs(Fraction(value)) * Fraction(1, 10**15)


def test_numeric_reasons() -> None:
    assert why("60.9", "60.94") == "60.9 differs from 60.94 by 0.04, more than the absolute tolerance 1e-06"
    assert why("60.94", "60.94") == "60.94 equals 60.94"
    assert why("60.9", "60.94", absolute_tolerance=0.1) == (
        "60.9 differs from 60.94 by 0.04, within the absolute tolerance 0.1"
    )
    assert why("10", "11", relative_tolerance=0.1) == "10 differs from 11 by 1, within the relative tolerance 0.1 (1.1)"
    assert why("10", "12", relative_tolerance=0.1) == (
        "10 differs from 12 by 2, more than the absolute tolerance 1e-06 and the relative tolerance 0.1 (1.2)"
    )
    assert why("", "5") == "the answer '' is empty"
    assert why(" \n", "5") == "the answer ' \\n' is empty"


def test_a_difference_just_above_the_tolerance_is_written_as_such() -> None:
    reasoning = why("60.940001", "60.94")
    written = re.search(r"by ([\d.e-]+), more than the absolute tolerance 1e-06", reasoning)
    assert written
    assert float(written[1]) > 1e-6


def test_empty_answers_are_scored() -> None:
    assert not equality("", "Paris")
    assert not numeric("", "5")


def test_a_threshold_decides_when_there_is_one() -> None:
    lenient = EqualityEvaluator(threshold=0.0).compute(response="a", ground_truth="b")
    assert (lenient.score, lenient.passed, lenient.threshold) == (0.0, True, 0.0)


@pytest.mark.parametrize("tolerance", [-1.0, math.nan, math.inf])
def test_impossible_tolerances_are_refused(tolerance: float) -> None:
    with pytest.raises(ValueError, match="absolute_tolerance: "):
        NumericEvaluator(absolute_tolerance=tolerance)
    with pytest.raises(ValueError, match="relative_tolerance: "):
        NumericEvaluator(relative_tolerance=tolerance)


@pytest.mark.parametrize("evaluator", [EqualityEvaluator(), NumericEvaluator()])
def test_only_texts_are_compared(evaluator: EqualityEvaluator | NumericEvaluator) -> None:
    with pytest.raises(EvaluationError, match="ground_truth is of type int") as caught:
        asyncio.run(evaluator.evaluate(response="5", ground_truth=5))
    assert caught.value.code == "invalid_input"
    with pytest.raises(EvaluationError) as caught:
        asyncio.run(evaluator.evaluate(response="5"))
    assert (caught.value.code, caught.value.context) == ("missing_input", {"parameter": "ground_truth"})


@walk(
    ("evaluator", "response", "error"),
    [
        (NumericEvaluator(), "42", None),
        (NumericEvaluator(), "41", None),
        (NumericEvaluator(), "about 42", "the answer 'about 42' is not a number"),
        (EqualityEvaluator(), "41", None),
    ],
)
def test_results_in_scripts_say_what_could_not_be_read(
    evaluator: EqualityEvaluator | NumericEvaluator, response: str, error: str | None
) -> None:
    result = asyncio.run(evaluator.evaluate(response=response, ground_truth="42"))
    assert result["error"] == error
    assert "error" not in evaluator.compute(response=response, ground_truth="42").metadata
