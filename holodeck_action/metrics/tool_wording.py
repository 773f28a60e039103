"""How messages show expected and actual tool calls: bounded, on one line, nothing unprintable."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from holodeck_action.metrics.result import excerpt
from holodeck_action.results.record import ToolInvocation
from holodeck_action.suite.values import ArgumentMatcher, ExpectedTool

EXCERPT = 80
"""Characters of a name, value or pattern that a message shows."""
LISTED = 10
"""Items of a list that a message shows."""


def shown_matcher(matcher: ArgumentMatcher) -> str:
    """Return a readable form of what a matcher expects: `60.94`, `"14%" (fuzzy)`, `/A-[0-9]+/`."""
    if matcher.kind == "regex":
        return shown_pattern(matcher.value)
    return shown_value(matcher.value) + (" (fuzzy)" if matcher.kind == "fuzzy" else "")


def shown_pattern(pattern: str) -> str:
    """Return a pattern between slashes, bounded and on one line."""
    return f"/{shown_text(pattern)}/"


def shown_value(value: Any) -> str:
    """Return a JSON value as bounded JSON text on one line."""
    if isinstance(value, str):
        return f'"{shown_text(value)}"'
    try:
        pieces = json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value)
        return shown_text("".join(islice(pieces, EXCERPT)))
    except (ValueError, RecursionError):
        return f"({type(value).__name__} too large to show)"


def shown_text(text: str, limit: int = EXCERPT) -> str:
    """Return at most `limit` characters of a text that may be hostile, everything unprintable escaped."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text[:limit])
    return shown + ("..." if len(text) > limit else "")


def quoted(name: str) -> str:
    """Return a name in quotes."""
    return excerpt(name, EXCERPT)


def shown_entry(entry: ExpectedTool, *, once: bool = False) -> str:
    """Return an entry in readable form: `subtract(a=60.94)`, `search(q="x" (fuzzy)) at least 2 times`.

    `once` leaves the counts out.
    """
    arguments = [f"{shown_text(name)}={shown_matcher(matcher)}" for name, matcher in (entry.args or {}).items()]
    call = shown_text(entry.name) + (f"({listed(arguments)})" if arguments else "")
    if once or (entry.count == 1 and entry.max_count is None):
        return call
    if entry.max_count is None:
        return f"{call} at least {entry.count} times"
    times = f"{entry.count}" if entry.count == entry.max_count else f"{entry.count} to {entry.max_count}"
    return f"{call} {times} time{'' if times == '1' else 's'}"


def listed_calls(calls: Sequence[ToolInvocation]) -> str:
    """Return the names of the calls, in the order they were made, with the errors in which they ended."""
    return f"calls: {listed(map(_with_error, calls))}" if calls else "no tool was called"


def _with_error(call: ToolInvocation) -> str:
    name = shown_text(call.name)
    return name if call.error is None else f"{name} (ended in an error: {shown_text(call.error)})"


def shown_error(index: int, calls: Sequence[ToolInvocation]) -> str:
    """Say in which error a call ended."""
    return f"call {index + 1} of {len(calls)} ended in an error: {shown_text(calls[index].error or '')}"


def listed(texts: Iterable[str]) -> str:
    """Return the first texts of a list and how many more there are."""
    shown = list(texts)
    return ", ".join(shown[:LISTED]) + more(len(shown) - LISTED)


def more(count: int) -> str:
    """Return ` and n more`, nothing when nothing is left."""
    return f" and {count} more" if count > 0 else ""


def shown_call(call: ToolInvocation) -> str:
    """Return an actual call in readable form: `subtract(a=60.94)`."""
    arguments = [f"{shown_text(name)}={shown_value(value)}" for name, value in islice(call.args.items(), LISTED)]
    rest = more(len(call.args) - LISTED)
    return shown_text(call.name) + (f"({', '.join(arguments)}{rest})" if arguments else "")


def argument_mismatch(entry: ExpectedTool, argument: str, call: ToolInvocation) -> str:
    """Say what a call passed for an argument, and what `entry` expects there."""
    assert entry.args is not None
    matcher = entry.args[argument]
    if argument not in call.args:
        return f"argument {quoted(argument)} is missing (expected {shown_matcher(matcher)})"
    got, expected = shown_value(call.args[argument]), shown_matcher(matcher)
    differs = " in what follows" if got == expected else ""
    return f"argument {quoted(argument)} is {got} (expected {expected}{differs})"
