"""The tool calls of a conversation, arranged so that many expectations can be compared with all of them at once.

Sets of calls are bit masks: bit `j` stands for call `j`. Two sequences are paired and aligned over a relation that is
given as rows of bits: bit `j` of `rows[i]` is set when item `i` of the left sequence agrees with item `j` of the right
one. A row is one integer, so that a step over a whole row is a single fast operation.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from holodeck_action.metrics.tools.matchers import (
    ArgumentValue,
    PatternClock,
    PatternError,
    as_float,
    compile_matcher,
    is_number,
    literal_equal,
    quoted,
)
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.model.metric_base import ArgumentMatching
from holodeck_action.suite.values import ArgumentMatcher, ExpectedTool


def bits(mask: int) -> Iterator[int]:
    """Yield the positions of the set bits, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def lowest_bit(mask: int) -> int:
    """Return the position of the lowest set bit, -1 when there is none."""
    return (mask & -mask).bit_length() - 1


def maximum_matching(rows: Sequence[int]) -> list[int | None]:
    """Pair as many left items as possible with distinct right items that they agree with.

    Returns:
        for each left item the position of its partner, None without one. Left items are served in order, each with
        the lowest free partner where there is one, so the answer is deterministic.

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
                for right in bits(reachable):
                    reached_from[right] = left
                    queue.append(owner[right])
                unseen &= ~reachable
        if end is None:
            # From what a failed search reached, no free item will be reachable later either.
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


_Key = TypeVar("_Key", bound=Hashable)
_BUCKET_DEPTH = 4


class CallTable:
    """The calls with an index by name, by argument value and by set of argument names.

    Equal values are compared once, literal arguments are looked up; so holding thousands of expectations against
    thousands of calls stays a matter of seconds.
    """

    def __init__(self, calls: Sequence[ToolInvocation]) -> None:
        self.calls = calls
        self._clock = PatternClock()
        self._names: dict[str, int] = {}
        self._unprefixed: dict[str, int] = {}
        self._argument_names: dict[frozenset[str], int] = {}
        self._columns: dict[str, _Column] = {}
        self._matched: dict[tuple[str, str, str, int], int] = {}
        for index, call in enumerate(calls):
            arguments = frozenset(call.args)
            _add(self._names, call.name, index)
            _add(self._argument_names, arguments, index)
            tool = unprefixed(call.name)
            if tool != call.name:
                _add(self._unprefixed, tool, index)

    def containing(self, part: str) -> int:
        """Return the calls whose name contains `part`, case-sensitively."""
        # The masks of different names are disjoint: their sum is their union.
        return sum(mask for name, mask in self._names.items() if part in name)

    def named(self, name: str) -> int:
        """Return the calls of exactly this name."""
        return self._names.get(name, 0)

    def of_tool(self, name: str) -> int:
        """Return the calls of this tool, where `mcp__server__tool` and `tool` are one tool.

        Names with two different prefixes are two tools.
        """
        tool = unprefixed(name)
        return self.named(name) | (self._unprefixed.get(name, 0) if tool == name else self.named(tool))

    def taking(self, arguments: frozenset[str]) -> int:
        """Return the calls that pass exactly these arguments."""
        return self._argument_names.get(arguments, 0)

    def matching(self, argument: str, matcher: ArgumentMatcher, among: int) -> int:
        """Return the calls among `among` that pass `argument` with a value that `matcher` accepts.

        Raises:
            PatternError: a pattern does not compile or runs out of time; the message names the argument.
        """
        column = self._columns.get(argument)
        if column is None:
            column = self._columns[argument] = _Column(argument, self.calls)
        if matcher.kind == "literal":
            return column.equal_to(matcher.value) & among
        key = (argument, matcher.kind, matcher.value, among)
        if key not in self._matched:
            try:
                self._matched[key] = column.accepted_by(matcher, self._clock, among)
            except PatternError as error:
                raise PatternError(f"argument {quoted(argument)}: {error}", code=error.code) from None
        return self._matched[key]


class _Column:
    """The values that the calls pass for one argument, equal ones together."""

    def __init__(self, argument: str, calls: Sequence[ToolInvocation]) -> None:
        self._values: list[ArgumentValue] = []
        self._masks: list[int] = []
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
                self._buckets.setdefault(_bucket(value.value), []).append(slot)
            self._masks[slot] |= 1 << index

    def equal_to(self, expected: Any) -> int:
        slots = self._buckets.get(_bucket(expected), ())
        return sum(self._masks[slot] for slot in slots if literal_equal(expected, self._values[slot].value))

    def accepted_by(self, matcher: ArgumentMatcher, clock: PatternClock, among: int) -> int:
        accepts = compile_matcher(matcher, clock)
        accepted = 0
        for value, mask in zip(self._values, self._masks, strict=True):
            if mask & among and accepts(value):
                accepted |= mask & among
        return accepted


def _bucket(value: Any, depth: int = _BUCKET_DEPTH) -> Hashable:
    """Return a key that is the same for literally equal values, and seldom for others."""
    if is_number(value):
        number = as_float(value)
        return ("number", None if math.isnan(number) else number)
    if isinstance(value, Mapping):
        items = frozenset((key, _bucket(item, depth - 1)) for key, item in value.items()) if depth else len(value)
        return ("object", items)
    if isinstance(value, list | tuple):
        return ("list", tuple(_bucket(item, depth - 1) for item in value) if depth else len(value))
    return (type(value), value)


def _add(masks: dict[_Key, int], key: _Key, index: int) -> None:
    masks[key] = masks.get(key, 0) | 1 << index


def unprefixed(name: str) -> str:
    """Return the tool of `mcp__server__tool`, any other name unchanged."""
    parts = name.split("__", 2)
    return parts[2] if len(parts) == 3 and parts[0] == "mcp" and parts[1] and parts[2] else name


def agreeing(entry: ExpectedTool, table: CallTable, args: ArgumentMatching) -> int:
    """Return the calls that agree with an expected call by tool and, as `args` says, by arguments.

    The tool is compared as `CallTable.of_tool` does; `match` and `max_count` of the entry belong to assertions and
    play no part. An entry without `args` (None) agrees by tool alone. Otherwise:

    * `ignore`: by tool alone;
    * `subset`: every listed argument is passed and its matcher accepts the value, further arguments are free (the rule
      of `expected_tools`);
    * `exact`: the same, and no argument is passed that is not listed; `args: {}` then means a call without arguments.

    Raises:
        PatternError: a pattern does not compile or runs out of time.
    """
    calls = table.of_tool(entry.name)
    if args == "ignore" or entry.args is None:
        return calls
    agreed = calls & table.taking(frozenset(entry.args)) if args == "exact" else calls
    for argument, matcher in entry.args.items():
        agreed &= table.matching(argument, matcher, calls)
    return agreed
