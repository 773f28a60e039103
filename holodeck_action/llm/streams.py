"""Secrets in streamed answers, which stand there in pieces: no single event holds one whole."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from holodeck_action.text.redaction import Redactor

_PIECES = frozenset(
    {"text", "thinking", "partial_json", "content", "arguments", "refusal", "reasoning", "reasoning_content"}
)
"""Fields whose values, event by event, make up one text."""


def without_secrets(body: str, redactor: Redactor) -> str:
    """Return the body of a stream of events (SSE, or one JSON value per line) without secrets.

    Where the pieces of a text hold a secret together, the text without it stands in the first of them and the others
    are empty. Events without one stay as they are, to the letter.
    """
    lines = body.split("\n")
    events = {number: event for number, line in enumerate(lines) if (event := _event(line)) is not None}
    texts: defaultdict[tuple[Any, ...], list[tuple[int, dict[str, Any], str]]] = defaultdict(list)
    for number, event in events.items():
        try:
            pieces = list(_pieces(event, (event.get("index"),)))
        except RecursionError:
            # No event of a provider is that deep; whole secrets in it are found all the same.
            continue
        for path, holder, name in pieces:
            texts[path].append((number, holder, name))
    changed: set[int] = set()
    for parts in texts.values():
        text = "".join(holder[name] for _, holder, name in parts)
        clean = redactor.text(text)
        if clean == text:
            continue
        for position, (number, holder, name) in enumerate(parts):
            holder[name] = "" if position else clean
            changed.add(number)
    for number in changed:
        start = "data: " if lines[number].startswith("data:") else ""
        lines[number] = start + json.dumps(events[number], ensure_ascii=False)
    return redactor.text("\n".join(lines))


def _event(line: str) -> dict[str, Any] | None:
    try:
        event = json.loads(line.removeprefix("data:"))
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _pieces(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any], str]]:
    """Yield where texts stand in an event: the place by which pieces of one text are known, the mapping, the name."""
    if isinstance(value, list):
        for position, item in enumerate(value):
            # Several choices or calls in one event say which they are; their order need not.
            index = item.get("index", position) if isinstance(item, Mapping) else position
            yield from _pieces(item, (*path, index))
    elif isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, str):
                if name in _PIECES:
                    yield (*path, name), value, name
            else:
                yield from _pieces(item, (*path, name))
