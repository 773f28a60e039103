"""Limits the requests to one account: how many may be in progress, and in which order waiting calls are sent.

In the chain of links (`calls.Link`) this link comes after the retries, because providers count attempts, and a call
that waits for its next attempt must not occupy a slot, the permission to have one request in progress. At first all
possible requests are sent at once; refusals show how many concurrent requests (`Window`) or requests per second
(`pace`) the account accepts, and whether it refuses single calls or all (`circuit_breaker`). A hanging call gives up
its slot, because a few such calls would block a small window.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import datetime

from holodeck_action.llm.calls import Answer, Call, Link, WireError
from holodeck_action.llm.limits.circuit_breaker import CircuitBreaker
from holodeck_action.llm.limits.pace import Pace
from holodeck_action.llm.outcomes import is_throttled, retry_after
from holodeck_action.llm.rate_headers import stated_rate

GROWTH = 2
"""Number of requests by which the window grows with each answer before the first refusal. The window thus triples with
each round of answers."""
DECREASE = 0.85
"""Fraction of the window's ceiling to which a refusal shrinks the window, because the account accepts more requests
only when earlier ones have ended.
"""
HOLD_FACTOR = 8.0
"""Seconds for which a ceiling is kept, per second of Retry-After; a refused call waits at least as long as Retry-After.
"""
MAX_HOLD_S = 120.0
"""Maximum seconds for which a ceiling is kept."""
MIN_WINDOW = 4
"""Refusals do not shrink the window below this number; or, if smaller, below the number of requests that were just
answered concurrently.
"""
DECAY = 0.98
"""Factor by which the stored maximum of concurrently answered requests is multiplied with every answer."""
REFUSAL_WEIGHT = 0.15
"""Weight of the newest outcome in the moving average of refusals."""
MIN_OUTCOMES = 5
"""Minimum number of outcomes from which a refusal rate is computed."""
HIGH_REFUSAL_RATE = 0.15
"""If the refusal rate with one request in progress is above this value, concurrency is not the cause of refusals."""
USEFUL_REDUCTION = 0.5
"""A smaller window is useful if the refusal rate with half as many concurrent requests is at most this fraction of the
previous rate."""


class _RefusalRate:
    """The refusal rate at one level of concurrency."""

    def __init__(self) -> None:
        self.value = 0.0
        self.count = 0

    def add(self, refused: bool) -> None:
        self.count += 1
        self.value += max(REFUSAL_WEIGHT, 1 / self.count) * (refused - self.value)


class Window:
    """The number of requests that an account may have in progress, found by probing as in TCP congestion control.

    Until the first refusal all requests are sent at once, or the window grows by `GROWTH` per answer (slow start). The
    ceiling is then the number of requests in progress minus the refused ones, but at least half of the requests in
    progress. Above the ceiling, the window grows by one request after each round of as many answers as the ceiling
    (additive increase), and shrinks by one request per refusal. If smaller windows are refused as often, concurrency is
    not the cause, and the window grows again. The window does not shrink below `MIN_WINDOW`, or below the number of
    requests that were just answered concurrently if it is smaller, so that a rate limit delays calls without stopping
    them. Times are monotonic seconds.
    """

    def __init__(self, limit: int, start: int | None = None) -> None:
        """Create the window.

        Args:
            limit: maximum of concurrent requests, at least 1.
            start: number of concurrent requests at the start, at least 1; None to start with the maximum.
        """
        self._most = float(limit)
        self._size = float(limit if start is None else min(start, limit))
        self._ceiling = float(limit)
        self._wave = 0
        self._decreased = float("-inf")
        self._answered = 0
        self._hold_until = float("-inf")
        self._ends: deque[float] = deque()
        self._at_once = 0.0
        self._shares: dict[int, _RefusalRate] = {}

    @property
    def size(self) -> int:
        """Number of requests that may be in progress now."""
        return int(self._size)

    def limit_to(self, ceiling: int) -> None:
        """Lower the window's size and ceiling to a number of requests; both grow again later."""
        self._answered = 0
        self._ceiling = self._size = min(float(max(1, ceiling)), self._most)

    def note_answer(self, started: float, now: float, concurrent: int, *, full: bool) -> None:
        """Record a successful answer.

        Args:
            started: when the request was sent.
            now: when the answer arrived.
            concurrent: maximum number of requests in progress at the same time as this one, including itself.
            full: whether more requests would have been sent if allowed.
        """
        self._refusal_rate_at(concurrent).add(False)
        self._ends.append(now)
        while self._ends[0] < started:
            self._ends.popleft()
        self._at_once = max(float(len(self._ends)), DECAY * self._at_once)
        if not full:
            return
        if self._size < self._ceiling:
            self._size = min(self._size + (GROWTH if self._ceiling == self._most else 1), self._ceiling)
        elif now >= self._hold_until and self._ceiling < self._most:
            self._answered += 1
            if self._answered >= self._ceiling:
                self._answered = 0
                self._ceiling = self._size = min(self._ceiling + 1, self._most)

    def note_refusal(self, started: float, now: float, concurrent: int, requested_s: float | None) -> None:
        """Record a refusal between successful answers.

        Args:
            started: when the request was sent.
            now: when the refusal arrived.
            concurrent: see `note_answer`.
            requested_s: waiting time in seconds that the provider requests; None if the header is missing or
                implausible.
        """
        share = self._refusal_rate_at(concurrent)
        share.add(True)
        fewer = self._shares.get(concurrent.bit_length() - 1)
        if fewer is not None and fewer.count >= MIN_OUTCOMES and fewer.value > USEFUL_REDUCTION * share.value:
            return
        if concurrent == 1 and share.count >= MIN_OUTCOMES and share.value > HIGH_REFUSAL_RATE:
            self._ceiling = self._most
            self._hold_until = now
            return
        if requested_s is not None:
            self._hold_until = max(self._hold_until, now + min(HOLD_FACTOR * requested_s, MAX_HOLD_S))
        if started >= self._decreased:
            self._decreased = now
            self._wave = min(concurrent, self.size)
            self._lower_ceiling(self._wave - 1)
        else:
            # Another refusal of the same wave lowers the ceiling by one, at most to half of the wave.
            self._lower_ceiling(max(self._ceiling - 1, self._wave / 2))

    def _lower_ceiling(self, ceiling: float) -> None:
        least = float(max(1, min(MIN_WINDOW, int(self._at_once))))
        self._answered = 0
        self._ceiling = float(max(least, int(ceiling)))
        self._size = min(self._size, max(least, self._ceiling * DECREASE))

    def _refusal_rate_at(self, concurrent: int) -> _RefusalRate:
        return self._shares.setdefault(concurrent.bit_length(), _RefusalRate())


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
        max_concurrent: int,
        *,
        monotonic: Callable[[], float],
        pause: Callable[[float], Awaitable[None]],
        now: Callable[[], datetime],
        longest_wait_s: float,
        patience_s: float = MIN_PATIENCE_S,
        rate: float | None = None,
    ) -> None:
        """Create the link; nothing is sent yet.

        Args:
            next_link: the link that sends requests.
            label: the account's name in messages.
            max_concurrent: maximum of concurrent requests, at least 1.
            monotonic: returns monotonic seconds.
            pause: waits for a number of seconds.
            now: returns the current time, for dates in Retry-After.
            longest_wait_s: seconds without a successful answer after which calls no longer wait.
            patience_s: minimum seconds after which a call gives up its slot.
            rate: requests per second that the account accepted before; None if unknown.
        """
        self._next = next_link
        self._label = label
        self._most = max_concurrent
        self._monotonic, self._pause, self._now = monotonic, pause, now
        self._min_patience_s = patience_s
        self._window = Window(max_concurrent)
        self._pace = Pace(rate)
        self._paced: asyncio.TimerHandle | None = None
        self._breaker = CircuitBreaker(longest_wait_s)
        self._breaker_task: asyncio.Task[None] | None = None
        self._taken = 0
        self._begun: list[float] = []
        self._hanging = 0
        self._usual_s: float | None = None
        self._positions = 0
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []

    @property
    def window(self) -> int:
        """Number of requests that may be in progress now."""
        return self._window.size

    @property
    def rate(self) -> float | None:
        """Requests per second that may be sent now; None if unlimited."""
        return self._pace.rate

    async def close(self) -> None:
        """Cancel the tasks that wait for the circuit breaker or for the limited rate."""
        if self._paced is not None:
            self._paced.cancel()
        if self._breaker_task is not None:
            self._breaker_task.cancel()
            await asyncio.gather(self._breaker_task, return_exceptions=True)

    async def __call__(self, call: Call) -> Answer:
        """Send the request when it is the call's turn; the call's clocks pause until then.

        Raises:
            WireError: `rate_limited`: the account has refused all calls for too long; or an error of the call.
        """
        await self._wait_for_slot(call)
        hangs = False

        def give_away() -> None:
            nonlocal hangs
            hangs = True
            self._taken -= 1
            self._begun.remove(started)
            self._hanging += 1
            self._wake()

        try:
            started = self._monotonic()
            self._begun.append(started)
            in_flight = busy = len(self._begun)
            timer = asyncio.get_running_loop().call_later(self._patience_s(), give_away)
            try:
                answer = await self._next(call)
                # Requests sent later were in progress at the same time, too.
                busy = max(busy, len(self._begun))
            finally:
                timer.cancel()
                if not hangs:
                    self._begun.remove(started)
            self._note_outcome(answer, started, max(1, busy), in_flight, call.attempts <= 1)
        finally:
            if hangs:
                self._hanging -= 1
            else:
                self._taken -= 1
            self._wake()
        call.given_up = self._breaker.is_given_up(self._monotonic())
        call.paced = self._pace.rate is not None
        return answer

    def _patience_s(self) -> float:
        return (
            INITIAL_PATIENCE_S if self._usual_s is None else max(self._min_patience_s, PATIENCE_FACTOR * self._usual_s)
        )

    def _has_free_slot(self) -> bool:
        if self._breaker.is_open and not self._breaker.trials and not self._breaker.is_given_up(self._monotonic()):
            return False
        if not (self._taken < self.window and self._taken + self._hanging < self._most):
            return False
        wait = self._pace.seconds_to_wait(self._monotonic())
        if wait > 0 and (self._paced is None or self._paced.cancelled()):
            self._paced = asyncio.get_running_loop().call_later(wait, self._resume_paced)
        return wait <= 0

    def _resume_paced(self) -> None:
        self._paced = None
        self._wake()

    def _occupy(self) -> None:
        self._taken += 1
        self._pace.note_sent(self._monotonic())
        if self._breaker.trials:
            self._breaker.trials -= 1

    async def _wait_for_slot(self, call: Call) -> None:
        """Wait for a free slot. Calls are served in the order of their arrival, but retried calls come first."""
        if call.queue_position is None:
            self._positions += 1
            call.queue_position = self._positions
        if self._has_free_slot() and not self._queue:
            self._occupy()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._positions += 1
        heapq.heappush(self._queue, (call.queue_position, self._positions, turn))
        self._wake()
        try:
            with call.clocks.pause():
                await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._taken -= 1
                self._wake()
            raise

    def _wake(self) -> None:
        while self._queue and self._has_free_slot():
            _, _, turn = heapq.heappop(self._queue)
            if not turn.done():
                self._occupy()
                turn.set_result(None)

    def _note_outcome(self, answer: Answer, started: float, concurrent: int, in_flight: int, is_first: bool) -> None:
        now = self._monotonic()
        if is_throttled(answer):
            requested_s = retry_after(answer, self._now())
            stated = stated_rate(answer, self._now())
            # Without successful answers refusals do not show the limit, unless their headers state it.
            if self._breaker.has_recent_answers or stated is not None:
                self._note_refusal(started, now, concurrent, in_flight, requested_s, stated)
            elif self._breaker.has_no_answers:
                # The requests still in progress are those that the account accepted.
                self._window.limit_to(len(self._begun) or self._most)
                self._pace.note_early_refusal(started, now)
            self._breaker.note_refusal(now, requested_s)
            if self._breaker.is_open:
                self._pace.note_shutdown(now)
                if self._breaker_task is None or self._breaker_task.done():
                    self._breaker_task = asyncio.create_task(self._close_breaker())
        elif answer.status < 400:
            self._breaker.note_answer()
            self._update_usual_time(now - started)
            full = bool(self._queue) or self._taken >= self.window
            self._window.note_answer(started, now, concurrent, full=full)
            self._pace.note_answer(started, now, self._begun, first=is_first, full=bool(self._queue))
            self._wake()

    def _note_refusal(
        self,
        started: float,
        now: float,
        concurrent: int,
        in_flight: int,
        requested_s: float | None,
        stated_rate: float | None,
    ) -> None:
        if self._pace.rate is None:
            self._window.note_refusal(started, now, concurrent, requested_s)
        if self._pace.note_refusal(started, now, self._begun, in_flight, stated_rate):
            # The refusal was about the rate, not about concurrency.
            self._window.limit_to(self._most)

    def _update_usual_time(self, seconds: float) -> None:
        self._usual_s = (
            seconds if self._usual_s is None else self._usual_s + ANSWER_TIME_WEIGHT * (seconds - self._usual_s)
        )

    async def _close_breaker(self) -> None:
        """While the circuit breaker is open, let trial calls be sent when their time has come; end all waiting calls if
        the account has refused all calls for too long.
        """
        breaker, now = self._breaker, self._monotonic
        while not breaker.is_given_up(now()) and (wait := breaker.seconds_to_wait(now())) > 0:
            await self._pause(wait)
        if breaker.is_given_up(now()):
            for _, _, turn in self._queue:
                if not turn.done():
                    turn.set_exception(self._outage_error())
            self._queue.clear()
        elif breaker.is_open:
            breaker.allow_trials()
        self._wake()

    def _outage_error(self) -> WireError:
        return outage_error(self._label, self._breaker.refused_seconds(self._monotonic()))


def outage_error(label: str, seconds: float) -> WireError:
    """Return the error for calls to an account that has refused all calls for `seconds`."""
    return WireError(
        f"{label} has refused every call for {seconds:.0f} s because of "
        "its rate limit; lower `limits.concurrency`, or raise `limits.rate_limit_wait_s` to let calls wait longer",
        "rate_limited",
        status=429,
    )
