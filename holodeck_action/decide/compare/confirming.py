"""Decides by further trials whether a case that got worse is regressed or flaky (docs/statistics.md)."""

from __future__ import annotations

from holodeck_action.decide.case_verdicts import judge_trial
from holodeck_action.decide.compare.comparison import TrialCounts
from holodeck_action.decide.compare.pairing import CasePair, apply_to_trial
from holodeck_action.record.record import TrialRecord
from holodeck_action.suite.model.policy import Confirmation


def count_trials(pair: CasePair, settings: Confirmation) -> TrialCounts | None:
    """Count the passing and failing trials of a case that passed on the base and fails now.

    A planned trial without a verdict counts as failed in the head and as passed on the base.

    Returns:
        The counts over the original and the further trials; None if the case had no further trials.
    """
    head, base = pair.same.head, pair.same.base
    if not head.confirmation:
        return None
    trials = len(pair.head.trials) + settings.trials
    passed = sum(each.outcome == "passed" for each in pair.head.trials) + _count(pair, head.confirmation, "passed")
    base_trials = len(pair.base.trials) + (settings.trials if base.confirmation else 0)
    failed = sum(each.outcome == "failed" for each in pair.base.trials) + _count(pair, base.confirmation, "failed")
    return TrialCounts(trials - passed, trials, base_trials - failed, base_trials)


def _count(pair: CasePair, trials: tuple[TrialRecord, ...], outcome: str) -> int:
    """Return the number of trials with an outcome, judged by the criteria of the pair."""
    return sum(judge_trial(apply_to_trial(trial, pair.criteria)).outcome == outcome for trial in trials)
