"""What `compare` says of two runs: the comparison, the gates on it, and an exit code."""

from __future__ import annotations

from msgspec import Struct

from holodeck_action.decide.compare.comparison import Comparison
from holodeck_action.decide.compare.regressions import judge_comparison
from holodeck_action.decide.exam_gate import with_exam
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.decide.gates import gate_sentence
from holodeck_action.decide.verdict import GateVerdict, VerdictOutcome
from holodeck_action.suite.model.policy import Baseline

COMPARISON_VERSION = 1


class ComparisonReport(Struct, frozen=True):
    """Two runs compared, and judged by what changed alone.

    Attributes:
        version: of this form.
        suite: name of the head's suite.
        folder: the suite's in its repository; empty where it is not known.
        outcome: `passed`, `failed`, or `incomplete` where nothing can be compared.
        exit_code: 0, 1 or 3.
        reason: why.
        gates: the gates on changes.
        warnings: what the settings only warn of.
        comparison: what changed.
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
    comparison: Comparison, settings: Baseline, max_regressions: int | None, *, suite: str, folder: str
) -> ComparisonReport:
    """Judge a comparison.

    Args:
        comparison: what changed.
        settings: what a loss does.
        max_regressions: cases that may have got worse; None for none.
        suite: name of the head's suite.
        folder: the suite's in its repository.
    """
    judged = with_exam(judge_comparison(comparison, "", settings, max_regressions), comparison, "", settings)
    violated = [gate for gate in judged.gates if gate.state == "failed"]
    outcome: VerdictOutcome = "passed"
    code, reason = ExitCode.PASSED, "nothing that the settings fail on got worse"
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
        reason = "no case is the same in both runs, so nothing is compared"
    return ComparisonReport(
        COMPARISON_VERSION, suite, folder, outcome, code, reason, judged.gates, judged.warnings, comparison
    )
