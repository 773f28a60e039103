"""Record, replay and cache: answers found by what was asked instead of asking again.

Errors are never stored, nor is what a content filter cut. A refusal of the model is an answer: a recording keeps it,
because the replay must show what the run saw; a cache does not, so that it is asked anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

from holodeck_action.llm.calls import Answer, Call, Link, WireError
from holodeck_action.llm.entries import Entries
from holodeck_action.llm.keys import key_of, parts_of
from holodeck_action.llm.misses import Misses
from holodeck_action.llm.outcomes import kept, refused
from holodeck_action.text.redaction import Redactor

Store = Callable[[Call, dict[str, Any]], Awaitable[Answer]]
"""Takes a call and what its key is made of."""


class Keys:
    """The link that gives every call its key; without it equal calls are not known to be equal."""

    def __init__(self, store: Store, redactor: Redactor) -> None:
        self._store = store
        self._redactor = redactor

    async def __call__(self, call: Call) -> Answer:
        """Set the key and hand on."""
        parts = parts_of(call, self._redactor)
        call.key = key_of(parts)
        return await self._store(call, parts)


class Live:
    """Without a recording; with a cache when a folder is given."""

    def __init__(
        self, next_link: Link, cache: Entries | None, ttl_s: float | None, now: Callable[[], datetime]
    ) -> None:
        self.next_link = next_link
        self._cache = cache
        self._ttl = None if ttl_s is None else timedelta(seconds=ttl_s)
        self._now = now
        self.trouble: str | None = None

    async def __call__(self, call: Call, parts: dict[str, Any]) -> Answer:
        """Answer from the cache, else ask and keep."""
        if self._cache is None:
            return await self.next_link(call)
        try:
            entry = self._cache.read(call.key)
        except WireError as error:
            # A cache is a saving, not a proof: what it cannot give is asked for.
            self.trouble, entry = error.message, None
        if entry is not None and (self._ttl is None or self._now() - entry.recorded_at < self._ttl):
            return entry.answer
        answer = await self.next_link(call)
        if kept(answer) and not refused(answer) and not answer.cached:
            try:
                self._cache.write(call.key, parts, answer, self._now())
            except WireError as error:
                self.trouble = error.message
        return answer


class Recorder:
    """Stores every answer; a call that was recorded in this run before gets the same answer again.

    Without that a second, different answer would replace the first, and the replay could not show what the run saw.
    """

    def __init__(self, source: Live, entries: Entries, now: Callable[[], datetime]) -> None:
        self._source = source
        self._entries = entries
        self._now = now
        self._recorded: set[str] = set()

    async def __call__(self, call: Call, parts: dict[str, Any]) -> Answer:
        """Ask and store.

        Raises:
            WireError: `cassette_unwritable`, `cassette_unreadable`; whatever asking raises.
        """
        if call.key in self._recorded:
            entry = self._entries.read(call.key)
            if entry is not None:
                return entry.answer
        answer = await self._source(call, parts)
        # Of calls that shared one answer the first to come back stores it.
        if kept(answer) and call.key not in self._recorded:
            self._entries.write(call.key, parts, answer, self._now())
            self._recorded.add(call.key)
        return answer


class Replay:
    """Answers from a recording only: nothing is sent."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._misses = Misses(entries)

    async def __call__(self, call: Call, parts: dict[str, Any]) -> Answer:
        """Answer with what was recorded.

        Raises:
            WireError: `cassette_miss`, `cassette_unreadable`.
        """
        entry = self._entries.read(call.key)
        if entry is None:
            raise WireError(self._misses.explain(parts), "cassette_miss")
        return entry.answer
