"""Builds the object that runs a suite's trials, or that grades the trials of an earlier run."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime

from holodeck_action.run.run import Run
from holodeck_action.run.schedule import Trials
from holodeck_action.run.trial import Clock, Deadlines, TrialRunner
from holodeck_action.scoring.scoring import TurnScorer
from holodeck_action.workers.pool import WorkerPool

SYSTEM_CLOCK = Clock(now=lambda: datetime.now(UTC), monotonic=time.monotonic)


def grading_pool(open_suite: Run) -> WorkerPool:
    """Return the worker processes for a suite's graders; the caller closes them."""
    size, redact = open_suite.settings.workers, open_suite.redactor.text
    used = open_suite.resources.used
    return open_suite.worker_pool(size, redact, on_import=used.add_imported, watch=used.watch)


def scorer_of(open_suite: Run, pool: WorkerPool) -> TurnScorer:
    """Return the object that grades a suite's answers; the suite's own code runs in the pool."""
    return TurnScorer(
        pool=pool,
        clock=SYSTEM_CLOCK.now,
        new_id=lambda: str(uuid.uuid4()),
        judges=open_suite.resources.judges,
        reuse=open_suite.resources.reuse,
        failed=open_suite.exams.error_of,
    )


def trial_runner(open_suite: Run, pool: WorkerPool) -> Trials:
    """Return the object that runs or grades a suite's trials in this process; graders run in the pool."""
    scorer = scorer_of(open_suite, pool)
    if open_suite.stored is not None:
        from holodeck_action.run.stored import StoredTrials

        return StoredTrials(open_suite.stored, scorer, open_suite.redactor)
    assert open_suite.resources.agent is not None
    return TrialRunner(
        open_suite.resources.agent,
        scorer,
        Deadlines(open_suite.settings.turn_timeout_s, open_suite.settings.case_timeout_s),
        SYSTEM_CLOCK,
        open_suite.redactor,
        open_suite.suite.name,
        open_suite.resources.files,
        own_model=open_suite.resources.own is not None,
        on_usage=(lambda usage: None) if open_suite.resources.charges is None else open_suite.resources.charges.add,
        base=open_suite.as_base is not None,
        users=open_suite.resources.users,
    )
