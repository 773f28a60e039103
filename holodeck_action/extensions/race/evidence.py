"""The evidence that a variant is worse than another: a betting e-process for sampling without replacement.

The cases of a race are a finite list in random order. For an ordered pair (rival, incumbent), each case has a
difference from −1 to 1: the rival's value minus the incumbent's. The null hypothesis is that the rival is not better
over the whole list, so that the differences of all N cases add up to 0 or less. Under it, the mean of the next
difference is at most −S/(N − t), where S is the sum of the t differences so far. A bettor who stakes a fixed share λ on
a larger difference multiplies the wealth of 1 by 1 + λ (d + S/(N − t)) with each case. Under the null hypothesis, this
wealth reaches w with a probability of at most 1/w, whenever one looks (Waudby-Smith & Ramdas 2020; Ville 1939).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

BETS = tuple((2 * at + 1) / 20 for at in range(10))
"""The stakes λ of the bettors; the evidence is the mean of their wealths."""
ERROR_RATE = 0.05
"""Highest probability with which the best variant of the full grid is dropped."""


class Evidence(Struct, frozen=True):
    """The evidence that a rival is better than an incumbent over all cases.

    Attributes:
        cases: number of cases in the list.
        seen: number of cases whose differences were added.
        lead: sum of these differences.
        wealths: wealth of each bettor of `BETS`.
    """

    cases: int
    seen: int = 0
    lead: float = 0.0
    wealths: tuple[float, ...] = (1.0,) * len(BETS)

    @property
    def wealth(self) -> float:
        """The mean wealth: at least w with a probability of at most 1/w if the rival is not better."""
        return math.fsum(self.wealths) / len(self.wealths)

    def after(self, difference: float) -> Evidence:
        """Return the evidence after the next case, whose difference is between −1 and 1."""
        # The highest mean of the next difference if the rival is not better.
        bound = -self.lead / (self.cases - self.seen)
        gain = difference - bound
        # A stake above 1/(1 + bound) could lose more than the wealth.
        most = 1 / (1 + bound) if bound > -1 else math.inf
        wealths = tuple([wealth * (1 + min(bet, most) * gain) for bet, wealth in zip(BETS, self.wealths, strict=True)])
        return Evidence(self.cases, self.seen + 1, self.lead + difference, wealths)


class Bounds(Struct, frozen=True):
    """The value of a variant in a case, from 0 to 1; the two bounds differ if the value is unknown."""

    low: float
    high: float


UNKNOWN = Bounds(0.0, 1.0)


class Drop(Struct, frozen=True):
    """Why a variant was dropped: index of the rival, number of cases by then, and the evidence for the rival."""

    rival: int
    cases: int
    wealth: float


class Standing(Struct, frozen=True):
    """The standing of a race.

    Attributes:
        variants: number of variants at the start.
        cases: number of cases in the list.
        seen: number of cases that all living variants have answered.
        living: indexes of the variants that are not dropped.
        dropped: dropped variants by index.
        evidence: the evidence by (rival, incumbent).
    """

    variants: int
    cases: int
    seen: int
    living: tuple[int, ...]
    dropped: Mapping[int, Drop]
    evidence: Mapping[tuple[int, int], Evidence]

    @property
    def threshold(self) -> float:
        """Evidence at which a variant is dropped. Each of its rivals errs with the same share of `ERROR_RATE`."""
        return (self.variants - 1) / ERROR_RATE

    @property
    def is_over(self) -> bool:
        """Whether one variant is left, or all cases are answered."""
        return len(self.living) < 2 or self.seen == self.cases

    def add_case(self, values: Mapping[int, Bounds], weight: float = 1.0) -> Standing:
        """Return the standing after the next case.

        An unknown value counts against each rival and for each incumbent, so that it drops no variant.

        Args:
            values: the value of each living variant.
            weight: weight of the case relative to the heaviest case, at most 1.
        """
        evidence = dict(self.evidence)
        for rival in self.living:
            for incumbent in self.living:
                if rival != incumbent:
                    difference = weight * (values[rival].low - values[incumbent].high)
                    evidence[rival, incumbent] = evidence[rival, incumbent].after(difference)
        after = replace(self, seen=self.seen + 1, evidence=evidence)
        return after._drop()

    def _drop(self) -> Standing:
        """Return the standing without the variants against which the evidence suffices, the clearest case first."""
        living, dropped = [*self.living], dict(self.dropped)
        found = sorted(
            (-self.evidence[rival, other].wealth, other, rival)
            for rival in living
            for other in living
            if rival != other
        )
        for wealth, other, rival in found:
            if -wealth < self.threshold:
                break
            if rival in living and other in living:
                living.remove(other)
                dropped[other] = Drop(rival, self.seen, -wealth)
        if len(living) == len(self.living):
            return self
        kept = {pair: each for pair, each in self.evidence.items() if pair[0] in living and pair[1] in living}
        return replace(self, living=tuple(living), dropped=dropped, evidence=kept)


def start_race(variants: int, cases: int) -> Standing:
    """Return the standing before the first case."""
    pairs = [(rival, other) for rival in range(variants) for other in range(variants) if rival != other]
    return Standing(variants, cases, 0, tuple(range(variants)), {}, dict.fromkeys(pairs, Evidence(cases)))
