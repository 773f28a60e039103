"""Short forms for expected and actual tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.values import ArgumentMatcher, ExpectedTool

numbers = st.integers() | st.floats() | st.sampled_from([0, 1, 1.0, -0.0, 10**400, 2.5])
scalars = st.none() | st.booleans() | numbers | st.text(max_size=3)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


def call(name: str, **args: Any) -> ToolInvocation:
    return ToolInvocation(name, args)


def fuzzy(text: str) -> ArgumentMatcher:
    return ArgumentMatcher("fuzzy", text)


def pattern(text: str) -> ArgumentMatcher:
    return ArgumentMatcher("regex", text)


def expect(tool: str, args: Mapping[str, Any] | None = None, **fields: Any) -> ExpectedTool:
    """An entry; plain values among `args` are literals."""
    matchers = args and {
        name: value if isinstance(value, ArgumentMatcher) else ArgumentMatcher("literal", value)
        for name, value in args.items()
    }
    return ExpectedTool(tool, matchers, **fields)
