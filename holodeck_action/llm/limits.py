"""How many requests an account may have under way: found by trying, as TCP finds a line's capacity.

The limit stands below the retries: what the provider counts is attempts, and a call that waits for its next one takes
nobody's place. Slow start (one more for every answer) up to the first refusal (429, 529); what was under way without
those refused is the ceiling that is kept, at least half of it. Above a ceiling it is additive increase (one more for
every ceiling of answers): a refusal that only says no costs one request, and one that has nothing to do with how many
are under way must not keep the account small. A refusal with Retry-After stops the whole account, so after it nothing
more is tried for many times as long. A call that hangs gives its place away: a few of them would stop a small window.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from datetime import datetime

from holodeck_action.llm.calls import Answer, Call, Link, WireError
from holodeck_action.llm.outcomes import congested, retry_after

START = 8
"""Requests at once in the beginning."""
DECREASE = 0.85
"""What is left of the ceiling after a refusal: the account must drain before it takes more."""
HOLD = 15.0
"""How many times a Retry-After a ceiling is kept after it: standing still for it then costs a fifteenth of the time."""
HOLD_MOST_S = 120.0
"""Most seconds for which a ceiling is kept."""
PATIENCE = 8.0
"""How many times the usual time of an answer a call may take before it gives its place away."""
PATIENCE_LEAST_S = 2.0
PATIENCE_FIRST_S = 30.0
"""Seconds that it may take while no answer has told what is usual."""
USUAL_WEIGHT = 0.1
"""Weight of the newest answer in the usual time, a moving average."""
LONGEST_WAIT_S = 120.0
"""Seconds that a provider's Retry-After may ask for; a longer one is a refusal, not a wait."""


class AccountLimit:
    """The link that holds one account's requests back."""

    def __init__(
        self,
        next_link: Link,
        shown: str,
        most: int,
        *,
        monotonic: Callable[[], float],
        pause: Callable[[float], Awaitable[None]],
        now: Callable[[], datetime],
        patience_s: float = PATIENCE_LEAST_S,
    ) -> None:
        """Start small.

        Args:
            next_link: what sends.
            shown: the account, for messages.
            most: requests that are never exceeded, at least 1.
            monotonic: seconds.
            pause: waits for seconds.
            now: the time of day, for dates in Retry-After.
            patience_s: least seconds after which a call hangs.
        """
        self._next = next_link
        self._shown = shown
        self._most = most
        self._monotonic, self._pause, self._now = monotonic, pause, now
        self._least_patience_s = patience_s
        self._window = float(min(START, most))
        self._ceiling = float(most)
        self._wave = 0
        self._taken = 0
        self._sent = 0
        self._hanging = 0
        self._usual_s: float | None = None
        self._places = 0
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        self._gate = 0.0
        self._last_decrease = float("-inf")
        self._answered = 0
        self._hold_until = float("-inf")

    @property
    def window(self) -> int:
        """How many requests may be under way now."""
        return int(self._window)

    async def __call__(self, call: Call) -> Answer:
        """Send when it is this call's turn.

        Raises:
            WireError: `rate_limited`, the account has to wait longer than the call has time; whatever sending raises.
        """
        await self._take(call)
        hangs = False

        def give_away() -> None:
            nonlocal hangs
            hangs = True
            self._taken -= 1
            self._sent -= 1
            self._hanging += 1
            self._wake()

        try:
            await self._pass_gate(call)
            started = self._monotonic()
            self._sent += 1
            busy = self._sent
            timer = asyncio.get_running_loop().call_later(self._patience_s(), give_away)
            try:
                answer = await self._next(call)
                # Those sent after it were under way beside it, too.
                busy = max(busy, self._sent)
            finally:
                timer.cancel()
                self._sent -= not hangs
            self._learn(answer, started, busy)
            return answer
        finally:
            if hangs:
                self._hanging -= 1
            else:
                self._taken -= 1
            self._wake()

    def _patience_s(self) -> float:
        return PATIENCE_FIRST_S if self._usual_s is None else max(self._least_patience_s, PATIENCE * self._usual_s)

    def _free(self) -> bool:
        return self._taken < self.window and self._taken + self._hanging < self._most

    async def _take(self, call: Call) -> None:
        """Take one of the window's slots, first come first served; who was sent before goes first."""
        if call.place is None:
            self._places += 1
            call.place = self._places
        if self._free() and not self._queue:
            self._taken += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._places += 1
        heapq.heappush(self._queue, (call.place, self._places, turn))
        self._wake()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._taken -= 1
                self._wake()
            raise

    def _wake(self) -> None:
        while self._queue and self._free():
            _, _, turn = heapq.heappop(self._queue)
            if not turn.done():
                self._taken += 1
                turn.set_result(None)

    async def _pass_gate(self, call: Call) -> None:
        while (wait := self._gate - self._monotonic()) > 0:
            deadline = call.context.deadline
            if deadline is not None and self._gate >= deadline:
                raise WireError(
                    f"{self._shown} refuses more calls for {wait:.0f} s (rate limit), longer than this call has time; "
                    "lower `limits.concurrency` or raise `limits.case_timeout_s`",
                    "rate_limited",
                    status=429,
                )
            await self._pause(wait)

    def _learn(self, answer: Answer, started: float, busy: int) -> None:
        now = self._monotonic()
        if answer.status >= 400:
            asked = retry_after(answer, self._now())
            full = congested(answer)
            if asked is not None and (full or answer.status == 503):
                self._gate = max(self._gate, now + min(asked, LONGEST_WAIT_S))
                self._hold_until = max(self._hold_until, now + min(HOLD * asked, HOLD_MOST_S))
            if full and started >= self._last_decrease:
                self._decrease(busy, now)
            elif full:
                # One more of the same wave: the account carries one less than thought, never less than half of it.
                self._lower(max(self._ceiling - 1, self._wave / 2))
            return
        took = now - started
        self._usual_s = took if self._usual_s is None else self._usual_s + USUAL_WEIGHT * (took - self._usual_s)
        if self._taken < self.window and not self._queue:
            return
        if self._window < self._ceiling:
            self._window = min(self._window + 1, self._ceiling)
        elif now >= self._hold_until and self._ceiling < self._most:
            self._answered += 1
            if self._answered >= self._ceiling:
                self._answered = 0
                self._ceiling = self._window = min(self._ceiling + 1, float(self._most))
        self._wake()

    def _decrease(self, busy: int, now: float) -> None:
        self._last_decrease = now
        self._wave = min(busy, self.window)
        self._lower(self._wave - 1)

    def _lower(self, ceiling: float) -> None:
        self._answered = 0
        self._ceiling = float(max(1, int(ceiling)))
        self._window = min(self._window, max(1.0, self._ceiling * DECREASE))
