"""Says why a strict replay found nothing: the closest recorded request and where this one differs."""

from __future__ import annotations

from typing import Any

from holodeck_action.llm.entries import Entries, shortened_text

MOST_ENTRIES = 2_000
"""Recorded requests that are compared with a missing one."""
MOST_EXPLAINED = 20
"""Misses of a run that are explained; a cassette of another suite would miss with every call."""
_MOST_LINES = 5
_AROUND = 30
"""Characters shown before and after the first difference of two texts."""


class Misses:
    """Explains misses of one folder; it is read at the first one."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._known: list[tuple[str, dict[str, Any]]] | None = None
        self._explained = 0

    def explain(self, request: dict[str, Any]) -> str:
        """Return one sentence for a request (see `keys.parts_of`) that no entry answers."""
        folder = self._entries.folder
        start = f"no recorded answer for this call in {folder}"
        way_out = "record again, or replay what was recorded"
        if self._explained >= MOST_EXPLAINED:
            return f"{start}; {way_out}"
        self._explained += 1
        if self._known is None:
            self._known = [(key, _leaves(stored)) for key, stored in self._entries.requests(MOST_ENTRIES)]
        if not self._known:
            return f"{start}, which holds none at all; {way_out}"
        wanted = _leaves(request)
        key, closest = max(self._known, key=lambda item: _likeness(item[1], wanted))
        lines = differences(closest, wanted)
        more = f" and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
        what = "; ".join(lines[:_MOST_LINES]) + more if lines else "it differs only in a part that is not stored"
        return f"{start}; the closest is {key}.json, recorded → asked now: {what}; {way_out}"


_NONE = object()


def _likeness(recorded: dict[str, Any], asked: dict[str, Any]) -> tuple[int, float]:
    """Return how many places are equal, then how much of the differing texts is."""
    same, parts = 0, 0.0
    for path, value in asked.items():
        other = recorded.get(path, _NONE)
        if other == value:
            same += 1
        elif isinstance(other, str) and isinstance(value, str):
            ends = _first_difference(other, value) + _first_difference(other[::-1], value[::-1])
            parts += ends / max(len(other), len(value))
    return same, parts


def differences(recorded: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    """Return how two flattened requests differ, a piece for each place, in the order of the request."""
    lines = []
    for path in [*asked, *(path for path in recorded if path not in asked)]:
        before, after = recorded.get(path, _NONE), asked.get(path, _NONE)
        if before is _NONE or after is _NONE or before != after or type(before) is not type(after):
            lines.append(f"{path}: {_pair(before, after)}")
    return lines


def _pair(before: Any, after: Any) -> str:
    if not (isinstance(before, str) and isinstance(after, str)):
        return f"{_shown(before)} → {_shown(after)}"
    at = _first_difference(before, after)
    start, end = max(0, at - _AROUND), at + _AROUND
    where = f" (from character {at + 1} of {len(before)})" if max(len(before), len(after)) > 2 * _AROUND else ""
    return f"{_cut(before, start, end)} → {_cut(after, start, end)}{where}"


def _first_difference(one: str, other: str) -> int:
    shorter = min(len(one), len(other))
    return next((index for index in range(shorter) if one[index] != other[index]), shorter)


def _cut(text: str, start: int, end: int) -> str:
    return f"{'…' if start else ''}{text[start:end]!r}{'…' if end < len(text) else ''}"


def _shown(value: Any) -> str:
    return "nothing" if value is _NONE else _cut(value if isinstance(value, str) else repr(value), 0, 2 * _AROUND)


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Flatten a request: `body.messages[1].content` and the like to the values there."""
    if isinstance(value, dict) and value:
        parts = [(f"{path}.{name}" if path else str(name), item) for name, item in value.items()]
    elif isinstance(value, list | tuple) and value:
        parts = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    else:
        return {path: shortened_text(value) if isinstance(value, str) else value}
    leaves: dict[str, Any] = {}
    for name, item in parts:
        leaves.update(_leaves(item, name))
    return leaves
