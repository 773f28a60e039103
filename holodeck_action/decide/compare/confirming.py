"""Counts the trials of a case, each side's own, and decides by them whether the case got worse (docs/statistics.md)."""

from __future__ import annotations

from typing import NamedTuple

from holodeck_action.decide.compare.comparison import CaseChangeKind, TrialCounts
from holodeck_action.decide.compare.pairing import CasePair
from holodeck_action.decide.verdict import CaseVerdict
from holodeck_action.record.record import CaseRecord


class FurtherTrials(NamedTuple):
    """The number of further trials that each side planned for a case that got worse."""

    base: int
    head: int


def classify_change(pair: CasePair, planned: FurtherTrials | None) -> tuple[CaseChangeKind | None, TrialCounts | None]:
    """Return how a case changed, and the counts of its trials if one side has more trials than the other, or further
    ones.

    Args:
        pair: the case.
        planned: the further trials of a case that got worse; None to count each such case as regressed.

    Returns:
        The kind of change, None if the case did not change; and the counts, None if both sides have the same number of
        trials and no further ones.
    """
    before, now = pair.base.judged, pair.head.judged
    counts = count_trials(pair, planned)
    if counts is None or pair.own is None:
        if before == now:
            return "regressed" if _stopped_working(pair) else None, None
        return "regressed" if now == "failed" else "fixed", None
    confirmed = planned is not None and bool(pair.same.head.confirmation)
    if (before, now) == ("passed", "failed"):
        if not confirmed:
            return "regressed", None
        return "regressed" if counts.confirm_regression else "flaky", counts
    fails_now = pair.own[1].judged == "failed"
    if fails_now and 2 * counts.base_passed > counts.base_trials:
        # The trials that both sides have do not show the loss.
        if counts.confirm_regression:
            return "regressed", counts
        return "flaky" if confirmed else "undecided", counts
    return (None, None) if before == now or fails_now else ("fixed", None)


def _stopped_working(pair: CasePair) -> bool:
    """Return whether a case that failed by its criteria on both sides passed in most trials on the base, and in none
    now."""
    passed = sum(each.outcome == "passed" for each in pair.base.trials)
    return 2 * passed > len(pair.base.trials) and all(each.outcome == "failed" for each in pair.head.trials)


def count_trials(pair: CasePair, planned: FurtherTrials | None) -> TrialCounts | None:
    """Count the passing and failing trials of a case, all those of each side.

    A planned further trial without a verdict counts as failed in the head and as passed on the base.

    Returns:
        The counts over the trials of the run and the further ones; None if both sides have the same number of trials
        and no further ones.
    """
    if pair.own is None:
        return None
    of_base, of_head = pair.own
    base_trials = _trial_count(pair.same.base, of_base, planned.base if planned else 0)
    trials = _trial_count(pair.same.head, of_head, planned.head if planned else 0)
    failed = sum(each.outcome == "failed" for each in of_base.trials)
    passed = sum(each.outcome == "passed" for each in of_head.trials)
    return TrialCounts(trials - passed, trials, base_trials - failed, base_trials)


def _trial_count(case: CaseRecord, verdict: CaseVerdict, planned: int) -> int:
    """Return the number of a side's trials; `planned` is the number of its further trials, if it has any."""
    further = len(case.confirmation)
    return len(verdict.trials) + (max(0, planned - further) if further else 0)
