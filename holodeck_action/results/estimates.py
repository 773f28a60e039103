"""Numbers that labels tell about a judge, and how sure they are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its two-sided 95 % interval; None where the labels cannot tell it."""

    value: float | None
    low: float | None = None
    high: float | None = None


NOTHING = Estimate(None)


@dataclass(frozen=True, slots=True)
class Confusion:
    """Answers by what the humans and the judge said.

    Attributes:
        true_pass: both say pass.
        false_pass: the judge passes what the humans fail.
        false_fail: the judge fails what the humans pass.
        true_fail: both say fail.
    """

    true_pass: int
    false_pass: int
    false_fail: int
    true_fail: int

    @property
    def n(self) -> int:
        """All answers."""
        return self.true_pass + self.false_pass + self.false_fail + self.true_fail

    @property
    def human_passes(self) -> int:
        """Answers that the humans pass."""
        return self.true_pass + self.false_fail

    @property
    def judge_passes(self) -> int:
        """Answers that the judge passes."""
        return self.true_pass + self.false_pass

    @property
    def human_fails(self) -> int:
        """Answers that the humans fail."""
        return self.false_pass + self.true_fail

    @property
    def agreed(self) -> int:
        """Answers on which they say the same."""
        return self.true_pass + self.true_fail
