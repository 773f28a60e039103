"""Cases that pass on one side and fail on the other, with the metric, turn and trial that explain the change."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import get_args

from holodeck_action.decide.compare.comparison import CaseChange, CaseChangeKind, MetricStep
from holodeck_action.decide.compare.confirming import FurtherTrials, classify_change
from holodeck_action.decide.compare.pairing import CasePair, TurnMetric
from holodeck_action.decide.named_turns import named_turn
from holodeck_action.decide.verdict import CaseVerdict, TrialVerdict
from holodeck_action.record.record import CaseRecord, TurnRecord

_Ranked = tuple[bool, tuple[float, float], str, CaseChange]
"""Whether a changed case is quarantined, its sort key, its id, and the change."""


class CaseChanges:
    """The cases that passed on one side and failed on the other, gathered pair by pair."""

    def __init__(self, further: FurtherTrials | None) -> None:
        """Start empty.

        Args:
            further: numbers of further trials of a case that got worse; None to count each such case as regressed.
        """
        self._further = further
        self._ranked: dict[CaseChangeKind, list[_Ranked]] = {kind: [] for kind in get_args(CaseChangeKind)}

    def add(self, pair: CasePair) -> str:
        """Add a pair. If the case changed, but no metric that both sides evaluated explains the change, return the
        reason; otherwise return an empty string.
        """
        change = _explain_change(pair, self._further)
        if isinstance(change, str):
            return change
        self._ranked[change.kind].append((change.quarantined, _rank_key(pair, change), change.id, change))
        return ""

    def largest_first(self, kind: CaseChangeKind) -> tuple[CaseChange, ...]:
        """Return the changed cases of a kind, largest change first, quarantined ones last."""
        return tuple(change for *_, change in sorted(self._ranked[kind], key=itemgetter(0, 1, 2)))


def _rank_key(pair: CasePair, change: CaseChange) -> tuple[float, float]:
    """Return a sort key, worst first: the weighted change in passing trials, then the change of the score."""
    shares = [each.passes / max(1, each.passes + each.failures) for each in (pair.base, pair.head)]
    return -pair.weight * abs(shares[1] - shares[0]), -_step_size(change.steps[0])


def _step_size(step: MetricStep) -> float:
    return 1.0 if step.base is None or step.head is None else abs(step.head - step.base)


def _explain_change(pair: CasePair, further: FurtherTrials | None) -> CaseChange | str:
    """Return the change of a case, or the reason why no metric that both sides evaluated explains the change; an empty
    string if the case did not change."""
    kind, counts = classify_change(pair, further)
    if kind is None:
        return ""
    regressed = kind != "fixed"
    of_base, of_head = pair.own if counts is not None and pair.own is not None else (pair.base, pair.head)
    failing, passing = (of_head, of_base) if regressed else (of_base, of_head)
    good = next(trial for trial in passing.trials if trial.outcome == "passed")
    bad = [trial for trial in failing.trials if trial.outcome == "failed"]
    found = ((trial, list(_failing_steps(pair, trial, good, passing, regressed=regressed))) for trial in bad)
    trial, steps = next(((trial, steps) for trial, steps in found if steps), (bad[0], []))
    if not steps:
        side = "in this run" if regressed else "on the base"
        return f"the evaluation that fails {side} did not happen in both runs: {trial.reason}"
    steps.sort(key=lambda step: (-_step_size(step), step.turn, step.name))
    base, head = (good, trial) if regressed else (trial, good)
    turn = steps[0].turn if steps[0].named_turn is None else steps[0].named_turn
    before, after = _find_turn(pair.same.base, base, turn), _find_turn(pair.same.head, head, turn)
    return CaseChange(
        id=pair.same.head.id,
        title=pair.same.title,
        source=after.source,
        kind=kind,
        quarantined=pair.quarantined,
        steps=tuple(steps),
        turn=after.index,
        turns=len(trial.turns),
        trial=trial.index if (pair.same.head if regressed else pair.same.base).repeat > 1 else None,
        question=after.input,
        before=before.response,
        after=after.response,
        counts=counts,
    )


def _failing_steps(
    pair: CasePair, trial: TrialVerdict, passing_trial: TrialVerdict, passing: CaseVerdict, *, regressed: bool
) -> Iterator[MetricStep]:
    """Yield each metric (or `tools`) that fails in a trial and passes in at least one trial of the other side."""
    passed = {(turn.index, each.name) for turn in passing.parts for each in turn.metrics if each.outcome == "passed"}
    tools_passed = {turn.index for turn in passing.parts if turn.tools == "passed"}
    scores: dict[TurnMetric, float | None] = {
        (turn.index, each.name): each.score for turn in passing_trial.parts for each in turn.metrics
    }
    failing = pair.same.head if regressed else pair.same.base
    for turn in trial.parts:
        whole = turn is trial.conversation
        for each in turn.metrics:
            place = (turn.index, each.name)
            if each.outcome == "failed" and place in passed:
                other = scores.get(place)
                base, head = (other, each.score) if regressed else (each.score, other)
                named = _named_turn(failing, trial, each.name) if whole else None
                yield MetricStep(each.name, turn.index, base, head, each.threshold, each.reason, whole, named)
        if turn.tools == "failed" and turn.index in tools_passed:
            asked = _find_turn(failing, trial, turn.index)
            broken = (assertion.problem for assertion in asked.tool_assertions if assertion.matched is False)
            yield MetricStep("tools", turn.index, None, None, None, next(broken))


def _named_turn(case: CaseRecord, trial: TrialVerdict, metric: str) -> int | None:
    """Return the index of the turn that a judge of the whole conversation names; None if the judge names no turn. Also
    None for conversations with a simulated user, since only their last turns are compared."""
    if case.user is not None:
        return None
    record = next(each for each in case.all_trials if each.index == trial.index)
    evaluation = next(each for each in record.evaluations if each.evaluator_name == metric)
    return named_turn(evaluation, len(record.turns))


def _find_turn(case: CaseRecord, trial: TrialVerdict, index: int) -> TurnRecord:
    turns = (turn for each in case.all_trials if each.index == trial.index for turn in each.turns)
    return next(turn for turn in turns if turn.index == index)
