"""`expected_tools`: the rules of the format and ours, against a brute-force statement of them."""

from __future__ import annotations

import copy
from itertools import combinations
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.metrics.tools.matchers import literal_equal
from holodeck_action.metrics.tools.tool_assertions import check_tools
from holodeck_action.record.facts import Unknown, list_fact
from holodeck_action.record.record import ToolAssertion, ToolInvocation
from holodeck_action.suite.values import ArgumentMatcher, ExpectedTool, ToolExpectation
from tests.metrics.tools.calls import call, expect, fuzzy, json_values, pattern


def check(entries: list[ExpectedTool], calls: list[ToolInvocation], order: Any = "any") -> list[ToolAssertion]:
    return list(check_tools(ToolExpectation(tuple(entries), order), list_fact(tuple(calls))))


def only(entries: list[ExpectedTool], calls: list[ToolInvocation]) -> ToolAssertion:
    [assertion] = check(entries, calls)
    return assertion


def test_a_name_matches_as_a_case_sensitive_substring_by_default() -> None:
    calls = [call("add"), call("mcp__holodeck_tools__subtract")]
    assert only([expect("subtract")], calls) == ToolAssertion("subtract", True, 1)
    assert only([expect("tract")], calls).matched
    assert only([expect("Subtract")], calls) == ToolAssertion(
        "Subtract", False, -1, "tool Subtract was not called (calls: add, mcp__holodeck_tools__subtract)"
    )


def test_match_exact_takes_the_whole_name() -> None:
    calls = [call("subtract"), call("tract")]
    assert only([expect("tract", match="exact")], calls).matched_call_index == 1
    assert only([expect("tract", match="exact")], calls[:1]).reason == "tool tract was not called (calls: subtract)"


def test_without_any_call_the_reason_says_so() -> None:
    assert only([expect("a")], []).reason == "tool a was not called (no tool was called)"


def test_an_empty_list_asserts_that_no_tool_is_called() -> None:
    assert only([], []) == ToolAssertion("no tool call", True, -1)
    assert only([], [call("a"), call("b")]) == ToolAssertion(
        "no tool call", False, 0, "expected no tool call, got 2 (calls: a, b)"
    )


def test_listed_arguments_must_match_and_others_are_free() -> None:
    calls = [call("subtract", a=61, b=1), call("subtract", a=60.94, b="x", note="free")]
    assert only([expect("subtract", {"a": 60.94})], calls) == ToolAssertion("subtract(a=60.94)", True, 1)
    assert only([expect("subtract", {"a": 60.94, "b": 2})], calls).reason == (
        'tool subtract: in call 2 of 2, b is "x", expected 2'
    )
    assert only([expect("subtract", {"c": 1})], calls[:1]).reason == ("tool subtract: c is missing, expected 1")
    assert only([expect("subtract", {})], calls) == ToolAssertion("subtract", True, 0)


def test_every_kind_of_matcher_is_shown_in_the_reason() -> None:
    entry = expect("f", {"a": pattern(r"A-\d+"), "b": fuzzy("14%"), "c": [1, None]})
    assertion = only([entry], [call("f", a="B-17", b=14, c=[1])])
    assert assertion.expected == r'f(a=/A-\d+/, b="14%" (fuzzy), c=[1, null])'
    assert assertion.reason == (
        r"tool f: a is \"B-17\", expected /A-\d+/, b is 14, expected \"14%\" (fuzzy), "
        r"c is [1], expected [1, null]"
    ).replace(r"\"", '"')


def test_count_is_a_minimum_and_max_count_a_maximum() -> None:
    calls = [call("f", a=1), call("g"), call("f", a=1), call("f", a=2)]
    two = expect("f", {"a": 1}, count=2)
    assert only([two], calls) == ToolAssertion("f(a=1) at least 2 times", True, 0)
    assert only([expect("f", count=4)], calls).reason == "tool f: expected 4 matching calls, got 3"
    assert only([expect("f", {"a": 1}, count=3)], calls).reason == (
        "tool f: expected 3 matching calls, got 2, in call 4 of 4, a is 2, expected 1"
    )
    assert only([expect("f", count=2, max_count=2)], calls) == ToolAssertion(
        "f 2 times", False, 0, "tool f: expected at most 2 matching calls, got 3"
    )
    assert only([expect("f", max_count=3)], calls) == ToolAssertion("f 1 to 3 times", True, 0)


def test_one_call_may_satisfy_several_entries() -> None:
    assertions = check([expect("f"), expect("f"), expect("f", {"a": 1})], [call("f", a=1)])
    assert [assertion.matched for assertion in assertions] == [True, True, True]


