"""A suite becomes a record: the cases chosen, run, journaled and put together."""

from __future__ import annotations

import platform
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action import __version__
from holodeck_action.record.answer_notices import about_answers, is_about
from holodeck_action.record.asker import NO_ASKER, Asker
from holodeck_action.record.canonical import chosen_cases
from holodeck_action.record.record import (
    SCHEMA_VERSION,
    CaseRecord,
    Provenance,
    Record,
    RunInfo,
    Shard,
    SuiteIdentity,
    TrialRecord,
)
from holodeck_action.record.serialization import to_json
from holodeck_action.run.conditions import conditions
from holodeck_action.run.journal import Journal
from holodeck_action.run.kept_trials import KeptTrials
from holodeck_action.run.schedule import Lane, Stop, TrialKey, Trials, run_cases
from holodeck_action.suite.applicability import skip_reason
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.policy import Gates, QuarantineEntry
from holodeck_action.suite.values import Case, Suite
from holodeck_action.text.redaction import Redactor


class RunPlan(Struct, frozen=True):
    """What a run does besides the suite itself.

    Attributes:
        cases: the chosen cases with their trials settled, in suite order.
        target: who answers, described without secrets.
        gates: recorded with the run, so that `decide` can repeat its verdict.
        run_timeout_s: seconds until the run is stopped; None for no limit.
        stop_when_decided: run no trial beyond the deciding one.
        filters: the case filters in force, for provenance.
        commit: the commit that is evaluated, where known.
        folder: the suite's folder in its repository, where known.
        available: the trials that there are; None for all.
        rejudged: digest of the record whose answers are graded again; None for answers of this run.
        stopped: why those answers are not whole; None when they are.
        notices: what the reader should know besides, each one sentence.
        shard: which part of the cases `available` holds; None for all.
        asker: the job of a workflow that this is.
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
    asker: Asker = NO_ASKER


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
        plan: what to run of it and how.
        trials: runs one trial.
        lane: gives each session its place.
        stop: ends the run early.
        journal: receives every trial that finishes now; None keeps none.
        resumed: finished trials of an interrupted run.
        on_case: told of every case that is done, in order of completion.

    Returns:
        The record, whatever went wrong on the way.
    """
    clock, redactor = trials.clock, trials.redactor
    started, begun = clock.now(), clock.monotonic()

    kept = KeptTrials(case.repeat for case in plan.cases)

    # Reading all cases again for what nothing is about takes long.
    remarkable = False

    def record_trial(place: int, case: Case, trial: TrialRecord, finished: bool) -> None:
        nonlocal remarkable
        remarkable = remarkable or is_about(trial)
        text = to_json(trial)
        kept.add(place, trial, text)
        if journal is not None and finished:
            journal.append(redactor.case_id(case.id, case.content_hash), text)

    def report_case(case: Case, done: Sequence[TrialRecord]) -> None:
        on_case(case_record(case, tuple(done), redactor))

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
        available=plan.available,
    )
    bare = (case_record(case, (), redactor) for case in plan.cases)
    records = kept.records(bare, outcome.counted)
    before = redactor.value(
        (*plan.notices, *conditions(suite, plan.cases, plan.gates, plan.filters, started.date())),
    )
    most, stopped, shard = suite.agent.model.max_tokens, outcome.stopped or plan.stopped, plan.shard
    if shard is not None:
        shard = replace(shard, conditions=len(before), max_tokens=most, stopped=stopped)
        stopped = f"this is shard {shard} with {shard.cases} of {len(records)} cases; `merge` puts all shards together"
    about = tuple(about_answers(records, most)) if remarkable and shard is None else ()
    return Record(
        schema_version=SCHEMA_VERSION,
        suite=SuiteIdentity(redactor.text(suite.name), suite.file, suite.digest),
        provenance=redactor.value(
            Provenance(__version__, plan.target, plan.commit, dict(plan.filters), plan.folder, plan.rejudged),
        ),
        gates=plan.gates,
        quarantine=_quarantine(suite, redactor),
        stop_when_decided=plan.stop_when_decided,
        cases=records,
        run=RunInfo(
            run_id=str(uuid.uuid4()),
            started_at=started.isoformat(),
            finished_at=clock.now().isoformat(),
            duration_ms=1000 * (clock.monotonic() - begun),
            python=platform.python_version(),
            resumed_trials=len(resumed),
            shard=shard,
            workflow=redactor.text(plan.asker.workflow),
            job=redactor.text(plan.asker.job),
        ),
        stopped=stopped,
        chosen=chosen_cases(redactor.case_id(case.id, case.content_hash) for case in plan.cases),
        notices=(*before, *redactor.value((*about, *suite.notices))),
        marks=marks_of(suite, redactor),
    )


def marks_of(suite: Suite, redactor: Redactor) -> dict[str, SourceMark]:
    """Return where the policy file sets gates, `baseline`, `trials` and quarantine, by names as in `Record.marks`."""
    marks = {redactor.text(name): mark for name, mark in sorted(suite.gate_marks.items())}
    entries = zip(_quarantine(suite, redactor), suite.quarantine_marks, strict=False)
    return marks | {f"quarantine.{entry.case}": mark for entry, mark in entries}


def _quarantine(suite: Suite, redactor: Redactor) -> tuple[QuarantineEntry, ...]:
    """Return the entries by the ids that the record uses."""
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


def resumable(
    cases: Sequence[Case], journaled: Mapping[TrialKey, TrialRecord], redactor: Redactor
) -> Mapping[TrialKey, TrialRecord]:
    """Return the journaled trials of the given cases by the cases' own ids: the journal holds redacted ones."""
    if not journaled:
        return {}
    own = {redactor.case_id(case.id, case.content_hash): case.id for case in cases}
    return _Renamed(
        journaled, {(own[case_id], index): (case_id, index) for case_id, index in journaled if case_id in own}
    )


class _Renamed(Mapping[TrialKey, TrialRecord]):
    """Trials by other keys; each is read when it is asked for."""

    def __init__(self, trials: Mapping[TrialKey, TrialRecord], names: Mapping[TrialKey, TrialKey]) -> None:
        self._trials, self._names = trials, names

    def __getitem__(self, key: TrialKey) -> TrialRecord:
        return self._trials[self._names[key]]

    def __iter__(self) -> Iterator[TrialKey]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def case_record(case: Case, trials: tuple[TrialRecord, ...], redactor: Redactor) -> CaseRecord:
    """Put a case and its finished trials, which are free of secrets already, together."""
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
    )
