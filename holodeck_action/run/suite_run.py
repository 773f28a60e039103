"""Runs the cases of a suite, journals the trials, and returns the record."""

from __future__ import annotations

import platform
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action import __version__
from holodeck_action.decide.contradictions import Inconsistent
from holodeck_action.record.answer_notices import answer_notices, has_answer_notice
from holodeck_action.record.canonical import chosen_cases
from holodeck_action.record.record import (
    SCHEMA_VERSION,
    CaseRecord,
    CertainEnd,
    Provenance,
    Record,
    RunInfo,
    Shard,
    SimulatedUser,
    SuiteIdentity,
    TrialRecord,
)
from holodeck_action.record.serialization import to_json
from holodeck_action.record.stored_cases import case_id
from holodeck_action.record.workflow_job import NO_JOB, WorkflowJob
from holodeck_action.run.certain_end import DecidingPart
from holodeck_action.run.conditions import run_notices
from holodeck_action.run.journal import Journal
from holodeck_action.run.kept_trials import KeptTrials
from holodeck_action.run.schedule import Lane, Stop, TrialKey, Trials, run_cases
from holodeck_action.suite.applicability import skip_reason
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.policy import Gates, QuarantineEntry
from holodeck_action.suite.values import Case, Suite
from holodeck_action.targets.own_model.runner_settings import longest_answer
from holodeck_action.text.redaction import Redactor


class RunPlan(Struct, frozen=True):
    """The inputs of a run except the suite itself.

    Attributes:
        cases: the chosen cases with their number of trials, in suite order.
        target: description of the target, without secrets.
        gates: the gates, which are recorded so that `decide` can repeat the verdict.
        run_timeout_s: seconds until the run is stopped; None if there is no limit.
        stop_when_decided: whether to run no more trials of a case after its deciding trial.
        filters: the case filters in force, for provenance.
        commit: the evaluated commit; None if unknown.
        folder: the suite's folder in its repository; None if unknown.
        available: the trials that may be run; None to run all.
        rejudged: digest of the record whose answers are graded again; None if this run calls the agent.
        stopped: why the original run stopped early, if this run grades stored answers; None if the original run was
            complete, or if this run calls the agent.
        notices: further notices, each one sentence.
        shard: the shard whose trials are `available`; None if the run has no shards.
        workflow_job: the workflow and job of this run, for the record.
        order: positions of the cases that this run asks, in order; the run ends when its exit code is certain. None to
            ask all cases in the order of the suite.
        counted_positions: awaited after the last trial; returns the positions of the cases that count. If it is given,
            a run with an `order` does not end when its exit code is certain. None if all cases count.
        certain_end: if this run grades stored answers, the cases that counted because the original run's exit code was
            certain; None if all cases of the original run count.
    """

    cases: Sequence[Case]
    target: str
    gates: Gates
    run_timeout_s: float | None
    stop_when_decided: bool
    filters: Mapping[str, object]
    commit: str | None
    folder: str | None
    available: Set[TrialKey] | None = None
    rejudged: str | None = None
    stopped: str | None = None
    notices: tuple[str, ...] = ()
    shard: Shard | None = None
    workflow_job: WorkflowJob = NO_JOB
    order: Sequence[int] | None = None
    counted_positions: Callable[[], Awaitable[Set[int]]] | None = None
    certain_end: CertainEnd | None = None


