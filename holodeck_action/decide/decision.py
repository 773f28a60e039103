"""`decide`: computes the verdict on a record and its gates, without calling a model."""

from __future__ import annotations

from msgspec import Struct

from holodeck_action.decide.certainty import judge_stopped_base_gates, judge_stopped_gates
from holodeck_action.decide.compare.comparison import Comparison
from holodeck_action.decide.compare.regressions import BaselineVerdict, judge_comparison
from holodeck_action.decide.compare.win_rate import add_win_rate_gate
from holodeck_action.decide.exit_codes import ExitCode, worst_exit_code
from holodeck_action.decide.gates import NOT_DETERMINED, gate_sentence, judge_gates
from holodeck_action.decide.loosened_gate import add_loosened_gate
from holodeck_action.decide.survey import RecordTotals
from holodeck_action.decide.verdict import GateVerdict, Verdict, VerdictOutcome
from holodeck_action.record.canonical import record_digest
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import Results
from holodeck_action.suite.model.policy import Baseline, Gates

_OUTCOMES: dict[ExitCode, VerdictOutcome] = {
    ExitCode.PASSED: "passed",
    ExitCode.VIOLATED: "failed",
    ExitCode.INCOMPLETE: "incomplete",
    ExitCode.STOPPED: "stopped",
}


class Terms(Struct, frozen=True):
    """The terms of a decision, which can replace terms in the record.

    Attributes:
        gates: gates to apply; None to use the gates of the record.
        baseline: settings of the comparison with the base; None to use the settings of the record.
        base: record of the base; None if there is no base.
        base_digest: digest of the base's canonical record; None if not computed yet, which is slow.
    """

    gates: Gates | None = None
    baseline: Baseline | None = None
    base: Record | None = None
    base_digest: str | None = None

    @classmethod
    def against(cls, base: Results | None) -> Terms:
        """Return terms that use the record's own gates and settings with the results of `base` (None if there is no
        base).
        """
        return OWN_TERMS if base is None else cls(base=base.record, base_digest=base.record_digest)


OWN_TERMS = Terms()


def decide(record: Record, terms: Terms = OWN_TERMS, survey: RecordTotals | None = None) -> Verdict:
    """Judge a record, see `decide_with_totals`."""
    return decide_with_totals(record, terms, survey)[0]


def decide_with_totals(record: Record, terms: Terms, survey: RecordTotals | None) -> tuple[Verdict, RecordTotals]:
    """Judge a record.

    Args:
        record: the record of a run.
        terms: the terms of the decision.
        survey: the totals of the record's cases; None to compute them.

    Returns:
        The verdict and the totals. The exit code is 1 if a gate is violated, else 4 if the run was stopped, else 3 if
        the run is incomplete, else 0.
    """
    found = RecordTotals(record) if survey is None else survey
    inputs = found.inputs
    gates = terms.gates if terms.gates is not None else record.gates
    comparison, compared = _compare_with_base(record, terms, gates, found)
    if found.remaining is not None:
        base_gates = judge_stopped_base_gates(compared.gates, compared=comparison is not None)
        gate_verdicts = (*judge_stopped_gates(gates, inputs, found.remaining), *base_gates)
    else:
        gate_verdicts = (*judge_gates(gates, inputs), *compared.gates) if record.cases else ()
    exit_code, reason = _conclude(record, gate_verdicts, decided=inputs.has_outcome)
    verdict = Verdict(
        outcome=_OUTCOMES[exit_code],
        exit_code=exit_code,
        reason=reason,
        record_digest=found.digest,
        counts=found.counts,
        pass_rate=inputs.pass_rate,
        completeness=inputs.completeness,
        gates=gate_verdicts,
        metrics=inputs.metrics,
        cases=found.verdicts,
        panels=found.panels.summaries,
        contradictions=found.contradictions.summaries,
        comparison=comparison,
        warnings=compared.warnings,
    )
    return verdict, found


def _compare_with_base(
    record: Record, terms: Terms, gates: Gates, survey: RecordTotals
) -> tuple[Comparison | None, BaselineVerdict]:
    """Compare with the base and judge the changes. Return the comparison (None if there is no base) and the verdict."""
    recorded = record.baseline
    if recorded is None:
        return None, BaselineVerdict((), ())
    settings = terms.baseline if terms.baseline is not None else recorded.settings
    comparison = None
    if terms.base is not None and recorded.base is not None:
        # numpy takes longer to import than most of a start-up.
        from holodeck_action.decide.compare.comparing import Digests, compare

        digests = Digests(terms.base_digest or record_digest(terms.base), survey.digest)
        comparison = compare(
            terms.base,
            record,
            settings,
            base_run=recorded.base,
            judged=survey.verdicts,
            digests=digests,
            gates=gates,
        )
    judged = judge_comparison(comparison, recorded.missing, settings, gates.max_regressions)
    judged = add_loosened_gate(judged, comparison, recorded.missing, settings, recorded.on_changed_code)
    return comparison, add_win_rate_gate(judged, comparison, recorded.missing, settings, gates)


EVERY_GATE_HOLDS = "every gate holds"
"""Reason of a passed run without skipped gates."""
OTHER_GATES_HOLD = "every other gate holds"
"""Start of the reason of a passed run with skipped gates."""


def _conclude(record: Record, gates: tuple[GateVerdict, ...], *, decided: bool) -> tuple[ExitCode, str]:
    """Return the decisive exit code and its reason."""
    skipped = [gate.name for gate in gates if gate.state == "skipped"]
    passed = f"{OTHER_GATES_HOLD}; skipped: {', '.join(skipped)}" if skipped else EVERY_GATE_HOLDS
    reasons = {ExitCode.PASSED: passed if record.cases else "the suite has no cases, which allow-empty permits"}
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
        sentences = [
            f"{gate.name} is {NOT_DETERMINED}" if gate.reason == NOT_DETERMINED else gate_sentence(gate)
            for gate in open_gates
        ]
        reasons[ExitCode.INCOMPLETE] = "; ".join(sentences)
    elif not record.cases and (record.chosen is None or record.chosen.cases):
        reasons[ExitCode.INCOMPLETE] = "the record holds no case"
    code = worst_exit_code(reasons)
    return code, reasons[code]
