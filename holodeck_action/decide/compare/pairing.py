"""The cases of two runs side by side: which are the same, and both judged as the head judges."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.case_verdicts import judge_case
from holodeck_action.decide.verdict import CaseVerdict
from holodeck_action.record.evaluation import Criteria, Evaluation
from holodeck_action.record.record import CaseRecord, TrialRecord, TurnRecord

Place = tuple[int, str]
"""Index of a turn, and name of a metric on it."""


@dataclass(frozen=True, slots=True)
class SameCase:
    """A case with the same questions and expectations in both runs.

    Attributes:
        base: the base's.
        head: the head's.
        base_asked: an evaluation of each metric on each turn of the base; a completed one where there is one.
        head_asked: those of the head.
    """

    base: CaseRecord
    head: CaseRecord
    base_asked: Mapping[Place, Evaluation] = field(init=False)
    head_asked: Mapping[Place, Evaluation] = field(init=False)

    def __post_init__(self) -> None:
        """Look for what was asked."""
        object.__setattr__(self, "base_asked", _asked(self.base))
        object.__setattr__(self, "head_asked", _asked(self.head))

    @property
    def title(self) -> str:
        """The case's name, or its id without one."""
        return title(self.head)

    @property
    def common(self) -> Iterator[tuple[Place, Evaluation, Evaluation]]:
        """What both sides were asked: where, by the base, by the head."""
        for place, asked in self.head_asked.items():
            before = self.base_asked.get(place)
            if before is not None:
                yield place, before, asked


class CasePair(Struct, frozen=True):
    """A case judged alike in both runs: by the head's criteria, on what both were asked, over as many trials.

    `quarantined`: the head's run has it in quarantine.
    """

    same: SameCase
    base: CaseVerdict
    head: CaseVerdict
    trials: int
    quarantined: bool

    @property
    def weight(self) -> float:
        """The head's weight of the case."""
        return self.same.head.weight

    @property
    def decided(self) -> bool:
        """Whether both sides passed or failed."""
        return {self.base.judged, self.head.judged} <= {"passed", "failed"}

    def unknown_sides(self, gating: Set[str]) -> tuple[bool, bool]:
        """Tell of base and head whether the verdict, or a metric that gates, is unknown."""
        base, head = (
            each.judged in ("error", "skipped")
            or any(trial.outcome == "error" for trial in each.trials)
            or any(metric.outcome == "error" and metric.name in gating for metric in each.metrics)
            for each in (self.base, self.head)
        )
        return base, head

    @property
    def missing(self) -> str:
        """Why one of the sides could not be judged; empty where both could."""
        for where, verdict in (("on the base", self.base), ("in this run", self.head)):
            if verdict.judged in ("error", "skipped"):
                return f"{where}: {verdict.reason}"
        return ""


def title(case: CaseRecord) -> str:
    """Return a case's name, or its id without one."""
    return case.name or case.id


def _asked(case: CaseRecord) -> dict[Place, Evaluation]:
    found: dict[Place, Evaluation] = {}
    for turn in case.turns:
        for evaluation in turn.evaluations:
            place = (turn.index, evaluation.evaluator_name)
            if place not in found or (found[place].status != "completed" and evaluation.status == "completed"):
                found[place] = evaluation
    return found


def judged_alike(same: SameCase, own: CaseVerdict, silent: Set[str], *, base_stops: bool, head_stops: bool) -> CasePair:
    """Judge both sides of a case by the same rules.

    Metrics count where both sides have them, with the head's criteria. Of different numbers of trials the first ones
    count, with the head's share of trials that must pass.

    Args:
        same: the case.
        own: the head's verdict in its own run.
        silent: metrics that decide nothing.
        base_stops: whether the base's trials end with the one that decides.
        head_stops: whether the head's do.
    """
    base, head = same.base, same.head
    if not base.trials or not head.trials:
        # A case that was not run has no criteria that both could be judged by.
        before = judge_case(base, stop_when_decided=base_stops)
        return CasePair(same, before, own, min(base.repeat, head.repeat), own.outcome == "quarantined")
    trials = min(base.repeat, head.repeat)
    needed = math.ceil(head.min_pass * trials / head.repeat)
    criteria = {
        place: replace(asked.criteria, asserts=False, fail_on_error=False) if place[1] in silent else asked.criteria
        for place, _, asked in same.common
    }
    stops = base_stops or head_stops
    ours = _alike(head, criteria, same.head_asked, trials, needed)
    theirs = _alike(base, criteria, same.base_asked, trials, needed)
    as_run = ours is head and stops == head_stops
    judged = own if as_run else judge_case(ours, stop_when_decided=stops)
    return CasePair(same, judge_case(theirs, stop_when_decided=stops), judged, trials, own.outcome == "quarantined")


def decides_alike(one: Criteria, other: Criteria) -> bool:
    """Tell whether two criteria make the same verdict of the same score."""
    return (one.threshold, one.asserts, one.pass_values, one.polarity, one.fail_on_error) == (
        other.threshold,
        other.asserts,
        other.pass_values,
        other.polarity,
        other.fail_on_error,
    )


def _alike(
    case: CaseRecord, criteria: Mapping[Place, Criteria], own: Mapping[Place, Evaluation], trials: int, needed: int
) -> CaseRecord:
    """Return a case with its first trials, evaluated where there are criteria, and by them."""
    as_asked = own.keys() == criteria.keys() and all(
        decides_alike(evaluation.criteria, criteria[place]) for place, evaluation in own.items()
    )
    if as_asked and (case.repeat, case.min_pass) == (trials, needed):
        return case

    def turn_of(turn: TurnRecord) -> TurnRecord:
        asked = ((each, criteria.get((turn.index, each.evaluator_name))) for each in turn.evaluations)
        return replace(turn, evaluations=tuple(replace(each, criteria=by) for each, by in asked if by is not None))

    def trial_of(trial: TrialRecord) -> TrialRecord:
        return replace(trial, turns=tuple(map(turn_of, trial.turns)))

    tools = any(turn.tool_assertions for turn in case.turns)
    return replace(
        case,
        repeat=trials,
        min_pass=needed,
        asserting=case.asserting if as_asked else tools or any(each.asserts for each in criteria.values()),
        trials=tuple(trial_of(trial) for trial in case.trials if trial.index < trials),
    )
