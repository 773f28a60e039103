"""Patterns that would take for ever to compile, and those that take a moment."""

from __future__ import annotations

from pathlib import Path

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from holodeck_action.suite.json_schemas import JsonSchema
from holodeck_action.suite.model.patterns import pattern_problem
from tests.suite.folders import EQUALITY, HEAD, complaints
from tests.tables import walk

ENDLESS = "(?:(?:a{1000}){1000}){1000}"
REFUSED = "the pattern does not compile: its nested repetitions expand to more than 50,000 parts"


@walk(
    "pattern",
    [
        ENDLESS,
        f"(?#[){ENDLESS}(?#])",
        f"(?x)#[\n{ENDLESS}#]",
        f"[)]{ENDLESS}[(]",
        "(?:[)](?:a{1000}){1000}){1000}",
        "(?:[(](?:a{1000}){1000}){1000}",
        "(?:(?:(?:ab){99}){99}){99}",
    ],
)
def test_a_pattern_that_would_not_end_compiling_is_refused(pattern: str) -> None:
    assert pattern_problem(pattern) is not None


def test_a_pattern_may_have_fifty_thousand_parts_and_no_more() -> None:
    assert pattern_problem("a{50000}") is None
    assert pattern_problem("a{49999}b") is None
    for pattern in ("a{50001}", "a{50000}b", "(?:a{25001}){2}"):
        assert pattern_problem(pattern) == REFUSED.removeprefix("the pattern does not compile: ")


@pytest.mark.needs
def test_it_is_refused_where_a_suite_has_it(tmp_path: Path) -> None:
    tools = f"[{{name: t, args: {{a: {{regex: '{ENDLESS}'}}}}}}]"
    case = f"test_cases: [{{input: a, ground_truth: a, expected_tools: {tools}}}]\n"
    traces = f"observability: {{enabled: true, traces: {{redaction_patterns: ['{ENDLESS}']}}}}\n"
    told = complaints(tmp_path, HEAD + EQUALITY + case + traces)
    assert [REFUSED in line for line in told] == [True, True], told
    (violation,) = JsonSchema({"pattern": ENDLESS}).violations("aaa", label="it", max_violations=2)
    assert "does not compile" in violation.problem


@walk(
    "pattern",
    [
        r"\d{4}-\d{2}",
        r"[A-Z]{1,65535}",
        r"(?:[a-z]{2}\s){0,1000}",
        r"\({3}x\)",
        r"[(){99}]+",
        "(?:ab){999}",
    ],
)
def test_usual_patterns_are_taken(pattern: str) -> None:
    assert pattern_problem(pattern) is None


def test_a_pattern_that_is_none_says_why() -> None:
    assert pattern_problem("(a") == "missing ) at position 2"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(["a", "(?:", ")", "{9}", "{2,}", "[", "]", "\\", "+", "|", "(?#", "x{20}"]), max_size=25
    ).map("".join)
)
def test_what_is_taken_compiles_in_a_moment(pattern: str) -> None:
    """A pattern that does not would run into the limit of the test run."""
    if pattern_problem(pattern) is None:
        regex.compile(pattern)
