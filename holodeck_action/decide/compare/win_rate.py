"""The gate on the win rate against the base, from pairs of answers that were judged side by side."""

from __future__ import annotations

from msgspec.structs import replace

from holodeck_action.decide.compare.comparison import Comparison, Preference
from holodeck_action.decide.compare.regressions import BaselineVerdict
from holodeck_action.decide.gates import reaches
from holodeck_action.decide.number_texts import count_phrase, decisive_percentages
from holodeck_action.decide.statistics import MIN_SAMPLE
from holodeck_action.decide.verdict import GateState, GateVerdict
from holodeck_action.suite.model.policy import Baseline, Gates

MIN_WIN_RATE = "min_win_rate_lower_bound"


def add_win_rate_gate(
    judged: BaselineVerdict, comparison: Comparison | None, missing_reason: str, settings: Baseline, gates: Gates
) -> BaselineVerdict:
    """Return `judged` with the gate on the win rate added, if that gate is set.

    If several metrics compare answers, the one whose interval has the lowest lower end decides. The gate is
    undetermined if no pair or too few cases were judged, or if more pairs are missing than `min_completeness`
    tolerates.

    Args:
        judged: the other gates.
        comparison: the changes; None if there is no base.
        missing_reason: why there is no base, in one sentence.
        settings: settings of the comparison; `on_missing` decides the state of the gate if there is no base.
        gates: the gates.
    """
    required = gates.min_win_rate_lower_bound
    if required is None:
        return judged
    if comparison is None or not comparison.paired:
        state: GateState = "undetermined" if settings.on_missing == "fail" else "skipped"
        reason = (missing_reason if state == "undetermined" else "") or "there is no base to compare with"
        found = GateVerdict(MIN_WIN_RATE, state, None, required, reason)
    elif not comparison.preferences:
        found = GateVerdict(MIN_WIN_RATE, "undetermined", None, required, "no pair of answers was judged")
    else:
        lowest = min(comparison.preferences, key=lambda each: -1.0 if each.low is None else each.low)
        found = _judge(lowest, required, gates)
    return replace(judged, gates=(*judged.gates, found))


def pairs_suffice(preference: Preference, gates: Gates) -> bool:
    """Return whether as many pairs were judged as `min_completeness` requires."""
    required = gates.min_completeness
    planned = preference.pairs + preference.missing
    return required is None or reaches(preference.pairs / planned, required)


def _judge(preference: Preference, required_rate: float, gates: Gates) -> GateVerdict:
    cases = count_phrase(preference.cases, "case")
    lost = f"; {count_phrase(preference.missing, 'pair')} could not be judged" if preference.missing else ""
    if preference.low is None:
        reason = f"{cases} with judged pairs; at least {MIN_SAMPLE} are needed{lost}"
        return GateVerdict(MIN_WIN_RATE, "undetermined", None, required_rate, reason)
    holds = reaches(preference.low, required_rate)
    state: GateState = ("passed" if holds else "failed") if pairs_suffice(preference, gates) else "undetermined"
    shown, needed = decisive_percentages(preference.low, required_rate, is_met=holds)
    reason = f"{shown} is the lower end of the win rate's 95 % interval over {cases}; at least {needed} is needed{lost}"
    return GateVerdict(MIN_WIN_RATE, state, preference.low, required_rate, reason)
