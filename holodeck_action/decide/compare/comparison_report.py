"""The report of `compare`: the comparison of two runs, the gates on it, and an exit code."""

from __future__ import annotations

from msgspec import Struct

from holodeck_action.decide.compare.comparison import Comparison
from holodeck_action.decide.compare.regressions import judge_comparison
from holodeck_action.decide.compare.win_rate import add_win_rate_gate, pairs_suffice
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.decide.gates import gate_sentence
from holodeck_action.decide.loosened_gate import add_loosened_gate
from holodeck_action.decide.verdict import GateVerdict, VerdictOutcome
from holodeck_action.suite.model.policy import Baseline, Gates

COMPARISON_VERSION = 1


class ComparisonReport(Struct, frozen=True):
    """The report of `compare`: two runs, judged only by the gates on changes.

    Attributes:
        version: version of this format.
        suite: name of the head's suite.
        folder: folder of the suite in its repository; empty if unknown.
        outcome: `passed`, `failed`, or `incomplete` if nothing can be compared.
        exit_code: 0, 1 or 3.
        reason: reason of the outcome.
        gates: the gates on changes.
        warnings: changes for which the settings only warn.
        comparison: the changes.
    """

    version: int
    suite: str
    folder: str
    outcome: VerdictOutcome
    exit_code: int
    reason: str
    gates: tuple[GateVerdict, ...]
    warnings: tuple[str, ...]
    comparison: Comparison


def report_comparison(
    comparison: Comparison,
    settings: Baseline,
    gates: Gates,
    *,
    suite: str,
    folder: str,
) -> ComparisonReport:
    """Judge a comparison and return its report.

    Args:
        comparison: the changes.
        settings: settings of the comparison, with the reactions to regressions.
        gates: all gates of the suite; only those on the comparison are judged.
        suite: name of the head's suite.
        folder: folder of the suite in its repository.
    """
    judged = add_loosened_gate(
        judge_comparison(comparison, "", settings, gates.max_regressions),
        comparison,
        "",
        settings,
        None if comparison.terms is None else comparison.terms.on_changed_code,
    )
    judged = add_win_rate_gate(judged, comparison, "", settings, gates)
    violated = [gate for gate in judged.gates if gate.state == "failed"]
    outcome: VerdictOutcome = "passed"
    code, reason = ExitCode.PASSED, "nothing got worse that can fail this comparison"
    if not comparison.complete:
        reason += f" in the {comparison.part} that are compared"
    if violated:
        outcome, code = "failed", ExitCode.VIOLATED
        reason = "; ".join(map(gate_sentence, violated))
    elif open_gates := [gate for gate in judged.gates if gate.state == "undetermined"]:
        outcome, code = "incomplete", ExitCode.INCOMPLETE
        reason = "; ".join(map(gate_sentence, open_gates))
    elif not comparison.paired:
        outcome, code = "incomplete", ExitCode.INCOMPLETE
        reason = "the runs have no case in common, so nothing is compared"
    elif lost := next((each for each in comparison.preferences if not pairs_suffice(each, gates)), None):
        outcome, code = "incomplete", ExitCode.INCOMPLETE
        reason = f"{lost.metric}: {lost.missing:,} of {lost.pairs + lost.missing:,} pairs of answers were not judged"
    elif judged.gates and all(gate.state == "skipped" for gate in judged.gates):
        outcome, code = "incomplete", ExitCode.INCOMPLETE
        reason = f"every gate is skipped: {judged.gates[0].reason}"
    return ComparisonReport(
        COMPARISON_VERSION, suite, folder, outcome, code, reason, judged.gates, judged.warnings, comparison
    )
