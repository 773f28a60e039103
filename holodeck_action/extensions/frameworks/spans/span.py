"""The internal representation of OpenTelemetry spans."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

LONGEST_ID = 32
"""Longest id, in characters."""


class Span(Struct, frozen=True):
    """A span: one unit of the target's work, such as a model call.

    `id` and `parent` (None for a root) are hexadecimal. `scope` is the library that created the span. `start_ns` and
    `end_ns` are nanoseconds since 1970. `attributes` are JSON values by name. `events` are pairs of name and
    attributes, only for tool calls and exceptions. `error` is the reason of a failure, empty if unknown; None if the
    span did not fail.
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
        """Duration in milliseconds."""
        return max(0, self.end_ns - self.start_ns) / 1e6


class TurnSpans(Struct, frozen=True):
    """The spans of one turn.

    `unread` is the number of further spans that were unreadable or beyond the limit; `failed` has the instrumentations
    that could not be started, with the reasons.
    """

    spans: tuple[Span, ...] = ()
    unread: int = 0
    failed: tuple[str, ...] = ()


def new_traceparent() -> str:
    """Return a `traceparent` header (W3C Trace Context) with random ids, sampled."""
    return f"00-{os.urandom(16).hex()}-{os.urandom(8).hex()}-01"


def read_turn_spans(data: Any) -> TurnSpans:
    """Read the spans that a worker process collected (`Recorder.end`); user code may have forged them."""
    if not isinstance(data, Mapping):
        return TurnSpans()
    listed, dropped, failed = data.get("spans"), data.get("dropped"), data.get("failed")
    items = listed if isinstance(listed, list) else []
    found = tuple(_read_spans(items))
    unread = len(items) - len(found) + (dropped if isinstance(dropped, int) and dropped > 0 else 0)
    return TurnSpans(found, unread, tuple(map(str, failed)) if isinstance(failed, list) else ())


def _read_spans(spans: Iterable[Any]) -> Iterable[Span]:
    for item in spans:
        try:
            yield _read_span(item)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            continue


def _read_span(span: Mapping[str, Any]) -> Span:
    parent = span["parent"]
    return Span(
        trace=_require_text(span["trace"])[:LONGEST_ID],
        id=_require_text(span["id"])[:LONGEST_ID],
        parent=None if parent is None else _require_text(parent)[:LONGEST_ID],
        scope=_require_text(span["scope"]),
        name=_require_text(span["name"]),
        start_ns=int(span["start"]),
        end_ns=int(span["end"]),
        attributes=dict(span["attributes"]),
        events=tuple((_require_text(event["name"]), dict(event["attributes"])) for event in span["events"]),
        error=(_require_text(span["message"]) if span["message"] else "") if span["failed"] is True else None,
    )


def _require_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("expected a string")
    return value
