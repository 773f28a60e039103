"""Paired differences of the pass rate and of metrics, with their statistics (docs/statistics.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.compare import paired_statistics
from holodeck_action.decide.compare.comparison import SIGNIFICANT, ChangeState, Difference
from holodeck_action.decide.compare.pairing import CasePair, TurnMetric
from holodeck_action.decide.statistics import MIN_SAMPLE, WeightedValues, weighted_mean
from holodeck_action.decide.verdict import CaseVerdict, MetricVerdict

_MAX_TRIALS = 10


class PairedValues:
    """The values of cases on both sides, 0..1; a case's value is a mean over its turns and trials."""

    def __init__(self) -> None:
        self.base, self.head = WeightedValues(), WeightedValues()
        self.noise = WeightedValues()
        self.trials = 0

    def __len__(self) -> int:
        return len(self.base)

    def add(self, base: float, head: float, weight: float, noise: float | None, trial_count: int) -> None:
        """Add a case.

        Args:
            base: value of the case on the base.
            head: value of the case in the head.
            weight: weight of the case.
            noise: variance of head − base that is due to differences between trials; None if the case has only one
                trial.
            trial_count: number of the case's trials, on the side with fewer.
        """
        self.trials = min(trial_count, self.trials) if len(self) else trial_count
        self.base.add(base, weight)
        self.head.add(head, weight)
        if noise is not None:
            self.noise.add(noise, weight)


class PassTally:
    """Collects the results of cases on both sides.

    The value of a case is its proportion of passing trials if cases are repeated and all trials of all cases ran.
    Otherwise the value is 1 if the case passed and 0 if it failed, since the proportion would be biased.
    """

    def __init__(self) -> None:
        self._shares, self._verdicts = PairedValues(), PairedValues()
        self._repeated, self._complete = False, True

    def add(self, pair: CasePair) -> None:
        """Add a case that both sides decided."""
        self._repeated = self._repeated or pair.trials > 1
        self._complete = self._complete and all(
            each.passes + each.failures + each.errors == pair.trials and each.passes + each.failures > 0
            for each in (pair.base, pair.head)
        )
        passed = [float(each.judged == "passed") for each in (pair.base, pair.head)]
        self._verdicts.add(passed[0], passed[1], pair.weight, None, pair.trials)
        if self._complete:
            _add_shares(self._shares, pair)

    @property
    def by_trial(self) -> bool:
        """Whether the value of a case is its proportion of passing trials."""
        return self._repeated and self._complete

    @property
    def values(self) -> PairedValues:
        """The values of the cases on both sides."""
        return self._shares if self.by_trial else self._verdicts


def _add_shares(values: PairedValues, pair: CasePair) -> None:
    counts = [(verdict.passes, verdict.passes + verdict.failures) for verdict in (pair.base, pair.head)]
    shares = [passes / trials for passes, trials in counts]
    trials = min(trials for _, trials in counts)
    # s²/n of 0 and 1 is p(1 − p)/(n − 1).
    noise = math.fsum(share * (1 - share) / (trials - 1) for share in shares) if trials > 1 else None
    values.add(shares[0], shares[1], pair.weight, noise, trials)


class MetricValues:
    """The values of a metric, over the cases in which both sides have scores on the same turns.

    `missing` counts the cases in which one side lacks a score; `example` describes one of them.
    """

    def __init__(self) -> None:
        self.values = PairedValues()
        self.missing = 0
        self.example = ""

    def add_missing(self, reason: str) -> None:
        """Count a case in which one side lacks a score; `reason` describes it."""
        self.example = min(self.example, reason) if self.missing else reason
        self.missing += 1


def add_metrics(values_by_name: dict[str, MetricValues], pair: CasePair) -> None:
    """Add the values of each of a case's metrics to `values_by_name`, by name."""
    base, head = _scores(pair.base), _scores(pair.head)
    names: dict[str, list[TurnMetric]] = {}
    for place in base.scores.keys() | head.scores.keys():
        names.setdefault(place[1], []).append(place)
    for name, places in names.items():
        metric = values_by_name.setdefault(name, MetricValues())
        lost = sorted(place for place in places if place not in base.scores or place not in head.scores)
        if lost:
            where, side = ("on the base", base) if lost[0] not in base.scores else ("in this run", head)
            metric.add_missing(f"{pair.same.title}, {where}: {side.reasons.get(lost[0], 'not evaluated')}")
        else:
            _add_scores(metric.values, pair, [(base.scores[place], head.scores[place]) for place in sorted(places)])


class _Scores(Struct, frozen=True):
    scores: Mapping[TurnMetric, list[float]]
    reasons: Mapping[TurnMetric, str]


def _scores(verdict: CaseVerdict) -> _Scores:
    """Return the scores of each metric on each turn, one for each trial, and the reasons why scores are missing."""
    scores: dict[TurnMetric, list[float]] = {}
    reasons: dict[TurnMetric, str] = {}
    for part in verdict.parts:
        for metric in part.metrics:
            score = _score(metric)
            if score is None:
                reasons.setdefault((part.index, metric.name), metric.reason)
            else:
                scores.setdefault((part.index, metric.name), []).append(score)
    return _Scores(scores, reasons)


