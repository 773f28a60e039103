"""Decides how many requests an account may have in progress, how many may be sent a second, and when none may be sent.

Refusals limit the account only if a limit explains them (`evidence`): a limit at once lowers the window, a limit a
second spaces the requests evenly. Both grow again by trying, and are dropped if refusals below them show that they are
not the cause. If all requests are refused, or the account is away, a circuit breaker opens: after a wait, few requests
are sent as trials, and the first answer closes it. All times are monotonic seconds that are passed in.
"""

from __future__ import annotations

import math

from holodeck_action.llm.limits.evidence import COUNTED_S, Evidence, Sent

FIRST_BACKOFF_S = 0.5
"""Maximum seconds to wait before the second attempt of a call; doubled for each later attempt."""
MAX_BACKOFF_S = 20.0
"""Maximum seconds between two attempts if the provider requests no waiting time."""
JITTER_FRACTION = 0.1
"""Random addition to a requested waiting time, at most this fraction of it, so that calls are not all repeated at once.
"""
IN_A_ROW = 24
"""Number of refusals in a row after which the breaker opens."""
MAX_TRIALS = 4
"""Maximum number of trial requests at the same time while the breaker is open."""
MIN_REFUSALS = 3
"""Minimum number of refusals in a row before the account is given up."""
GAP_S, REFUSED_GAP_S = 0.000_25, 0.003
"""Seconds between two requests, and between those of the second after a refusal, so that quick refusals tell a limit
before all are sent.
"""
FAILURES_IN_A_ROW = 5
"""Number of failures in a row, such as lost connections, after which the breaker opens."""
MAX_AWAY_S = 2.0
"""Maximum seconds between two trials of an account that is away."""
MIN_FAILURES = 2
"""Minimum number of failures in a row before an account that is away is given up."""
MIN_SILENCE_S = 30.0
"""Minimum seconds before it is given up if nothing was lost or refused: then the turns may only be too short."""
TOLERATED = 4
"""Number of refusals below a limit that drop it."""
HOLD_S, MAX_HOLD_S = 0.1, 8.0
"""Seconds without requests after two refusals in a row; they double with each further one, and end with an answer."""
PROBE_S, MAX_PROBE_S = 1.05 * COUNTED_S, 16.0
"""Seconds without a request after which a full window is tried with one more: a limit a second would let it pass. They
double with each refusal.
"""
ROUND_S = 0.35
"""Maximum seconds in which a full window grows by its own size, if nothing is refused. A refusal comes at once, and an
answer late, so that no refusal within this time shows as much as an answer.
"""
SLOWER = 1.5
"""A window does not grow after an answer that took more than this multiple of the first ones."""
SPACING = 0.97
"""Requests are sent at this fraction of the rate, because they arrive at slightly different intervals."""
GROWTH = 0.04
"""Increase in requests a second with each request; it doubles with each second since the rate was last set."""
MAX_DOUBLINGS = 12.0
FASTER = 1.25
"""Factor by which the rate grows with an answer that shows that it does not explain the refusals."""
MIN_RATE, MAX_RATE = 1.0, 1_000.0
"""Lowest and highest rate in requests a second."""
MAX_LATE_S = 0.5
"""Maximum seconds for which an account may count a request after it was sent."""


def backoff_s(failure_count: int) -> float:
    """Return the maximum wait in seconds after a number of failures; it doubles each time (exponential backoff)."""
    return min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(failure_count - 1, 16))


