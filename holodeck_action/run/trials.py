"""Builds the object that runs a suite's trials, or that grades the trials of an earlier run."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime

from holodeck_action.run.open_suites import OpenSuite
from holodeck_action.run.schedule import Trials
from holodeck_action.run.stored import StoredTrials
from holodeck_action.run.trial import Clock, Deadlines, TrialRunner
from holodeck_action.scoring.scoring import TurnScorer
from holodeck_action.workers.pool import WorkerPool

SYSTEM_CLOCK = Clock(now=lambda: datetime.now(UTC), monotonic=time.monotonic)


def grading_pool(ready: OpenSuite) -> WorkerPool:
    """Return the worker processes for a suite's graders; the caller closes them."""
    item, suite = ready.item, ready.item.suite
    return WorkerPool(
        suite.folder,
        environ=item.environ,
        cwd=suite.checkout.cwd,
        size=item.settings.workers,
        code=item.code,
        redact=ready.redactor.text,
        on_import=ready.imported,
        interpreter=item.interpreter,
    )


def trial_runner(ready: OpenSuite, pool: WorkerPool) -> Trials:
    """Return the object that runs or grades a suite's trials in this process; graders run in the pool."""
    item = ready.item
    scorer = TurnScorer(
        item.grading.suite,
        pool=pool,
        clock=SYSTEM_CLOCK.now,
        new_id=lambda: str(uuid.uuid4()),
        judges=ready.judges,
        reuse=ready.reuse,
    )
    if item.stored is not None:
        return StoredTrials(item.stored, scorer, SYSTEM_CLOCK, ready.redactor)
    assert ready.agent is not None
    return TrialRunner(
        ready.agent,
        scorer,
        Deadlines(item.settings.turn_timeout_s, item.settings.case_timeout_s),
        SYSTEM_CLOCK,
        ready.redactor,
        item.suite.name,
        ready.files,
        own_model=ready.own is not None,
        on_usage=(lambda usage: None) if ready.charges is None else ready.charges.add,
        base=ready.as_base is not None,
        # Not earlier: with reused verdicts there may be nothing to judge.
        on_turn=ready.begin_judge_import,
        users=ready.users,
    )
