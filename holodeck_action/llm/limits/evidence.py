"""Infers from the outcomes of requests what an account limits: requests at once, requests a second, or nothing that is
known.

A limit refuses what is above it, and nothing below. So if refusals follow from a limit, the requests can be split by
the number that was in progress (or that was sent within the last second) when each was sent: few of those below the
split are refused, and nearly all above it. Refusals at random give no such split, however many they are. The best split
is the one with the greatest likelihood ratio against one common share of refusals.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

COUNTED_S = 1.0
"""Seconds over which requests are counted for a rate."""
MAX_SAMPLES = 400
"""Number of latest requests from which limits are inferred."""
RECENT_SAMPLES = 60
"""A split of this many latest requests is preferred, since limits change."""
MIN_LIKELIHOOD = 6.0
"""Minimum logarithm of the likelihood ratio of a split; three refusals in a row after ten answers have about 7."""
ADVANTAGE = 3.0
"""By how much the logarithm must exceed that for a limit of the kind that is assumed."""
REFUSED_ABOVE = 0.8
"""Minimum share of refusals above a split."""
REFUSALS = 20
"""Number of latest refusals whose slowest tells when a request without an answer counts as accepted. Refusals that came
sooner count from then on, too: otherwise only refusals would be known of the latest requests.
"""
TOLERANCE = 0.01
"""Fraction by which times of refusals may differ without being different."""

MIN_REFUSED = 3
"""Minimum number of refusals above a split by requests a second: that number grows with time, and so meets refusals at
random.
"""

Kind = Literal["at once", "a second"]


class Sent(Struct, eq=False):
    """A request: when it was sent, how many others were in progress, how many of the last second were not refused, and
    whether it was refused; None if that is not known yet.
    """

    at: float
    busy: int
    recent: int
    refused: bool | None = None


class Finding(Struct, frozen=True):
    """An inferred limit, and the logarithm of its likelihood ratio."""

    kind: Kind
    limit: int
    likelihood: float


class Evidence:
    """The latest requests to an account, in the order in which they were sent; times are monotonic seconds."""

    def __init__(self) -> None:
        self._sent: deque[Sent] = deque(maxlen=MAX_SAMPLES)
        self._second: deque[Sent] = deque()
        self._recent = 0
        self._refusals: deque[float] = deque(maxlen=REFUSALS)

    @property
    def refusal_s(self) -> float:
        """Seconds that the slowest of the latest refusals took; 0 without refusals."""
        return max(self._refusals, default=0.0)

    def note_sent(self, now: float, busy: int) -> Sent:
        """Record that a request is sent while `busy` others are in progress."""
        self._forget(now)
        sent = Sent(now, busy, self._recent)
        self._sent.append(sent)
        self._second.append(sent)
        self._recent += 1
        return sent

    def note_outcome(self, sent: Sent, now: float, *, refused: bool) -> None:
        """Record whether a request was refused."""
        sent.refused = refused
        if refused:
            self._refusals.append(now - sent.at)
            self._recent -= bool(self._second) and sent.at >= self._second[0].at

    def accepted_since(self, since: float) -> list[float]:
        """Return when requests were sent after a time that are not known to be refused."""
        return [sent.at for sent in self._second if sent.at > since and not sent.refused]

    def accepted_in_progress(self, now: float) -> int:
        """Return the number of requests in progress that the account has accepted."""
        return sum(sent.refused is None and self._is_accepted(sent, now) for sent in self._sent)

    def refused_in_a_row(self, now: float) -> int:
        """Return the number of latest requests that were all refused."""
        row = 0
        for sent in reversed(self._sent):
            if self._is_accepted(sent, now):
                break
            row += sent.refused is True
        return row

    def infer(self, now: float, assumed: Kind) -> Finding | None:
        """Return the limit that explains the refusals, of the assumed kind unless the other one explains them clearly
        better; None if none does.
        """
        told = now - (1 - TOLERANCE) * self.refusal_s
        known = [sent for sent in self._sent if (sent.refused and sent.at <= told) or self._is_accepted(sent, now)]
        for samples in (known[-RECENT_SAMPLES:], known):
            refused = [bool(sent.refused) for sent in samples]
            best = max(
                _best_split([sent.busy for sent in samples], refused, "at once"),
                _best_split([sent.recent for sent in samples], refused, "a second"),
                key=lambda found: found.likelihood + ADVANTAGE * (found.kind == assumed),
            )
            if best.likelihood >= MIN_LIKELIHOOD:
                return best
        return None

    def _is_accepted(self, sent: Sent, now: float) -> bool:
        return sent.refused is False or (
            sent.refused is None and bool(self._refusals) and now - sent.at > (1 + TOLERANCE) * self.refusal_s
        )

    def _forget(self, now: float) -> None:
        while self._second and self._second[0].at <= now - COUNTED_S:
            self._recent -= not self._second.popleft().refused


def _best_split(values: Sequence[int], refused: Sequence[bool], kind: Kind) -> Finding:
    """Return the split of samples by their values with the greatest likelihood ratio."""
    pairs = sorted(zip(values, refused, strict=True))
    total, bad = len(pairs), sum(refused)
    best = Finding(kind, 0, 0.0)
    common = _logarithm(bad, total)
    bad_below = 0
    for place in range(1, total):
        bad_below += pairs[place - 1][1]
        above, bad_above = total - place, bad - bad_below
        least = max(REFUSED_ABOVE * above, MIN_REFUSED if kind == "a second" else 0)
        if pairs[place - 1][0] == pairs[place][0] or bad_above < least:
            continue
        likelihood = _logarithm(bad_above, above) + _logarithm(bad_below, place) - common
        if likelihood > best.likelihood and bad_below * above < bad_above * place:
            best = Finding(kind, pairs[place][0], likelihood)
    return best


def _logarithm(count: int, total: int) -> float:
    """Return the logarithm of the likelihood of `count` in `total` with their own share."""
    return sum(part * math.log(part / total) for part in (count, total - count) if part)
