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
from holodeck_action.llm.outcomes import is_away, is_throttled, retry_after
from holodeck_action.llm.rate_headers import stated_rate

PATIENCE_FACTOR = 8.0
"""A call gives up its slot after this multiple of the usual answer time."""
MIN_PATIENCE_S = 2.0
INITIAL_PATIENCE_S = 30.0
"""Seconds after which a call gives up its slot while the usual answer time is unknown."""
SLOWER, LEAST_SHARE = 3.0, 1 / 3
"""A request without an answer is sent once more after this multiple of the account's slowest answer, but not before
this share of the call's time.
"""
MIN_SECOND_TRY_S = 1.0
"""Minimum seconds before a request is sent once more."""
DEADLINE_TOLERANCE_S = 0.05
"""Seconds by which the clocks of a call may differ."""


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
        on_outage: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """Create the link; nothing is sent yet.

        Args:
            next_link: the link that sends requests.
            label: the account's name in messages.
            window: the account's limits.
            monotonic: returns monotonic seconds.
            pause: waits for a number of seconds.
            now: returns the current time, for dates in Retry-After.
            on_outage: called with the reason when the account is given up because it is away, unless something
                can take the place of all of its answers.
        """
        self._next = next_link
        self._label = label
        self.window = window
        self._monotonic, self._pause, self._now = monotonic, pause, now
        self._spacing: asyncio.TimerHandle | None = None
        self._trials: asyncio.Task[None] | None = None
        self._hanging = 0
        self._positions = 0
        self._queue: list[tuple[int, int, asyncio.Future[Sent]]] = []
        self._limited = asyncio.Event()
        self._on_outage = on_outage
        self._is_needed = self._is_over = False
        self._slowest_s = 0.0

    def share(self, sharers: int) -> None:
        """Use one of `sharers` equal shares of the account's limits from now on."""
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
            WireError: `rate_limited`: the account has refused all calls for too long; `connect`: it has been away for
                too long; or an error of the call.
        """
        self._is_needed = self._is_needed or call.context.required
        if self.window.is_away(self._monotonic()):
            self._report_outage()
            raise self._away_error()
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
            answer = await self._answer(call)
            self._note_outcome(answer, sent)
        except WireError as error:
            if is_away(error):
                self._note_failure(sent)
            else:
                self.window.note_nothing(sent)
            raise
        except asyncio.CancelledError:
            deadline = call.context.deadline
            if deadline is not None and deadline.seconds_left() <= DEADLINE_TOLERANCE_S:
                self._note_failure(sent, silent=True)
            else:
                self.window.note_nothing(sent)
            raise
        finally:
            timer.cancel()
            if hangs:
                self._hanging -= 1
            else:
                self.window.busy -= 1
            self._wake()
            call.given_up = self.window.is_given_up(self._monotonic())
            call.held = self.window.is_open
            call.row = self.window.row
            call.limited = self._limited
        return answer

    async def _answer(self, call: Call) -> Answer:
        """Send the request, and once more if nothing comes for long; the first answer counts, and both are paid."""
        deadline = call.context.deadline
        if deadline is None:
            return await self._next(call)
        wait = max(MIN_SECOND_TRY_S, SLOWER * self._slowest_s, LEAST_SHARE * deadline.total_s)
        tries: set[asyncio.Future[Answer]] = {asyncio.ensure_future(self._next(call))}
        ended: set[asyncio.Future[Answer]] = set()
        try:
            ended, _ = await asyncio.wait(tries, timeout=wait)
            if not ended:
                tries.add(asyncio.ensure_future(self._next(call)))
            while True:
                ended, waiting = await asyncio.wait(tries, return_when=asyncio.FIRST_COMPLETED)
                answers = [each for each in ended if each.exception() is None and each.result().status < 300]
                if answers or not waiting:
                    return (answers or [*ended])[0].result()
                tries = waiting
        finally:
            for each in tries:
                each.cancel()
            await asyncio.gather(*tries, return_exceptions=True)

    def _patience_s(self) -> float:
        usual_s = self.window.usual_s
        return INITIAL_PATIENCE_S if usual_s is None else max(MIN_PATIENCE_S, PATIENCE_FACTOR * usual_s)

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
                self.window.note_nothing(turn.result())
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
            self._watch_breaker()
        elif is_away(answer):
            self._note_failure(sent)
        elif answer.status >= 400:
            self.window.note_alive()
        else:
            self._slowest_s = max(self._slowest_s, answer.latency_s)
            self.window.note_answer(sent, now)
        if self.window.is_limited:
            self._limited.set()
        else:
            self._limited.clear()

    def _note_failure(self, sent: Sent, *, silent: bool = False) -> None:
        self.window.note_failure(sent, self._monotonic(), silent=silent)
        self._report_outage()
        self._watch_breaker()

    def _report_outage(self) -> None:
        """Report once that the account is given up, before its calls fail."""
        if self._is_needed and not self._is_over and self.window.is_away(self._monotonic()):
            self._is_over = True
            self._on_outage(self._away_error().message)

    def _watch_breaker(self) -> None:
        """Let trials be sent while the breaker is open, and end waiting calls if the account is given up."""
        waits = self.window.is_open or self.window.is_away(self._monotonic())
        if waits and (self._trials is None or self._trials.done()):
            self._trials = asyncio.create_task(self._allow_trials())

    async def _allow_trials(self) -> None:
        """While the circuit breaker is open, let trials be sent when their time has come; end all waiting calls if the
        account has refused all calls for too long.
        """
        window, now = self.window, self._monotonic
        while not window.is_given_up(now()) and (wait := window.seconds_to_trial(now())) > 0:
            await self._pause(wait)
        if window.is_given_up(now()):
            self._report_outage()
            error = self._away_error() if window.is_away(now()) else self._outage_error()
            for _, _, turn in self._queue:
                if not turn.done():
                    turn.set_exception(error)
            self._queue.clear()
        elif window.is_open:
            window.allow_trials()
        self._wake()

    def _away_error(self) -> WireError:
        seconds = self.window.away_seconds(self._monotonic())
        remedy = "start the server or repair the connection"
        if self.window.is_silent:
            remedy = f"{remedy}, raise `limits.turn_timeout_s` if it only needs longer"
        return WireError(
            f"{self._label} has given no answer for {seconds:.0f} s; {remedy}, and run again with `--resume`", "connect"
        )

    def _outage_error(self) -> WireError:
        seconds = self.window.refused_seconds(self._monotonic())
        return WireError(
            f"{self._label} has refused every call for {seconds:.0f} s because of "
            "its rate limit; lower `limits.concurrency`, or raise `limits.rate_limit_wait_s` to let calls wait longer",
            "rate_limited",
            status=429,
        )
