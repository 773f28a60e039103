"""Adds the evaluations of metrics that compare two answers to records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from holodeck_action.record.evaluation import PREFERENCE, Evaluation
from holodeck_action.record.record import CaseRecord, Record, TrialRecord

Evaluations = Mapping[tuple[str, int], Sequence[Evaluation]]
"""Evaluations of a trial's last turn, by (id of the case in the record, index of the trial)."""
_CONFIRMS = "trials that confirm a regression are not compared"


def with_evaluations(record: Record, evaluations: Evaluations) -> Record:
    """Return the record with evaluations added; an evaluation replaces an existing one with the same name."""

    def change(case: CaseRecord) -> CaseRecord:
        return replace(
            case, trials=tuple(_put(trial, evaluations.get((case.id, trial.index), ())) for trial in case.trials)
        )

    return _map_cases(record, change)


def skip_pairs(record: Record, reason: str) -> Record:
    """Return the record; all evaluations that compare two answers are skipped, with `reason` as their explanation."""

    def change(case: CaseRecord) -> CaseRecord:
        skipped = tuple(_skip(trial, reason) for trial in case.trials)
        return replace(case, trials=skipped, confirmation=tuple(_skip(trial, reason) for trial in case.confirmation))

    return _map_cases(record, change)


def skip_confirmations(record: Record) -> Record:
    """Return the record; in trials that confirm a regression, evaluations that compare two answers are skipped."""

    def change(case: CaseRecord) -> CaseRecord:
        if not case.confirmation:
            return case
        return replace(case, confirmation=tuple(_skip(trial, _CONFIRMS) for trial in case.confirmation))

    return _map_cases(record, change)


def _map_cases(record: Record, change: Callable[[CaseRecord], CaseRecord]) -> Record:
    return replace(record, cases=tuple(map(change, record.cases)))


def _skip(trial: TrialRecord, reason: str) -> TrialRecord:
    def skip(evaluation: Evaluation) -> Evaluation:
        if evaluation.criteria.kind != PREFERENCE or evaluation.status == "skipped":
            return evaluation
        return replace(evaluation, status="skipped", score=None, explanation=reason, error=None, metadata={})

    if not trial.turns:
        return trial
    *earlier, last = trial.turns
    return replace(trial, turns=(*earlier, replace(last, evaluations=tuple(map(skip, last.evaluations)))))


def _put(trial: TrialRecord, evaluations: Sequence[Evaluation]) -> TrialRecord:
    if not evaluations:
        return trial
    *earlier, last = trial.turns
    by_name = {each.evaluator_name: each for each in evaluations}
    put = [by_name.pop(each.evaluator_name, each) for each in last.evaluations]
    return replace(trial, turns=(*earlier, replace(last, evaluations=(*put, *by_name.values()))))
