"""The gate `baseline.on_loosened`: whether a run may use less strict terms than its base."""

from __future__ import annotations

from msgspec.structs import replace

from holodeck_action.decide.compare.comparison import Comparison
from holodeck_action.decide.compare.regressions import BaselineVerdict
from holodeck_action.decide.terms_changes import changes_clause
from holodeck_action.decide.verdict import GateState, GateVerdict
from holodeck_action.suite.model.policy import Baseline

ON_LOOSENED = "baseline.on_loosened"
_HOLDS = "nothing is less strict than on the base"


def add_loosened_gate(
    judged: BaselineVerdict, comparison: Comparison | None, missing_reason: str, settings: Baseline
) -> BaselineVerdict:
    """Return `judged` with the gate on changed terms added, if the reaction to laxer terms is `fail`.

    A laxer or changed term fails the gate. If terms are only unknown on the base, the gate is undetermined.

    Args:
        judged: the other gates.
        comparison: the changes; None if there is no base.
        missing_reason: why there is no base, in one sentence.
        settings: the run's reactions; the base's reaction applies if it is stricter.
    """
    terms = None if comparison is None else comparison.terms
    reaction = settings.on_loosened if terms is None else terms.reaction
    if reaction != "fail":
        return judged
    state: GateState = "passed"
    if comparison is None:
        state, reason = ("undetermined", missing_reason) if settings.on_missing == "fail" else ("skipped", "")
        reason = reason or "there is no base to compare with"
    elif terms is None:
        reason = _HOLDS
    else:
        state, reason = "failed" if terms.definite_count else "undetermined", f"the run {changes_clause(terms.changes)}"
    actual = None if comparison is None else 0 if terms is None else terms.definite_count
    return replace(judged, gates=(*judged.gates, GateVerdict(ON_LOOSENED, state, actual, 0, reason)))
