"""`expected_tools`: what a turn asserts about its tool calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, repeat

from msgspec import Struct, field

from holodeck_action.metrics.params import UNREPORTED
from holodeck_action.metrics.result import count
from holodeck_action.metrics.tools.call_table import CallTable, bits, lowest_bit
from holodeck_action.metrics.tools.matchers import (
    PatternError,
    argument_mismatch,
    listed,
    listed_calls,
    more,
    quoted,
    shown_entry,
    shown_error,
    shown_text,
)
from holodeck_action.record.facts import Fact, Unknown, items_of
from holodeck_action.record.record import ToolAssertion, ToolInvocation
from holodeck_action.suite.values import ExpectedTool, ToolExpectation

_COMPARED = 50


def check_tools(expectation: ToolExpectation, made: Fact[tuple[ToolInvocation, ...]]) -> tuple[ToolAssertion, ...]:
    """Hold the expected tools of a turn against its calls.

    Every entry asserts by itself: at least `count` and at most `max_count` calls have a matching name and satisfy every
    listed argument; arguments that are not listed are free. One call may satisfy several entries. An empty expectation
    asserts that no tool is called.

    An `order` adds one assertion, for which an entry stands for `count` calls in a row and every call serves once:
    `subset`: the expected calls are a subsequence of the calls, others may stand before, between and after them;
    `strict`: the expected calls are the calls, one for one.

    A call that ended in an error counts like any other: what is asserted is what the agent asks for, not what its tools
    make of it. Where an entry holds only by such calls, its reason says so.

    A pattern that does not compile or runs too long on a call of the entry's tool fails the entry, and the order.

    Args:
        expectation: what is expected.
        made: the calls of the turn, in order.

    Returns:
        one assertion per entry, in the order of the entries, then the one of the order; for an empty expectation, and
        where the calls are not known, one.
    """
    calls = items_of(made)
    if isinstance(calls, Unknown):
        expected = listed(map(shown_entry, expectation.tools)) or "no tool call"
        return (ToolAssertion(expected, None, -1, UNREPORTED),)
    if not expectation.tools:
        return (_no_call(calls),)
    table = CallTable(calls)
    found = [_find(entry, table) for entry in expectation.tools]
    assertions = [_entry_assertion(item, calls) for item in found]
    if expectation.order != "any":
        assertions.append(_order_assertion(found, calls, strict=expectation.order == "strict"))
    return tuple(assertions)


class _Found(Struct, frozen=True):
    """An entry with the calls (as bit masks) that have its name, satisfy each argument, and satisfy it as a whole."""

    entry: ExpectedTool
    named: int = 0
    satisfied: Mapping[str, int] = field(default_factory=dict)
    matching: int = 0
    problem: str | None = None


def _find(entry: ExpectedTool, table: CallTable) -> _Found:
    named = table.named(entry.name) if entry.match == "exact" else table.containing(entry.name)
    try:
        satisfied = {
            argument: table.matching(argument, matcher, named) for argument, matcher in (entry.args or {}).items()
        }
    except PatternError as error:
        return _Found(entry, named, problem=str(error))
    matching = named
    for mask in satisfied.values():
        matching &= mask
    return _Found(entry, named, satisfied, matching)


def _no_call(calls: Sequence[ToolInvocation]) -> ToolAssertion:
    reason = f"expected no tool call, got {len(calls)} ({listed_calls(calls)})" if calls else None
    return ToolAssertion("no tool call", not calls, 0 if calls else -1, reason)


def _entry_assertion(found: _Found, calls: Sequence[ToolInvocation]) -> ToolAssertion:
    problem = _problem(found, calls)
    reason = problem or _all_in_error(found, calls)
    return ToolAssertion(shown_entry(found.entry), problem is None, lowest_bit(found.matching), reason)


def _all_in_error(found: _Found, calls: Sequence[ToolInvocation]) -> str | None:
    """Say that every call by which an entry holds ended in an error, if so."""
    index = -1
    for index in bits(found.matching):
        if calls[index].error is None:
            return None
    return None if index < 0 else f"holds, but {shown_error(index, calls)}"


def _problem(found: _Found, calls: Sequence[ToolInvocation]) -> str | None:
    """Say why an entry does not hold, in a sentence that begins with its tool."""
    entry = found.entry
    tool = f"tool {shown_text(entry.name)}"
    if found.problem is not None:
        return f"{tool}: {found.problem}"
    got = found.matching.bit_count()
    if got < entry.count:
        if not found.named:
            return f"{tool} was not called ({listed_calls(calls)})"
        parts = [] if entry.count == 1 else [f"expected {entry.count} matching calls, got {got}"]
        parts += [_closest(found, calls)] if found.named != found.matching else []
        return f"{tool}: {', '.join(parts)}"
    if entry.max_count is not None and got > entry.max_count:
        return f"{tool}: expected at most {count(entry.max_count, 'matching calls')}, got {got}"
    return None


def _closest(found: _Found, calls: Sequence[ToolInvocation]) -> str:
    """Describe the call with the right name that satisfies the most arguments, among the first ones."""
    near = islice(bits(found.named & ~found.matching), _COMPARED)
    index = max(near, key=lambda j: sum(mask >> j & 1 for mask in found.satisfied.values()))
    error = calls[index].error
    failed = "" if error is None else f"; the call ended in an error: {shown_text(error)}"
    where = f"in call {index + 1} of {len(calls)}, " if len(calls) > 1 else ""
    return f"{where}{_mismatches(found, index, calls[index])}{failed}"


def _mismatches(found: _Found, index: int, call: ToolInvocation) -> str:
    wrong = [argument for argument, mask in found.satisfied.items() if not mask >> index & 1]
    return ", ".join(argument_mismatch(found.entry, argument, call) for argument in wrong[:3]) + more(len(wrong) - 3)


def _order_assertion(found: Sequence[_Found], calls: Sequence[ToolInvocation], *, strict: bool) -> ToolAssertion:
    order = listed(shown_entry(item.entry) for item in found)
    expected = f"exactly these calls in this order: {order}" if strict else f"calls in this order: {order}"
    first, reason = _strict_order(found, calls) if strict else _subset_order(found, calls)
    if reason is None:
        return ToolAssertion(expected, True, first)
    # An entry that could not be decided matches no call, so it has broken the order: say why.
    problem = next((item.problem for item in found if item.problem), None)
    return ToolAssertion(expected, False, -1, f"order of tools: {problem or reason}")


def _steps(found: Sequence[_Found]) -> Iterator[_Found]:
    return chain.from_iterable(repeat(item, item.entry.count) for item in found)


def _subset_order(found: Sequence[_Found], calls: Sequence[ToolInvocation]) -> tuple[int, str | None]:
    """Take the earliest call for every step: if any subsequence fits, this one does."""
    first, position = -1, 0
    for step in _steps(found):
        following = step.matching >> position
        if not following:
            after = f"after call {position} of {len(calls)}, " if position else ""
            return -1, f"{after}no call matches {shown_entry(step.entry, once=True)} ({listed_calls(calls)})"
        taken = position + lowest_bit(following)
        first = taken if first < 0 else first
        position = taken + 1
    return first, None


def _strict_order(found: Sequence[_Found], calls: Sequence[ToolInvocation]) -> tuple[int, str | None]:
    expected = sum(item.entry.count for item in found)
    for index, (step, call) in enumerate(zip(_steps(found), calls, strict=False)):
        if not step.matching >> index & 1:
            wanted = shown_entry(step.entry, once=True)
            named = step.named >> index & 1
            detail = f": {_mismatches(step, index, call)}" if named and step.problem is None else ""
            return -1, f"call {index + 1} of {len(calls)} is {quoted(call.name)}, expected {wanted}{detail}"
    if len(calls) < expected:
        missing = next(islice(_steps(found), len(calls), None))
        got = f"expected {count(expected, 'calls')}, got {len(calls)}"
        return -1, f"{got}: {shown_entry(missing.entry, once=True)} is missing ({listed_calls(calls)})"
    if len(calls) > expected:
        surplus = f"call {expected + 1}, {quoted(calls[expected].name)}, is one too many"
        return -1, f"expected {count(expected, 'calls')}, got {len(calls)}: {surplus}"
    return 0, None
