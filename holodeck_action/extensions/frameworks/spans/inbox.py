"""The spans that a conversation's turns get, in bounded memory, and how long a turn waits for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from msgspec import Struct

from holodeck_action.extensions.frameworks.instrumentation import MOST_SPANS
from holodeck_action.extensions.frameworks.spans.span import Span, TurnSpans, new_traceparent
from holodeck_action.extensions.frameworks.spans.strays import Sized
from holodeck_action.workers.frames import MOST_SPAN_BYTES

EXPORT_MS = 100
"""How often a process that is started for a conversation sends its spans, in milliseconds."""
QUIET_S = 0.3
"""Seconds without a span after which a turn whose work has ended waits for no more."""
LONGEST_S = 6.0
"""Seconds that a turn waits at most: SDKs send their spans every five unless they are told otherwise."""


class Patience(Struct):
    """Whether it is worth to wait for spans of which nothing is to be seen.

    `heard` tells whether any have ever come. Until then only the first turns wait for them, before one has in vain.
    """

    waits: bool = True
    heard: bool = False


class Inbox:
    """Takes the spans of one conversation; used within one event loop.

    Attributes:
        since: when the turn began, in nanoseconds since 1970.
        traces: those that belong to the turn.
    """

    def __init__(self, session: str, *, own: bool, patience: Patience) -> None:
        """Begin without a turn.

        Args:
            session: id of the conversation.
            own: whether nothing else sends spans here, so that all of a turn's time belong to it.
            patience: shared by all conversations of the target.
        """
        self.session = session
        self._own = own
        self._patience = patience
        self._begin("", "")

    def _begin(self, trace: str, root: str) -> None:
        self._trace, self._root = trace, root
        self.since = time.time_ns()
        self.traces = {trace}
        self._spans: dict[str, Span] = {}
        self._left = MOST_SPAN_BYTES
        self._unread = 0
        self._arrived = asyncio.Event()

    def begin(self) -> str:
        """Begin a turn; return its `traceparent`."""
        traceparent = new_traceparent()
        _, trace, root, _ = traceparent.split("-")
        self._begin(trace, root)
        return traceparent

    def take(self, spans: Iterable[Sized], unread: int = 0) -> None:
        """Keep the spans that belong to the turn, and count those that could not be read."""
        self._unread += unread
        for span, size in spans:
            if not self._wants(span) or span.id in self._spans:
                continue
            if len(self._spans) >= MOST_SPANS or size > self._left:
                self._unread += 1
            else:
                self._spans[span.id] = span
                self._left -= size
        self._arrived.set()

    def _wants(self, span: Span) -> bool:
        """Tell whether a span belongs to the turn: it is in its trace, or in another one of its and not from before."""
        return span.trace == self._trace or (span.start_ns >= self.since and (self._own or span.trace in self.traces))

    def so_far(self) -> TurnSpans:
        """Return what has come."""
        return TurnSpans(tuple(self._spans.values()), self._unread)

    async def settled(self) -> TurnSpans:
        """Return the spans of the turn once its work has ended and no more come, or the longest time is over."""
        clock = asyncio.get_running_loop().time
        until = clock() + (LONGEST_S if self._patience.waits else QUIET_S)
        quiet = False
        while clock() < until and not (quiet and self._is_whole()):
            self._arrived.clear()
            try:
                async with asyncio.timeout(min(QUIET_S, max(0.0, until - clock()))):
                    await self._arrived.wait()
                quiet = False
            except TimeoutError:
                quiet = True
        if not self._spans:
            self._patience.waits = self._patience.heard
        return self.so_far()

    def _is_whole(self) -> bool:
        """Tell whether something has come, and whatever encloses it."""
        known = self._spans.keys() | {self._root, None}
        return bool(self._spans) and all(span.parent in known for span in self._spans.values())
