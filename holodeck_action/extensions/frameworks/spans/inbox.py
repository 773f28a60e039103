"""Collects the spans of a conversation's turns in bounded memory, and waits for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from msgspec import Struct

from holodeck_action.extensions.frameworks.instrumentation import MOST_SPANS
from holodeck_action.extensions.frameworks.spans.span import Span, TurnSpans, new_traceparent
from holodeck_action.extensions.frameworks.spans.unassigned_spans import SizedSpan
from holodeck_action.workers.frames import MOST_SPAN_BYTES

EXPORT_MS = 100
"""Export interval of a process that is started for a conversation, in milliseconds."""
QUIET_S = 0.3
"""Seconds without new spans after which a turn with complete spans stops waiting."""
LONGEST_S = 6.0
"""Longest wait of a turn, in seconds; SDKs export their spans every five seconds by default."""


class WaitState(Struct):
    """Decides whether turns wait long for their spans; shared by all conversations of a target.

    `received` is whether any spans have arrived. If a turn ends without spans while `received` is false, `waits`
    becomes false, and later turns wait only briefly.
    """

    waits: bool = True
    received: bool = False


class Inbox:
    """Collects the spans of one conversation; an instance belongs to one event loop.

    Attributes:
        since: start of the turn, in nanoseconds since 1970.
        traces: ids of the traces of the turn.
    """

    def __init__(self, session: str, *, has_own_url: bool, wait_state: WaitState) -> None:
        """Create an inbox without a turn.

        Args:
            session: id of the conversation.
            has_own_url: whether the inbox has its own URL, so that all spans after the turn's start belong to the turn.
            wait_state: state that all conversations of the target share.
        """
        self.session = session
        self._own = has_own_url
        self._wait_state = wait_state
        self._reset("", "")

    def _reset(self, trace: str, root_span: str) -> None:
        self._trace, self._root = trace, root_span
        self.since = time.time_ns()
        self.traces = {trace}
        self._spans: dict[str, Span] = {}
        self._left = MOST_SPAN_BYTES
        self._unread = 0
        self._arrived = asyncio.Event()

    def begin(self) -> str:
        """Start a turn; return its `traceparent`."""
        traceparent = new_traceparent()
        _, trace, root, _ = traceparent.split("-")
        self._reset(trace, root)
        return traceparent

    def add(self, spans: Iterable[SizedSpan], unread_count: int = 0) -> None:
        """Keep those spans that belong to the turn, and count unreadable spans."""
        self._unread += unread_count
        for span, size in spans:
            if not self._belongs_to_turn(span) or span.id in self._spans:
                continue
            if len(self._spans) >= MOST_SPANS or size > self._left:
                self._unread += 1
            else:
                self._spans[span.id] = span
                self._left -= size
        self._arrived.set()

    def _belongs_to_turn(self, span: Span) -> bool:
        """Return whether a span is in the turn's own trace, or in another of its traces and not older than the turn."""
        return span.trace == self._trace or (span.start_ns >= self.since and (self._own or span.trace in self.traces))

    def arrived_spans(self) -> TurnSpans:
        """Return the turn's spans that have arrived so far."""
        return TurnSpans(tuple(self._spans.values()), self._unread)

    async def wait_for_spans(self) -> TurnSpans:
        """Wait, at most `LONGEST_S`, until the turn's spans are complete and no more arrive; return them."""
        clock = asyncio.get_running_loop().time
        until = clock() + (LONGEST_S if self._wait_state.waits else QUIET_S)
        quiet = False
        while clock() < until and not (quiet and self._is_complete()):
            self._arrived.clear()
            try:
                async with asyncio.timeout(min(QUIET_S, max(0.0, until - clock()))):
                    await self._arrived.wait()
                quiet = False
            except TimeoutError:
                quiet = True
        if not self._spans:
            self._wait_state.waits = self._wait_state.received
        return self.arrived_spans()

    def _is_complete(self) -> bool:
        """Return whether at least one span has arrived, and no arrived span lacks its parent."""
        known = self._spans.keys() | {self._root, None}
        return bool(self._spans) and all(span.parent in known for span in self._spans.values())
