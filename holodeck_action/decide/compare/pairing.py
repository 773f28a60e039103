"""Pairs of the same case in two runs, with both sides judged by the head's criteria."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.case_terms import changed_model
from holodeck_action.decide.case_verdicts import judge_case, judge_trial
from holodeck_action.decide.verdict import CaseVerdict
from holodeck_action.record.evaluation import Criteria, Evaluation
from holodeck_action.record.record import CaseRecord, SimulatedUser, TrialRecord

ON_BASE = "on the base"
"""The beginning of the reason why the base of a pair could not be judged."""

TurnMetric = tuple[int, str]
"""Index of a turn, the last one for a metric of the whole conversation, and name of the metric."""


@dataclass(frozen=True, slots=True)
class SameCase:
    """A case with the same questions and expectations in both runs.

    Attributes:
        base: the case in the base.
        head: the case in the head.
        whole: the case in base and head with all turns, even if `base` and `head` have only the last turn.
        base_evaluations: one evaluation of each metric on each turn of the base, a completed one if possible.
        head_evaluations: one evaluation of each metric on each turn of the head, a completed one if possible.
    """

    base: CaseRecord
    head: CaseRecord
    whole: tuple[CaseRecord, CaseRecord]
    base_evaluations: Mapping[TurnMetric, Evaluation] = field(init=False)
    head_evaluations: Mapping[TurnMetric, Evaluation] = field(init=False)

    def __post_init__(self) -> None:
        """Index the evaluations of both sides."""
        object.__setattr__(self, "base_evaluations", _index_evaluations(self.base))
        object.__setattr__(self, "head_evaluations", _index_evaluations(self.head))

    @property
    def title(self) -> str:
        """The case's name, or its id if it has no name."""
        return title(self.head)

    @property
    def common_evaluations(self) -> Iterator[tuple[TurnMetric, Evaluation, Evaluation]]:
        """Turn and metric of each evaluation that both sides have, with the base's and the head's evaluation."""
        for place, asked in self.head_evaluations.items():
            before = self.base_evaluations.get(place)
            if before is not None:
                yield place, before, asked


def same_case(base: CaseRecord, head: CaseRecord) -> SameCase:
    """Return the pair of a case in two runs.

    Of conversations with a simulated user, which have different numbers of turns, only the last turns are compared,
    since they have the evaluations.
    """
    if base.user is None or head.user is None:
        return SameCase(base, head, (base, head))
    return SameCase(_with_last_turns(base, base.user), _with_last_turns(head, head.user), (base, head))


def _with_last_turns(case: CaseRecord, user: SimulatedUser) -> CaseRecord:
    def convert(trial: TrialRecord) -> TrialRecord:
        return replace(trial, turns=tuple(replace(turn, index=0, input=user.goal) for turn in trial.turns[-1:]))

    return replace(case, trials=tuple(map(convert, case.trials)), confirmation=tuple(map(convert, case.confirmation)))


def case_difference(base: CaseRecord, head: CaseRecord) -> str | None:
    """Return why the results of a case cannot be compared; None if they can be compared."""
    if base.content_hash == head.content_hash:
        return None
    phrase = changed_model(base.user, head.user)
    return (
        f"unlike on the base, it lets {phrase} its user"
        if phrase
        else "its inputs or expectations differ from those of the base"
    )


class CasePair(Struct, frozen=True):
    """A case judged by the same rules in both runs: the head's criteria, the common metrics, the same number of trials.

    `base` and `head` are the verdicts. `trials` is the number of trials. `quarantined` is true if the head quarantines
    the case. `criteria` are those of the metrics that both sides have. `own` holds, for base and head, the verdict on
    all trials of that side; None if these are the same trials.
    """

    same: SameCase
    base: CaseVerdict
    head: CaseVerdict
    trials: int
    quarantined: bool
    criteria: Mapping[TurnMetric, Criteria] = {}
    own: tuple[CaseVerdict, CaseVerdict] | None = None

    @property
    def weight(self) -> float:
        """Weight of the case in the head."""
        return self.same.head.weight

    @property
    def is_decided(self) -> bool:
        """Whether the case passed or failed on both sides."""
        return {self.base.judged, self.head.judged} <= {"passed", "failed"}

    def unknown_sides(self, gating: Set[str]) -> tuple[bool, bool]:
        """Return, for base and head, whether the case's verdict or a gating metric's verdict is unknown."""
        base, head = (
            each.judged in ("error", "skipped")
            or any(trial.outcome == "error" for trial in each.trials)
            or any(metric.outcome == "error" and metric.name in gating for metric in each.metrics)
            for each in (self.base, self.head)
        )
        return base, head

    @property
    def unjudged_reason(self) -> str:
        """Why a side could not be judged; an empty string if both sides were judged."""
        for where, verdict in ((ON_BASE, self.base), ("in this run", self.head)):
            if verdict.judged in ("error", "skipped"):
                return f"{where}: {verdict.reason}"
        return ""


def title(case: CaseRecord) -> str:
    """Return a case's name, or its id if it has no name."""
    return case.name or case.id


