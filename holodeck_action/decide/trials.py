"""Results of cases over their trials: pass@k and pass^k.

A trial has no result if it was in error, or if it was not run because its case was already decided. Such a trial could
have passed or failed. Numbers that depend on it are therefore given as an interval.
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

_MAX_LISTED_K = 10


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return pass@k = 1 − C(n−c, k)/C(n, k), the unbiased estimate of the probability that 1 or more of k trials pass.

    Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code", arXiv 2107.03374, equation 1.

    Args:
        n: number of trials.
        c: number of trials that passed, 0..n.
        k: number of attempts, 1..n.
    """
    ways = math.comb(n, k)
    return (ways - math.comb(n - c, k)) / ways


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Return pass^k = C(c, k)/C(n, k), the unbiased estimate of the probability that all of k trials pass.

    Source: Yao et al. 2024, "τ-bench", arXiv 2406.12045. The arguments are those of `pass_at_k`.
    """
    return math.comb(c, k) / math.comb(n, k)


class Bounds(Struct, frozen=True):
    """The smallest and the largest possible value of a number; both are equal if the number is known exactly."""

    low: float
    high: float


class PassRates(Struct, frozen=True):
    """The probabilities that at least one of k trials passes (`pass_at_k`), and that all of them pass
    (`pass_hat_k`)."""

    k: int
    pass_at_k: Bounds
    pass_hat_k: Bounds


class CaseTrials(Struct, frozen=True):
    """The results of a case with several trials.

    Attributes:
        repeat: number of planned trials.
        passed: number of trials that passed.
        failed: number of trials that failed.
        missing: number of trials in error or not run.
        rate: passed / (passed + failed), which equals pass@1 and pass^1 if no trial is missing.
        truncated: whether some trials were not run because the case was already decided; `rate` covers only the others.
        rates: pass@k and pass^k for each k up to 10, and for k = `repeat`.
    """

    repeat: int
    passed: int
    failed: int
    missing: int
    rate: float
    truncated: bool
    rates: tuple[PassRates, ...]


class SuiteTrials(Struct, frozen=True):
    """The combined results of all cases that have several trials and a result, without quarantined cases.

    Attributes:
        cases: number of these cases.
        repeat: the smallest `repeat` of these cases, which is the largest k that all of them have.
        trials: number of trials that passed or failed.
        missing: number of trials in error or not run.
        rate: weighted mean of the cases' `rate`.
        flaky: number of cases with both passing and failing trials.
        truncated: number of cases whose `rate` is truncated.
        rates: weighted means of the cases' pass@k and pass^k.
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
    """Summarise the trials of a case; None if the case is not repeated, or if no trial passed or failed."""
    passed, failed = verdict.passes, verdict.failures
    if case.repeat == 1 or not passed + failed:
        return None
    return CaseTrials(
        repeat=case.repeat,
        passed=passed,
        failed=failed,
        missing=case.repeat - passed - failed,
        rate=passed / (passed + failed),
        truncated=_is_truncated(case, verdict, stop_when_decided=stop_when_decided),
        rates=tuple(_rates(case.repeat, passed, failed, k) for k in _reported_ks(case.repeat)),
    )


class TrialTally:
    """Adds up, case by case, the results of cases with several trials."""

    def __init__(self, *, stop_when_decided: bool) -> None:
        self._stop_when_decided = stop_when_decided
        self._found: Counter[tuple[int, int, int, bool, bool, float]] = Counter()

    def add(self, case: CaseRecord, verdict: CaseVerdict) -> None:
        """Add a case; it is ignored if it is not repeated or has no trial that passed or failed."""
        if case.repeat > 1 and (verdict.passes or verdict.failures):
            left_out = _is_truncated(case, verdict, stop_when_decided=self._stop_when_decided)
            self._found[case.repeat, verdict.passes, verdict.failures, left_out, verdict.flaky, case.weight] += 1

    @property
    def summary(self) -> SuiteTrials | None:
        """The combined results; None if no case was counted."""
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
            rates=tuple(_mean_rates(found, k) for k in _reported_ks(repeat)),
        )


def _is_truncated(case: CaseRecord, verdict: CaseVerdict, *, stop_when_decided: bool) -> bool:
    return stop_when_decided and len(verdict.trials) < case.repeat and verdict.judged in ("passed", "failed")


def _reported_ks(repeat: int) -> Sequence[int]:
    return (*range(1, min(repeat - 1, _MAX_LISTED_K) + 1), repeat)


@cache
def _rates(repeat: int, passed: int, failed: int, k: int) -> PassRates:
    # Both grow with the number of passing trials.
    fewest, most = passed, repeat - failed
    return PassRates(
        k,
        Bounds(pass_at_k(repeat, fewest, k), pass_at_k(repeat, most, k)),
        Bounds(pass_hat_k(repeat, fewest, k), pass_hat_k(repeat, most, k)),
    )


def _mean_rates(case_rates: Sequence[tuple[int, int, int, bool, bool, float]], k: int) -> PassRates:
    rates = [(_rates(repeat, passed, failed, k), weight) for repeat, passed, failed, _, _, weight in case_rates]
    at = [(each.pass_at_k, weight) for each, weight in rates]
    hat = [(each.pass_hat_k, weight) for each, weight in rates]
    return PassRates(k, _mean_bounds(at), _mean_bounds(hat))


def _mean_bounds(case_bounds: Sequence[tuple[Bounds, float]]) -> Bounds:
    low = _mean([(bounds.low, weight) for bounds, weight in case_bounds])
    return Bounds(low, _mean([(bounds.high, weight) for bounds, weight in case_bounds]))


def _mean(values: Sequence[tuple[float, float]]) -> float:
    mean = weighted_mean(values)
    assert mean is not None
    return mean
