"""`expected_tools`: assertions about the tool calls of a turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, repeat

from msgspec import Struct, field

from holodeck_action.metrics.params import UNREPORTED
from holodeck_action.metrics.result import format_count
from holodeck_action.metrics.tools.call_table import CallSet, CallTable, bit_positions, lowest_bit
from holodeck_action.metrics.tools.matchers import (
    PatternError,
    and_more,
    argument_mismatch,
    describe_error,
    format_calls,
    format_entry,
    format_text,
    join_first,
    quote_name,
)
from holodeck_action.record.facts import Fact, Unknown, items_of
from holodeck_action.record.record import ToolAssertion, ToolInvocation
from holodeck_action.suite.values import ExpectedTool, ToolExpectation

_MOST_COMPARED = 50


def check_tools(
    expectation: ToolExpectation, calls_made: Fact[tuple[ToolInvocation, ...]]
) -> tuple[ToolAssertion, ...]:
    """Compare the tool calls of a turn with the expected tools.

    Each entry is one assertion: at least `count` and at most `max_count` calls have a matching name and satisfy every
    listed argument; further arguments are allowed. One call may satisfy several entries. An empty expectation asserts
    that no tool is called.

    An `order` adds one assertion. In this assertion, an entry stands for `count` consecutive calls, and every call is
    used at most once:

    `subset`: the expected calls are a subsequence of the calls; other calls may occur before, between and after them;

    `strict`: the calls are exactly the expected calls.

    A failed call counts like any other, because the assertion is about the agent's requests, not about its tools. If an
    entry is satisfied by failed calls only, its reason says so.

    If a pattern does not compile or takes too long on a call of the entry's tool, the assertions of the entry and of
    the order fail.

    Args:
        expectation: the expected tools.
        calls_made: the calls of the turn, in order.

    Returns:
        One assertion per entry, in the order of the entries, then the assertion of the `order`; a single assertion if
        the expectation is empty or the calls are unknown.
    """
    calls = items_of(calls_made)
    if isinstance(calls, Unknown):
        expected = join_first(map(format_entry, expectation.tools)) or "no tool call"
        return (ToolAssertion(expected, None, -1, UNREPORTED),)
    if not expectation.tools:
        return (_no_call_assertion(calls),)
    table = CallTable(calls)
    matches = [_match_entry(entry, table) for entry in expectation.tools]
    assertions = [_entry_assertion(item, calls) for item in matches]
    if expectation.order != "any":
        assertions.append(_order_assertion(matches, calls, strict=expectation.order == "strict"))
    return tuple(assertions)


class _EntryMatches(Struct, frozen=True):
    """The calls that match an expected entry.

    Attributes:
        entry: the expected entry.
        named: calls with a matching name.
        satisfied: for each argument name, the calls that satisfy the argument.
        matching: calls that match the whole entry.
        problem: reason why a pattern failed; None if no pattern failed.
    """

    entry: ExpectedTool
    named: CallSet = 0
    satisfied: Mapping[str, CallSet] = field(default_factory=dict)
    matching: CallSet = 0
    problem: str | None = None


def _match_entry(entry: ExpectedTool, table: CallTable) -> _EntryMatches:
    named = table.calls_named(entry.name) if entry.match == "exact" else table.calls_containing(entry.name)
    try:
        satisfied = {
            argument: table.calls_matching(argument, matcher, named) for argument, matcher in (entry.args or {}).items()
        }
    except PatternError as error:
        return _EntryMatches(entry, named, problem=str(error))
    matching = named
    for mask in satisfied.values():
        matching &= mask
    return _EntryMatches(entry, named, satisfied, matching)


def _no_call_assertion(calls: Sequence[ToolInvocation]) -> ToolAssertion:
    reason = f"expected no tool call, got {len(calls)} ({format_calls(calls)})" if calls else None
    return ToolAssertion("no tool call", not calls, 0 if calls else -1, reason)


def _entry_assertion(matches: _EntryMatches, calls: Sequence[ToolInvocation]) -> ToolAssertion:
    problem = _entry_problem(matches, calls)
    reason = problem or _error_note(matches, calls)
    return ToolAssertion(format_entry(matches.entry), problem is None, lowest_bit(matches.matching), reason)


def _error_note(matches: _EntryMatches, calls: Sequence[ToolInvocation]) -> str | None:
    """Return a note if all calls that satisfy an entry failed, otherwise None."""
    index = -1
    for index in bit_positions(matches.matching):
        if calls[index].error is None:
            return None
    return None if index < 0 else f"holds, but {describe_error(index, calls)}"


def _entry_problem(matches: _EntryMatches, calls: Sequence[ToolInvocation]) -> str | None:
    """Return why an entry is not satisfied, as a sentence that begins with its tool; None if it is satisfied."""
    entry = matches.entry
    tool = f"tool {format_text(entry.name)}"
    if matches.problem is not None:
        return f"{tool}: {matches.problem}"
    got = matches.matching.bit_count()
    if got < entry.count:
        if not matches.named:
            return f"{tool} was not called ({format_calls(calls)})"
        parts = [] if entry.count == 1 else [f"expected {entry.count} matching calls, got {got}"]
        parts += [_describe_closest(matches, calls)] if matches.named != matches.matching else []
        return f"{tool}: {', '.join(parts)}"
    if entry.max_count is not None and got > entry.max_count:
        return f"{tool}: expected at most {format_count(entry.max_count, 'matching calls')}, got {got}"
    return None


def _describe_closest(matches: _EntryMatches, calls: Sequence[ToolInvocation]) -> str:
    """Describe the call that satisfies most arguments, among the first `_MOST_COMPARED` calls with a matching name."""
    near = islice(bit_positions(matches.named & ~matches.matching), _MOST_COMPARED)
    index = max(near, key=lambda j: sum(mask >> j & 1 for mask in matches.satisfied.values()))
    error = calls[index].error
    failed = "" if error is None else f"; the call ended in an error: {format_text(error)}"
    where = f"in call {index + 1} of {len(calls)}, " if len(calls) > 1 else ""
    return f"{where}{_describe_mismatches(matches, index, calls[index])}{failed}"


def _describe_mismatches(matches: _EntryMatches, index: int, call: ToolInvocation) -> str:
    wrong = [argument for argument, mask in matches.satisfied.items() if not mask >> index & 1]
    return ", ".join(argument_mismatch(matches.entry, argument, call) for argument in wrong[:3]) + and_more(
        len(wrong) - 3
    )


def _order_assertion(
    matches: Sequence[_EntryMatches], calls: Sequence[ToolInvocation], *, strict: bool
) -> ToolAssertion:
    order = join_first(format_entry(item.entry) for item in matches)
    expected = f"exactly these calls in this order: {order}" if strict else f"calls in this order: {order}"
    first, reason = _check_strict_order(matches, calls) if strict else _check_subset_order(matches, calls)
    if reason is None:
        return ToolAssertion(expected, True, first)
    # An entry with a failed pattern matches no call, so it is the reason for the broken order.
    problem = next((item.problem for item in matches if item.problem), None)
    return ToolAssertion(expected, False, -1, f"order of tools: {problem or reason}")


def _expected_steps(matches: Sequence[_EntryMatches]) -> Iterator[_EntryMatches]:
    return chain.from_iterable(repeat(item, item.entry.count) for item in matches)


def _check_subset_order(matches: Sequence[_EntryMatches], calls: Sequence[ToolInvocation]) -> tuple[int, str | None]:
    """Choose the earliest possible call for every step, which finds a matching subsequence if there is one. Return the
    position of the first call and None, or -1 and the problem.
    """
    first, position = -1, 0
    for step in _expected_steps(matches):
        following = step.matching >> position
        if not following:
            after = f"after call {position} of {len(calls)}, " if position else ""
            return -1, f"{after}no call matches {format_entry(step.entry, is_single=True)} ({format_calls(calls)})"
        taken = position + lowest_bit(following)
        first = taken if first < 0 else first
        position = taken + 1
    return first, None


def _check_strict_order(matches: Sequence[_EntryMatches], calls: Sequence[ToolInvocation]) -> tuple[int, str | None]:
    expected = sum(item.entry.count for item in matches)
    for index, (step, call) in enumerate(zip(_expected_steps(matches), calls, strict=False)):
        if not step.matching >> index & 1:
            wanted = format_entry(step.entry, is_single=True)
            named = step.named >> index & 1
            detail = f": {_describe_mismatches(step, index, call)}" if named and step.problem is None else ""
            return -1, f"call {index + 1} of {len(calls)} is {quote_name(call.name)}, expected {wanted}{detail}"
    if len(calls) < expected:
        missing = next(islice(_expected_steps(matches), len(calls), None))
        got = f"expected {format_count(expected, 'calls')}, got {len(calls)}"
        return -1, f"{got}: {format_entry(missing.entry, is_single=True)} is missing ({format_calls(calls)})"
    if len(calls) > expected:
        surplus = f"call {expected + 1}, {quote_name(calls[expected].name)}, is one too many"
        return -1, f"expected {format_count(expected, 'calls')}, got {len(calls)}: {surplus}"
    return 0, None
