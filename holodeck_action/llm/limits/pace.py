"""How many requests a second an account takes, where its refusals are about that: found by trying.

A limit of requests a second refuses whole rows of requests, also with no more under way than were answered at once
before. From then on no more requests leave within a second than the account took, and as close together as those that
it took. An account that refuses these, too, fills up evenly (a token bucket): its requests leave evenly. The longer it
refuses nothing, the quicker the rate grows. Where a slower pace is refused as often, the refusals are not about it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

SPAN_S = 1.0
"""Seconds over which accepted requests are counted: services keep their limits in spans of about a second."""
ROW = 3
"""Refusals one after the other that begin a pace."""
BELOW = 0.97
"""Share of the accepted rate at which requests leave: a service sees them at times that are a little different."""
GROWTH = 0.02
"""Requests a second more with each answer right after a refusal; doubled with each second without one."""
FASTEST_DOUBLINGS = 12.0
GROWN = 1.1
"""How many times what it was a rate is much more."""
JUDGED = 8
"""Outcomes after which a pace is judged."""
MUCH = 0.3
"""Share of refusals among them with which it is not right."""
WRONG_S = 10.0
"""Seconds in which a pace that is found wrong twice is none."""
UNRELATED_S = 60.0
"""Seconds for which no pace is tried after one that changed nothing."""
FORGETTING = 0.98
"""What is left with every answer of the most that were answered at once."""
CLOSER = 5
"""How many times closer together than evenly requests leave at most: the first refusal stops those that follow."""
MOST_GAP_S = 0.05
"""Most seconds between the first requests that follow refusals alone."""
LATE_S = 0.5
"""Most seconds for which an account is believed to count a request after it was sent."""
LEAST, MOST = 1.0, 1_000.0
"""Requests a second of a pace."""


class Pace:
    """The pace of one account; times are monotonic seconds."""

    def __init__(self, rate: float | None = None) -> None:
        """Begin without one, or with requests a second that are known from before."""
        self._rate = rate
        self._kept = rate or LEAST
        self._untested = rate is not None
        self._soon = self._next = self._changed = self._since = float("-inf")
        self._unrelated_until = self._wrong_until = float("-inf")
        self._even = rate is not None
        self._sent: deque[float] = deque()
        self._gap = self._late = 0.0
        self._alone = self._row_began = float("-inf")
        self._accepted: deque[float] = deque()
        self._answers: deque[tuple[float, float]] = deque()
        self._carried = 0.0
        self._first = False
        self._row = self._good = self._bad = 0

    @property
    def rate(self) -> float | None:
        """Requests a second; None where nothing is known to limit them."""
        return self._rate

    def wait(self, now: float) -> float:
        """Return the seconds until the next request may leave."""
        if self._even:
            return max(0.0, self._next - now)
        free = self._soon
        if self._rate is not None and len(self._sent) >= (most := int(self._rate)):
            # The request that is so many before the next one must be out of the span.
            free = max(free, self._sent[-most] + SPAN_S / BELOW)
        return max(0.0, free - now)

    def sent(self, now: float) -> None:
        """Take note of a request that leaves."""
        if self._rate is None:
            if self._accepted:
                self._soon = now + self._gap
            return
        if self._changed == float("-inf"):
            # A rate from before is tried from now on.
            self._changed = self._since = now
        self._soon = now + 1 / (CLOSER * self._rate)
        self._next = max(now, self._next) + 1 / (BELOW * self._rate)
        self._sent.append(now)
        while self._sent[0] < now - 2 * SPAN_S:
            self._sent.popleft()

    def answered(self, started: float, now: float, pending: Iterable[float], *, first: bool, full: bool) -> None:
        """Take note of a good answer.

        Args:
            started: when its request was sent.
            now: when it came.
            pending: when the requests were sent that are under way.
            first: whether its call had not been sent before: an account that refuses each call some times, whatever
                the pace, takes none of these.
            full: whether more would have been sent if they might.
        """
        if started >= self._row_began:
            # What was sent before the refused ones says nothing about them.
            self._row = 0
        if started >= self._alone:
            self._gap = 0.0
        self._first = self._first or first
        self._accepted.append(started)
        while self._accepted[0] < started - 2 * SPAN_S:
            self._accepted.popleft()
        self._answers.append((started, now))
        oldest = min(pending, default=now)
        while self._answers[0][1] < min(oldest, started):
            self._answers.popleft()
        at_once = sum(begun <= started < ended for begun, ended in self._answers)
        self._carried = max(float(at_once), FORGETTING * self._carried)
        if self._rate is None:
            return
        self._judge(started, now, refused=False)
        if full and self._rate is not None:
            calm_s = min(max(0.0, now - self._changed), FASTEST_DOUBLINGS)
            self._rate = min(self._rate + GROWTH * 2.0**calm_s, MOST)

    def refused_alone(self, started: float, now: float) -> None:
        """Take note of a refusal before any good answer; times are those of `refused`.

        What follows the first answers leaves one request after the other, so that few have left when the first of them
        is refused.
        """
        took = now - started
        self._late = max(self._late, took)
        self._gap = min(took, self._gap or took, MOST_GAP_S)
        self._alone = now

    def refused(
        self, started: float, now: float, pending: Iterable[float], beside: int, stated: float | None = None
    ) -> bool:
        """Take note of a refusal among good answers.

        Args:
            started: when its request was sent.
            now: when it came.
            pending: when the requests were sent that are under way.
            beside: how many were under way when it was sent, itself included.
            stated: requests a second that the account states; None if it states none.

        Returns:
            Whether it is about the pace.
        """
        if not self._row:
            self._row_began = started
        self._row += 1
        self._late = max(self._late, now - started)
        # Those sent clearly before it would have been refused by now.
        taken = [*self._accepted, *(each for each in pending if each < started - (now - started))]
        taken = [each for each in taken if started - SPAN_S < each <= started]
        if stated is not None and (self._rate is None or self._untested) and now >= self._unrelated_until:
            self._begin(taken, now, stated)
            return True
        if self._rate is None:
            if not (self._first and beside <= self._carried and self._row >= ROW and taken):
                return False
            if now < self._unrelated_until:
                return False
            self._begin(taken, now)
            return True
        if self._untested and taken:
            # What was taken before says less than what is taken now.
            self._begin(taken, now)
            return True
        self._judge(started, now, refused=True)
        if self._rate is not None and started > self._changed:
            # Far above what it was it grew too quickly; near it, a little less will do.
            grown = self._rate > GROWN * self._kept
            if self._even:
                self._set(max(len(taken) / SPAN_S, self._kept) if grown else BELOW * self._rate, now, judged=False)
            else:
                # No more within a span than were taken, and yet refused: they were too close together.
                self._even = self._row >= ROW and self._rate < self._kept + 1
                self._set(self._kept, now)
        return self._rate is not None

    def shut(self, now: float) -> None:
        """Take note that the account takes nothing now, which is not about the pace."""
        self._since = now
        self._good = self._bad = 0

    def _begin(self, taken: Sequence[float], now: float, stated: float | None = None) -> None:
        """Begin with what was taken within `SPAN_S`, or with what is stated: that fills up evenly.

        The next request leaves when the first of those taken is out of the span: that holds for windows and buckets.
        The account counted them up to as long after they were sent as its refusals took to come.
        """
        self._untested = False
        self._even = stated is not None
        self._set(len(taken) / SPAN_S if stated is None else stated, now)
        late = min(self._late, LATE_S)
        self._sent = deque(sorted(each + late for each in taken))
        self._next = max(now, min(self._sent, default=now) + SPAN_S)
        self._late = 0.0

    def _set(self, rate: float, now: float, *, judged: bool = True) -> None:
        self._rate = self._kept = min(max(rate, LEAST), MOST)
        self._changed = now
        if judged:
            self._since = now
            self._good = self._bad = 0

    def _judge(self, started: float, now: float, *, refused: bool) -> None:
        """See whether the account takes most of what leaves evenly at this rate."""
        if started < self._since or not self._even:
            return
        self._bad += refused
        self._good += not refused
        if self._good + self._bad < JUDGED:
            return
        if self._bad > MUCH * JUDGED:
            if now < self._wrong_until:
                # It was set to what the account took, which then took less.
                self._rate, self._unrelated_until = None, now + UNRELATED_S
                return
            self._wrong_until = now + WRONG_S
            self._set(self._good / max(now - self._since, SPAN_S / JUDGED), now)
        self._since, self._good, self._bad = now, 0, 0
