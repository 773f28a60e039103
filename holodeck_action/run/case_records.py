"""Builds the record of a case."""

from __future__ import annotations

from holodeck_action.record.record import CaseRecord, SimulatedUser, TrialRecord
from holodeck_action.suite.applicability import case_asserts, skip_reason
from holodeck_action.suite.values import Case
from holodeck_action.text.redaction import Redactor


def case_record(case: Case, trials: tuple[TrialRecord, ...], redactor: Redactor) -> CaseRecord:
    """Return the record of a case with its finished trials, which must already be redacted."""
    expecting = sum(turn.expected_tools is not None for turn in case.turns)
    skipped = [skip_reason(spec, turn) is not None for turn in case.turns for spec in turn.metrics]
    return CaseRecord(
        id=redactor.case_id(case.id, case.content_hash),
        name=redactor.value(case.name),
        content_hash=case.content_hash,
        source=case.mark,
        multi_turn=case.multi_turn,
        repeat=case.repeat,
        min_pass=case.passes_needed,
        planned_evaluations=expecting + skipped.count(False),
        not_applicable=skipped.count(True),
        asserting=case_asserts(case),
        tags=redactor.value(case.tags),
        weight=case.weight,
        trials=trials,
        last=case.last,
        user=None if case.simulation is None else redactor.value(SimulatedUser(**case.simulation.record_fields())),
    )
