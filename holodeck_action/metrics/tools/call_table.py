"""The tool calls of a conversation, indexed for the comparison with many expectations.

A relation between two sequences is given as rows of bits: bit `j` of `rows[i]` is set if item `i` of the left sequence
agrees with item `j` of the right sequence. A row is one integer, so that an operation on the whole row is fast. Sets of
calls are such rows too (`CallSet`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from holodeck_action.metrics.tools.matchers import (
    ArgumentValue,
    PatternError,
    TimedPatterns,
    as_float,
    compile_matcher,
    is_number,
    literal_equal,
    quote_name,
)
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.model.metric_base import ArgumentMatching
from holodeck_action.suite.values import ArgumentMatcher, ExpectedTool


def bit_positions(mask: int) -> Iterator[int]:
    """Yield the positions of the set bits, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def lowest_bit(mask: int) -> int:
    """Return the position of the lowest set bit; -1 if no bit is set."""
    return (mask & -mask).bit_length() - 1


def maximum_matching(rows: Sequence[int]) -> list[int | None]:
    """Pair as many left items as possible with agreeing right items. Each right item is used at most once.

    Returns:
        For each left item the position of its partner, or None if it has no partner. Left items are processed in order
        and get the lowest free partner if possible, so that the result is deterministic.

    Source: augmenting paths, C. Berge, "Two theorems in graph theory", PNAS 43 (1957); breadth-first, O(n²) row steps.
    """
    partner: list[int | None] = [None] * len(rows)
    owner: dict[int, int] = {}
    taken = exhausted = 0
    for start in range(len(rows)):
        reached_from: dict[int, int] = {}
        unseen = ~exhausted
        queue = deque([start])
        end: int | None = None
        while queue and end is None:
            left = queue.popleft()
            reachable = rows[left] & unseen
            free = reachable & ~taken
            if free:
                end = lowest_bit(free)
                reached_from[end] = left
            else:
                for right in bit_positions(reachable):
                    reached_from[right] = left
                    queue.append(owner[right])
                unseen &= ~reachable
        if end is None:
            # Items reached by a failed search can never lead to a free item later.
            exhausted = ~unseen
            continue
        taken |= 1 << end
        step: int | None = end
        while step is not None:
            left = reached_from[step]
            owner[step] = left
            partner[left], step = step, partner[left]
    return partner


def common_subsequence_length(rows: Iterable[int], width: int) -> int:
    """Return the length of the longest common subsequence of the left items and the `width` right items.

    Source: H. Hyyrö, "Bit-parallel LCS-length computation revisited", AWOCA 2004; one row step per left item.
    """
    everything = (1 << width) - 1
    state = everything
    for row in rows:
        state = ((state + (state & row)) | (state & ~row)) & everything
    return width - state.bit_count()


CallSet = int
"""A set of tool calls as a bit mask: bit `j` is set if the set contains call `j`."""

_Key = TypeVar("_Key", bound=Hashable)
_BUCKET_DEPTH = 4


class CallTable:
    """Tool calls, indexed by name, by argument value and by set of argument names.

    Equal values are compared only once, and literal arguments are looked up in the index, so that thousands of
    expectations can be compared with thousands of calls in seconds.
    """

    def __init__(self, calls: Sequence[ToolInvocation]) -> None:
        self.calls = calls
        self._patterns = TimedPatterns()
        self._names: dict[str, CallSet] = {}
        self._unprefixed: dict[str, CallSet] = {}
        self._argument_names: dict[frozenset[str], CallSet] = {}
        self._columns: dict[str, _Column] = {}
        self._matched: dict[tuple[str, str, str, CallSet], CallSet] = {}
        for index, call in enumerate(calls):
            arguments = frozenset(call.args)
            _set_bit(self._names, call.name, index)
            _set_bit(self._argument_names, arguments, index)
            tool = strip_prefix(call.name)
            if tool != call.name:
                _set_bit(self._unprefixed, tool, index)

    def calls_containing(self, text: str) -> CallSet:
        """Return the calls whose name contains `text`, case-sensitively."""
        # The masks of different names are disjoint, so their sum is their union.
        return sum(mask for name, mask in self._names.items() if text in name)

    def calls_named(self, name: str) -> CallSet:
        """Return the calls with exactly this name."""
        return self._names.get(name, 0)

    def calls_of_tool(self, name: str) -> CallSet:
        """Return the calls of a tool; `mcp__server__tool` and `tool` are the same tool.

        Names with two different prefixes are different tools.
        """
        tool = strip_prefix(name)
        return self.calls_named(name) | (self._unprefixed.get(name, 0) if tool == name else self.calls_named(tool))

    def calls_with_arguments(self, arguments: frozenset[str]) -> CallSet:
        """Return the calls with exactly these argument names."""
        return self._argument_names.get(arguments, 0)

    def calls_matching(self, argument: str, matcher: ArgumentMatcher, candidates: CallSet) -> CallSet:
        """Return those calls in `candidates` whose value of `argument` the `matcher` accepts.

        Raises:
            PatternError: a pattern does not compile or takes too long; the message names the argument.
        """
        column = self._columns.get(argument)
        if column is None:
            column = self._columns[argument] = _Column(argument, self.calls)
        if matcher.kind == "literal":
            return column.calls_equal_to(matcher.value) & candidates
        key = (argument, matcher.kind, matcher.value, candidates)
        if key not in self._matched:
            try:
                self._matched[key] = column.calls_accepted_by(matcher, self._patterns, candidates)
            except PatternError as error:
                raise PatternError(f"argument {quote_name(argument)}: {error}", code=error.code) from None
        return self._matched[key]


