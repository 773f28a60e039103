"""Detection, from the latest responses, of whether an account refuses single calls or all calls.

A refusal between successful answers concerns only the refused call. Many refusals in a row mean that the account
accepts nothing at present: its gate is shut, and one call is sent when the requested waiting time is over. If this call
is refused too, a few calls are sent the next time. In this way refusals that concern only single calls are soon
recognised, and an unavailable account is not flooded.
"""

from __future__ import annotations

FIRST_S = 0.5
"""Maximum seconds before the second attempt; doubled for each later attempt."""
LONGEST_S = 20.0
"""Maximum seconds between two attempts if the provider requests no waiting time."""
SPREAD = 0.1
"""Maximum random addition to a requested waiting time, as a fraction of it, so that calls are not all repeated at once.
"""
IN_A_ROW = 24
"""Number of refusals in a row after which the gate is shut."""
MOST_TRIES = 4
"""Maximum number of calls sent at the same time while the gate is shut."""
LEAST_REFUSALS = 3
"""Minimum number of refusals before calls stop waiting for an account."""


def backoff_s(times: int) -> float:
    """Return the maximum wait in seconds after a number of failures; it doubles each time (exponential backoff)."""
    return min(LONGEST_S, FIRST_S * 2.0 ** min(times - 1, 16))


class Gate:
    """Holds back calls to one account while it refuses all of them; times are monotonic seconds."""

    def __init__(self, longest_s: float) -> None:
        """Create an open gate.

        Args:
            longest_s: seconds without a successful answer after which calls no longer wait for the account.
        """
        self._longest_s = longest_s
        self._row = 0
        self._answers = False
        self._since = 0.0
        self._rounds = 0
        self._until: float | None = None
        self.tries = 0
        """Number of calls that may be sent although the gate is shut."""

    @property
    def is_shut(self) -> bool:
        """Whether the account appears to refuse all calls."""
        return self._until is not None

    @property
    def has_recent_answers(self) -> bool:
        """Whether there were successful answers between the latest refusals."""
        return self._answers and self._row < IN_A_ROW // 2

    @property
    def has_no_answers(self) -> bool:
        """Whether there was no successful answer yet."""
        return not self._answers

    def seconds_to_wait(self, now: float) -> float:
        """Return the seconds until a call may be sent although the gate is shut; 0 if the gate is open."""
        return 0.0 if self._until is None else self._until - now

    def is_given_up(self, now: float) -> bool:
        """Return whether the account has refused all calls for too long to wait further."""
        return self._row >= LEAST_REFUSALS and max(now, self._until or now) - self._since >= self._longest_s

    def refused_for(self, now: float) -> float:
        """Return for how many seconds the account has refused all calls; 0 after a successful answer."""
        return now - self._since if self._row else 0.0

    def note_answer(self) -> None:
        """Record a successful answer, which opens the gate."""
        self._row = self._rounds = self.tries = 0
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
        wait = backoff_s(self._rounds + 1) if requested_s is None else requested_s + SPREAD * max(requested_s, FIRST_S)
        self._until = max(self._until or 0.0, now + wait)
        self.tries = 0

    def allow_tries(self) -> None:
        """Allow one call to be sent while the gate is shut, and more calls after each failed attempt."""
        self.tries = min(2**self._rounds, MOST_TRIES)
        self._rounds += 1
