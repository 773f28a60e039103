"""Builds the object that runs a suite's trials, or that grades the trials of an earlier run."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime

from holodeck_action.run.open_suites import OpenSuite
from holodeck_action.run.schedule import Trials
from holodeck_action.run.trial import Clock, Deadlines, TrialRunner
from holodeck_action.scoring.scoring import TurnScorer
from holodeck_action.workers.pool import WorkerPool

SYSTEM_CLOCK = Clock(now=lambda: datetime.now(UTC), monotonic=time.monotonic)


def grading_pool(open_suite: OpenSuite) -> WorkerPool:
    """Return the worker processes for a suite's graders; the caller closes them."""
    item, suite = open_suite.prepared, open_suite.prepared.suite
    return WorkerPool(
        suite.folder,
        environ=item.environ,
        cwd=suite.checkout.cwd,
        size=item.settings.workers,
        code=item.code,
        redact=open_suite.redactor.text,
        on_import=open_suite.imported,
        interpreter=item.interpreter,
        watch=open_suite.used.watch,
    )


def trial_runner(open_suite: OpenSuite, pool: WorkerPool) -> Trials:
    """Return the object that runs or grades a suite's trials in this process; graders run in the pool."""
    item = open_suite.prepared
    scorer = TurnScorer(
        item.grading.suite,
        pool=pool,
        clock=SYSTEM_CLOCK.now,
        new_id=lambda: str(uuid.uuid4()),
        judges=open_suite.judges,
        reuse=open_suite.reuse,
        failed=open_suite.exams.error_of,
    )
    if item.stored is not None:
        from holodeck_action.run.stored import StoredTrials

        return StoredTrials(item.stored, scorer, SYSTEM_CLOCK, open_suite.redactor)
    assert open_suite.agent is not None
    return TrialRunner(
        open_suite.agent,
        scorer,
        Deadlines(item.settings.turn_timeout_s, item.settings.case_timeout_s),
        SYSTEM_CLOCK,
        open_suite.redactor,
        item.suite.name,
        open_suite.files,
        own_model=open_suite.own is not None,
        on_usage=(lambda usage: None) if open_suite.charges is None else open_suite.charges.add,
        base=open_suite.as_base is not None,
        users=open_suite.users,
    )