def test_order_subset_allows_other_calls_between() -> None:
    entries = [expect("a"), expect("c", count=2)]
    calls = [call("x"), call("a"), call("c"), call("b"), call("c")]
    assert check(entries, calls, "subset")[-1] == ToolAssertion("calls in this order: a, c at least 2 times", True, 1)
    turned = check([expect("c", count=2), expect("a")], calls, "subset")
    assert [assertion.matched for assertion in turned] == [True, True, False]
    assert turned[-1].reason == "order of tools: after call 5 of 5, no call matches a (calls: x, a, c, b, c)"


def test_order_strict_allows_exactly_the_expected_calls() -> None:
    entries = [expect("a", {"k": 1}), expect("b", count=2)]
    calls = [call("a", k=1), call("b"), call("b")]
    expected = "exactly these calls in this order: a(k=1), b at least 2 times"
    assert check(entries, calls, "strict")[-1] == ToolAssertion(expected, True, 0)
    assert check(entries, [*calls, call("c")], "strict")[-1] == ToolAssertion(
        expected, False, -1, "order of tools: expected 3 calls, got 4: call 4, 'c', is one too many"
    )
    assert (
        check(entries, calls[:2], "strict")[-1].reason
        == "order of tools: expected 3 calls, got 2: b is missing (calls: a, b)"
    )
    assert check(entries, calls[::-1], "strict")[-1].reason == "order of tools: call 1 of 3 is 'b', expected a(k=1)"
    wrong = [call("a", k=2), *calls]
    assert check(entries, wrong, "strict")[-1].reason == (
        "order of tools: call 1 of 4 is 'a', expected a(k=1): k is 2, expected 1"
    )


ACCEPTED: list[tuple[Literal["literal", "fuzzy", "regex"], Any, list[Any]]] = [
    ("literal", "1", ["1"]),
    ("literal", 1, [1, 1.0]),
    ("literal", True, [True]),
    ("fuzzy", "1", [1, 1.0, "1"]),
    ("fuzzy", "TRUE", [True]),
    ("regex", "1|None", [1, "1", None]),
    ("regex", "1.*", [1, 1.0, "1"]),
]

names = st.sampled_from(["ab", "b", "abc"])
arguments = st.dictionaries(st.sampled_from("pq"), st.sampled_from([1, 1.0, True, "1", None]), max_size=2)
matchers = st.dictionaries(
    st.sampled_from("pq"), st.sampled_from([ArgumentMatcher(kind, value) for kind, value, _ in ACCEPTED]), max_size=2
)
some_calls = st.lists(st.builds(ToolInvocation, names, arguments), max_size=6)
some_entries = st.lists(
    st.builds(
        lambda name, args, match, count, extra: expect(
            name, args, match=match, count=count, max_count=None if extra is None else count + extra
        ),
        names,
        st.none() | matchers,
        st.sampled_from(["substring", "exact"]),
        st.integers(1, 2),
        st.none() | st.integers(0, 1),
    ),
    min_size=1,
    max_size=4,
)


def satisfies(entry: ExpectedTool, invocation: ToolInvocation) -> bool:
    """A second statement of when a call matches an entry, for the values of `ACCEPTED`."""
    if entry.name not in invocation.name or (entry.match == "exact" and entry.name != invocation.name):
        return False

    def same(left: Any, right: Any) -> bool:
        return type(left) is type(right) and bool(left == right)

    def accepted(matcher: ArgumentMatcher, actual: Any) -> bool:
        [allowed] = [values for kind, value, values in ACCEPTED if kind == matcher.kind and same(value, matcher.value)]
        return any(same(actual, value) for value in allowed)

    return all(
        name in invocation.args and accepted(matcher, invocation.args[name])
        for name, matcher in (entry.args or {}).items()
    )


@given(some_entries, some_calls)
def test_entries_as_stated(entries: list[ExpectedTool], calls: list[ToolInvocation]) -> None:
    for entry, assertion in zip(entries, check(entries, calls), strict=True):
        matching = [index for index, invocation in enumerate(calls) if satisfies(entry, invocation)]
        most = len(calls) if entry.max_count is None else entry.max_count
        assert assertion.matched == (entry.count <= len(matching) <= most)
        assert assertion.matched_call_index == (matching[0] if matching else -1)
        assert (assertion.reason is None) == assertion.matched


@given(some_entries, some_calls)
def test_orders_as_stated(entries: list[ExpectedTool], calls: list[ToolInvocation]) -> None:
    steps = [entry for entry in entries for _ in range(entry.count)]

    def fits(chosen: tuple[ToolInvocation, ...]) -> bool:
        return all(satisfies(step, invocation) for step, invocation in zip(steps, chosen, strict=True))

    subset = check(entries, calls, "subset")[-1]
    strict = check(entries, calls, "strict")[-1]
    assert subset.matched == any(fits(chosen) for chosen in combinations(calls, len(steps)))
    assert strict.matched == (len(steps) == len(calls) and fits(tuple(calls)))
    assert (subset.reason is None, strict.reason is None) == (subset.matched, strict.matched)


