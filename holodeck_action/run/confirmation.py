"""Runs further trials of cases that got worse, so that one unlucky answer does not count as a regression.

The first verdict of such a case is kept; the further trials count only for the gate on regressed cases.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from holodeck_action.decide.compare.comparison import count_gating
from holodeck_action.decide.decision import Terms, decide
from holodeck_action.record.record import CaseRecord
from holodeck_action.run.bases.baselines import attach_base
from holodeck_action.run.loop import run_trials
from holodeck_action.run.open_suites import complete
from holodeck_action.run.run import Run, join_sides
from holodeck_action.run.schedule import Lane, Stop, Trials
from holodeck_action.run.trial_plans import Available, FurtherTrials, Plan, Resumed


def cases_to_confirm(head: Run) -> Sequence[str]:
    """Return the ids of the regressed and undecided cases of a run with its base that get further trials, worst first;
    empty if the exit code is certain.
    """
    if head.record.certain is not None:
        return ()
    head = join_sides([complete(side) for side in head.sides])
    if any(side.record.stopped is not None and side.record.run.shard is None for side in head.sides):
        return ()
    record, results = attach_base(head)
    if results is None:
        return ()
    comparison = decide(record, Terms.against(results.results)).comparison
    if comparison is None:
        return ()
    regressed = [case.id for case in comparison.regressed[: count_gating(comparison.regressed)]]
    undecided = [case.id for case in comparison.undecided if not case.quarantined]
    return [*regressed, *undecided][: head.settings.baseline.confirm.cases]


async def ask_again(side: Run, ids: Sequence[str], extra_trials: int, trials: Trials, lane: Lane, stop: Stop) -> Run:
    """Run further trials of cases, and return the run with these trials in its record.

    Args:
        side: the suite or its base.
        ids: ids of the cases, as in the records; those that this side does not have are ignored.
        extra_trials: number of further trials of each case.
        trials: runs one trial.
        lane: gives each session a slot.
        stop: can end the trials early.
    """
    redactor, record = side.redactor, side.record
    known = {redactor.case_id(case.id, case.content_hash): case for case in side.cases}
    names = [name for name in ids if name in known]
    cases = [known[name] for name in names]
    plan: Plan = FurtherTrials(cases, extra_trials)
    if side.stored is not None:
        plan = Available(plan, side.stored.trials.keys())
    limit = side.settings.run_timeout_s
    left = None if limit is None else max(0.0, limit - record.run.duration_ms / 1000)
    plan = Resumed(plan, side.resumed.trials, side.resumed_keys(cases))
    done = await run_trials(plan, trials, lane, stop, timeout_s=left, on_trial=side.keep_trial)
    found = {name: done.trials[at] for at, name in enumerate(names)}

    def add(case: CaseRecord) -> CaseRecord:
        return replace(case, confirmation=found.get(case.id, ()))

    return replace(side, ended=replace(record, cases=tuple(map(add, record.cases))))
