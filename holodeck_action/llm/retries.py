"""Another try where it helps, never after the caller's deadline."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from holodeck_action.llm.calls import Answer, Call, Link, WireError
from holodeck_action.llm.limits import LONGEST_WAIT_S
from holodeck_action.llm.outcomes import retry_after, retry_worthy

FIRST_S = 0.5
"""Most seconds before the second attempt; doubled for each one after it."""
LONGEST_S = 20.0
"""Most seconds between two attempts where the provider asks for nothing."""
SPREAD = 0.1
"""Part of an asked wait that is added at random, so that not all come back at once."""


class Retries:
    """The link that tries again: full jitter, Retry-After, within the call's deadline.

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
        monotonic: Callable[[], float],
        pause: Callable[[float], Awaitable[None]],
        uniform: Callable[[float, float], float],
        now: Callable[[], datetime],
    ) -> None:
        """Prepare.

        Args:
            next_link: what tries once.
            most: attempts after the first one.
            monotonic: seconds.
            pause: waits for seconds.
            uniform: a random number between two.
            now: the time of day, for dates in Retry-After.
        """
        self._next = next_link
        self._most = most
        self._monotonic, self._pause, self._uniform, self._now = monotonic, pause, uniform, now

    async def __call__(self, call: Call) -> Answer:
        """Try until it succeeds, cannot succeed, or must end.

        Raises:
            WireError: the last attempt's.
        """
        attempt = 0
        while True:
            asked: float | None = None
            answer: Answer | None = None
            error: WireError | None = None
            try:
                answer = await self._next(call)
            except WireError as trouble:
                error = trouble
            else:
                asked = retry_after(answer, self._now()) if answer.status >= 400 else None
            worth = error.retry_worthy if error is not None else answer is not None and retry_worthy(answer)
            wait = self._wait(attempt, asked)
            if not worth or attempt >= self._most or wait is None or self._too_late(call, wait):
                if answer is not None:
                    return answer
                assert error is not None
                raise error
            attempt += 1
            await self._pause(wait)

    def _wait(self, attempt: int, asked: float | None) -> float | None:
        if asked is None:
            return self._uniform(0.0, min(LONGEST_S, FIRST_S * 2.0**attempt))
        if asked > LONGEST_WAIT_S:
            return None
        return asked + self._uniform(0.0, SPREAD * max(asked, FIRST_S))

    def _too_late(self, call: Call, wait: float) -> bool:
        deadline = call.context.deadline
        return deadline is not None and self._monotonic() + wait >= deadline
