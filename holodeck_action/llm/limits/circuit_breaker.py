"""A circuit breaker for one model account.

A single refusal (HTTP 429) between successful answers concerns only the refused call. After `IN_A_ROW` refusals in a
row, the breaker opens: the account appears to refuse all calls, so calls wait. After the waiting time that the provider
requests, one call is sent as a trial. If it succeeds, the breaker closes. If it is refused, more trial calls are sent
the next time, at most `MAX_TRIALS`. The account is thus not flooded while it is unavailable.
"""

from __future__ import annotations

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
"""Maximum number of trial calls sent at the same time while the breaker is open."""
MIN_REFUSALS = 3
"""Minimum number of refusals in a row before the account is given up."""


def backoff_s(failure_count: int) -> float:
    """Return the maximum wait in seconds after a number of failures; it doubles each time (exponential backoff)."""
    return min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(failure_count - 1, 16))


class CircuitBreaker:
    """Holds back calls to one account while the account refuses all calls; times are monotonic seconds."""

    def __init__(self, longest_s: float) -> None:
        """Create a closed breaker: calls are sent.

        Args:
            longest_s: seconds without a successful answer after which calls no longer wait for the account.
        """
        self._longest_s = longest_s
        self._row = 0
        self._answers = False
        self._since = 0.0
        self._rounds = 0
        self._until: float | None = None
        self.trials = 0
        """Number of trial calls that may be sent now although the breaker is open."""

    @property
    def is_open(self) -> bool:
        """Whether the breaker is open: the account appears to refuse all calls."""
        return self._until is not None

    @property
    def has_recent_answers(self) -> bool:
        """Whether the account has given successful answers, and only few refusals since the last of these answers."""
        return self._answers and self._row < IN_A_ROW // 2

    @property
    def has_no_answers(self) -> bool:
        """Whether there was no successful answer yet."""
        return not self._answers

    def seconds_to_wait(self, now: float) -> float:
        """Return the seconds until the next trial calls may be sent; 0 if the breaker is closed."""
        return 0.0 if self._until is None else self._until - now

    def is_given_up(self, now: float) -> bool:
        """Return whether the account has refused all calls for so long that calls must no longer wait."""
        return self._row >= MIN_REFUSALS and max(now, self._until or now) - self._since >= self._longest_s

    def refused_seconds(self, now: float) -> float:
        """Return for how many seconds the account has refused all calls; 0 after a successful answer."""
        return now - self._since if self._row else 0.0

    def note_answer(self) -> None:
        """Record a successful answer, which closes the breaker."""
        self._row = self._rounds = self.trials = 0
        self._answers = True
        self._until = None

    def note_refusal(self, now: float, requested_s: float | None) -> None:
        """Record a refusal.

        Args:
            now: the time of the refusal.
            requested_s: waiting time in seconds that the provider requests; None if the header is missing or
                implausible.
        """
        if not self._row:
            self._since = now
        self._row += 1
        if self._until is None and self._row < IN_A_ROW:
            return
        wait = (
            backoff_s(self._rounds + 1)
            if requested_s is None
            else requested_s + JITTER_FRACTION * max(requested_s, FIRST_BACKOFF_S)
        )
        self._until = max(self._until or 0.0, now + wait)
        self.trials = 0

    def allow_trials(self) -> None:
        """Allow trial calls while the breaker is open: 1 the first time, twice as many each later time, up to
        `MAX_TRIALS`."""
        self.trials = min(2**self._rounds, MAX_TRIALS)
        self._rounds += 1