@pytest.mark.full
def test_a_pattern_that_backtracks_for_ever_fails_its_entry_and_the_order_only() -> None:
    endless = expect("f", {"a": pattern("(a|aa)+[bc]")})
    assertions = check([endless, expect("g")], [call("f", a="a" * 60), call("g")], "subset")
    assert [assertion.matched for assertion in assertions] == [False, True, False]
    problem = (
        "argument 'a': the pattern /(a|aa)+[bc]/ was stopped because it took longer than 1 s on one value: make it "
        "simpler, for instance without one repetition inside another"
    )
    assert [assertion.reason for assertion in assertions] == [f"tool f: {problem}", None, f"order of tools: {problem}"]


def test_a_slow_pattern_is_not_run_on_calls_of_other_tools() -> None:
    endless = expect("f", {"a": pattern("(a|aa)+[bc]")})
    assert only([endless], [call("g", a="a" * 60), call("f", a="ab")]) == ToolAssertion("f(a=/(a|aa)+[bc]/)", True, 1)


def test_reasons_are_bounded_printable_and_on_one_line() -> None:
    hostile = "x\n::error::\x1b[31m\u202e\u2028" + "y" * 5_000_000
    calls = [call(hostile, a=hostile, b=[hostile]), *[call(f"t{i}") for i in range(500)]]
    for entries in (
        [],
        [expect("nothing")],
        [expect("x", {"a": "z", "b": 1, "c": 1, "d": 1})],
        [expect(hostile[:200], {hostile[:200]: fuzzy(hostile)})],
    ):
        for assertion in check(entries, calls, "strict"):
            for text in (assertion.expected, assertion.reason or ""):
                assert text.isprintable()
                assert len(text) < 3000


def test_values_that_cannot_be_shown_are_named_by_type() -> None:
    reason = only([expect("f", {"a": 1})], [call("f", a=10**5000)]).reason
    assert reason is not None
    assert "a is (int too large to show), expected 1" in reason


def test_equal_excerpts_of_different_texts_are_told_apart() -> None:
    reason = only([expect("f", {"a": "y" * 90 + "1"})], [call("f", a="y" * 90 + "2")]).reason
    assert reason is not None
    assert "that continues differently" in reason


@pytest.mark.parametrize("order", ["any", "subset", "strict"])
@pytest.mark.parametrize(
    ("size", "wanted", "made"),
    [
        (2_000, lambda i: f"Order {i}", lambda i: f"Order {i}"),
        (2_000, lambda i: {"id": {"n": i}}, lambda i: {"id": {"n": i}}),
        (500, lambda i: fuzzy(f"order {i}"), lambda i: f"Order {i}"),
        (100, lambda i: pattern(f"Order {i}"), lambda i: f"Order {i}"),
    ],
    ids=["text", "object", "fuzzy", "regex"],
)
def test_thousands_of_entries_and_calls_are_checked(order: str, size: int, wanted: Any, made: Any) -> None:
    entries = [expect("f", {"q": wanted(i)}) for i in range(size)]
    assertions = check(entries, [call("f", q=made(i)) for i in range(size)], order)
    assert [assertion.matched_call_index for assertion in assertions[:size]] == list(range(size))
    assert all(assertion.matched for assertion in assertions)


@given(json_values, st.lists(json_values, max_size=5))
def test_looking_literals_up_finds_what_comparing_them_one_by_one_finds(expected: Any, values: list[Any]) -> None:
    values += [copy.deepcopy(expected), [expected]]
    assertion = only([expect("f", {"v": expected})], [call("f", v=value) for value in values])
    equal = [index for index, value in enumerate(values) if literal_equal(expected, value)]
    assert assertion.matched_call_index == (equal[0] if equal else -1)


def test_calls_that_are_not_known_decide_nothing() -> None:
    for entries, shown in (([], "no tool call"), ([expect("f", {"a": 1}), expect("g")], "f(a=1), g")):
        (assertion,) = check_tools(ToolExpectation(tuple(entries), "strict"), Unknown())
        assert (assertion.expected, assertion.matched, assertion.matched_call_index) == (shown, None, -1)
        assert assertion.reason is not None
        assert "give tool_invocations with the reply" in assertion.reason


def test_a_call_that_ended_in_an_error_counts_and_the_reason_says_so() -> None:
    broken = ToolInvocation("f", {"a": 1}, error="ConnectionError: no\nroute")
    assert only([expect("f", {"a": 1})], [broken]) == ToolAssertion(
        "f(a=1)", True, 0, "holds, but call 1 of 1 ended in an error: ConnectionError: no\\nroute"
    )
    assert only([expect("f")], [broken, call("f", a=1)]) == ToolAssertion("f", True, 0)
    assert only([], [broken]).reason == (
        "expected no tool call, got 1 (calls: f (ended in an error: ConnectionError: no\\nroute))"
    )
    assert only([expect("f", {"a": 2})], [broken]).reason == (
        "tool f: a is 1, expected 2; the call ended in an error: ConnectionError: no\\nroute"
    )
