"""Argument matchers, against the rules of the format stated a second time."""

from __future__ import annotations

import math
import re
import threading
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holodeck_action.metrics.tools.matchers import (
    ArgumentValue,
    PatternError,
    TimedPatterns,
    compile_matcher,
    literal_equal,
)
from holodeck_action.suite.values import ArgumentMatcher
from tests.metrics.tools.calls import json_values
from tests.tables import walk

ENDLESS = r"(a|aa)+[bc]"
ENDLESS_TEXT = "a" * 60


def accepts(kind: Any, expected: Any, actual: Any) -> bool:
    return compile_matcher(ArgumentMatcher(kind, expected), TimedPatterns())(ArgumentValue(actual))


@walk(
    ("expected", "actual", "equal"),
    [
        (1, 1.0, True),
        (60.94, 60.94, True),
        (60.94, 60.940000001, False),
        (206588, "206588", False),
        ("206588", 206588, False),
        ("a", "A", False),
        (True, 1, False),
        (1, True, False),
        (0, False, False),
        (True, True, True),
        (None, None, True),
        (None, False, False),
        (None, "", False),
        (-0.0, 0, True),
        (math.nan, math.nan, False),
        (math.inf, math.inf, True),
        (10**400, 10**400, True),
        (10**400, 10**400 + 1, False),
        (10**400, math.inf, False),
        (10**400, 1e308, False),
        (2**53, 2**53 + 1, False),
        (2**53 + 1, float(2**53), True),
        ([1, 2], [1.0, 2], True),
        ([1, 2], [2, 1], False),
        ([1, 2], [1, 2, 3], False),
        ([], {}, False),
        ({"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1}, {"b": 1}, False),
        ({"fuzzy": "x", "y": 1}, {"y": 1, "fuzzy": "x"}, True),
        ("ab", ["a", "b"], False),
    ],
)
def test_literal_rule(expected: Any, actual: Any, equal: bool) -> None:
    assert accepts("literal", expected, actual) is equal
    assert accepts("literal", actual, expected) is equal


def test_literal_values_of_any_depth_are_compared() -> None:
    def nested(core: object) -> object:
        for _ in range(50_000):
            core = [core]
        return core

    assert literal_equal(nested(1), nested(1.0))
    assert not literal_equal(nested(1), nested(2))


def kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else type(value).__name__


def literally(expected: Any, actual: Any) -> bool:
    if kind_of(expected) != kind_of(actual):
        return False
    if isinstance(expected, list):
        return len(expected) == len(actual) and all(map(literally, expected, actual))
    if isinstance(expected, dict):
        return sorted(expected) == sorted(actual) and all(literally(expected[key], actual[key]) for key in expected)
    if isinstance(expected, int) != isinstance(actual, int):
        try:
            return float(expected) == float(actual)
        except OverflowError:
            return False
    return bool(expected == actual)


@given(json_values, json_values)
def test_literal_rule_as_stated(expected: Any, actual: Any) -> None:
    assert literal_equal(expected, actual) == literally(expected, actual)


@given(json_values)
def test_a_literal_equals_itself_unless_it_contains_nan(value: Any) -> None:
    assert literal_equal(value, value) != contains_nan(value)


def contains_nan(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(contains_nan, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and math.isnan(value)


@walk(
    ("expected", "actual", "equal"),
    [
        ("  Order A-17 ", "order   a-17", True),
        ("foo_bar", "FOOBAR", True),
        ("1,5", 15, True),
        ("1 2", "12", True),
        ("1 2 a", "12 a", False),
        ("14.14%", 0.1414, True),
        ("14.14 %", "14.14%", True),
        ("14.14%", 14.14, False),
        ("1\u202f234", 1234, True),
        ("1\u00a0234", 1234, True),
        ("true", True, True),
        ("None", None, True),
        ("0.3", 0.1 + 0.2, True),
        ("1", 1.0000000009, True),
        ("1", 1.0000000011, False),
        ("$5", 5, False),
        ("nan", math.nan, False),
        ("NaN", "nan", False),
        ("infinity", math.inf, True),
        ("inf", -math.inf, False),
        ("1e400", "2e400", False),
        ("1e400", "1E400", True),
        ("%", "%", True),
        ("", "  ", True),
        ("", None, False),
        ("[1, 'a']", [1, "A"], True),
        ("{'k': 1}", {"k": 1}, True),
        ("1e3", 1000, True),
    ],
)
def test_fuzzy_rule(expected: str, actual: Any, equal: bool) -> None:
    assert accepts("fuzzy", expected, actual) is equal


def fuzzily(expected: str, actual: str) -> bool:
    def normal(text: str) -> str:
        kept = "".join(c for c in text.strip().lower() if c not in {",", "_", "\u202f"})
        return re.sub(r"\s+", " ", kept).strip()

    def number(text: str) -> float | None:
        text = text.replace(" ", "")
        try:
            return float(text[:-1]) / 100 if text[-1:] == "%" else float(text)
        except ValueError:
            return None

    left, right = normal(expected), normal(actual)
    first, second = number(left), number(right)
    if first is None or second is None:
        return left == right
    return first == second or abs(first - second) <= 1e-9


fuzzy_texts = st.text(st.sampled_from("aB1 25.,_%-\t\u202f\u00a0e"), max_size=8) | st.floats().map(str)


@given(fuzzy_texts, fuzzy_texts)
def test_fuzzy_rule_as_stated(expected: str, actual: str) -> None:
    # Numbers beyond the range of floats have a rule of their own, tested above.
    assume(not any(re.search(r"\de\d{3}", re.sub(r"[,_\s]", "", text)) for text in (expected, actual)))
    assert accepts("fuzzy", expected, actual) == fuzzily(expected, actual)


@given(fuzzy_texts)
def test_a_text_fuzzily_equals_itself_unless_it_is_nan(text: str) -> None:
    assert accepts("fuzzy", text, text) == (text != "nan")


@walk(
    ("expected", "actual", "matches"),
    [
        (r"A-\d+", "A-17", True),
        (r"A-\d+", "A-17 ", False),
        (r"A-\d+", "xA-17", False),
        (r"a-\d+", "A-17", False),
        (r"(?i)a-\d+", "A-17", True),
        (r"1\.0", 1.0, True),
        (r"1", 1.0, False),
        (r"True", True, True),
        (r"None", None, True),
        (r"\['a', 1\]", ["a", 1], True),
        (r"\{'k': None\}", {"k": None}, True),
        (r".*", "two\nlines", False),
        (r"", "", True),
    ],
)
def test_pattern_rule(expected: str, actual: Any, matches: bool) -> None:
    assert accepts("regex", expected, actual) is matches


@pytest.mark.parametrize("kind", ["fuzzy", "regex"])
def test_values_without_a_text_match_no_pattern(kind: str) -> None:
    nested: list[Any] = []
    for _ in range(200_000):
        nested = [nested]
    assert not accepts(kind, ".*", 10**5000)
    assert not accepts(kind, ".*", [10**5000])
    assert not accepts(kind, ".*", nested)


@walk("invalid", ["[", "(?P<n>a)(?P<n", "(" * 3000 + ")" * 3000, "*a"])
def test_a_pattern_that_does_not_compile_is_an_evaluation_error(invalid: str) -> None:
    with pytest.raises(PatternError, match=r"^the pattern /.{1,83}/ does not compile: \S.*$") as raised:
        accepts("regex", invalid, "a")
    assert raised.value.code == "pattern_invalid"


@pytest.mark.full
def test_a_pattern_that_backtracks_for_ever_is_stopped_in_any_thread() -> None:
    problems: list[PatternError] = []

    def match() -> None:
        try:
            accepts("regex", ENDLESS, ENDLESS_TEXT)
        except PatternError as error:
            problems.append(error)

    thread = threading.Thread(target=match)
    thread.start()
    thread.join(timeout=60)
    assert [problem.code for problem in problems] == ["pattern_timeout"]
    assert str(problems[0]) == (
        "the pattern /(a|aa)+[bc]/ was stopped because it took longer than 1 s on one value: make it simpler, for "
        "instance without one repetition inside another"
    )


def test_the_patterns_of_a_check_share_their_time() -> None:
    clock = TimedPatterns(seconds=0.05)
    for _ in range(2):
        with pytest.raises(PatternError, match=r"the patterns of this check took 0\.05 s in total"):
            clock.fullmatch(ENDLESS, ENDLESS_TEXT)
    with pytest.raises(PatternError, match="in total"):
        clock.fullmatch("a", "a")