def _score(metric: MetricVerdict) -> float | None:
    """Return a metric's score; 1 or 0 for a category that passes or fails; None if there is no score."""
    if metric.outcome in ("skipped", "error"):
        return None
    if metric.score is None and metric.outcome in ("passed", "failed"):
        return float(metric.outcome == "passed")
    return metric.score


def _add_scores(values: PairedValues, pair: CasePair, turns: Sequence[tuple[list[float], list[float]]]) -> None:
    sides = [[scores[side] for scores in turns] for side in (0, 1)]
    means = [math.fsum(math.fsum(trials) / len(trials) for trials in side) / len(side) for side in sides]
    counts = {len(trials) for side in sides for trials in side}
    noise = None
    if len(counts) == 1 and counts != {1}:
        noise = math.fsum(
            _variance_of_mean([math.fsum(trial) / len(side) for trial in zip(*side, strict=True)]) for side in sides
        )
    values.add(means[0], means[1], pair.weight, noise, min(counts))


def _variance_of_mean(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)


def difference(values: PairedValues, margin: float, *, minimize: bool = False) -> Difference:
    """Return the paired difference of the values. `classify_differences` later adjusts its p-values and sets its state.

    Args:
        values: values of at least one case.
        margin: the largest tolerated regression.
        minimize: whether low values are good.
    """
    sign = -1 if minimize else 1
    found = WeightedValues()
    for (base, weight), (head, _) in zip(values.base, values.head, strict=True):
        found.add(sign * paired_statistics.difference(base, head), weight)
    mean = _mean(found)
    made = Difference(
        pairs=len(values),
        base=_mean(values.base),
        head=_mean(values.head),
        difference=mean,
        low=None,
        high=None,
        p_value=None,
        p_gating=None,
        p_shown=None,
        state="inconclusive",
        detectable=None,
        settles=_cases_needed(values, found, mean, margin),
    )
    if len(values) < MIN_SAMPLE:
        return made
    low, high = paired_statistics.interval(found)
    return replace(
        made,
        low=low,
        high=high,
        p_value=paired_statistics.p_value(found),
        detectable=paired_statistics.minimum_detectable_effect(found),
    )


def _mean(values: paired_statistics.WeightedDifferences) -> float:
    mean = weighted_mean(values)
    assert mean is not None
    return mean + 0.0


def classify_differences(
    differences: Sequence[Difference], gating: Sequence[bool], margin: float
) -> tuple[Difference, ...]:
    """Return differences with adjusted p-values and states.

    Args:
        differences: all differences that are reported.
        gating: for each difference, whether it gates.
        margin: the largest tolerated regression.
    """
    shown = _adjust_p_values(differences, [True] * len(differences), paired_statistics.benjamini_hochberg)
    gated = _adjust_p_values(differences, gating, paired_statistics.holm)
    complete = (
        replace(each, p_shown=p_shown, p_gating=p_gating)
        for each, p_shown, p_gating in zip(differences, shown, gated, strict=True)
    )
    judged = (replace(each, state=_change_state(each, margin)) for each in complete)
    return tuple(each if each.state == "inconclusive" else replace(each, settles="") for each in judged)


def _adjust_p_values(
    differences: Sequence[Difference],
    is_chosen: Sequence[bool],
    adjust: Callable[[Sequence[float]], tuple[float, ...]],
) -> list[float | None]:
    """Return the p-values of the chosen differences, adjusted together; None for the others."""
    tested = [each.p_value if wanted else None for each, wanted in zip(differences, is_chosen, strict=True)]
    adjusted = iter(adjust([p for p in tested if p is not None]))
    return [None if p is None else next(adjusted) for p in tested]


def _change_state(change: Difference, margin: float) -> ChangeState:
    if change.low is None or change.high is None:
        return "inconclusive"
    p = change.p_shown if change.p_gating is None else change.p_gating
    if change.high < 0 and p is not None and p <= SIGNIFICANT:
        return "regressed"
    return "non_inferior" if change.low > -margin else "inconclusive"


def _cases_needed(
    values: PairedValues, differences: paired_statistics.WeightedDifferences, mean: float, margin: float
) -> str:
    """Return a clause with the numbers of cases and trials needed to detect a change as large as the margin. If a
    smaller change would decide the state, the clause refers to that change.
    """
    effect = min(margin, max(-mean, margin + mean))
    trials, noise = values.trials, weighted_mean(values.noise)
    points = f"would detect a change of {100 * effect:.2g} points"
    needed = paired_statistics.cases_to_detect(effect, differences)
    for more in range(trials + 1, _MAX_TRIALS + 1) if noise else ():
        with_more = paired_statistics.cases_to_detect(effect, differences, noise or 0.0, trials / more)
        if with_more <= len(values) and with_more < needed and len(values) >= MIN_SAMPLE:
            return f"{len(values)} cases × {more} trials {points}"
    return f"{max(MIN_SAMPLE, needed)} cases × {trials} trial{'s' * (trials > 1)} {points}"