def _index_evaluations(case: CaseRecord) -> dict[TurnMetric, Evaluation]:
    found: dict[TurnMetric, Evaluation] = {}
    for turn, evaluation in case.graded:
        place = (turn, evaluation.evaluator_name)
        if place not in found or (found[place].status != "completed" and evaluation.status == "completed"):
            found[place] = evaluation
    return found


def judge_pair(
    case_pair: SameCase, verdict: CaseVerdict, informational: Set[str], *, base_stops: bool, head_stops: bool
) -> CasePair:
    """Judge both sides of a case by the same rules.

    The head's criteria apply; metrics that only one side has are ignored. If one side has fewer trials, the surplus
    last trials of the other side are ignored. The head's required proportion of passing trials applies to both sides.

    Args:
        case_pair: the case.
        verdict: the verdict on the case in the head's own run.
        informational: metrics that do not decide whether the case passes.
        base_stops: whether the base runs no further trials of a case once it is decided.
        head_stops: whether the head runs no further trials of a case once it is decided.
    """
    base, head = case_pair.base, case_pair.head
    if not base.trials or not head.trials:
        # A case that was not run has no criteria to apply to both sides.
        before = judge_case(base, stop_when_decided=base_stops)
        return CasePair(case_pair, before, verdict, min(base.repeat, head.repeat), verdict.outcome == "quarantined")
    trials = min(base.repeat, head.repeat)
    needed = math.ceil(head.min_pass * trials / head.repeat)
    criteria = {
        place: replace(asked.criteria, asserts=False, fail_on_error=False)
        if place[1] in informational
        else asked.criteria
        for place, _, asked in case_pair.common_evaluations
    }
    stops = base_stops or head_stops
    ours = _apply_criteria(head, criteria, case_pair.head_evaluations, trials, needed)
    theirs = _apply_criteria(base, criteria, case_pair.base_evaluations, trials, needed)
    # Of a conversation with a simulated user, `verdict` has all turns, and `head` only the last.
    as_run = ours is head and stops == head_stops and head.user is None
    judged = verdict if as_run else judge_case(ours, stop_when_decided=stops)
    before = judge_case(theirs, stop_when_decided=stops)
    own = None
    if base.repeat != head.repeat or base.confirmation or head.confirmation:
        own = (
            _judge_own_trials(base, criteria, case_pair.base_evaluations, stops=base_stops),
            _judge_own_trials(head, criteria, case_pair.head_evaluations, stops=head_stops),
        )
    return CasePair(case_pair, before, judged, trials, verdict.outcome == "quarantined", criteria, own)


def _judge_own_trials(
    case: CaseRecord,
    criteria: Mapping[TurnMetric, Criteria],
    evaluations: Mapping[TurnMetric, Evaluation],
    *,
    stops: bool,
) -> CaseVerdict:
    """Judge one side of a case by all of its trials. The trials that confirm a regression are appended to those of the
    verdict, which they do not change."""
    verdict = judge_case(
        _apply_criteria(case, criteria, evaluations, case.repeat, case.min_pass), stop_when_decided=stops
    )
    more = tuple(judge_trial(_apply_to_trial(trial, criteria)) for trial in case.confirmation)
    return replace(verdict, trials=verdict.trials + more)


def gives_same_verdicts(first: Criteria, second: Criteria) -> bool:
    """Return whether two criteria give the same verdict for the same score."""
    return (first.threshold, first.asserts, first.pass_values, first.polarity, first.fail_on_error) == (
        second.threshold,
        second.asserts,
        second.pass_values,
        second.polarity,
        second.fail_on_error,
    )


def _apply_criteria(
    case: CaseRecord,
    criteria: Mapping[TurnMetric, Criteria],
    evaluations: Mapping[TurnMetric, Evaluation],
    trial_count: int,
    pass_count: int,
) -> CaseRecord:
    """Return a case with only its first `trial_count` trials and only those evaluations for which `criteria` has an
    entry. The entry replaces the evaluation's own criteria.
    """
    as_asked = evaluations.keys() == criteria.keys() and all(
        gives_same_verdicts(evaluation.criteria, criteria[place]) for place, evaluation in evaluations.items()
    )
    if as_asked and (case.repeat, case.min_pass) == (trial_count, pass_count):
        return case
    tools = any(turn.tool_assertions for turn in case.turns)
    return replace(
        case,
        repeat=trial_count,
        min_pass=pass_count,
        asserting=case.asserting if as_asked else tools or any(each.asserts for each in criteria.values()),
        trials=tuple(_apply_to_trial(trial, criteria) for trial in case.trials if trial.index < trial_count),
    )


def _apply_to_trial(trial: TrialRecord, criteria: Mapping[TurnMetric, Criteria]) -> TrialRecord:
    """Return a trial with only those evaluations for which `criteria` has an entry. The entry replaces the evaluation's
    own criteria.
    """

    def convert(evaluations: tuple[Evaluation, ...], turn: int) -> tuple[Evaluation, ...]:
        asked = ((each, criteria.get((turn, each.evaluator_name))) for each in evaluations)
        return tuple(replace(each, criteria=by) for each, by in asked if by is not None)

    turns = tuple(replace(turn, evaluations=convert(turn.evaluations, turn.index)) for turn in trial.turns)
    return replace(trial, turns=turns, evaluations=convert(trial.evaluations, turns[-1].index) if turns else ())
