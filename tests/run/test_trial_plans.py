"""Each plan of trials alone: after these trials, these run next, and these decide."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from holodeck_action.record.record import CertainEnd, Record, ToolAssertion, TrialRecord, TurnRecord
from holodeck_action.run.certain_end import UntilCertain
from holodeck_action.run.trial_plans import AllTrials, Available, Consistent, FurtherTrials, Plan, Resumed
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.policy import Gates
from holodeck_action.suite.values import Case, Turn
from tests.record.records import case, evaluation, record

MARK = SourceMark("agent.yaml", 1, 1)
CASES = [
    Case(f"case {at}", None, "0", MARK, (Turn(0, "q", MARK),), multi_turn=False, repeat=repeat, min_pass=2)
    for at, repeat in enumerate((3, 5))
]
ALL = AllTrials(CASES, stop_when_decided=False)
EARLY = AllTrials(CASES, stop_when_decided=True)


def trial(index: int, passed: bool) -> TrialRecord:
    return TrialRecord(index, (TurnRecord(0, "q", MARK, tool_assertions=(ToolAssertion("t", passed, 0),)),), None)


def trials(outcomes: str) -> dict[int, TrialRecord]:
    """Trials by index from a text such as `+-.+`: passed, failed, not finished, passed."""
    return {index: trial(index, sign == "+") for index, sign in enumerate(outcomes) if sign != "."}


@pytest.mark.parametrize(
    ("plan", "finished", "next_trials", "deciding"),
    [
        (ALL, "", [0, 1, 2, 3, 4], []),
        (ALL, "+.+", [1, 3, 4], [0, 2]),
        (ALL, "+-+++", [], [0, 1, 2, 3, 4]),
        # Two of five must pass: two trials may decide, then each that is surely needed.
        (EARLY, "", [0, 1], []),
        (EARLY, "+-", [2], [0, 1]),
        (EARLY, "--", [2, 3], [0, 1]),
        (EARLY, "---", [3], [0, 1, 2]),
        (EARLY, "++", [], [0, 1]),
        (EARLY, "-.++", [1], [0, 2, 3]),
        (EARLY, "-++++", [], [0, 1, 2]),
        (EARLY, "----", [], [0, 1, 2, 3]),
        (FurtherTrials(CASES, 2), "", [5, 6], []),
        (FurtherTrials(CASES, 2), "+++++-", [6], [5]),
        (Available(ALL, {("case 1", 1), ("case 1", 3), ("case 0", 2)}), "", [1, 3], []),
        (Available(EARLY, {("case 1", 1)}), "..", [1], []),
        (Available(ALL, {("case 1", 1)}), "-+", [], [0, 1]),
    ],
)
def test_after_these_trials_these_run_next(
    plan: Plan, finished: str, next_trials: Sequence[int], deciding: Sequence[int]
) -> None:
    assert plan.next_trials(1, trials(finished)) == next_trials
    assert [each.index for each in plan.deciding(1, trials(finished))] == deciding


@pytest.mark.parametrize(("plan", "known"), [(ALL, [0, 2]), (FurtherTrials(CASES, 1), [3])])
def test_a_resumed_plan_hands_out_the_trials_that_it_may_have(plan: Plan, known: Sequence[int]) -> None:
    journaled = {("case 0", index): each for index, each in trials("+.-+").items()} | {("gone", 1): trial(1, True)}
    resumed = Available(Resumed(plan, journaled, {key: key for key in journaled}), set())
    assert [*resumed.known(0)] == known
    assert resumed.known(1) == {}
    assert resumed.next_trials(0, resumed.known(0)) == []


@pytest.mark.parametrize("plan", [ALL, EARLY])
@pytest.mark.parametrize(("verdicts", "errors"), [("+++", []), ("++-", [0, 1, 2]), ("+", []), ("-.+", [0, 2])])
def test_a_consistent_plan_decides_by_no_judge_that_contradicts_itself(
    plan: Plan, verdicts: str, errors: Sequence[int]
) -> None:
    def judged(index: int, sign: str) -> TrialRecord:
        score = evaluation(
            0.9 if sign == "+" else 0.1, threshold=0.5, evaluation_id=str(index), metadata={"judge": "m"}
        )
        return TrialRecord(index, (TurnRecord(0, "q", MARK, response="a", evaluations=(score,)),), None)

    finished = {index: judged(index, sign) for index, sign in enumerate(verdicts) if sign != "."}
    consistent = Consistent(plan)
    assert consistent.next_trials(0, finished) == plan.next_trials(0, finished)
    deciding = consistent.deciding(0, finished)
    assert [each.index for each in deciding] == [each.index for each in plan.deciding(0, finished)]
    assert [each.index for each in deciding if each.turns[0].evaluations[0].status == "failed"] == [
        each.index for each in deciding if each.index in errors
    ]


@pytest.mark.parametrize(
    ("gates", "letters", "ended", "ends_with", "counted"),
    [
        # One failure decides as soon as all cases before it in the order have ended.
        (Gates(), "PFPPP", [0, 1], 1, [0, 1]),
        (Gates(), "PFPPP", [1, 3, 0], 0, [0, 1]),
        (Gates(), "PFPFP", [4, 3, 2, 1, 0], 0, [0, 1]),
        (Gates(), "FPPPP", [0], 0, [0]),
        # A pass may still become an error.
        (Gates(), "PPPPP", [0, 1, 2, 3], None, None),
        (Gates(min_completeness=0), "PEPPP", [0, 1, 2, 3], None, None),
        # Three of five must pass: the third failure decides.
        (Gates(min_pass_rate=0.6), "FFPFP", [0, 1, 2, 3], 3, [0, 1, 2, 3]),
        (Gates(min_pass_rate=0.6), "FFPFP", [3, 1, 0, 4], None, None),
        # All cases are no early end.
        (Gates(min_pass_rate=0.6), "PFFPF", [0, 1, 2, 3, 4], 4, None),
    ],
)
def test_a_plan_until_certain_counts_the_fewest_cases_in_order(
    gates: Gates, letters: str, ended: Sequence[int], ends_with: int | None, counted: Sequence[int] | None
) -> None:
    heads = [replace(case("", repeat=1), id=f"case-{at}", planned_evaluations=1) for at in range(len(letters))]

    def record_of(finished: Mapping[int, tuple[TrialRecord, ...]]) -> Record:
        cases = [replace(head, trials=finished.get(at, ())) for at, head in enumerate(heads)]
        return replace(record(*cases, gates=gates), certain=CertainEnd(tuple(heads[at].id for at in finished)))

    plan = UntilCertain(ALL, range(len(letters)), record_of, lambda: 0.0)
    ends = [at for at in ended if plan.end_case(at, case(letters[at]).trials)]
    assert ends == ([] if ends_with is None else [ends_with])
    assert asyncio.run(plan.counted(stopped=True)) is None
    found = asyncio.run(plan.counted(stopped=False))
    assert (found if found is None else [*found]) == counted
