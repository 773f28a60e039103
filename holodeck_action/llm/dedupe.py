"""The same call at the same moment is made once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from holodeck_action.llm.calls import Answer, Call, Link, WireError

# What ends one caller's call may not end another's: his deadline, his cancellation.
_OWN = frozenset({"timeout", "rate_limited"})


class Dedupe:
    """The link that lets equal calls (same key) that meet share one answer; the first one makes it."""

    def __init__(self, next_link: Link) -> None:
        self._next = next_link
        self._under_way: dict[str, asyncio.Future[Answer | WireError | None]] = {}

    async def __call__(self, call: Call) -> Answer:
        """Answer with the call that is under way, else make it.

        Raises:
            WireError: what the call ended with.
        """
        while (shared := self._under_way.get(call.key)) is not None:
            outcome = await asyncio.shield(shared)
            if isinstance(outcome, WireError):
                raise outcome
            if outcome is not None:
                return replace(outcome, cached=True)
        future: asyncio.Future[Answer | WireError | None] = asyncio.get_running_loop().create_future()
        self._under_way[call.key] = future
        outcome = None
        try:
            outcome = await self._next(call)
            return outcome
        except WireError as error:
            if error.code not in _OWN:
                outcome = error
            raise
        finally:
            del self._under_way[call.key]
            future.set_result(outcome)
