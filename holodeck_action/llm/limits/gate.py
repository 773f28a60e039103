"""Whether an account refuses one call or all of them: decided by what came back last.

A refusal among good answers concerns the call that met it. Refusals alone, many in a row, mean that the account takes
nothing now: its gate is shut, and one call tries it when the time that was asked for is over. Where that one is
refused, too, a few try the next time: refusals that concern every call by itself are then found out soon, and an
account that is really shut is not stormed.
"""

from __future__ import annotations

FIRST_S = 0.5
"""Most seconds before the second attempt; doubled for each one after it."""
LONGEST_S = 20.0
"""Most seconds between two attempts where the provider asks for nothing."""
SPREAD = 0.1
"""Part of an asked wait that is added at random, so that not all come back at once."""
IN_A_ROW = 24
"""Refusals without a good answer among them that shut an account."""
MOST_TRIES = 4
"""Calls at most that try a gate which is shut, at one time."""
ENOUGH = 3
"""Refusals at least before an account is given up."""


def backed_off(times: int) -> float:
    """Return the most seconds to wait after so many failures, at least 1: doubled each time (exponential backoff)."""
    return min(LONGEST_S, FIRST_S * 2.0 ** min(times - 1, 16))


class Gate:
    """One account's gate; times are monotonic seconds."""

    def __init__(self, longest_s: float) -> None:
        """Begin open.

        Args:
            longest_s: seconds of refusals alone after which the account is given up.
        """
        self._longest_s = longest_s
        self._row = 0
        self._answers = False
        self._since = 0.0
        self._rounds = 0
        self._until: float | None = None
        self.tries = 0
        """How many calls may be sent although it is shut."""

    @property
    def shut(self) -> bool:
        """Whether the account refuses all calls, as far as is known."""
        return self._until is not None

    @property
    def among_answers(self) -> bool:
        """Whether good answers came beside the last refusals."""
        return self._answers and self._row < IN_A_ROW // 2

    @property
    def unanswered(self) -> bool:
        """Whether no good answer has come yet."""
        return not self._answers

    def wait(self, now: float) -> float:
        """Return the seconds until somebody may try a gate that is shut."""
        return 0.0 if self._until is None else self._until - now

    def given_up(self, now: float) -> bool:
        """Tell whether the account has given refusals alone for so long that nobody waits for it any longer."""
        return self._row >= ENOUGH and max(now, self._until or now) - self._since >= self._longest_s

    def refused_for(self, now: float) -> float:
        """Return for how many seconds there have been refusals alone."""
        return now - self._since if self._row else 0.0

    def answered(self) -> None:
        """Take note of a good answer: the gate is open."""
        self._row = self._rounds = self.tries = 0
        self._answers = True
        self._until = None

    def refused(self, now: float, asked: float | None) -> None:
        """Take note of a refusal.

        Args:
            now: when it came.
            asked: the seconds that the provider asks to wait, None where it says nothing that can be believed.
        """
        if not self._row:
            self._since = now
        self._row += 1
        if self._until is None and self._row < IN_A_ROW:
            return
        wait = backed_off(self._rounds + 1) if asked is None else asked + SPREAD * max(asked, FIRST_S)
        self._until = max(self._until or 0.0, now + wait)
        self.tries = 0

    def open_a_little(self) -> None:
        """Let one call try, and a few where it was refused."""
        self.tries = min(2**self._rounds, MOST_TRIES)
        self._rounds += 1
