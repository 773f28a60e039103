"""Conversion of expected tool calls from their written form to values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holodeck_action.suite.errors import quoted
from holodeck_action.suite.model.expected_tools import (
    MATCHER_KEYS,
    ExpectedToolEntry,
    OrderedExpectation,
    TrajectoryEntry,
)
from holodeck_action.suite.values import ArgumentMatcher, ExpectedTool, ToolExpectation


def expected_tool(entry: str | TrajectoryEntry) -> ExpectedTool:
    """Return an entry of `expected_tools` or `expected_trajectory` as a value; names in `expected_trajectory` must
    match exactly."""
    if isinstance(entry, str):
        return ExpectedTool(entry)
    args = None if entry.args is None else {name: _matcher(value) for name, value in entry.args.items()}
    if isinstance(entry, ExpectedToolEntry):
        return ExpectedTool(entry.name, args, entry.count, entry.max_count, entry.match)
    return ExpectedTool(entry.name, args, entry.count, match="exact")


def literal_problem(entry: ExpectedTool) -> str | None:
    """Return why the arguments of an expected tool call cannot be compared as plain values; None if plain comparison is
    possible."""
    if entry.args is None:
        return "it gives no args, but arguments are compared: give its args ({} for none)"
    for name, matcher in entry.args.items():
        if matcher.kind != "literal":
            return (
                f"DeepEval compares only plain values, but the argument {quoted(name)} is a {matcher.kind} matcher: "
                "write the value itself, or use type tool_correctness"
            )
    return None


def _matcher(value: Any) -> ArgumentMatcher:
    # Validation leaves no mapping with one of these keys beside another.
    if isinstance(value, dict):
        for kind in MATCHER_KEYS:
            if kind in value:
                return ArgumentMatcher(kind, value[kind])
    return ArgumentMatcher("literal", value)


class ExpectationFactory:
    """Builds `ToolExpectation`s. Equal lists of plain names share one value, which saves memory."""

    def __init__(self) -> None:
        self._plain: dict[tuple[str, ...], ToolExpectation] = {}

    def build(self, entry: Sequence[str | ExpectedToolEntry] | OrderedExpectation | None) -> ToolExpectation | None:
        """Return the value of an `expected_tools` field; None if nothing is asserted."""
        if entry is None:
            return None
        if isinstance(entry, OrderedExpectation):
            return ToolExpectation(tuple(expected_tool(tool) for tool in entry.tools), entry.order)
        names = tuple(tool for tool in entry if isinstance(tool, str))
        if len(names) < len(entry):
            return ToolExpectation(tuple(expected_tool(tool) for tool in entry))
        if names not in self._plain:
            self._plain[names] = ToolExpectation(tuple(expected_tool(name) for name in names))
        return self._plain[names]
