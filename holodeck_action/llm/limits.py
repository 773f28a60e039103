"""The place of one account's requests: how many may be under way, who is next, and who waits while it refuses all.

The limit stands below the retries: what the provider counts is attempts, and a call that waits for its next one takes
nobody's place. How many is found by trying (`window`), and so is whether a refusal concerns one call or all (`gate`).
A call that hangs gives its place away: a few of them would stop a small window.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from datetime import datetime

from holodeck_action.llm.calls import Answer, Call, Link, WireError
from holodeck_action.llm.gate import Gate
from holodeck_action.llm.outcomes import held_off, retry_after
from holodeck_action.llm.window import Window

PATIENCE = 8.0
"""How many times the usual time of an answer a call may take before it gives its place away."""
PATIENCE_LEAST_S = 2.0
PATIENCE_FIRST_S = 30.0
"""Seconds that it may take while no answer has told what is usual."""
USUAL_WEIGHT = 0.1
"""Weight of the newest answer in the usual time, a moving average."""


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
        longest_wait_s: float,
        patience_s: float = PATIENCE_LEAST_S,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            next_link: what sends.
            shown: the account, for messages.
            most: requests that are never exceeded, at least 1.
            monotonic: seconds.
            pause: waits for seconds.
            now: the time of day, for dates in Retry-After.
            longest_wait_s: seconds of refusals alone after which calls do not wait any longer.
            patience_s: least seconds after which a call hangs.
        """
        self._next = next_link
        self._shown = shown
        self._most = most
        self._monotonic, self._pause, self._now = monotonic, pause, now
        self._least_patience_s = patience_s
        self._window = Window(most)
        self._gate = Gate(longest_wait_s)
        self._opener: asyncio.Task[None] | None = None
        self._taken = 0
        self._sent = 0
        self._hanging = 0
        self._usual_s: float | None = None
        self._places = 0
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []

    @property
    def window(self) -> int:
        """How many requests may be under way now."""
        return self._window.size

    async def close(self) -> None:
        """End what waits for the gate."""
        if self._opener is not None:
            self._opener.cancel()
            await asyncio.gather(self._opener, return_exceptions=True)

    async def __call__(self, call: Call) -> Answer:
        """Send when it is this call's turn; the clocks around it stand still until then.

        Raises:
            WireError: `rate_limited`, the account has refused all calls for too long; whatever sending raises.
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
            self._learn(answer, started, max(1, busy))
        finally:
            if hangs:
                self._hanging -= 1
            else:
                self._taken -= 1
            self._wake()
        call.given_up = self._gate.given_up(self._monotonic())
        return answer

    def _patience_s(self) -> float:
        return PATIENCE_FIRST_S if self._usual_s is None else max(self._least_patience_s, PATIENCE * self._usual_s)

    def _free(self) -> bool:
        if self._gate.shut and not self._gate.tries and not self._gate.given_up(self._monotonic()):
            return False
        return self._taken < self.window and self._taken + self._hanging < self._most

    def _occupy(self) -> None:
        self._taken += 1
        if self._gate.tries:
            self._gate.tries -= 1

    async def _take(self, call: Call) -> None:
        """Take one of the window's slots, first come first served; who was sent before goes first."""
        if call.place is None:
            self._places += 1
            call.place = self._places
        if self._free() and not self._queue:
            self._occupy()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._places += 1
        heapq.heappush(self._queue, (call.place, self._places, turn))
        self._wake()
        try:
            with call.clocks.standing_still():
                await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._taken -= 1
                self._wake()
            raise

    def _wake(self) -> None:
        while self._queue and self._free():
            _, _, turn = heapq.heappop(self._queue)
            if not turn.done():
                self._occupy()
                turn.set_result(None)

    def _learn(self, answer: Answer, started: float, busy: int) -> None:
        now = self._monotonic()
        if held_off(answer):
            asked = retry_after(answer, self._now())
            # Refusals alone say nothing about how many are too many.
            if self._gate.among_answers:
                self._window.refused(started, now, busy, asked)
            self._gate.refused(now, asked)
            if self._gate.shut and (self._opener is None or self._opener.done()):
                self._opener = asyncio.create_task(self._open())
        elif answer.status < 400:
            self._gate.answered()
            took = now - started
            self._usual_s = took if self._usual_s is None else self._usual_s + USUAL_WEIGHT * (took - self._usual_s)
            self._window.answered(started, now, busy, full=bool(self._queue) or self._taken >= self.window)
            self._wake()

    async def _open(self) -> None:
        """Wait until a gate that is shut may be tried; let nobody wait for one that stays shut for too long."""
        gate, now = self._gate, self._monotonic
        while not gate.given_up(now()) and (wait := gate.wait(now())) > 0:
            await self._pause(wait)
        if gate.given_up(now()):
            for _, _, turn in self._queue:
                if not turn.done():
                    turn.set_exception(self._given_up())
            self._queue.clear()
        elif gate.shut:
            gate.open_a_little()
        self._wake()

    def _given_up(self) -> WireError:
        return WireError(
            f"{self._shown} has refused every call for {self._gate.refused_for(self._monotonic()):.0f} s because of "
            "its rate limit; lower `limits.concurrency`, or let calls wait longer by `limits.rate_limit_wait_s`",
            "rate_limited",
            status=429,
        )
