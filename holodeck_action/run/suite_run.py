"""Runs the cases of a suite, journals the trials, and returns the record."""

from __future__ import annotations

import platform
import uuid
from collections.abc import Callable, Mapping, Sequence, Set

from msgspec.structs import replace

from holodeck_action import __version__
from holodeck_action.decide.contradictions import refuse_contradictions
from holodeck_action.record.answer_notices import answer_notices
from holodeck_action.record.canonical import chosen_cases
from holodeck_action.record.record import (
    SCHEMA_VERSION,
    CaseRecord,
    CertainEnd,
    Provenance,
    Record,
    RunInfo,
    SuiteIdentity,
    TrialRecord,
)
from holodeck_action.record.workflow_job import workflow_job
from holodeck_action.run.case_choice import filters_of
from holodeck_action.run.case_records import case_record
from holodeck_action.run.certain_end import UntilCertain
from holodeck_action.run.conditions import run_notices
from holodeck_action.run.loop import run_trials
from holodeck_action.run.run import Run
from holodeck_action.run.schedule import Lane, Stop, Trials
from holodeck_action.run.trial_plans import AllTrials, Available, Consistent, Plan, Position, Resumed, TrialKey
from holodeck_action.run.trials import SYSTEM_CLOCK
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.policy import QuarantineEntry
from holodeck_action.suite.values import Case, Suite
from holodeck_action.targets.factory import describe_target
from holodeck_action.targets.own_model.runner_settings import longest_answer
from holodeck_action.text.redaction import Redactor


async def run_suite(
    ready: Run,
    trials: Trials,
    lane: Lane,
    stop: Stop,
    *,
    on_case: Callable[[CaseRecord], None],
    order: Sequence[Position] | None = None,
    change_plan: Callable[[Plan], Plan] = lambda plan: plan,
) -> Run:
    """Run a suite, or grade the answers of an earlier run again, and return the run with its record, with any errors
    that occurred.

    Args:
        ready: the suite, with the journal that receives every newly finished trial.
        trials: runs one trial.
        lane: gives each session a slot.
        stop: ends the run early.
        on_case: called with every finished case, in order of completion.
        order: positions of the cases to run, in the order in which they run until the exit code is certain; None to run
            all cases in the order of the suite.
        change_plan: takes the plan of trials, and returns the plan that runs.
    """
    redactor, clock = ready.redactor, SYSTEM_CLOCK
    suite, settings, stored, base = ready.suite, ready.settings, ready.stored, ready.as_base
    started, begun = clock.now(), clock.monotonic()
    cases = ready.cases if base is None else (*ready.cases, *base.unpaired)

    resumed = ready.resumed_keys(ready.cases)
    consistent = suite.policy.judges.consistent
    made = Record(
        schema_version=SCHEMA_VERSION,
        suite=SuiteIdentity(redactor.text(suite.name), suite.file, suite.digest),
        provenance=_provenance(ready),
        gates=settings.gates,
        quarantine=_quarantine_entries(suite, redactor),
        stop_when_decided=settings.stop_when_decided,
        cases=(),
        run=RunInfo("", started.isoformat(), "", 0.0, platform.python_version()),
    )

    # The parts of a run are judged often.
    heads = [] if order is None else [case_record(case, (), redactor) for case in cases]

    def record_of_part(finished: Mapping[Position, tuple[TrialRecord, ...]]) -> Record:
        """Return the record as if the run had stopped after these cases."""
        part = tuple(replace(case, trials=finished.get(at, ())) for at, case in enumerate(heads))
        return replace(made, cases=part, certain=CertainEnd(tuple(part[at].id for at in finished)))

    plan: Plan = AllTrials(cases, stop_when_decided=settings.stop_when_decided)
    available = _available_trials(ready)
    if available is not None:
        plan = Available(plan, available)
    if resumed:
        plan = Resumed(plan, ready.resumed.trials, resumed)
    if consistent == "require":
        plan = Consistent(plan)
    if order is not None:
        plan = UntilCertain(plan, order, record_of_part, clock.monotonic)
    plan = change_plan(plan)

    def report_case(case: Case, finished: Sequence[TrialRecord]) -> None:
        if not finished:
            # Cases of other shards, and cases that only the base has, have no trials here.
            return
        changed = refuse_contradictions(finished) if consistent == "require" else {}
        on_case(case_record(case, tuple(changed.get(trial.index, trial) for trial in finished), redactor))

    timeout_s = settings.run_timeout_s
    done = await run_trials(
        plan, trials, lane, stop, timeout_s=timeout_s, on_trial=ready.keep_trial, on_case=report_case
    )
    counted = await plan.counted(stopped=done.stopped is not None)
    among = {*range(len(cases))} if counted is None else {*counted}
    certain = None if stored is None or stored.record.certain is None else CertainEnd(stored.record.certain.counted)
    if counted is not None and order is not None:
        answered = {heads[at].id: done.trials[at] for at in range(len(cases)) if at not in among and done.trials[at]}
        certain = CertainEnd(tuple(heads[at].id for at in counted), answered)
    records = tuple(
        case_record(case, done.trials[at] if at in among else (), redactor) for at, case in enumerate(cases)
    )
    notices = run_notices(suite, cases, settings.gates, made.provenance.filters, started.date())
    before = redactor.value((*(() if stored is None else stored.notices), *notices))
    most, stopped = longest_answer(suite.agent), done.stopped or (None if stored is None else stored.stop_reason)
    shard = None if ready.part is None else ready.part.shard
    if shard is not None:
        shard = replace(shard, conditions=len(before), max_tokens=most, stopped=stopped)
        stopped = f"this is shard {shard} with {shard.cases} of {len(records)} cases; `merge` joins all shards"
    about = () if shard is not None else tuple(answer_notices(records, most))
    job = workflow_job(ready.environ)
    record = replace(
        made,
        provenance=redactor.value(made.provenance),
        cases=records,
        run=replace(
            made.run,
            run_id=str(uuid.uuid4()),
            finished_at=clock.now().isoformat(),
            duration_ms=1000 * (clock.monotonic() - begun),
            resumed_trials=len(resumed),
            shard=None if shard is None else replace(shard, depends=ready.dependency_digests),
            workflow=redactor.text(job.workflow),
            job=redactor.text(job.job),
        ),
        stopped=stopped,
        chosen=chosen_cases(redactor.case_id(case.id, case.content_hash) for case in cases),
        notices=(*before, *redactor.value((*about, *suite.notices))),
        marks=marks_of(suite, redactor),
        certain=certain,
        consistent=consistent,
    )
    return replace(ready, ended=record)


