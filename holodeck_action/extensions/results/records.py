"""Turns the results of another program into a record of this one."""

from __future__ import annotations

import hashlib
import platform
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action import __version__
from holodeck_action.extensions.results.stored import StoredCase, StoredCheck, StoredResults, StoredTrial, joined_cases
from holodeck_action.record.canonical import chosen_cases
from holodeck_action.record.closure import Closure
from holodeck_action.record.evaluation import MISSING_INPUT, Criteria, ErrorInfo, Evaluation
from holodeck_action.record.facts import within_bounds
from holodeck_action.record.record import (
    SCHEMA_VERSION,
    CaseRecord,
    Provenance,
    Record,
    RunInfo,
    SuiteIdentity,
    Timing,
    TrialRecord,
    TurnRecord,
)
from holodeck_action.record.workflow_job import workflow_job
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.identity import canonical_json, case_ids
from holodeck_action.suite.model.policy import Gates, Policy
from holodeck_action.text.plain import one_line, replace_surrogates
from holodeck_action.text.redaction import Redactor

_LONGEST_NAME = 200
_MISSING = "missing cases"
"""Id of the case that stands for those without a result."""


class Origin(Struct, frozen=True):
    """Where results were read.

    Attributes:
        environ: the environment variables.
        commit: the commit that is checked out; None if it is unknown.
        folder: path of the current folder in its repository; None if it is in no repository.
        redactor: masks the secrets of the environment.
    """

    environ: Mapping[str, str]
    commit: str | None
    folder: str | None
    redactor: Redactor


def record_of(files: Sequence[StoredResults], policy: Policy, gates: Gates, origin: Origin) -> Record:
    """Return the record of results files, all of one run.

    Args:
        files: their contents.
        policy: the policy file, of which trials and quarantine apply.
        gates: the gates.
        origin: where the files were read.
    """
    cases = joined_cases(files)
    ids = case_ids([(case.name, case.content_hash) for case in cases], [case.id for case in cases])
    redactor = origin.redactor
    records = tuple(
        _case_record(case, each, _program(files), policy, redactor) for each, case in zip(ids, cases, strict=True)
    )
    now = datetime.now(UTC).isoformat()
    job = workflow_job(origin.environ)
    exam = [[case.asked, *_exam(case)] for case in cases]
    written = max((file.written for file in files), default="") or now
    commit = next((file.commit for file in files if file.commit), origin.commit)
    known = {each.id: each for each in records}
    return Record(
        schema_version=SCHEMA_VERSION,
        suite=SuiteIdentity(
            redactor.text(_joined_names(file.suite or _name(file) for file in files)),
            _program(files),
            hashlib.sha256(canonical_json(exam)).hexdigest(),
        ),
        provenance=Provenance(__version__, redactor.text(described_target(files)), commit, {}, origin.folder),
        gates=gates,
        quarantine=tuple(entry for entry in policy.quarantine if entry.case in known),
        stop_when_decided=False,
        cases=records,
        run=RunInfo(
            run_id=str(uuid.uuid4()),
            started_at=written,
            finished_at=written,
            duration_ms=0.0,
            python=platform.python_version(),
            workflow=redactor.text(job.workflow),
            job=redactor.text(job.job),
            closure=Closure(surroundings={_name(file): file.program.partition(" ")[2] or "unknown" for file in files}),
        ),
        stopped=redactor.text("; ".join(file.stopped for file in files if file.stopped)) or None,
        chosen=chosen_cases(each.id for each in records),
        notices=tuple(redactor.value([*_notices(files)])),
    )


def described_target(files: Sequence[StoredResults]) -> str:
    """Return a description of the evaluated agent, such as `promptfoo:openai:gpt-6.1-sol`."""
    return f"{_program(files)}:{_joined_names(file.target for file in files) or 'unknown'}"


def with_missing_cases(record: Record, wanted: int | None, way_out: str, file: str) -> Record:
    """Return the record with a case that no gate tolerates if fewer cases have results than there should be.

    Args:
        record: the record.
        wanted: how many cases there should be; None if nothing says it.
        way_out: where the number can come from, for the message.
        file: the results file, which is the case's position.
    """
    there = len(record.cases)
    if wanted is not None and there >= wanted:
        return record
    reason = f"how many cases there should be is unknown: {way_out}"
    if wanted is not None:
        reason = f"{wanted - there} of {wanted} cases have no result: run them all, or {way_out}"
    source = SourceMark(file, 1, 0)
    criteria = Criteria("results", "cases", None, asserts=True)
    error = ErrorInfo("MissingResults", reason, MISSING_INPUT)
    grade = _evaluation("cases", _MISSING, criteria, None, "", {}, record.run.finished_at, error)
    turn = TurnRecord(0, "", source, evaluations=(grade,))
    case = CaseRecord(
        id=_MISSING.replace(" ", "-"),
        name=_MISSING,
        content_hash=hashlib.sha256(_MISSING.encode()).hexdigest(),
        source=source,
        multi_turn=False,
        repeat=1,
        min_pass=1,
        planned_evaluations=1,
        not_applicable=0,
        asserting=True,
        trials=(TrialRecord(0, (turn,)),),
    )
    cases = (*record.cases, case)
    return replace(record, cases=cases, chosen=chosen_cases(each.id for each in cases))


