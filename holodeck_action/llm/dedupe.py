"""The same call at the same moment is made once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from holodeck_action.llm.calls import Answer, Call, Link, WireError


@dataclass(frozen=True, slots=True)
class _Shared:
    """A call under way; `outcome` becomes None when it was given up (cancelled) without one."""

    outcome: asyncio.Future[Answer | WireError | None]
    call: Call


class Dedupe:
    """The link that lets equal calls (same key) that meet share one answer; the first one makes it.

    Who has more time than the first one does not share its failure but tries again; a cancelled first call is
    taken over.
    """

    def __init__(self, next_link: Link) -> None:
        self._next = next_link
        self._under_way: dict[str, _Shared] = {}

    async def __call__(self, call: Call) -> Answer:
        """Answer with the call that is under way, else make it.

        Raises:
            WireError: what the call ended with.
        """
        deadline = call.context.deadline
        while (shared := self._under_way.get(call.key)) is not None:
            # Who is to wait for the first one's turn waits for its own.
            with shared.call.clocks.joined_by(call.clocks):
                outcome = await asyncio.shield(shared.outcome)
            of_first = shared.call.context.deadline
            more_time = of_first is not None and (deadline is None or deadline.left() > of_first.left())
            if isinstance(outcome, WireError):
                if not more_time:
                    raise outcome
            elif outcome is not None and (outcome.status < 400 or not more_time):
                return replace(outcome, cached=outcome.status < 400)
        future: asyncio.Future[Answer | WireError | None] = asyncio.get_running_loop().create_future()
        self._under_way[call.key] = _Shared(future, call)
        result: Answer | WireError | None = None
        try:
            result = await self._next(call)
            return result
        except WireError as error:
            result = error
            raise
        finally:
            del self._under_way[call.key]
            future.set_result(result)
