"""Tool correctness, against the best of all assignments."""

from __future__ import annotations

import asyncio
import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.metrics.base import EvaluationError, EvaluationResult
from holodeck_action.metrics.computed import Grader
from holodeck_action.metrics.tools.tool_correctness import ToolCorrectnessMetric
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.model.base import ArgumentError
from holodeck_action.suite.values import ExpectedTool, ToolExpectation
from tests.metrics.tools.calls import call, expect, fuzzy, pattern
from tests.tables import walk


def score(expected: list[ExpectedTool], calls: list[ToolInvocation], **options: Any) -> EvaluationResult:
    evaluator = Grader(ToolCorrectnessMetric(**options))
    return asyncio.run(evaluator.evaluate(tool_invocations=calls, expected_trajectory=expected))


def test_precision_recall_and_f1_count_agreeing_pairs() -> None:
    expected = [expect("search", {"q": fuzzy("Order A-17")}), expect("refund", {"id": 7}), expect("mail")]
    calls = [call("mail", to="x"), call("search", q="order  a-17", top=3), call("refund", id=8), call("log")]
    result = score(expected, calls, threshold=0.6)
    assert result.metric_name == "tool_correctness"
    assert (result["precision"], result["recall"], result.score) == (2 / 4, 2 / 3, 4 / 7)
    assert result["tool_correctness"] == result["f1"] == 4 / 7
    assert result.passed is False
    assert result.reasoning == (
        "2 of 3 expected calls and of 4 calls made agree: precision 0.5, recall 0.6667, F1 0.5714; "
        "missing: refund(id=7); unexpected: refund(id=8), log; "
        "wrong arguments: refund, call 3 of 4: id is 8, expected 7"
    )
    assert json.loads(json.dumps(result.metadata)) == {
        "precision": 0.5,
        "recall": 2 / 3,
        "f1": 4 / 7,
        "expected_calls": 3,
        "calls": 4,
        "matched_calls": 2,
        "missing": ["refund(id=7)"],
        "unexpected": ["refund(id=8)", "log"],
        "wrong_arguments": ["refund, call 3 of 4: id is 8, expected 7"],
    }


@pytest.mark.parametrize(("name", "value"), [("precision", 0.5), ("recall", 1.0), ("f1", 2 / 3)])
def test_the_score_is_the_chosen_one(name: str, value: float) -> None:
    result = score([expect("a")], [call("a"), call("b")], score=name, threshold=value)
    assert (result.score, result.passed) == (value, True)


@pytest.mark.parametrize("name", ["precision", "recall", "f1"])
def test_nothing_expected_and_nothing_called_is_right_and_one_of_both_is_wrong(name: str) -> None:
    assert score([], [], score=name).score == 1.0
    assert score([], [call("a")], score=name).score == 0.0
    assert score([expect("a")], [], score=name).score == 0.0


def test_calls_are_a_multiset() -> None:
    twice = expect("f", count=2)
    assert score([twice], [call("f")]).metadata["missing"] == ["f"]
    assert score([twice], [call("f"), call("f")]).score == 1.0
    assert score([expect("f"), expect("f")], [call("f")])["recall"] == 0.5
    assert score([expect("f")], [call("f"), call("f")])["precision"] == 0.5
    assert score([expect("f", count=10**9)], [call("f")])["recall"] == 1e-9
    assert score([expect("f", count=10**9)], [call("f")])["missing"] == [f"f {10**9 - 1} times"]


def test_partners_are_chosen_so_that_most_calls_agree() -> None:
    greedy_trap = [expect("f", {"a": pattern(".*")}), expect("f", {"a": "x"})]
    assert score(greedy_trap, [call("f", a="x"), call("f", a="y")]).score == 1.0


@pytest.mark.parametrize(
    ("args", "exact_call", "further_argument", "wrong_value", "missing_argument"),
    [
        ("exact", 1.0, 0.0, 0.0, 0.0),
        ("subset", 1.0, 1.0, 0.0, 0.0),
        ("ignore", 1.0, 1.0, 1.0, 1.0),
    ],
)
def test_argument_modes(
    args: str, exact_call: float, further_argument: float, wrong_value: float, missing_argument: float
) -> None:
    expected = [expect("f", {"a": 1, "b": fuzzy("X")})]
    assert score(expected, [call("f", a=1.0, b="x")], args=args).score == exact_call
    assert score(expected, [call("f", a=1, b="x", c=0)], args=args).score == further_argument
    assert score(expected, [call("f", a=1, b="y")], args=args).score == wrong_value
    assert score(expected, [call("f", a=1)], args=args).score == missing_argument


def test_only_the_wrong_arguments_of_a_call_are_named() -> None:
    expected = [expect("f", {"a": 1, "b": 2}), expect("f", {"a": 5, "b": 6})]
    found = score(expected, [call("f", a=1, b=3), call("f", a=5, b=6)])
    assert found["wrong_arguments"] == ["f, call 1 of 2: b is 3, expected 2"]


