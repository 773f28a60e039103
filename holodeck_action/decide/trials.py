"""How cases do over their trials: pass@k and pass^k.

Trials that do not count, because the case was decided before them or because they are in error, could have passed or
failed. A number that they could change is given as the two ends between which it lies.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache

from msgspec import Struct

from holodeck_action.decide.statistics import weighted_mean
from holodeck_action.decide.verdict import CaseVerdict
from holodeck_action.record.record import CaseRecord

_EACH_UP_TO = 10


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return 1 − C(n−c, k)/C(n, k): the unbiased estimate of the chance that at least one of k trials passes.

    Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code", arXiv 2107.03374, equation 1.

    Args:
        n: trials.
        c: how many of them passed, 0..n.
        k: 1..n.
    """
    ways = math.comb(n, k)
    return (ways - math.comb(n - c, k)) / ways


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Return C(c, k)/C(n, k), pass^k: the unbiased estimate of the chance that all of k trials pass.

    Source: Yao et al. 2024, "τ-bench", arXiv 2406.12045, where it is called pass^k. Arguments as of `pass_at_k`.
    """
    return math.comb(c, k) / math.comb(n, k)


class Ends(Struct, frozen=True):
    """The least and the most that a number can be; equal where it is known."""

    low: float
    high: float


class PassRates(Struct, frozen=True):
    """For k trials: `pass_at_k`, at least one of them passes; `pass_hat_k` (pass^k), all of them do."""

    k: int
    pass_at_k: Ends
    pass_hat_k: Ends


class CaseTrials(Struct, frozen=True):
    """How a case with several trials did.

    Attributes:
        repeat: trials that it should have.
        passed: trials that passed.
        failed: trials that failed.
        rate: passed / (passed + failed); pass@1 and pass^1 where no trial is missing.
        missing: trials that did neither: in error, or not run.
        truncated: whether trials were left out because the case was decided: `rate` is that of fewer trials then.
        rates: for each k up to 10, and for k = `repeat`.
    """

    repeat: int
    passed: int
    failed: int
    missing: int
    rate: float
    truncated: bool
    rates: tuple[PassRates, ...]


class SuiteTrials(Struct, frozen=True):
    """How the cases with several trials did together; quarantined cases, and those without a result, do not count.

    Attributes:
        cases: number of these cases.
        repeat: the smallest `repeat` among them: the largest k that all of them have.
        trials: trials that passed or failed.
        missing: trials that did neither.
        rate: mean over cases, by weight, of their `rate`.
        flaky: cases with both passing and failing trials.
        truncated: cases whose `rate` is truncated.
        rates: means over cases, by weight.
    """

    cases: int
    repeat: int
    trials: int
    missing: int
    rate: float
    flaky: int
    truncated: int
    rates: tuple[PassRates, ...]


def trials_of_case(case: CaseRecord, verdict: CaseVerdict, *, stop_when_decided: bool) -> CaseTrials | None:
    """Summarise the trials of a case; None for a case with one trial, or with none that passed or failed."""
    passed, failed = verdict.passes, verdict.failures
    if case.repeat == 1 or not passed + failed:
        return None
    return CaseTrials(
        repeat=case.repeat,
        passed=passed,
        failed=failed,
        missing=case.repeat - passed - failed,
        rate=passed / (passed + failed),
        truncated=_truncated(case, verdict, stop_when_decided=stop_when_decided),
        rates=tuple(_rates(case.repeat, passed, failed, k) for k in _shown(case.repeat)),
    )


class TrialTally:
    """How the cases with several trials did, added up case by case; the cases that gate are given."""

    def __init__(self, *, stop_when_decided: bool) -> None:
        self._stop_when_decided = stop_when_decided
        self._found: Counter[tuple[int, int, int, bool, bool, float]] = Counter()

    def add(self, case: CaseRecord, verdict: CaseVerdict) -> None:
        """Add a case."""
        if case.repeat > 1 and (verdict.passes or verdict.failures):
            left_out = _truncated(case, verdict, stop_when_decided=self._stop_when_decided)
            self._found[case.repeat, verdict.passes, verdict.failures, left_out, verdict.flaky, case.weight] += 1

    @property
    def summary(self) -> SuiteTrials | None:
        """How they did; None where none of them has several trials."""
        found = [key for key, number in self._found.items() for _ in range(number)]
        if not found:
            return None
        repeat = min(each[0] for each in found)
        return SuiteTrials(
            cases=len(found),
            repeat=repeat,
            trials=sum(passed + failed for _, passed, failed, *_ in found),
            missing=sum(planned - passed - failed for planned, passed, failed, *_ in found),
            rate=_mean([(passed / (passed + failed), weight) for _, passed, failed, _, _, weight in found]),
            flaky=sum(flaky for *_, flaky, _ in found),
            truncated=sum(truncated for _, _, _, truncated, *_ in found),
            rates=tuple(_mean_rates(found, k) for k in _shown(repeat)),
        )


def _truncated(case: CaseRecord, verdict: CaseVerdict, *, stop_when_decided: bool) -> bool:
    return stop_when_decided and len(verdict.trials) < case.repeat and verdict.judged in ("passed", "failed")


def _shown(repeat: int) -> Sequence[int]:
    return (*range(1, min(repeat - 1, _EACH_UP_TO) + 1), repeat)


@cache
def _rates(repeat: int, passed: int, failed: int, k: int) -> PassRates:
    # Both grow with the number of passing trials.
    fewest, most = passed, repeat - failed
    return PassRates(
        k,
        Ends(pass_at_k(repeat, fewest, k), pass_at_k(repeat, most, k)),
        Ends(pass_hat_k(repeat, fewest, k), pass_hat_k(repeat, most, k)),
    )


def _mean_rates(found: Sequence[tuple[int, int, int, bool, bool, float]], k: int) -> PassRates:
    rates = [(_rates(repeat, passed, failed, k), weight) for repeat, passed, failed, _, _, weight in found]
    at = [(each.pass_at_k, weight) for each, weight in rates]
    hat = [(each.pass_hat_k, weight) for each, weight in rates]
    return PassRates(k, _mean_ends(at), _mean_ends(hat))


def _mean_ends(found: Sequence[tuple[Ends, float]]) -> Ends:
    low = _mean([(ends.low, weight) for ends, weight in found])
    return Ends(low, _mean([(ends.high, weight) for ends, weight in found]))


def _mean(values: Sequence[tuple[float, float]]) -> float:
    mean = weighted_mean(values)
    assert mean is not None
    return mean
