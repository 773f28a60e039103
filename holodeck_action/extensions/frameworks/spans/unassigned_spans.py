"""Stores spans whose conversation is unknown so far; a later span of the same trace may name the conversation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from holodeck_action.extensions.frameworks.instrumentation import MOST_SPANS
from holodeck_action.extensions.frameworks.spans.span import Span
from holodeck_action.workers.frames import MOST_SPAN_BYTES

SizedSpan = tuple[Span, int]
"""A span and its estimated size in bytes."""
_MOST_TRACES_LOST = 100_000


class UnassignedSpans:
    """The spans of traces that belong to no turn yet.

    If there are more spans than the limit for two turns, the trace that has been without new spans for longest is
    dropped.
    """

    def __init__(self) -> None:
        self._traces: OrderedDict[str, _Trace] = OrderedDict()
        self._lost: OrderedDict[str, int] = OrderedDict()
        self._count = 0
        self._size = 0

    def keep(self, span: Span, size: int) -> None:
        """Keep a span until its trace is claimed; a trace has the same limits as a turn."""
        trace = self._traces.get(span.trace) or _Trace()
        if len(trace.spans) >= MOST_SPANS or trace.size + size > MOST_SPAN_BYTES:
            self._count_lost(span.trace, 1)
            return
        self._traces[span.trace] = trace
        self._traces.move_to_end(span.trace)
        trace.spans.append((span, size))
        trace.size += size
        self._count += 1
        self._size += size
        while self._count > 2 * MOST_SPANS or self._size > 2 * MOST_SPAN_BYTES:
            name, dropped = self._traces.popitem(last=False)
            self._release(dropped)
            self._count_lost(name, len(dropped.spans))

    def claim(self, trace: str) -> tuple[Iterable[SizedSpan], int]:
        """Remove and return the spans of a trace, and the number of spans that were dropped from it."""
        found = self._traces.pop(trace, _Trace())
        self._release(found)
        return found.spans, self._lost.pop(trace, 0)

    def clear(self) -> None:
        """Drop all spans."""
        self._traces.clear()
        self._lost.clear()
        self._count = self._size = 0

    def _release(self, trace: _Trace) -> None:
        self._count -= len(trace.spans)
        self._size -= trace.size

    def _count_lost(self, trace: str, count: int) -> None:
        self._lost[trace] = self._lost.get(trace, 0) + count
        if len(self._lost) > _MOST_TRACES_LOST:
            self._lost.popitem(last=False)


class _Trace:
    """Spans of a trace, and their estimated size in bytes."""

    __slots__ = ("size", "spans")

    def __init__(self) -> None:
        self.spans: list[SizedSpan] = []
        self.size = 0