def test_exact_tells_an_entry_without_args_from_one_with_none() -> None:
    assert score([expect("f")], [call("f", a=1)], args="exact").score == 1.0
    assert score([expect("f", {})], [call("f")], args="exact").score == 1.0
    refused = score([expect("f", {})], [call("f", a=1)], args="exact")
    assert refused.score == 0.0
    assert refused["wrong_arguments"] == ["f, call 1 of 1: argument 'a' is not expected"]


@walk(
    ("expected", "made", "same"),
    [
        ("tool", "tool", True),
        ("tool", "mcp__server__tool", True),
        ("mcp__server__tool", "tool", True),
        ("mcp__server__tool", "mcp__server__tool", True),
        ("mcp__one__tool", "mcp__two__tool", False),
        ("my__tool", "mcp__a_b__my__tool", True),
        ("tool", "tools", False),
        ("tool", "Tool", False),
        ("tool", "mcp__tool", False),
        ("tool", "xmcp__server__tool", False),
        ("tool", "mcp____tool", False),
    ],
)
def test_names_are_compared_exactly_but_for_the_mcp_prefix(expected: str, made: str, same: bool) -> None:
    assert score([expect(expected)], [call(made)]).score == float(same)
    assert score([expect(expected)], [call(made)], args="ignore").score == float(same)


def test_expected_tools_serve_when_there_is_no_trajectory() -> None:
    evaluator = Grader(ToolCorrectnessMetric())

    def run(**inputs: Any) -> Any:
        return asyncio.run(evaluator.evaluate(tool_invocations=[call("a")], **inputs)).score

    tools = (expect("a"), expect("b"))
    assert run(expected_tools=ToolExpectation(tools)) == run(expected_tools=tools) == 2 / 3
    assert run(expected_tools=ToolExpectation(tools), expected_trajectory=tools[:1]) == 1.0
    assert run(expected_tools=ToolExpectation(())) == 0.0
    with pytest.raises(EvaluationError, match="needs expected_trajectory or expected_tools") as raised:
        run()
    assert raised.value.code == "missing_input"
    with pytest.raises(EvaluationError, match="needs tool_invocations"):
        asyncio.run(evaluator.evaluate(expected_tools=tools))


@pytest.mark.full
def test_a_pattern_that_backtracks_for_ever_is_an_evaluation_error() -> None:
    with pytest.raises(EvaluationError, match=r"argument 'a': the pattern .* was stopped") as raised:
        score([expect("f", {"a": pattern("(a|aa)+[bc]")})], [call("f", a="a" * 60)])
    assert raised.value.code == "pattern_timeout"


@walk("options", [{"args": "fuzzy"}, {"score": "accuracy"}, {"threshold": 1.5}, {"threshold": float("nan")}])
def test_options_are_validated(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        ToolCorrectnessMetric(**options)


names = st.sampled_from(["f", "mcp__s__f", "mcp__t__f", "g"])
values = st.sampled_from([1, 1.0, "1", "x"])
calls_made = st.lists(
    st.builds(ToolInvocation, names, st.dictionaries(st.sampled_from("ab"), values, max_size=2)), max_size=5
)
expected_calls = st.lists(
    st.builds(
        expect,
        names,
        st.none() | st.dictionaries(st.sampled_from("ab"), values | st.just(pattern("1|x")), max_size=2),
    ),
    max_size=5,
)


def agrees(entry: ExpectedTool, made: ToolInvocation, args: str) -> bool:
    """A second statement of agreement, for the values of this test."""
    tools = {entry.name, made.name}
    if len(tools) == 2 and tools not in ({"f", "mcp__s__f"}, {"f", "mcp__t__f"}):
        return False
    if entry.args is None or args == "ignore":
        return True
    if args == "exact" and set(entry.args) != set(made.args):
        return False
    for name, matcher in entry.args.items():
        if name not in made.args:
            return False
        value = made.args[name]
        allowed = [1, "1", "x"] if matcher.kind == "regex" else [matcher.value]
        if not any(isinstance(value, str) == isinstance(item, str) and value == item for item in allowed):
            return False
        if matcher.kind == "regex" and isinstance(value, float):
            return False
    return True


@given(expected_calls, calls_made, st.sampled_from(["exact", "subset", "ignore"]))
def test_no_pairing_scores_higher(expected: list[ExpectedTool], made: list[ToolInvocation], args: Any) -> None:
    places = [*made, *[None] * len(expected)]
    best = max(
        sum(item is not None and agrees(entry, item, args) for entry, item in zip(expected, chosen, strict=True))
        for chosen in permutations(places[: max(len(made), len(expected))], len(expected))
    )
    result = score(expected, made, args=args)
    assert result["matched_calls"] == best
    assert len(result["missing"]) == len(expected) - best
    assert len(result["unexpected"]) == len(made) - best
    if expected or made:
        assert result.score == pytest.approx(2 * best / (len(expected) + len(made)))


@pytest.mark.parametrize("distinct", [1, 2_000])
def test_thousands_of_calls_are_paired(distinct: int) -> None:
    expected = [expect("f", {"id": i % distinct, "q": fuzzy("Any")}) for i in range(2_000)]
    made = [call("f", id=i % distinct, q="any") for i in reversed(range(2_000))]
    assert score(expected, made).score == 1.0
    assert score(expected, [call("f", id=-1, q="any")] * 2_000).score == 0.0
