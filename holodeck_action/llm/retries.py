"""Another try where it helps, never after the caller's deadline.

Waiting for a rate limit is not charged to whoever asks: the clocks of turns, cases and metrics stand still, and a
session lends its place to another one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from holodeck_action.llm.calls import Answer, Call, Link, WireError
from holodeck_action.llm.limits.gate import FIRST_S, SPREAD, backed_off
from holodeck_action.llm.limits.pauses import away
from holodeck_action.llm.outcomes import held_off, retry_after, retry_worthy

OFTEN = 3
"""Refusals of one call after which its waits grow beyond what the provider asks for."""


class Retries:
    """The link that tries again: full jitter, Retry-After, within the call's deadline.

    A call that the account's rate limit refuses is tried again for as long as it may wait in all; other trouble is met
    `most` times.

    Tried again are 408, 409, 429 and 5xx (`x-should-retry` decides where it is sent), lost connections, broken and
    incomplete bodies. Given up at once is whatever another try cannot help: a bad key, no quota, an unknown model, too
    long a context, a content filter. The last answer is handed out as it is, so that the provider's client raises its
    own error; a last attempt without an answer is a WireError.
    """

    def __init__(
        self,
        next_link: Link,
        most: int,
        *,
        longest_wait_s: float,
        pause: Callable[[float], Awaitable[None]],
        uniform: Callable[[float, float], float],
        now: Callable[[], datetime],
    ) -> None:
        """Prepare.

        Args:
            next_link: what tries once.
            most: attempts after the first one, those after refusals excluded.
            longest_wait_s: seconds that one call may wait in all after refusals.
            pause: waits for seconds.
            uniform: a random number between two.
            now: the time of day, for dates in Retry-After.
        """
        self._next = next_link
        self._most = most
        self._longest_wait_s = longest_wait_s
        self._pause, self._uniform, self._now = pause, uniform, now

    async def __call__(self, call: Call) -> Answer:
        """Try until it succeeds, cannot succeed, or must end.

        Raises:
            WireError: the last attempt's.
        """
        faults = refusals = paced = 0
        waited = 0.0
        while True:
            answer: Answer | None = None
            error: WireError | None = None
            try:
                answer = await self._next(call)
            except WireError as trouble:
                error = trouble
            if answer is not None and held_off(answer):
                refusals += 1
                wait = refusal_wait(refusals, retry_after(answer, self._now()), self._uniform)
                if call.paced:
                    # Others are sent meanwhile: to the account it is the same which of the calls takes the next turn.
                    paced += 1
                    wait = min(wait, refusal_wait(paced, None, self._uniform))
                waited += wait
                enough = call.context.stand_in and refusals > self._most
                if enough or call.given_up or waited > self._longest_wait_s:
                    return answer
                async with away(call.clocks):
                    await self._pause(wait)
                continue
            wait = self._wait(faults, answer)
            worth = error.retry_worthy if error is not None else answer is not None and retry_worthy(answer)
            if not worth or faults >= self._most or _too_late(call, wait):
                if answer is not None:
                    return answer
                assert error is not None
                raise error
            faults += 1
            await self._pause(wait)

    def _wait(self, faults: int, answer: Answer | None) -> float:
        asked = retry_after(answer, self._now()) if answer is not None and answer.status >= 400 else None
        return self._uniform(0.0, backed_off(faults + 1)) if asked is None else _spread(asked, self._uniform)


def refusal_wait(refusals: int, asked: float | None, uniform: Callable[[float, float], float]) -> float:
    """Return the seconds that a call waits after a refusal.

    Args:
        refusals: how many it has met, at least 1.
        asked: the seconds that the provider asks for, None where it says nothing that can be believed.
        uniform: a random number between two.
    """
    if asked is None:
        return uniform(0.0, backed_off(refusals))
    more = uniform(0.0, backed_off(refusals - OFTEN)) if refusals > OFTEN else 0.0
    return _spread(asked, uniform) + more


def _spread(asked: float, uniform: Callable[[float, float], float]) -> float:
    return asked + uniform(0.0, SPREAD * max(asked, FIRST_S))


def _too_late(call: Call, wait: float) -> bool:
    deadline = call.context.deadline
    return deadline is not None and wait >= deadline.left()
