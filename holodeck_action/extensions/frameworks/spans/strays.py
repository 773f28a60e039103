"""Spans of traces that no conversation is known to have: a later span of the trace may name it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from holodeck_action.extensions.frameworks.instrumentation import MOST_SPANS
from holodeck_action.extensions.frameworks.spans.span import Span
from holodeck_action.workers.frames import MOST_SPAN_BYTES

Sized = tuple[Span, int]
"""A span, and the bytes that it has, about."""
_MOST_TRACES_LOST = 100_000


class Strays:
    """Keeps as many spans as two turns may have; when there are more, the trace that grew least lately is dropped."""

    def __init__(self) -> None:
        self._traces: OrderedDict[str, _Trace] = OrderedDict()
        self._lost: OrderedDict[str, int] = OrderedDict()
        self._count = 0
        self._size = 0

    def keep(self, span: Span, size: int) -> None:
        """Keep a span until its trace is claimed; a trace has no more room than a turn."""
        trace = self._traces.get(span.trace) or _Trace()
        if len(trace.spans) >= MOST_SPANS or trace.size + size > MOST_SPAN_BYTES:
            self._lose(span.trace, 1)
            return
        self._traces[span.trace] = trace
        self._traces.move_to_end(span.trace)
        trace.spans.append((span, size))
        trace.size += size
        self._count += 1
        self._size += size
        while self._count > 2 * MOST_SPANS or self._size > 2 * MOST_SPAN_BYTES:
            name, dropped = self._traces.popitem(last=False)
            self._forget(dropped)
            self._lose(name, len(dropped.spans))

    def claim(self, trace: str) -> tuple[Iterable[Sized], int]:
        """Return the spans of a trace, and how many of it are lost."""
        found = self._traces.pop(trace, _Trace())
        self._forget(found)
        return found.spans, self._lost.pop(trace, 0)

    def clear(self) -> None:
        """Forget all of them."""
        self._traces.clear()
        self._lost.clear()
        self._count = self._size = 0

    def _forget(self, trace: _Trace) -> None:
        self._count -= len(trace.spans)
        self._size -= trace.size

    def _lose(self, trace: str, count: int) -> None:
        self._lost[trace] = self._lost.get(trace, 0) + count
        if len(self._lost) > _MOST_TRACES_LOST:
            self._lost.popitem(last=False)


class _Trace:
    """Spans of a trace, and the bytes that they have."""

    __slots__ = ("size", "spans")

    def __init__(self) -> None:
        self.spans: list[Sized] = []
        self.size = 0