def _provenance(ready: Run) -> Provenance:
    base, stored = ready.as_base, ready.stored
    commit, folder = (ready.commit, ready.repository_folder) if base is None else (base.run.commit, base.folder)
    if stored is None:
        return Provenance(__version__, describe_target(ready.target), commit, filters_of(ready.flags), folder)
    earlier = stored.record.provenance
    return Provenance(__version__, earlier.target, commit, {**earlier.filters}, folder, stored.digest)


def _available_trials(ready: Run) -> Set[TrialKey] | None:
    """Return the trials that may run; None if all may."""
    if ready.stored is not None and ready.as_base is None:
        return ready.stored.trials.keys()
    if ready.as_base is not None or ready.part is not None:
        return frozenset((case.id, index) for case in ready.own_cases for index in range(case.repeat))
    return None


def marks_of(suite: Suite, redactor: Redactor) -> dict[str, SourceMark]:
    """Return the policy file's lines with gates, `baseline`, `trials` and quarantine, by name (see `Record.marks`)."""
    marks = {redactor.text(name): mark for name, mark in sorted(suite.gate_marks.items())}
    entries = zip(_quarantine_entries(suite, redactor), suite.quarantine_marks, strict=False)
    return marks | {f"quarantine.{entry.case}": mark for entry, mark in entries}


def _quarantine_entries(suite: Suite, redactor: Redactor) -> tuple[QuarantineEntry, ...]:
    """Return the suite's quarantine entries with redacted case ids, as in the record."""
    ids = {case.id: redactor.case_id(case.id, case.content_hash) for case in suite.cases}
    return tuple(
        QuarantineEntry(
            case=ids[entry.case],
            reason=redactor.text(entry.reason),
            owner=redactor.text(entry.owner),
            expires=entry.expires,
        )
        for entry in suite.policy.quarantine
    )
