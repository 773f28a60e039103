"""Builds the record of a case."""

from __future__ import annotations

from holodeck_action.record.record import CaseRecord, SimulatedUser, TrialRecord
from holodeck_action.suite.applicability import skip_reason
from holodeck_action.suite.values import Case
from holodeck_action.text.redaction import Redactor


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
