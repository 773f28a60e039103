"""Finds by probing how many requests per second an account accepts.

If several requests in a row are refused, but as many concurrent requests were answered before, the account is assumed
to limit the rate. From then on, at most as many requests are sent per second as the account accepted within a second.
If these are refused too, the account probably uses a token bucket, which refills evenly, so requests are sent at even
intervals. The longer there is no refusal, the faster the rate grows. If a lower rate does not reduce the refusals, the
rate is not their cause, and it is no longer limited.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

COUNTED_S = 1.0
"""Seconds over which accepted requests are counted; services apply their limits to periods of about a second."""
REFUSALS_IN_A_ROW = 3
"""Number of refusals in a row after which the rate is limited."""
SENT_FRACTION = 0.97
"""Requests are sent at this fraction of the accepted rate, because they arrive at slightly different intervals."""
GROWTH = 0.02
"""Increase in requests per second with each answer; it doubles with each second since the rate was last set."""
MAX_DOUBLINGS = 12.0
"""Maximum number of seconds for which `GROWTH` is doubled."""
MUCH_HIGHER = 1.1
"""Factor by which a rate must have grown to be considered much higher."""
MIN_OUTCOMES = 8
"""Number of outcomes after which the refusal rate of a limited rate is checked."""
HIGH_REFUSAL_RATE = 0.3
"""If the share of refused requests is above this value, the limited rate is considered wrong."""
TWICE_WRONG_S = 10.0
"""If a rate is found wrong twice within these seconds, the rate is no longer limited."""
UNLIMITED_S = 60.0
"""Seconds for which the rate stays unlimited after a limit that did not reduce refusals."""
DECAY = 0.98
"""Factor by which the stored maximum of concurrently answered requests is multiplied with every answer."""
MAX_BURST_FACTOR = 5
"""The interval between two requests may be shorter than with even spacing, at most by this factor."""
MAX_GAP_S = 0.05
"""Maximum seconds between the first requests after early refusals."""
MAX_LATE_S = 0.5
"""Maximum seconds for which an account may count a request after it was sent."""
MIN_RATE, MAX_RATE = 1.0, 1_000.0
"""Lowest and highest rate in requests per second."""


class Pace:
    """The rate, in requests per second, at which requests are sent to one account; times are monotonic seconds."""

    def __init__(self, rate: float | None = None) -> None:
        """Create the instance without a limit, or limited to `rate` requests per second, measured in an earlier run."""
        self._rate = rate
        self._kept = rate or MIN_RATE
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
        """Requests per second; None if unlimited."""
        return self._rate

    def seconds_to_wait(self, now: float) -> float:
        """Return the seconds until the next request may be sent."""
        if self._even:
            return max(0.0, self._next - now)
        free = self._soon
        if self._rate is not None and len(self._sent) >= (most := int(self._rate)):
            # The request that is `most` requests back must be older than the counted period.
            free = max(free, self._sent[-most] + COUNTED_S / SENT_FRACTION)
        return max(0.0, free - now)

    def note_sent(self, now: float) -> None:
        """Record that a request is sent."""
        if self._rate is None:
            if self._accepted:
                self._soon = now + self._gap
            return
        if self._changed == float("-inf"):
            # A rate of an earlier run is tested from now on.
            self._changed = self._since = now
        self._soon = now + 1 / (MAX_BURST_FACTOR * self._rate)
        self._next = max(now, self._next) + 1 / (SENT_FRACTION * self._rate)
        self._sent.append(now)
        while self._sent[0] < now - 2 * COUNTED_S:
            self._sent.popleft()

    def note_answer(self, started: float, now: float, pending: Iterable[float], *, first: bool, full: bool) -> None:
        """Record a successful answer.

        Args:
            started: when the request was sent.
            now: when the answer arrived.
            pending: sending times of the requests in progress.
            first: whether it was the call's first attempt; some accounts refuse the first attempts of every call,
                however low the rate is.
            full: whether more requests would have been sent if allowed.
        """
        if started >= self._row_began:
            # Only the answer to a request sent after the refused ones ends the row of refusals.
            self._row = 0
        if started >= self._alone:
            self._gap = 0.0
        self._first = self._first or first
        self._accepted.append(started)
        while self._accepted[0] < started - 2 * COUNTED_S:
            self._accepted.popleft()
        self._answers.append((started, now))
        oldest = min(pending, default=now)
        while self._answers[0][1] < min(oldest, started):
            self._answers.popleft()
        at_once = sum(begun <= started < ended for begun, ended in self._answers)
        self._carried = max(float(at_once), DECAY * self._carried)
        if self._rate is None:
            return
        self._check_rate(started, now, refused=False)
        if full and self._rate is not None:
            calm_s = min(max(0.0, now - self._changed), MAX_DOUBLINGS)
            self._rate = min(self._rate + GROWTH * 2.0**calm_s, MAX_RATE)

    def note_early_refusal(self, started: float, now: float) -> None:
        """Record a refusal before any successful answer; see `note_refusal` for the times.

        Requests after the first answer are then spaced out, so that few are in progress at the next refusal.
        """
        took = now - started
        self._late = max(self._late, took)
        self._gap = min(took, self._gap or took, MAX_GAP_S)
        self._alone = now

    def note_refusal(
        self, started: float, now: float, pending: Iterable[float], in_flight: int, stated_rate: float | None = None
    ) -> bool:
        """Record a refusal between successful answers.

        Args:
            started: when the request was sent.
            now: when the refusal arrived.
            pending: sending times of the requests in progress.
            in_flight: number of requests in progress when the refused one was sent, including itself.
            stated_rate: requests per second according to the headers of the refusal; None if they do not contain it.

        Returns:
            Whether the refusal is attributed to the rate.
        """
        if not self._row:
            self._row_began = started
        self._row += 1
        self._late = max(self._late, now - started)
        # Pending requests sent clearly earlier were accepted: otherwise their refusal would be here.
        accepted = [*self._accepted, *(each for each in pending if each < started - (now - started))]
        accepted = [each for each in accepted if started - COUNTED_S < each <= started]
        if stated_rate is not None and (self._rate is None or self._untested) and now >= self._unrelated_until:
            self._start_pace(accepted, now, stated_rate)
            return True
        if self._rate is None:
            if not (self._first and in_flight <= self._carried and self._row >= REFUSALS_IN_A_ROW and accepted):
                return False
            if now < self._unrelated_until:
                return False
            self._start_pace(accepted, now)
            return True
        if self._untested and accepted:
            # Measured values replace the rate of an earlier run.
            self._start_pace(accepted, now)
            return True
        self._check_rate(started, now, refused=True)
        if self._rate is not None and started > self._changed:
            # After much growth the measured rate is used; otherwise a small decrease is enough.
            grown = self._rate > MUCH_HIGHER * self._kept
            if self._even:
                self._set_rate(
                    max(len(accepted) / COUNTED_S, self._kept) if grown else SENT_FRACTION * self._rate,
                    now,
                    judged=False,
                )
            else:
                # The number per span was acceptable, so the requests were too close together.
                self._even = self._row >= REFUSALS_IN_A_ROW and self._rate < self._kept + 1
                self._set_rate(self._kept, now)
        return self._rate is not None

    def note_shutdown(self, now: float) -> None:
        """Record that the account accepts nothing at present, which is not caused by the rate."""
        self._since = now
        self._good = self._bad = 0

    def _start_pace(self, accepted: Sequence[float], now: float, stated_rate: float | None = None) -> None:
        """Limit the rate: to the number of requests accepted within `COUNTED_S`, or to `stated_rate` with even spacing.

        The next request is sent when `COUNTED_S` have passed since the first accepted one, which is safe for sliding
        windows and token buckets. The account may count a request later than it was sent, by at most the duration of a
        refusal.
        """
        self._untested = False
        self._even = stated_rate is not None
        self._set_rate(len(accepted) / COUNTED_S if stated_rate is None else stated_rate, now)
        late = min(self._late, MAX_LATE_S)
        self._sent = deque(sorted(each + late for each in accepted))
        self._next = max(now, min(self._sent, default=now) + COUNTED_S)
        self._late = 0.0

    def _set_rate(self, rate: float, now: float, *, judged: bool = True) -> None:
        self._rate = self._kept = min(max(rate, MIN_RATE), MAX_RATE)
        self._changed = now
        if judged:
            self._since = now
            self._good = self._bad = 0

    def _check_rate(self, started: float, now: float, *, refused: bool) -> None:
        """Check whether the account accepts most requests at the current rate, and change or drop the rate if not."""
        if started < self._since or not self._even:
            return
        self._bad += refused
        self._good += not refused
        if self._good + self._bad < MIN_OUTCOMES:
            return
        if self._bad > HIGH_REFUSAL_RATE * MIN_OUTCOMES:
            if now < self._wrong_until:
                # The rate was measured, and yet refused: it is not the cause.
                self._rate, self._unrelated_until = None, now + UNLIMITED_S
                return
            self._wrong_until = now + TWICE_WRONG_S
            self._set_rate(self._good / max(now - self._since, COUNTED_S / MIN_OUTCOMES), now)
        self._since, self._good, self._bad = now, 0, 0