class _Column:
    """The values of one argument in all calls, with equal values merged."""

    def __init__(self, argument: str, calls: Sequence[ToolInvocation]) -> None:
        self._values: list[ArgumentValue] = []
        self._masks: list[CallSet] = []
        self._buckets: dict[Hashable, list[int]] = {}
        slots: dict[Hashable, int] = {}
        for index, call in enumerate(calls):
            if argument not in call.args:
                continue
            value = ArgumentValue(call.args[argument])
            identity = (type(value.value), value.text if value.text is not None else index)
            slot = slots.setdefault(identity, len(self._values))
            if slot == len(self._values):
                self._values.append(value)
                self._masks.append(0)
                self._buckets.setdefault(_bucket_key(value.value), []).append(slot)
            self._masks[slot] |= 1 << index

    def calls_equal_to(self, expected: Any) -> CallSet:
        slots = self._buckets.get(_bucket_key(expected), ())
        return sum(self._masks[slot] for slot in slots if literal_equal(expected, self._values[slot].value))

    def calls_accepted_by(self, matcher: ArgumentMatcher, patterns: TimedPatterns, candidates: CallSet) -> CallSet:
        accepts = compile_matcher(matcher, patterns)
        accepted = 0
        for value, mask in zip(self._values, self._masks, strict=True):
            if mask & candidates and accepts(value):
                accepted |= mask & candidates
        return accepted


def _bucket_key(value: Any, depth: int = _BUCKET_DEPTH) -> Hashable:
    """Return a key that is equal for literally equal values, and rarely equal for other values."""
    if is_number(value):
        number = as_float(value)
        return ("number", None if math.isnan(number) else number)
    if isinstance(value, Mapping):
        items = frozenset((key, _bucket_key(item, depth - 1)) for key, item in value.items()) if depth else len(value)
        return ("object", items)
    if isinstance(value, list | tuple):
        return ("list", tuple(_bucket_key(item, depth - 1) for item in value) if depth else len(value))
    return (type(value), value)


def _set_bit(masks: dict[_Key, CallSet], key: _Key, index: int) -> None:
    masks[key] = masks.get(key, 0) | 1 << index


def strip_prefix(name: str) -> str:
    """Return the tool name of `mcp__server__tool`; any other name unchanged."""
    parts = name.split("__", 2)
    return parts[2] if len(parts) == 3 and parts[0] == "mcp" and parts[1] and parts[2] else name


def agreeing_calls(entry: ExpectedTool, table: CallTable, args: ArgumentMatching) -> CallSet:
    """Return the calls that agree with an expected call by tool and, according to `args`, by arguments.

    Tools are compared as in `CallTable.calls_of_tool`; `match` and `max_count` of the entry are only used by
    assertions. If the entry's `args` is None, only the tool must agree. Otherwise `args` means:

    * `ignore`: only the tool must agree;
    * `subset`: every listed argument is present and its matcher accepts the value; further arguments are allowed (the
      rule of `expected_tools`);
    * `exact`: the same, without further arguments; `args: {}` then means a call without arguments.

    Raises:
        PatternError: a pattern does not compile or takes too long.
    """
    calls = table.calls_of_tool(entry.name)
    if args == "ignore" or entry.args is None:
        return calls
    agreed = calls & table.calls_with_arguments(frozenset(entry.args)) if args == "exact" else calls
    for argument, matcher in entry.args.items():
        agreed &= table.calls_matching(argument, matcher, calls)
    return agreed
