"""The gate `baseline.on_loosened`: whether a run may use less strict terms than its base."""

from __future__ import annotations

from msgspec.structs import replace

from holodeck_action.decide.compare.comparison import Comparison
from holodeck_action.decide.compare.regressions import BaselineVerdict
from holodeck_action.decide.terms_changes import changes_clause
from holodeck_action.decide.verdict import GateState, GateVerdict
from holodeck_action.suite.model.policy import Baseline, Reaction

ON_LOOSENED = "baseline.on_loosened"
_HOLDS = "nothing is less strict than on the base"
_ACCEPTED = "what differs from the base is accepted by the workflow"


def add_loosened_gate(
    judged: BaselineVerdict,
    comparison: Comparison | None,
    missing_reason: str,
    settings: Baseline,
    on_changed_code: Reaction | None = None,
) -> BaselineVerdict:
    """Return `judged` with the gate on changed terms added, if the reaction to laxer terms, or to other grading code,
    is `fail`.

    A laxer or changed term with this reaction fails the gate. If such terms are only unknown on the base, the gate is
    undetermined.

    Args:
        judged: the other gates.
        comparison: the changes; None if there is no base.
        missing_reason: why there is no base, in one sentence.
        settings: the run's reactions; the base's reaction applies if it is stricter.
        on_changed_code: the workflow's reaction to other grading code and evidence; None if it gives none.
    """
    terms = None if comparison is None else comparison.terms
    reaction = settings.on_loosened if terms is None else terms.reaction
    if "fail" not in (reaction, on_changed_code):
        return judged
    failing = () if terms is None else terms.failing_changes
    definite = sum(change.way != "unknown" for change in failing)
    state: GateState = "passed"
    if comparison is None:
        state, reason = ("undetermined", missing_reason) if settings.on_missing == "fail" else ("skipped", "")
        reason = reason or "there is no base to compare with"
    elif not failing:
        reason = _HOLDS if terms is None or not terms.reported_changes else _ACCEPTED
    else:
        state, reason = "failed" if definite else "undetermined", f"the run {changes_clause(failing)}"
    actual = None if comparison is None else definite
    return replace(judged, gates=(*judged.gates, GateVerdict(ON_LOOSENED, state, actual, 0, reason)))
