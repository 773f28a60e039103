"""A span of OpenTelemetry as far as it is read, wherever it comes from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

LONGEST_ID = 32
"""Characters of an id."""


class Span(Struct, frozen=True):
    """A piece of the target's work.

    `id` and `parent` (None: the work has none) are hexadecimal. `scope` is the library that made the span. `start_ns`
    and `end_ns` are nanoseconds since 1970. `attributes` and the second part of each of the `events`, those of tool
    calls and exceptions, are JSON values by name. `error` says why the work failed, empty where no reason is told; None
    where it did not fail.
    """

    trace: str
    id: str
    parent: str | None
    scope: str
    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]
    events: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    error: str | None = None

    @property
    def duration_ms(self) -> float:
        """How long it took, in milliseconds."""
        return max(0, self.end_ns - self.start_ns) / 1e6


class TurnSpans(Struct, frozen=True):
    """The spans of one turn.

    `unread` is how many more there were that could not be read, or were too many; `failed` names instrumentations that
    could not be started, each with the reason.
    """

    spans: tuple[Span, ...] = ()
    unread: int = 0
    failed: tuple[str, ...] = ()


def new_traceparent() -> str:
    """Return a header `traceparent` (W3C Trace Context) of a trace that nobody can guess; its spans are wanted."""
    return f"00-{os.urandom(16).hex()}-{os.urandom(8).hex()}-01"


def turn_spans(told: Any) -> TurnSpans:
    """Read what a worker process collected (`Recorder.end`); user code may have forged it."""
    if not isinstance(told, Mapping):
        return TurnSpans()
    listed, dropped, failed = told.get("spans"), told.get("dropped"), told.get("failed")
    items = listed if isinstance(listed, list) else []
    found = tuple(_spans(items))
    unread = len(items) - len(found) + (dropped if isinstance(dropped, int) and dropped > 0 else 0)
    return TurnSpans(found, unread, tuple(map(str, failed)) if isinstance(failed, list) else ())


def _spans(items: Iterable[Any]) -> Iterable[Span]:
    for item in items:
        try:
            yield _span(item)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            continue


def _span(item: Mapping[str, Any]) -> Span:
    parent = item["parent"]
    return Span(
        trace=_text(item["trace"])[:LONGEST_ID],
        id=_text(item["id"])[:LONGEST_ID],
        parent=None if parent is None else _text(parent)[:LONGEST_ID],
        scope=_text(item["scope"]),
        name=_text(item["name"]),
        start_ns=int(item["start"]),
        end_ns=int(item["end"]),
        attributes=dict(item["attributes"]),
        events=tuple((_text(event["name"]), dict(event["attributes"])) for event in item["events"]),
        error=(_text(item["message"]) if item["message"] else "") if item["failed"] is True else None,
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is expected")
    return value
