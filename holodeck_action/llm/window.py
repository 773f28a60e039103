"""How many requests an account may have under way: found by trying, as TCP finds a line's capacity.

Slow start (one more for every answer) up to the first refusal; what was under way without those refused is the ceiling
that is kept, at least half of it. Above a ceiling it is additive increase (one more for every ceiling of answers): a
refusal that only says no costs one request. Not every refusal is about the number under way: where fewer at once are
refused as often, lowering it would only take time, and it is raised again. Nor is it lowered below what has just been
answered at once, up to a few, so that a rate per second is met by those who wait and not by standing still.
"""

from __future__ import annotations

from collections import deque

START = 8
"""Requests at once in the beginning."""
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
    """The number; times are monotonic seconds."""

    def __init__(self, most: int) -> None:
        """Start small.

        Args:
            most: requests that are never exceeded, at least 1.
        """
        self._most = float(most)
        self._size = float(min(START, most))
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
            self._size = min(self._size + 1, self._ceiling)
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
