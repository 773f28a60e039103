"""The plan of a variant alone: which cases may start, and which count, after these results of all variants."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from holodeck_action.extensions.race.contest import Course, VariantPlan
from holodeck_action.extensions.race.evidence import Bounds
from holodeck_action.run.schedule import Stop
from holodeck_action.run.trial_plans import AllTrials
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.values import Case

CASES = [Case(f"case {at}", None, "0", SourceMark("agent.yaml", 1, 1), (), multi_turn=False) for at in range(20)]
ORDER = [*reversed(range(20))]


@pytest.mark.parametrize(
    ("answered", "may_start", "counted", "is_over", "ends"),
    [
        # Two slots for two variants: each is at most two cases ahead of the slower one.
        ([], 2, 0, False, True),
        ([(0, 1), (0, 1)], 2, 0, False, True),
        ([(0, 1), (1, 0.5)], 3, 1, False, True),
        ([(1, 1), (1, 1), (0, 1)], 3, 1, False, True),
        # A variant that always loses is dropped before the last case, and its drop decides the race.
        ([(0, 1), (1, 0)] * 20, None, None, True, False),
        # Equal ones run to the end.
        ([(0, 1), (1, 1)] * 20, 20, 20, True, False),
    ],
)
def test_after_these_results_these_cases_start_and_count(
    answered: Sequence[tuple[int, float]], may_start: int | None, counted: int | None, is_over: bool, ends: bool
) -> None:
    stops, given, ended = [Stop(), Stop()], [0, 0], list[int]()

    async def race() -> tuple[list[int], frozenset[int]]:
        course = Course(ORDER, [1.0] * 20, stops, 2, lambda variant, drop: None, drops=True)
        plans = [VariantPlan(AllTrials(CASES, stop_when_decided=False), course, at, ended.append) for at in range(2)]
        assert [*plans[0].order()] == ORDER
        for variant, value in answered:
            course.enter(variant, ORDER[given[variant]], Bounds(value, value))
            given[variant] += 1
        waits = [asyncio.ensure_future(plans[0].wait_turn(at)) for at in ORDER]
        await asyncio.sleep(0)
        started = [at for at, wait in zip(ORDER, waits, strict=True) if wait.done()]
        for stop in stops:
            stop.drain("the test ends")
        course.wake()
        await asyncio.gather(*waits)
        kept = await asyncio.gather(*(plan.counted(stopped=True) for plan in plans))
        assert kept[0] == kept[1]
        assert course.standing.is_over == is_over
        return started, kept[0]

    started, kept = asyncio.run(race())
    dropped = may_start is None
    assert started == ORDER[:may_start]
    assert kept == {*ORDER[: len(kept)]}
    assert len(kept) < 20 if dropped else len(kept) == counted
    assert bool(ended) == ends
    if dropped:
        assert [stop.reason or "" for stop in stops] == [
            f"the race was decided after {len(kept)} of 20 cases",
            f"dropped from the race after {len(kept)} of 20 cases",
        ]
