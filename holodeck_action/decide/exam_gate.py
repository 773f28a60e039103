"""The gate `baseline.on_loosened`: whether a run may use less strict terms than its base."""

from __future__ import annotations

from msgspec.structs import replace

from holodeck_action.decide.compare.comparison import Comparison
from holodeck_action.decide.compare.regressions import BaselineVerdict
from holodeck_action.decide.exam_changes import sentence
from holodeck_action.decide.verdict import GateState, GateVerdict
from holodeck_action.suite.model.policy import Baseline

LOOSENED = "baseline.on_loosened"
_HOLDS = "nothing is less strict than on the base"


def add_exam_gate(
    judged: BaselineVerdict, comparison: Comparison | None, missing: str, settings: Baseline
) -> BaselineVerdict:
    """Add the gate on the terms to the other gates on a comparison, if its reaction is `fail`.

    A laxer or changed term fails it. A term that is unknown on the base leaves it undetermined.

    Args:
        judged: the other gates.
        comparison: the changes; None if there is no base.
        missing: why there is no base, in one sentence.
        settings: the run's reactions; the base's apply if they are stricter.
    """
    exam = None if comparison is None else comparison.exam
    reaction = settings.on_loosened if exam is None else exam.reaction
    if reaction != "fail":
        return judged
    state: GateState = "passed"
    if comparison is None:
        state, reason = ("undetermined", missing) if settings.on_missing == "fail" else ("skipped", "")
        reason = reason or "there is no base to compare with"
    elif exam is None:
        reason = _HOLDS
    else:
        state, reason = "failed" if exam.definite else "undetermined", f"the run {sentence(exam.changes)}"
    actual = None if comparison is None else 0 if exam is None else exam.definite
    return replace(judged, gates=(*judged.gates, GateVerdict(LOOSENED, state, actual, 0, reason)))