class Window:
    """The limits of one account, as far as its answers and refusals show them."""

    def __init__(
        self,
        most: int,
        longest_wait_s: float,
        *,
        start: int | None = None,
        rate: float | None = None,
        longest_outage_s: float = 60.0,
    ) -> None:
        """Create the window.

        Args:
            most: maximum of requests in progress, at least 1.
            longest_wait_s: seconds of refusals alone after which calls no longer wait.
            start: requests in progress at the start, which grow while nothing is refused; None for `most`.
            rate: requests a second that the account accepted in an earlier run; None if unknown.
            longest_outage_s: seconds without any answer after which an account that is away is given up.
        """
        self._all, self._sharers, self._longest_wait_s = most, 1, longest_wait_s
        self._start = min(most, start or most)
        self.most = self._ceiling = most
        """Maximum of requests in progress."""
        self.size = self._start
        """Number of requests that may be in progress now."""
        self.busy = 0
        """Number of requests in progress."""
        self.rate = rate
        self._measured = rate or math.inf
        self._evidence = Evidence()
        self._unexplained = 0
        self._refused_at = self._next = self._hold_until = float("-inf")
        self._rate_set: float | None = None
        self._probe_s = PROBE_S
        self._probe: Sent | None = None
        self._first_times: list[float] = []
        self.usual_s: float | None = None
        """Seconds of the first answers on average; None if there are none."""
        self._grown_at = 0.0
        self._is_slow = False
        self._trial: Sent | None = None
        self.row = self._rounds = self._waves = self.trials = 0
        self._since = 0.0
        self._longest_outage_s = longest_outage_s
        self._failures = 0
        self._away_since = 0.0
        self.is_silent = False
        self._open_until: float | None = None

    @property
    def is_limited(self) -> bool:
        """Whether a limit is known, and kept, that explains refusals."""
        return self.rate is not None or self._ceiling < self.most

    @property
    def is_open(self) -> bool:
        """Whether the circuit breaker is open: the account appears to refuse everything."""
        return self._open_until is not None

    def share(self, sharers: int) -> None:
        """Use one of `sharers` equal shares of the account's limits from now on."""
        self._sharers = sharers
        unlimited = self._ceiling == self.most
        self.most = max(1, self._all // sharers)
        self._ceiling = self.most if unlimited else min(self._ceiling, self.most)
        self.size = min(self.most, max(self.size, self._start)) if unlimited else self._ceiling

    def seconds_to_wait(self, now: float) -> float:
        """Return the seconds until the next request may be sent; infinity if only the end of another one lets it."""
        if self.is_open and not self.trials and not self.is_given_up(now):
            return math.inf
        if self.rate is None and now < self._hold_until and not self.is_given_up(now):
            return self._hold_until - now
        if self.busy >= self.size:
            if self.busy >= self.most:
                return math.inf
            if (wait := self._seconds_to_grow(now)) > 0:
                return wait
        # With nothing in progress, one request shows whether a rate or the number at once is the limit.
        is_trial = self.rate is not None and not self.busy and self._trial is None
        return 0.0 if is_trial else max(0.0, self._next - now)

    def note_sent(self, now: float) -> Sent:
        """Record that a request is sent."""
        if self._rate_set is None:
            self._rate_set = self._grown_at = now
        sent = self._evidence.note_sent(now, self.busy)
        if now < self._next:
            self._trial = sent
        gap_s = GAP_S if now > self._refused_at + COUNTED_S else REFUSED_GAP_S
        if self.rate is not None:
            calm_s = min(now - self._rate_set, MAX_DOUBLINGS)
            self.rate = min(self.rate + GROWTH * 2.0**calm_s, MAX_RATE)
            gap_s = 1 / (SPACING * self.rate)
        self._next = max(now, self._next) + gap_s
        self.trials -= bool(self.trials)
        self._probe = sent if self.busy >= self.size else None
        self.busy += 1
        return sent

    def note_answer(self, sent: Sent, now: float) -> None:
        """Record a successful answer, after which the request is no longer in progress."""
        self._evidence.note_outcome(sent, now, refused=False)
        self.note_alive()
        self._hold_until, self._waves = now, 0
        self._note_time(sent, now)
        if sent is self._trial:
            self._trial = None
        if self.rate is not None and sent.recent >= self._measured:
            self._check_rate(now)

    def note_refusal(self, sent: Sent, now: float, requested_s: float | None, stated_rate: float | None) -> None:
        """Record a refusal.

        Args:
            sent: the request.
            now: when the refusal arrived.
            requested_s: waiting time in seconds that the provider requests; None if the header is missing or
                implausible.
            stated_rate: requests a second that the refusal's headers state; None if they state none.
        """
        self._evidence.note_outcome(sent, now, refused=True)
        row = self._evidence.refused_in_a_row(now)
        if sent.at > self._refused_at:
            self._waves = min(self._waves + 1, row)
            self._refused_at = now
            if self._waves > (self._ceiling == self.most):
                self._hold_until = now + min(HOLD_S * 2.0 ** (self._waves - 2), MAX_HOLD_S)
        found = self._evidence.infer(now, "at once" if self.rate is None else "a second")
        if stated_rate is not None:
            self._limit_rate(stated_rate / self._sharers, now)
        elif found is not None and found.kind == "a second":
            self._limit_rate(found.limit / COUNTED_S, now)
        elif found is not None:
            self._limit_size(found.limit, sent, now)
        elif self.is_limited:
            self._unexplained += 1
            if self._unexplained >= TOLERATED:
                self._drop_limits()
        explained = stated_rate is not None or (
            found is not None and (sent.recent if found.kind == "a second" else sent.busy) >= found.limit
        )
        if explained:
            self._unexplained = 0
        else:
            self._count_row(row, now, requested_s)

    def note_alive(self) -> None:
        """Record an answer that is neither a refusal nor a sign that the account is away; it closes the breaker."""
        self.row = self._rounds = self._failures = self.trials = 0
        self._open_until = None

    def note_failure(self, sent: Sent, now: float, *, silent: bool = False) -> None:
        """Record that a request got no answer because the account is away.

        Args:
            sent: the request.
            now: when it failed.
            silent: whether nothing came until the request's deadline. The breaker does not open then, since such
                requests take long anyway.
        """
        self._away_since = min(self._away_since, sent.at) if self._failures else sent.at
        self.is_silent = silent and (self.is_silent or not self._failures)
        self._failures += 1
        if not silent and (self.is_open or self._failures >= FAILURES_IN_A_ROW):
            self._open_until = now + min(backoff_s(self._rounds + 1), MAX_AWAY_S)
            self.trials = 0

    def note_nothing(self, sent: Sent) -> None:
        """Record that a request ended without a sign of the account; if it was a trial, another one may be sent."""
        if self._open_until is not None and sent.at >= self._open_until:
            self.trials += 1

    def is_away(self, now: float) -> bool:
        """Return whether the account has been away for so long that it is given up."""
        longest_s = max(self._longest_outage_s, MIN_SILENCE_S if self.is_silent else 0.0)
        return self._failures >= MIN_FAILURES and now - self._away_since >= longest_s

    def away_seconds(self, now: float) -> float:
        """Return for how many seconds the account has not answered; 0 after an answer."""
        return now - self._away_since if self._failures else 0.0

    def is_given_up(self, now: float) -> bool:
        """Return whether the account has refused everything or been away so long that calls must no longer wait."""
        return self.is_away(now) or (
            self.row >= MIN_REFUSALS and max(now, self._open_until or now) - self._since >= self._longest_wait_s
        )

    def refused_seconds(self, now: float) -> float:
        """Return for how many seconds the account has refused everything; 0 after an answer."""
        return now - self._since if self.row else 0.0

    def seconds_to_trial(self, now: float) -> float:
        """Return the seconds until the next trials may be sent; 0 if the breaker is closed."""
        return 0.0 if self._open_until is None else self._open_until - now

    def allow_trials(self) -> None:
        """Allow trials while the breaker is open: 1 at first, then twice as many each time, up to `MAX_TRIALS`."""
        self.trials = min(2**self._rounds, MAX_TRIALS)
        self._rounds += 1

    def _seconds_to_grow(self, now: float) -> float:
        """Return the seconds until a full window is tried with one request more, and let it try if its time has come;
        infinity if answers have become slower.
        """
        is_limited = self._ceiling < self.most
        if self._is_slow and not is_limited:
            return math.inf
        round_s = ROUND_S if self.usual_s is None else min(ROUND_S, self.usual_s)
        wait = self._grown_at + (self._probe_s if is_limited else round_s / self.size) - now
        if wait <= 0:
            self._grown_at = now
            if is_limited:
                self._review(now)
            else:
                self.size += 1
        return wait

    def _note_time(self, sent: Sent, now: float) -> None:
        """Note how long an answer took, compared with the first ones."""
        took = now - sent.at
        if len(self._first_times) < self._start:
            self._first_times.append(took)
            self.usual_s = sum(self._first_times) / len(self._first_times)
        self._is_slow = self._start < self.most and self.usual_s is not None and took > SLOWER * self.usual_s

    def _check_rate(self, now: float) -> None:
        """Raise or drop the rate, if an answer to a request beyond it shows that it does not explain the refusals."""
        found = self._evidence.infer(now, "a second")
        if found is None and self.rate is not None:
            self.rate = min(FASTER * self.rate, MAX_RATE)
        elif found is not None and found.kind == "at once":
            self.rate = None
            self._ceiling = self.size = min(self.most, max(1, found.limit, self._evidence.accepted_in_progress(now)))

    def _review(self, now: float) -> None:
        """Find out whether the account limits the rate, after requests that were sent although as many as the limit
        were in progress.
        """
        found = self._evidence.infer(now, "at once")
        if found is not None and found.kind == "a second":
            self._limit_rate(found.limit / COUNTED_S, now)
        elif found is None:
            # Requests above the limit were accepted.
            self._drop_limits()
        elif self._probe is not None and not self._probe.refused:
            self._probe_s = PROBE_S
            self.size = self._ceiling = min(self.most, max(self._ceiling + 1, self._probe.busy + 1))

    def _limit_size(self, limit: int, sent: Sent, now: float) -> None:
        if self._ceiling == self.most:
            self._probe_s, self._grown_at = PROBE_S, now
        if sent is self._probe:
            self._probe_s = min(2 * self._probe_s, MAX_PROBE_S)
        self.rate = None
        self._ceiling = self.size = min(self.most, max(1, limit, self._evidence.accepted_in_progress(now)))

    def _limit_rate(self, rate: float, now: float) -> None:
        if self.rate is None:
            accepted = self._evidence.accepted_since(now - COUNTED_S)
            late = min(self._evidence.refusal_s, MAX_LATE_S)
            self._next = max(now, min(accepted, default=now) + COUNTED_S + late)
            self._trial = None
        self.rate = self._measured = min(max(rate, MIN_RATE), MAX_RATE)
        self._rate_set = now
        self._ceiling = self.size = self.most

    def _drop_limits(self) -> None:
        self.rate, self._unexplained = None, 0
        self._ceiling, self.size = self.most, min(self.most, max(self.busy, self.size, 1))

    def _count_row(self, row: int, now: float, requested_s: float | None) -> None:
        if not self.row:
            self._since = now
        self.row = max(1, min(row, self.row + 1))
        if self._open_until is None and self.row < IN_A_ROW:
            return
        wait = (
            backoff_s(self._rounds + 1)
            if requested_s is None
            else requested_s + JITTER_FRACTION * max(requested_s, FIRST_BACKOFF_S)
        )
        self._open_until = max(self._open_until or 0.0, now + wait)
        self.trials = 0