def _name(file: StoredResults) -> str:
    return file.program.partition(" ")[0]


def _program(files: Sequence[StoredResults]) -> str:
    return "+".join(sorted({_name(file) for file in files}))


def _joined_names(names: Iterator[str]) -> str:
    return one_line(", ".join(dict.fromkeys(name for name in names if name)), _LONGEST_NAME)


def _notices(files: Sequence[StoredResults]) -> Iterator[str]:
    programs = ", ".join(dict.fromkeys(file.program for file in files))
    yield f"these are results of {programs}: its checks are decided here; its weights and thresholds decide nothing"
    if not all(file.terms_known for file in files):
        yield "what the grades rest on is not in the file: whether the exam changed since the base is unknown"
    yield from dict.fromkeys(notice for file in files for notice in file.notices)


def _exam(case: StoredCase) -> Iterator[list[object]]:
    for trial in case.trials[:1]:
        for check in trial.checks:
            yield [check.name, check.kind, check.asserts, check.threshold, dict(check.settings)]


def _case_record(case: StoredCase, case_id: str, program: str, policy: Policy, redactor: Redactor) -> CaseRecord:
    planned = max((len(trial.checks) for trial in case.trials), default=0)
    asserting = any(check.asserts for trial in case.trials for check in trial.checks)
    # Without a single grade, nothing says that the case asserts nothing.
    silent = not any(trial.checks for trial in case.trials) and any(trial.error for trial in case.trials)
    trials = tuple(_trial_record(case, at, trial, program) for at, trial in enumerate(case.trials))
    record = CaseRecord(
        id=redactor.case_id(case_id, case.content_hash),
        name=None if case.name is None else one_line(case.name, _LONGEST_NAME),
        content_hash=case.content_hash,
        source=case.source,
        multi_turn=False,
        repeat=case.repeat,
        min_pass=min(policy.trials.min_pass or case.repeat, case.repeat),
        planned_evaluations=max(planned, 1 if silent else 0),
        not_applicable=0,
        asserting=asserting or silent,
        tags=case.tags,
        trials=trials,
    )
    cleaned: CaseRecord = redactor.value(record)
    return cleaned


def _trial_record(case: StoredCase, at: int, trial: StoredTrial, program: str) -> TrialRecord:
    timing = Timing(trial.started, within_bounds(trial.duration_ms))
    turn = TurnRecord(
        index=0,
        input=replace_surrogates(case.question),
        source=case.source,
        ground_truth=case.expected,
        response=None if trial.answer is None else replace_surrogates(trial.answer),
        tool_invocations=trial.calls,
        usage=trial.usage,
        evaluations=tuple(_grade(f"{at}-{number}", check, trial, program) for number, check in enumerate(trial.checks)),
        error=ErrorInfo("AgentError", trial.error_line, "agent_error") if trial.error else None,
        timing=timing,
        finish_reason=trial.finish_reason,
        model=trial.model,
        metadata=trial.metadata or None,
    )
    return TrialRecord(at, (turn,), timing=timing)


def _grade(number: str, check: StoredCheck, trial: StoredTrial, program: str) -> Evaluation:
    criteria = Criteria(
        kind=program,
        metric=check.kind,
        threshold=check.threshold,
        asserts=check.asserts,
        settings=check.settings,
        source=check.source,
    )
    error = None
    if check.error:
        error = ErrorInfo("EvaluationError", one_line(check.error, 1000), "evaluation_failed")
    own = {} if check.passed is None or check.threshold is not None else {"passed": check.passed}
    score = check.score if check.score is not None else check.passed
    return _evaluation(
        number, one_line(check.name, _LONGEST_NAME), criteria, score, check.reason, own, trial.started, error
    )


def _evaluation(
    number: str,
    name: str,
    criteria: Criteria,
    score: float | bool | None,
    reason: str,
    own: Mapping[str, bool],
    timestamp: str,
    error: ErrorInfo | None,
) -> Evaluation:
    return Evaluation(
        evaluation_id=f"eval_{number}",
        target_event_id=f"evt_{number}",
        evaluator_name=name,
        evaluator_version=None,
        score=None if error is not None else score,
        explanation=one_line(reason, 1000) or None,
        criteria=criteria,
        metadata=own,
        timestamp=timestamp,
        duration_ms=None,
        status="completed" if error is None else "failed",
        error=error,
    )
