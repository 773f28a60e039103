"""`decide`: from a record and gates to a verdict, without a call to anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from holodeck_action.results.agreement import panel_summaries
from holodeck_action.results.canonical import record_digest
from holodeck_action.results.case_verdicts import judge_case
from holodeck_action.results.comparison import Comparison
from holodeck_action.results.consumption import cost_of, first_tokens_of, latencies_of, tokens_of
from holodeck_action.results.exit_codes import ExitCode, worst_exit_code
from holodeck_action.results.gates import GateInputs, gate_sentence, judge_gates
from holodeck_action.results.record import CaseRecord, Record
from holodeck_action.results.regressions import BaselineVerdict, judge_comparison
from holodeck_action.results.summaries import case_scores, summarise
from holodeck_action.results.verdict import (
    CaseVerdict,
    Counts,
    GateVerdict,
    Verdict,
    VerdictOutcome,
)
from holodeck_action.suite.policy import Baseline, Gates, QuarantineEntry

_OUTCOMES: dict[ExitCode, VerdictOutcome] = {
    ExitCode.PASSED: "passed",
    ExitCode.VIOLATED: "failed",
    ExitCode.INCOMPLETE: "incomplete",
    ExitCode.STOPPED: "stopped",
}


@dataclass(frozen=True, slots=True)
class Terms:
    """What a record is judged by, where that differs from what was in force when it was made.

    Attributes:
        gates: None for those of the record.
        baseline: what a loss does; None for what the record says.
        base: the results that the record is compared with; None for none.
    """

    gates: Gates | None = None
    baseline: Baseline | None = None
    base: Record | None = None


OWN_TERMS = Terms()


def decide(record: Record, terms: Terms = OWN_TERMS) -> Verdict:
    """Judge a record.

    Args:
        record: what a run wrote.
        terms: what it is judged by.

    Returns:
        The verdict. Its exit code: 1 for a definite violation, else 4 for a stopped run, else 3 for an incomplete
        one, else 0.
    """
    verdicts = judge_cases(record)
    judged = list(zip(record.cases, verdicts, strict=True))
    gating = [(case, verdict) for case, verdict in judged if verdict.outcome != "quarantined"]
    metrics = summarise(gating)
    planned, completed = _evaluations(gating, record.stop_when_decided)
    by_outcome = {
        outcome: tuple(case.weight for case, verdict in gating if verdict.outcome == outcome)
        for outcome in ("passed", "failed", "error", "skipped")
    }
    inputs = GateInputs(
        passed=by_outcome["passed"],
        failed=by_outcome["failed"],
        missing=by_outcome["error"] + by_outcome["skipped"],
        errors=len(by_outcome["error"]),
        flaky=sum(verdict.flaky for _, verdict in gating),
        planned=planned,
        completed=completed,
        metrics=metrics,
        minimized=minimized_in(record),
        lost=tuple(_lost(gating)),
        scores=case_scores(gating),
        tokens=tokens_of(record),
        cost_usd=cost_of(record),
        latencies=latencies_of(case for case, _ in gating),
        first_tokens=first_tokens_of(case for case, _ in gating),
        unrun=sum(verdict.judged == "skipped" for _, verdict in judged),
        summary=record.summary,
        asserting=not record.cases or any(case.asserting for case in record.cases),
    )
    gates = terms.gates if terms.gates is not None else record.gates
    digest = record_digest(record)
    comparison, compared = _compared(record, terms, gates, verdicts, digest)
    gate_verdicts = (*judge_gates(gates, inputs), *compared.gates) if record.cases else ()
    exit_code, reason = _conclude(record, gate_verdicts, decided=inputs.decided)
    return Verdict(
        outcome=_OUTCOMES[exit_code],
        exit_code=exit_code,
        reason=reason,
        record_digest=digest,
        counts=_counts(verdicts, planned, completed),
        pass_rate=inputs.pass_rate,
        completeness=inputs.completeness,
        gates=gate_verdicts,
        metrics=metrics,
        cases=verdicts,
        panels=panel_summaries(gating),
        comparison=comparison,
        warnings=compared.warnings,
    )


def judge_cases(record: Record) -> tuple[CaseVerdict, ...]:
    """Judge the cases of a record, in its order."""
    quarantined = active_quarantine(record)
    return tuple(
        judge_case(case, stop_when_decided=record.stop_when_decided, quarantine_reason=quarantined.get(case.id))
        for case in record.cases
    )


def _compared(
    record: Record, terms: Terms, gates: Gates, verdicts: tuple[CaseVerdict, ...], digest: str
) -> tuple[Comparison | None, BaselineVerdict]:
    """Compare with the base, where there is one, and judge what changed."""
    recorded = record.baseline
    if recorded is None:
        return None, BaselineVerdict((), ())
    settings = terms.baseline if terms.baseline is not None else recorded.settings
    comparison = None
    if terms.base is not None and recorded.base is not None:
        # numpy takes longer to import than most of a start-up.
        from holodeck_action.results.comparing import Digests, compare

        digests = Digests(record_digest(terms.base), digest)
        comparison = compare(terms.base, record, settings, against=recorded.base, judged=verdicts, digests=digests)
    return comparison, judge_comparison(comparison, recorded.missing, settings, gates.max_regressions)


def active_quarantine(record: Record) -> dict[str, str]:
    """Return the reason per quarantined case id, entries expired on the day of the run left out."""
    today = date.fromisoformat(record.run.started_at[:10])
    return {
        case.id: f"quarantined until {entry.expires}: {entry.reason}"
        for entry in record.quarantine
        if not expired(entry, today)
        for case in record.cases
        if entry.case in (case.id, case.name)
    }


def expired(entry: QuarantineEntry, today: date) -> bool:
    """Tell whether a quarantine entry has run out: its last day is `expires`."""
    return today > entry.expires


def _evaluations(gating: list[tuple[CaseRecord, CaseVerdict]], stop_when_decided: bool) -> tuple[int, int]:
    """Count planned and completed evaluations over the trials that count.

    A metric that turned out not to apply at run time was not planned; a trial that never ran was, whole.
    """
    planned = completed = 0
    for case, verdict in gating:
        decided = stop_when_decided and verdict.judged in ("passed", "failed")
        if not decided:
            planned += max(0, case.repeat - len(verdict.trials)) * case.planned_evaluations
        for trial in verdict.trials:
            metrics = [metric.outcome for turn in trial.turns for metric in turn.metrics]
            planned += case.planned_evaluations - max(0, metrics.count("skipped") - case.not_applicable)
            completed += sum(outcome in ("passed", "failed", "informational") for outcome in metrics)
            completed += sum(turn.tools in ("passed", "failed") for turn in trial.turns)
    return planned, completed


def _lost(gating: list[tuple[CaseRecord, CaseVerdict]]) -> Iterator[str]:
    for case, verdict in gating:
        for metric in verdict.metrics if verdict.outcome == "passed" else ():
            if metric.outcome == "error":
                yield f"{case.name or case.id} ({case.source}): {metric.reason[:200]}"


def minimized_in(record: Record) -> frozenset[str]:
    """Return the names of the metrics whose low scores are good."""
    return frozenset(each.evaluator_name for each in record.evaluations if each.criteria.polarity == "minimize")


def _counts(verdicts: tuple[CaseVerdict, ...], planned: int, completed: int) -> Counts:
    outcomes = [verdict.outcome for verdict in verdicts]
    return Counts(
        passed=outcomes.count("passed"),
        failed=outcomes.count("failed"),
        error=outcomes.count("error"),
        skipped=outcomes.count("skipped"),
        informational=outcomes.count("informational"),
        quarantined=outcomes.count("quarantined"),
        planned_evaluations=planned,
        completed_evaluations=completed,
    )


def _conclude(record: Record, gates: tuple[GateVerdict, ...], *, decided: bool) -> tuple[ExitCode, str]:
    """Return the exit code that counts, and why."""
    passed = "every gate holds" if record.cases else "the suite has no cases, which allow-empty permits"
    reasons = {ExitCode.PASSED: passed}
    violated = [gate for gate in gates if gate.state == "failed"]
    open_gates = [gate for gate in gates if gate.state == "undetermined"]
    if violated:
        reasons[ExitCode.VIOLATED] = "; ".join(gate_sentence(gate) for gate in violated)
    if record.stopped is not None:
        reasons[ExitCode.STOPPED] = f"the run stopped early: {record.stopped}"
    if record.cases and not decided:
        reasons[ExitCode.INCOMPLETE] = "no case could be judged"
    elif gates and all(gate.state == "skipped" for gate in gates):
        reasons[ExitCode.INCOMPLETE] = f"every gate is skipped: {gates[0].reason}"
    elif open_gates:
        reasons[ExitCode.INCOMPLETE] = "; ".join(gate_sentence(gate) for gate in open_gates)
    elif not record.cases and (record.chosen is None or record.chosen.cases):
        reasons[ExitCode.INCOMPLETE] = "the record holds no case"
    code = worst_exit_code(reasons)
    return code, reasons[code]
