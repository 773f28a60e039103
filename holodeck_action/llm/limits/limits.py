"""The place of one account's requests: how many may be under way, who is next, and who waits while it refuses all.

The limit is below the retries: what the provider counts is attempts, and a call that waits for its next one takes
nobody's place. All that may be asked at once is, from the first moment; refusals tell how many at once (`Window`) or
how many a second (`pace`) the account takes. Whether a refusal concerns one call or all is found by trying (`gate`). A
call that hangs gives its place away: a few of them would stop a small window.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import datetime

from holodeck_action.llm.calls import Answer, Call, Link, WireError
from holodeck_action.llm.limits.gate import Gate
from holodeck_action.llm.limits.pace import Pace
from holodeck_action.llm.outcomes import held_off, retry_after
from holodeck_action.llm.rate_headers import stated_rate

GROWTH = 2
"""Requests more for every answer before the first refusal: three times as many with each round of answers."""
DECREASE = 0.85
"""What is left of the ceiling after a refusal: the account must drain before it takes more."""
HOLD = 8.0
"""How many times a Retry-After a ceiling is kept after it: a call that is refused for more waits as long as that."""
HOLD_MOST_S = 120.0
"""Most seconds for which a ceiling is kept."""
FEW = 4
"""Most requests at once that a wave of refusals leaves, where so many have just been answered."""
FORGETTING = 0.98
"""What is left with every answer of the most that were answered at once."""
WEIGHT = 0.15
"""Weight of the newest outcome in the share of refusals, a moving average."""
KNOWN = 5
"""Outcomes after which a share of refusals tells something."""
MUCH = 0.15
"""Share of refusals, with one request under way, that says that it is not about how many there are."""
BETTER = 0.5
"""What a share of refusals must fall to, with half as many under way, for fewer at once to help."""


class _Share:
    """The share of refusals among the outcomes with so many under way."""

    def __init__(self) -> None:
        self.value = 0.0
        self.count = 0

    def add(self, refused: bool) -> None:
        self.count += 1
        self.value += max(WEIGHT, 1 / self.count) * (refused - self.value)


class Window:
    """How many requests an account may have under way: found by trying, as TCP finds a line's capacity.

    All at once, or slow start (`GROWTH` more for every answer), up to the first refusal. What was under way without
    those refused is the ceiling that is kept, at least half of it. Above a ceiling it is additive increase (one more
    for every ceiling of answers): a refusal that only says no costs one request. Not every refusal is about the number
    under way: where fewer at once are refused as often, lowering it would only take time, and it is raised again. Nor
    is it lowered below what has just been answered at once, up to a few, so that a rate per second is met by those who
    wait and not by standing still. Times are monotonic seconds.
    """

    def __init__(self, most: int, start: int | None = None) -> None:
        """Start.

        Args:
            most: requests that are never exceeded, at least 1.
            start: requests at once in the beginning, at least 1; None for all.
        """
        self._most = float(most)
        self._size = float(most if start is None else min(start, most))
        self._ceiling = float(most)
        self._wave = 0
        self._decreased = float("-inf")
        self._answered = 0
        self._hold_until = float("-inf")
        self._ends: deque[float] = deque()
        self._at_once = 0.0
        self._shares: dict[int, _Share] = {}

    @property
    def size(self) -> int:
        """How many requests may be under way now."""
        return int(self._size)

    def limited_to(self, ceiling: int) -> None:
        """Keep to so many, and try more later."""
        self._answered = 0
        self._ceiling = self._size = min(float(max(1, ceiling)), self._most)

    def answered(self, started: float, now: float, busy: int, *, full: bool) -> None:
        """Take note of a good answer.

        Args:
            started: when its request was sent.
            now: when it came.
            busy: most that were under way beside it, itself included.
            full: whether more would have been sent if they might.
        """
        self._share(busy).add(False)
        self._ends.append(now)
        while self._ends[0] < started:
            self._ends.popleft()
        self._at_once = max(float(len(self._ends)), FORGETTING * self._at_once)
        if not full:
            return
        if self._size < self._ceiling:
            self._size = min(self._size + (GROWTH if self._ceiling == self._most else 1), self._ceiling)
        elif now >= self._hold_until and self._ceiling < self._most:
            self._answered += 1
            if self._answered >= self._ceiling:
                self._answered = 0
                self._ceiling = self._size = min(self._ceiling + 1, self._most)

    def refused(self, started: float, now: float, busy: int, asked: float | None) -> None:
        """Take note of a refusal among good answers.

        Args:
            started: when its request was sent.
            now: when it came.
            busy: as for `answered`.
            asked: the seconds that the provider asks to wait, None where it says nothing that can be believed.
        """
        share = self._share(busy)
        share.add(True)
        fewer = self._shares.get(busy.bit_length() - 1)
        if fewer is not None and fewer.count >= KNOWN and fewer.value > BETTER * share.value:
            return
        if busy == 1 and share.count >= KNOWN and share.value > MUCH:
            self._ceiling = self._most
            self._hold_until = now
            return
        if asked is not None:
            self._hold_until = max(self._hold_until, now + min(HOLD * asked, HOLD_MOST_S))
        if started >= self._decreased:
            self._decreased = now
            self._wave = min(busy, self.size)
            self._lower(self._wave - 1)
        else:
            # One more of the same wave: the account carries one less than thought, never less than half of it.
            self._lower(max(self._ceiling - 1, self._wave / 2))

    def _lower(self, ceiling: float) -> None:
        least = float(max(1, min(FEW, int(self._at_once))))
        self._answered = 0
        self._ceiling = float(max(least, int(ceiling)))
        self._size = min(self._size, max(least, self._ceiling * DECREASE))

    def _share(self, busy: int) -> _Share:
        return self._shares.setdefault(busy.bit_length(), _Share())


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
        label: str,
        most: int,
        *,
        monotonic: Callable[[], float],
        pause: Callable[[float], Awaitable[None]],
        now: Callable[[], datetime],
        longest_wait_s: float,
        patience_s: float = PATIENCE_LEAST_S,
        rate: float | None = None,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            next_link: what sends.
            label: the account, for messages.
            most: requests that are never exceeded, at least 1.
            monotonic: seconds.
            pause: waits for seconds.
            now: the time of day, for dates in Retry-After.
            longest_wait_s: seconds of refusals alone after which calls do not wait any longer.
            patience_s: least seconds after which a call hangs.
            rate: requests a second that the account took before; None if that is not known.
        """
        self._next = next_link
        self._label = label
        self._most = most
        self._monotonic, self._pause, self._now = monotonic, pause, now
        self._least_patience_s = patience_s
        self._window = Window(most)
        self._pace = Pace(rate)
        self._paced: asyncio.TimerHandle | None = None
        self._gate = Gate(longest_wait_s)
        self._opener: asyncio.Task[None] | None = None
        self._taken = 0
        self._begun: list[float] = []
        self._hanging = 0
        self._usual_s: float | None = None
        self._places = 0
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []

    @property
    def window(self) -> int:
        """How many requests may be under way now."""
        return self._window.size

    @property
    def rate(self) -> float | None:
        """How many requests a second may be sent now; None where that is not limited."""
        return self._pace.rate

    async def close(self) -> None:
        """End what waits for the gate and the pace."""
        if self._paced is not None:
            self._paced.cancel()
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
            self._begun.remove(started)
            self._hanging += 1
            self._wake()

        try:
            started = self._monotonic()
            self._begun.append(started)
            beside = busy = len(self._begun)
            timer = asyncio.get_running_loop().call_later(self._patience_s(), give_away)
            try:
                answer = await self._next(call)
                # Those sent after it were under way beside it, too.
                busy = max(busy, len(self._begun))
            finally:
                timer.cancel()
                if not hangs:
                    self._begun.remove(started)
            self._learn(answer, started, max(1, busy), beside, call.attempts <= 1)
        finally:
            if hangs:
                self._hanging -= 1
            else:
                self._taken -= 1
            self._wake()
        call.given_up = self._gate.given_up(self._monotonic())
        call.paced = self._pace.rate is not None
        return answer

    def _patience_s(self) -> float:
        return PATIENCE_FIRST_S if self._usual_s is None else max(self._least_patience_s, PATIENCE * self._usual_s)

    def _free(self) -> bool:
        if self._gate.shut and not self._gate.tries and not self._gate.given_up(self._monotonic()):
            return False
        if not (self._taken < self.window and self._taken + self._hanging < self._most):
            return False
        wait = self._pace.wait(self._monotonic())
        if wait > 0 and (self._paced is None or self._paced.cancelled()):
            self._paced = asyncio.get_running_loop().call_later(wait, self._its_time)
        return wait <= 0

    def _its_time(self) -> None:
        self._paced = None
        self._wake()

    def _occupy(self) -> None:
        self._taken += 1
        self._pace.sent(self._monotonic())
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

    def _learn(self, answer: Answer, started: float, busy: int, beside: int, first: bool) -> None:
        now = self._monotonic()
        if held_off(answer):
            asked = retry_after(answer, self._now())
            stated = stated_rate(answer, self._now())
            # Refusals alone say nothing about how many are too many, unless they state it.
            if self._gate.among_answers or stated is not None:
                self._refused(started, now, busy, beside, asked, stated)
            elif self._gate.unanswered:
                # Those that are still under way are, in the end, what the account took of all that were sent.
                self._window.limited_to(len(self._begun) or self._most)
                self._pace.refused_alone(started, now)
            self._gate.refused(now, asked)
            if self._gate.shut:
                self._pace.shut(now)
                if self._opener is None or self._opener.done():
                    self._opener = asyncio.create_task(self._open())
        elif answer.status < 400:
            self._gate.answered()
            self._note_usual(now - started)
            full = bool(self._queue) or self._taken >= self.window
            self._window.answered(started, now, busy, full=full)
            self._pace.answered(started, now, self._begun, first=first, full=bool(self._queue))
            self._wake()

    def _refused(
        self, started: float, now: float, busy: int, beside: int, asked: float | None, stated: float | None
    ) -> None:
        if self._pace.rate is None:
            self._window.refused(started, now, busy, asked)
        if self._pace.refused(started, now, self._begun, beside, stated):
            # It was not about how many are under way.
            self._window.limited_to(self._most)

    def _note_usual(self, took: float) -> None:
        self._usual_s = took if self._usual_s is None else self._usual_s + USUAL_WEIGHT * (took - self._usual_s)

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
        return given_up(self._label, self._gate.refused_for(self._monotonic()))


def given_up(label: str, seconds: float) -> WireError:
    """Return the error of calls to an account that has given refusals alone for so many seconds."""
    return WireError(
        f"{label} has refused every call for {seconds:.0f} s because of "
        "its rate limit; lower `limits.concurrency`, or let calls wait longer by `limits.rate_limit_wait_s`",
        "rate_limited",
        status=429,
    )
