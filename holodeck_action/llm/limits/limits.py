"""Sends the requests of one account when its window lets them, in the order of their calls.

In the chain of links (`calls.Link`) this link comes after the retries, because providers count attempts, and a call
that waits for its next attempt must not occupy a slot, the permission to have one request in progress. The `Window`
decides; this link has the queue and the timers. A hanging call gives up its slot, because a few such calls would block
a small window.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Awaitable, Callable
from datetime import datetime

from holodeck_action.llm.calls import Answer, Call, Link, WireError
from holodeck_action.llm.limits.evidence import Sent
from holodeck_action.llm.limits.window import Window
from holodeck_action.llm.outcomes import is_throttled, retry_after
from holodeck_action.llm.rate_headers import stated_rate

PATIENCE_FACTOR = 8.0
"""A call gives up its slot after this multiple of the usual answer time."""
MIN_PATIENCE_S = 2.0
INITIAL_PATIENCE_S = 30.0
"""Seconds after which a call gives up its slot while the usual answer time is unknown."""
ANSWER_TIME_WEIGHT = 0.1
"""Weight of the newest answer in the moving average of answer times."""


class AccountLimit:
    """The link of the wire that limits the concurrency and rate of one account's requests."""

    def __init__(
        self,
        next_link: Link,
        label: str,
        window: Window,
        *,
        monotonic: Callable[[], float],
        pause: Callable[[float], Awaitable[None]],
        now: Callable[[], datetime],
    ) -> None:
        """Create the link; nothing is sent yet.

        Args:
            next_link: the link that sends requests.
            label: the account's name in messages.
            window: the account's limits.
            monotonic: returns monotonic seconds.
            pause: waits for a number of seconds.
            now: returns the current time, for dates in Retry-After.
        """
        self._next = next_link
        self._label = label
        self.window = window
        self._monotonic, self._pause, self._now = monotonic, pause, now
        self._spacing: asyncio.TimerHandle | None = None
        self._trials: asyncio.Task[None] | None = None
        self._hanging = 0
        self._usual_s: float | None = None
        self._positions = 0
        self._queue: list[tuple[int, int, asyncio.Future[Sent]]] = []
        self._limited = asyncio.Event()

    def share(self, sharers: int) -> None:
        """Use one of so many equal shares of the account's limits from now on."""
        self.window.share(sharers)
        self._wake()

    async def close(self) -> None:
        """Cancel the tasks that wait for the circuit breaker or for the limited rate."""
        if self._spacing is not None:
            self._spacing.cancel()
        if self._trials is not None:
            self._trials.cancel()
            await asyncio.gather(self._trials, return_exceptions=True)

    async def __call__(self, call: Call) -> Answer:
        """Send the request when it is the call's turn; the call's clocks pause until then.

        Raises:
            WireError: `rate_limited`: the account has refused all calls for too long; or an error of the call.
        """
        sent = await self._wait_for_slot(call)
        hangs = False

        def give_away() -> None:
            nonlocal hangs
            hangs = True
            self.window.busy -= 1
            self._hanging += 1
            self._wake()

        timer = asyncio.get_running_loop().call_later(self._patience_s(), give_away)
        try:
            answer = await self._next(call)
            self._note_outcome(answer, sent)
        finally:
            timer.cancel()
            if hangs:
                self._hanging -= 1
            else:
                self.window.busy -= 1
            self._wake()
        call.given_up = self.window.is_given_up(self._monotonic())
        call.limited = self._limited
        return answer

    def _patience_s(self) -> float:
        return INITIAL_PATIENCE_S if self._usual_s is None else max(MIN_PATIENCE_S, PATIENCE_FACTOR * self._usual_s)

    def _may_send(self) -> bool:
        if self.window.busy + self._hanging >= self.window.most:
            return False
        wait = self.window.seconds_to_wait(self._monotonic())
        if self._spacing is not None:
            self._spacing.cancel()
            self._spacing = None
        if 0 < wait < math.inf:
            self._spacing = asyncio.get_running_loop().call_later(wait, self._end_spacing)
        return wait <= 0

    def _end_spacing(self) -> None:
        self._spacing = None
        self._wake()

    async def _wait_for_slot(self, call: Call) -> Sent:
        """Wait for a free slot. Calls are served in the order of their arrival, but retried calls come first."""
        if call.queue_position is None:
            self._positions += 1
            call.queue_position = self._positions
        if not self._queue and self._may_send():
            return self.window.note_sent(self._monotonic())
        turn: asyncio.Future[Sent] = asyncio.get_running_loop().create_future()
        self._positions += 1
        heapq.heappush(self._queue, (call.queue_position, self._positions, turn))
        self._wake()
        try:
            with call.clocks.pause():
                return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.window.busy -= 1
                self._wake()
            raise

    def _wake(self) -> None:
        while self._queue and self._may_send():
            _, _, turn = heapq.heappop(self._queue)
            if not turn.done():
                turn.set_result(self.window.note_sent(self._monotonic()))

    def _note_outcome(self, answer: Answer, sent: Sent) -> None:
        now = self._monotonic()
        if is_throttled(answer):
            self.window.note_refusal(sent, now, retry_after(answer, self._now()), stated_rate(answer, self._now()))
            if self.window.is_open and (self._trials is None or self._trials.done()):
                self._trials = asyncio.create_task(self._allow_trials())
        elif answer.status < 400:
            took = now - sent.at
            self._usual_s = (
                took if self._usual_s is None else self._usual_s + ANSWER_TIME_WEIGHT * (took - self._usual_s)
            )
            self.window.note_answer(sent, now, full=bool(self._queue) or self.window.busy >= self.window.size)
        if self.window.is_limited:
            self._limited.set()
        else:
            self._limited.clear()

    async def _allow_trials(self) -> None:
        """While the circuit breaker is open, let trials be sent when their time has come; end all waiting calls if the
        account has refused all calls for too long.
        """
        window, now = self.window, self._monotonic
        while not window.is_given_up(now()) and (wait := window.seconds_to_trial(now())) > 0:
            await self._pause(wait)
        if window.is_given_up(now()):
            for _, _, turn in self._queue:
                if not turn.done():
                    turn.set_exception(self._outage_error())
            self._queue.clear()
        elif window.is_open:
            window.allow_trials()
        self._wake()

    def _outage_error(self) -> WireError:
        seconds = self.window.refused_seconds(self._monotonic())
        return WireError(
            f"{self._label} has refused every call for {seconds:.0f} s because of "
            "its rate limit; lower `limits.concurrency`, or raise `limits.rate_limit_wait_s` to let calls wait longer",
            "rate_limited",
            status=429,
        )
