"""Runs further trials of cases that got worse, so that one unlucky answer does not count as a regression.

The first verdict of such a case is kept; the further trials count only for the gate on regressed cases.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from holodeck_action.decide.compare.comparison import changed_ids, count_gating
from holodeck_action.decide.decision import Terms, decide
from holodeck_action.record.base_results import make_base_results
from holodeck_action.record.record import CaseRecord, Record
from holodeck_action.record.stored_cases import MappedCases
from holodeck_action.run.bases.baselines import Base, FoundBase, attach_base
from holodeck_action.run.loop import run_trials
from holodeck_action.run.open_suites import complete_record
from holodeck_action.run.run import MissingBase, Run
from holodeck_action.run.schedule import Lane, Stop, Trials
from holodeck_action.run.trial_plans import Available, FurtherTrials, Plan, Resumed


def base_of(sides: Sequence[Run], stored: Base) -> Base:
    """Return the results that a suite is compared with: those of the base that ran with it, or `stored`.

    Args:
        sides: the suite, and its base if one ran, with their records.
        stored: results of an earlier run.
    """
    if len(sides) == 1:
        missing = sides[0].base
        return missing if isinstance(missing, MissingBase) else stored
    record, role = sides[1].record, sides[1].as_base
    assert record is not None
    assert role is not None
    return FoundBase(make_base_results(record), role.run)


def cases_to_confirm(sides: Sequence[Run], made: Sequence[Record], stored: Base) -> Sequence[str]:
    """Return the ids of the regressed and undecided cases that get further trials, worst first; empty if the exit code
    is certain.

    Args:
        sides: the suite, and its base if one ran.
        made: their records.
        stored: results of an earlier run to compare with; None if there are none.
    """
    head = sides[0]
    settings = head.settings.baseline
    if not head.confirms_regressions:
        return ()
    records = [complete_record(side, record) for side, record in zip(sides, made, strict=True)]
    if any(record.stopped is not None and record.run.shard is None for record in records):
        return ()
    if records[0].certain is not None:
        return ()
    done = [replace(side, record=record) for side, record in zip(sides, records, strict=True)]
    record, results = attach_base(done[0], base_of(done, stored))
    if results is None:
        return ()
    comparison = decide(record, Terms.against(results.results)).comparison
    if comparison is None:
        return ()
    regressed = [*changed_ids(comparison.regressed)][: count_gating(comparison.regressed)]
    undecided = [case.id for case in comparison.undecided if not case.quarantined]
    return [*regressed, *undecided][: settings.confirm.cases]


async def ask_again(
    side: Run, record: Record, ids: Sequence[str], extra_trials: int, trials: Trials, lane: Lane, stop: Stop
) -> Record:
    """Run further trials of cases, and return the record with these trials added.

    Args:
        side: the suite or its base.
        record: its record.
        ids: ids of the cases, as in the records; those that this side does not have are ignored.
        extra_trials: number of further trials of each case.
        trials: runs one trial.
        lane: gives each session a slot.
        stop: can end the trials early.
    """
    redactor = side.redactor
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

    changed = tuple(map(add, record.cases)) if isinstance(record.cases, tuple) else MappedCases(record.cases, add)
    return replace(record, cases=changed)
