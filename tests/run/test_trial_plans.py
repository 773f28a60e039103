"""Each plan of trials alone: after these trials, these run next, and these decide."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holodeck_action.record.record import ToolAssertion, TrialRecord, TurnRecord
from holodeck_action.run.trial_plans import AllTrials, Available, FurtherTrials, Plan, Resumed
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.turn_texts import TurnTexts
from holodeck_action.suite.values import Case, Turn

MARK = SourceMark("agent.yaml", 1, 1)
CASES = [
    Case(f"case {at}", None, "0", MARK, (Turn(0, TurnTexts("q"), MARK),), multi_turn=False, repeat=repeat, min_pass=2)
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
    resumed = Available(Resumed(plan, journaled), set())
    assert [*resumed.known(0)] == known
    assert resumed.known(1) == {}
    assert resumed.next_trials(0, resumed.known(0)) == []
