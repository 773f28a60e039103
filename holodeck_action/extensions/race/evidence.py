"""The evidence that a variant is worse than another: a betting e-process for sampling without replacement.

The cases of a race are a finite list in random order. For an ordered pair of variants (rival, incumbent), each case
gives a difference from −1 to 1: the rival's value minus the incumbent's. The null hypothesis is that the rival is not
better over the whole list, so that the differences of all N cases add up to 0 or less. Under it, the mean of the next
difference is at most −S/(N − t), where S is the sum of the t differences so far. A bettor who stakes a fixed share λ on
a larger difference multiplies the wealth of 1 by 1 + λ (d + S/(N − t)) with each case. Under the null hypothesis, this
wealth ever reaches w with a probability of at most 1/w, so it may be checked after every case (Waudby-Smith & Ramdas
2020; Ville 1939).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

BETS = tuple((2 * at + 1) / 20 for at in range(10))
"""The stakes λ of ten bettors; the evidence is the mean of their wealths."""
ERROR_RATE = 0.05
"""Highest probability with which the best variant of the full grid is dropped."""


class Evidence(Struct, frozen=True):
    """The evidence that a rival is better than an incumbent over all cases.

    Attributes:
        cases: number of cases in the list.
        seen: number of cases whose differences were added.
        lead: sum of the differences of the seen cases.
        wealths: wealth of each bettor of `BETS`.
    """

    cases: int
    seen: int = 0
    lead: float = 0.0
    wealths: tuple[float, ...] = (1.0,) * len(BETS)

    @property
    def wealth(self) -> float:
        """The bettors' mean wealth. If the rival is not better, it ever reaches w with a probability of at most 1/w."""
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
    """Lower and upper bound, 0..1, of a variant's value in a case; the bounds are equal if the value is known."""

    low: float
    high: float


UNKNOWN = Bounds(0.0, 1.0)


class Drop(Struct, frozen=True):
    """The reason for a drop: index of the better rival, number of cases seen so far, and evidence for the rival."""

    rival: int
    cases: int
    wealth: float


class Standing(Struct, frozen=True):
    """The state of a race after a number of cases.

    Attributes:
        variants: number of variants at the start.
        cases: number of cases in the list.
        seen: number of cases that all remaining variants have answered.
        living: indexes of the variants that are not dropped.
        dropped: reasons for dropping variants, by index of the variant.
        evidence: the evidence for each ordered pair (rival, incumbent).
        threshold: evidence at which a variant is dropped; infinite if none is.
    """

    variants: int
    cases: int
    seen: int
    living: tuple[int, ...]
    dropped: Mapping[int, Drop]
    evidence: Mapping[tuple[int, int], Evidence]
    threshold: float

    @property
    def is_over(self) -> bool:
        """Whether only one variant is left, or all cases are answered."""
        return len(self.living) < 2 or self.seen == self.cases

    def add_case(self, values: Mapping[int, Bounds], weight: float = 1.0) -> Standing:
        """Return the standing after the next case.

        For an unknown value, the evidence uses the bound that is less favourable to the rival, so that the unknown
        value drops no variant.

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
        """Drop the variants against which the evidence reaches the threshold, starting with the strongest evidence."""
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


def start_race(variants: int, cases: int, *, drops: bool = True) -> Standing:
    """Return the standing before the first case.

    Args:
        variants: number of variants.
        cases: number of cases.
        drops: whether variants are dropped; `ERROR_RATE` is divided equally among a variant's rivals.
    """
    pairs = [(rival, other) for rival in range(variants) for other in range(variants) if rival != other]
    threshold = (variants - 1) / ERROR_RATE if drops else math.inf
    return Standing(variants, cases, 0, tuple(range(variants)), {}, dict.fromkeys(pairs, Evidence(cases)), threshold)
