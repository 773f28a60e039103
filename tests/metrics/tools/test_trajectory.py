"""Trajectories, against the definitions of their modes by brute force."""

from __future__ import annotations

import asyncio
from itertools import combinations, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.metrics.base import EvaluationError, EvaluationResult
from holodeck_action.metrics.computed import Grader
from holodeck_action.metrics.tools.trajectory import TrajectoryMetric
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.model.base import ArgumentError
from holodeck_action.suite.values import ExpectedTool
from tests.metrics.tools.calls import call, expect, pattern
from tests.tables import walk

MODES = ["strict", "unordered", "subset", "superset", "lcs_f1"]


def score(expected: list[ExpectedTool], calls: list[ToolInvocation], mode: Any, **options: Any) -> EvaluationResult:
    evaluator = Grader(TrajectoryMetric(mode=mode, **options))
    return asyncio.run(evaluator.evaluate(tool_invocations=calls, expected_trajectory=expected))


@walk(
    ("made", "scores"),
    [
        ("abc", [1.0, 1.0, 1.0, 1.0, 1.0]),
        ("cba", [0.0, 1.0, 1.0, 1.0, 2 / 6]),
        ("ac", [0.0, 0.0, 1.0, 0.0, 4 / 5]),
        ("abxc", [0.0, 0.0, 0.0, 1.0, 6 / 7]),
        ("abd", [0.0, 0.0, 0.0, 0.0, 4 / 6]),
        ("aab", [0.0, 0.0, 0.0, 0.0, 4 / 6]),
        ("", [0.0, 0.0, 1.0, 0.0, 0.0]),
    ],
)
def test_modes(made: str, scores: list[float]) -> None:
    expected = [expect(name) for name in "abc"]
    calls = [call(name) for name in made]
    assert [score(expected, calls, mode).score for mode in MODES] == scores


@walk("mode", MODES)
def test_neither_calls_nor_expected_calls_is_right(mode: str) -> None:
    result = score([], [], mode, threshold=1.0)
    assert (result.score, result.passed, result.metric_name) == (1.0, True, "trajectory")


def test_nothing_expected_but_something_called() -> None:
    assert [score([], [call("a")], mode).score for mode in MODES] == [0.0, 0.0, 0.0, 1.0, 0.0]


def test_every_reason_names_the_difference() -> None:
    expected = [expect("a", {"k": 1}), expect("b", count=2)]
    calls = [call("a", k=1), call("b"), call("c", n="x")]
    reasons = [score(expected, calls, mode).reasoning for mode in MODES]
    assert reasons == [
        'call 3 of 3 is c(n="x"), expected b',
        "the calls made are not the expected calls in some order: 2 of 3 expected and of 3 made agree; missing: b; "
        'unexpected: c(n="x")',
        "the calls made are not a subset of the expected calls: 2 of 3 expected and of 3 made agree; missing: b; "
        'unexpected: c(n="x")',
        "the calls made are not a superset of the expected calls: 2 of 3 expected and of 3 made agree; missing: b; "
        'unexpected: c(n="x")',
        "2 calls in the expected order, of 3 expected and 3 made: F1 0.6667",
    ]
    assert score(expected, calls[:2], "strict").reasoning == "3 calls expected, 2 made; missing: b"
    assert score(expected[:1], calls[:2], "strict").reasoning == "1 call expected, 2 made; one too many: b"
    assert score(expected[:1], calls[:1], "strict").reasoning == (
        "1 call expected, 1 made: each agrees with the expected call at its position"
    )


def test_arguments_are_compared_as_args_says() -> None:
    expected, calls = [expect("f", {"a": 1})], [call("f", a=1, b=2)]
    assert score(expected, calls, "strict").score == 1.0
    assert score(expected, calls, "strict", args="exact").score == 0.0
    assert score(expected, [call("f")], "strict", args="ignore").score == 1.0
    assert score(expected, [call("f")], "unordered", args="ignore").score == 1.0


def test_a_count_beyond_the_calls_costs_nothing() -> None:
    entry = expect("f", count=10**9)
    calls = [call("f"), call("f")]
    assert [score([entry], calls, mode).score for mode in MODES[:4]] == [0.0, 0.0, 1.0, 0.0]
    assert score([entry], calls, "lcs_f1").score == 4 / (10**9 + 2)


names = st.sampled_from(["a", "b", "mcp__s__a"])
calls_made = st.lists(st.builds(lambda name, x: call(name, x=x), names, st.sampled_from("xyz")), max_size=5)
expected_calls = st.lists(
    st.builds(
        expect,
        names,
        st.none() | st.sampled_from([{"x": "x"}, {"x": pattern("x|y")}]),
        count=st.integers(1, 2),
    ),
    max_size=3,
)


def agrees(entry: ExpectedTool, made: ToolInvocation) -> bool:
    if entry.name.removeprefix("mcp__s__") != made.name.removeprefix("mcp__s__"):
        return False
    if not entry.args:
        return True
    return made.args["x"] in ("x" if entry.args["x"].kind == "literal" else "xy")


@given(expected_calls, calls_made)
def test_modes_as_defined(expected: list[ExpectedTool], made: list[ToolInvocation]) -> None:
    steps = [entry for entry in expected for _ in range(entry.count)]

    def fit(some: tuple[ExpectedTool, ...], others: tuple[ToolInvocation, ...]) -> bool:
        return len(some) == len(others) and all(map(agrees, some, others))

    longest = max(
        size
        for size in range(min(len(steps), len(made)) + 1)
        if any(fit(some, others) for some in combinations(steps, size) for others in combinations(made, size))
    )
    subset = any(fit(some, tuple(made)) for some in permutations(steps, len(made)))
    superset = any(fit(tuple(steps), others) for others in permutations(made, len(steps)))
    assert [score(expected, made, mode).score for mode in MODES] == [
        float(fit(tuple(steps), tuple(made))),
        float(subset and superset),
        float(subset),
        float(superset),
        pytest.approx(2 * longest / (len(steps) + len(made))) if steps or made else 1.0,
    ]


@pytest.mark.full
def test_a_slow_pattern_is_an_evaluation_error() -> None:
    with pytest.raises(EvaluationError, match="was stopped"):
        score([expect("f", {"a": pattern("(a|aa)+[bc]")})], [call("f", a="a" * 60)], "lcs_f1")


def test_the_expected_trajectory_is_required() -> None:
    with pytest.raises(EvaluationError, match="needs expected_trajectory"):
        asyncio.run(Grader(TrajectoryMetric()).evaluate(tool_invocations=[]))


@pytest.mark.parametrize("options", [{"mode": "loose"}, {"args": ""}, {"threshold": -0.1}])
def test_options_are_validated(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        TrajectoryMetric(**options)


@walk("mode", MODES)
def test_thousands_of_calls_are_aligned(mode: str) -> None:
    expected = [expect("f", {"id": i % 1_000}) for i in range(2_000)]
    assert score(expected, [call("f", id=i % 1_000) for i in range(2_000)], mode).score == 1.0