async def run_suite(
    suite: Suite,
    plan: RunPlan,
    trials: Trials,
    *,
    lane: Lane,
    stop: Stop,
    journal: Journal | None,
    resumed: Mapping[TrialKey, TrialRecord],
    on_case: Callable[[CaseRecord], None],
) -> Record:
    """Run a suite.

    Args:
        suite: the suite.
        plan: the other inputs of the run.
        trials: runs one trial.
        lane: gives each session a slot.
        stop: ends the run early.
        journal: receives every newly finished trial; None to write no journal.
        resumed: finished trials of an interrupted run.
        on_case: called with every finished case, in order of completion.

    Returns:
        The record, with any errors that occurred.
    """
    clock, redactor = trials.clock, trials.redactor
    started, begun = clock.now(), clock.monotonic()

    kept = KeptTrials(case.repeat for case in plan.cases)

    # Reading all cases again is slow: it is only done if a trial calls for notices.
    remarkable = False
    consistent = suite.policy.judges.consistent
    inconsistent = Inconsistent(consistent == "require")

    def record_trial(place: int, case: Case, trial: TrialRecord, finished: bool) -> None:
        nonlocal remarkable
        remarkable = remarkable or has_answer_notice(trial)
        text = to_json(trial)
        kept.add(place, trial, text)
        for changed in inconsistent.find(case.id, trial):
            kept.add(place, changed, to_json(changed))
        if journal is not None and finished:
            journal.append(redactor.case_id(case.id, case.content_hash), text)

    def report_case(case: Case, finished: Sequence[TrialRecord]) -> None:
        on_case(case_record(case, inconsistent.conclude(case.id, finished), redactor))

    def bare_cases() -> Iterator[CaseRecord]:
        return (case_record(case, (), redactor) for case in plan.cases)

    made = Record(
        schema_version=SCHEMA_VERSION,
        suite=SuiteIdentity(redactor.text(suite.name), suite.file, suite.digest),
        provenance=Provenance(__version__, ""),
        gates=plan.gates,
        quarantine=_quarantine_entries(suite, redactor),
        stop_when_decided=plan.stop_when_decided,
        cases=(),
        run=RunInfo("", started.isoformat(), "", 0.0, platform.python_version()),
    )
    part = None
    if plan.order is not None and plan.counted_positions is None:
        part = DecidingPart(plan.order, partial(_record_of_part, made, list(bare_cases()), kept), clock.monotonic)

    outcome = await run_cases(
        plan.cases,
        trials,
        lane=lane,
        run_timeout_s=plan.run_timeout_s,
        stop_when_decided=plan.stop_when_decided,
        stop=stop,
        resumed=resumed,
        on_trial=record_trial,
        on_case=report_case,
        positions=plan.order,
        is_certain=(lambda place, counted: False) if part is None else part.finish,
        available=plan.available,
    )
    counted, certain = outcome.counted, plan.certain_end
    found = None if part is None or outcome.stopped is not None else part.conclude()
    if found is not None and plan.order is not None and len(found) < len(plan.order):
        finished = kept.records(bare_cases(), counted)
        certain = _certain_end(finished, found)
        counted = [indexes if at in found else () for at, indexes in enumerate(counted)]
    elif plan.counted_positions is not None:
        among = await plan.counted_positions()
        counted = [indexes if at in among else () for at, indexes in enumerate(counted)]
    records = kept.records(bare_cases(), counted)
    before = redactor.value(
        (*plan.notices, *run_notices(suite, plan.cases, plan.gates, plan.filters, started.date())),
    )
    most, stopped, shard = longest_answer(suite.agent), outcome.stopped or plan.stopped, plan.shard
    if shard is not None:
        shard = replace(shard, conditions=len(before), max_tokens=most, stopped=stopped)
        stopped = f"this is shard {shard} with {shard.cases} of {len(records)} cases; `merge` joins all shards"
    about = tuple(answer_notices(records, most)) if remarkable and shard is None else ()
    return replace(
        made,
        provenance=redactor.value(
            Provenance(__version__, plan.target, plan.commit, dict(plan.filters), plan.folder, plan.rejudged),
        ),
        cases=records,
        run=replace(
            made.run,
            run_id=str(uuid.uuid4()),
            finished_at=clock.now().isoformat(),
            duration_ms=1000 * (clock.monotonic() - begun),
            resumed_trials=len(resumed),
            shard=shard,
            workflow=redactor.text(plan.workflow_job.workflow),
            job=redactor.text(plan.workflow_job.job),
        ),
        stopped=stopped,
        chosen=chosen_cases(redactor.case_id(case.id, case.content_hash) for case in plan.cases),
        notices=(*before, *redactor.value((*about, *suite.notices))),
        marks=marks_of(suite, redactor),
        certain=certain,
        consistent=consistent,
    )


def _record_of_part(
    record: Record, bare: Sequence[CaseRecord], trials: KeptTrials, trial_indexes: Mapping[int, Sequence[int]]
) -> Record:
    """Return the record as if the run had stopped after the trials in `trial_indexes`, by position of the case."""
    cases = trials.records(bare, [trial_indexes.get(at, ()) for at in range(len(bare))])
    return replace(record, cases=cases, certain=CertainEnd(tuple(bare[at].id for at in trial_indexes)))


def _certain_end(cases: Sequence[CaseRecord], case_positions: Sequence[int]) -> CertainEnd:
    """Return the ids of the cases at these positions (only they count), and the finished trials of the other cases."""
    others = {*range(len(cases))}.difference(case_positions)
    answered = {case.id: case.trials for at in sorted(others) if (case := cases[at]).trials}
    return CertainEnd(tuple(case_id(cases, at) for at in case_positions), answered)


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


def resumable_trials(
    cases: Sequence[Case], journaled: Mapping[TrialKey, TrialRecord], redactor: Redactor
) -> Mapping[TrialKey, TrialRecord]:
    """Return the journaled trials of these cases by original case id; the journal has redacted ids."""
    if not journaled:
        return {}
    own = {redactor.case_id(case.id, case.content_hash): case.id for case in cases}
    return _RenamedTrials(
        journaled, {(own[case_id], index): (case_id, index) for case_id, index in journaled if case_id in own}
    )


class _RenamedTrials(Mapping[TrialKey, TrialRecord]):
    """The trials of another mapping under new keys (`names` maps new keys to old ones), read on demand."""

    def __init__(self, trials: Mapping[TrialKey, TrialRecord], names: Mapping[TrialKey, TrialKey]) -> None:
        self._trials, self._names = trials, names

    def __getitem__(self, key: TrialKey) -> TrialRecord:
        return self._trials[self._names[key]]

    def __iter__(self) -> Iterator[TrialKey]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def case_record(case: Case, trials: tuple[TrialRecord, ...], redactor: Redactor) -> CaseRecord:
    """Return the record of a case with its finished trials, which must already be redacted."""
    planned = not_applicable = 0
    asserting = False
    for turn in case.turns:
        if turn.expected_tools is not None:
            planned += 1
            asserting = True
        for spec in turn.metrics:
            if skip_reason(spec, turn) is not None:
                not_applicable += 1
                continue
            planned += 1
            asserting = asserting or spec.config.asserts
    return CaseRecord(
        id=redactor.case_id(case.id, case.content_hash),
        name=redactor.value(case.name),
        content_hash=case.content_hash,
        source=case.mark,
        multi_turn=case.multi_turn,
        repeat=case.repeat,
        min_pass=case.passes_needed,
        planned_evaluations=planned,
        not_applicable=not_applicable,
        asserting=asserting,
        tags=redactor.value(case.tags),
        weight=case.weight,
        trials=trials,
        last=case.last,
        user=None if case.simulation is None else redactor.value(SimulatedUser(**case.simulation.record_fields())),
    )
