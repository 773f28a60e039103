"""Gates on changes since the base: cases, pass rate and metrics that got worse (docs/statistics.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.compare.comparison import Comparison, Difference, count_gating
from holodeck_action.decide.compare.pairing import ON_BASE
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.decide.verdict import GateState, GateVerdict
from holodeck_action.suite.model.policy import Baseline, CaseReaction
from holodeck_action.text.plain import one_line

MAX_REGRESSIONS, ON_REGRESSED, ON_INCONCLUSIVE = "max_regressions", "baseline.on_regressed", "baseline.on_inconclusive"
_CASES_NAMED = 3
_LONGEST_REASON = 300
_FAILING: tuple[CaseReaction, ...] = ("fail", "confirm")


class BaselineVerdict(Struct, frozen=True):
    """The gates on a comparison, and the warnings about changes for which the settings only warn, one sentence each."""

    gates: tuple[GateVerdict, ...]
    warnings: tuple[str, ...]


def judge_comparison(
    comparison: Comparison | None, missing_reason: str, settings: Baseline, max_regressions: int | None
) -> BaselineVerdict:
    """Judge the changes.

    Args:
        comparison: the changes; None if there is no base.
        missing_reason: why there is no base, in one sentence.
        settings: settings of the comparison, with the reactions to regressions.
        max_regressions: number of cases that may get worse; None means 0.

    Returns:
        A gate for each reaction `fail` or `confirm`, and a warning for each violated gate with the reaction `warn`. If
        no case can be compared, the gates are undetermined with `on_missing: fail`, else skipped. If the base has the
        cases but none of them could be judged there, the gates are undetermined.
    """
    found = list(
        _change_gates(comparison, max_regressions or 0) if comparison is not None and comparison.paired else ()
    )
    reactions: dict[str, CaseReaction] = {
        MAX_REGRESSIONS: settings.on_case_regression,
        ON_REGRESSED: settings.on_regressed,
        ON_INCONCLUSIVE: settings.on_inconclusive,
    }
    if comparison is not None and not comparison.paired and comparison.unknown_now.cases:
        found = list(_change_gates(comparison, max_regressions or 0))
    failure = "" if found or comparison is None else _base_failure(comparison)
    if failure:
        return _gates_without_base(failure, reactions, "undetermined", max_regressions or 0)
    if not found:
        reason = missing_reason or "the base has no case in common with this run, so nothing is compared"
        short = "there is no base to compare with" if comparison is None and settings.on_missing == "warn" else reason
        state: GateState = "undetermined" if settings.on_missing == "fail" else "skipped"
        return _gates_without_base(short, reactions, state, max_regressions or 0)
    assert comparison is not None
    found = [_apply_unknowns(gate, comparison, settings) for gate in found]
    return BaselineVerdict(
        tuple(gate for gate in found if reactions[gate.name] in _FAILING),
        tuple(gate.reason for gate in found if reactions[gate.name] == "warn" and gate.state == "failed"),
    )


def _apply_unknowns(gate: GateVerdict, comparison: Comparison, settings: Baseline) -> GateVerdict:
    """Correct the state and reason of a passed gate for cases with unknown results; return other gates unchanged.

    If unknown results of this run could violate the gate, it is undetermined. If results on the base are unknown, the
    gate is undetermined with `on_missing: fail`. Without this setting, it is skipped if the unknown results could
    violate it.
    """
    now, base = comparison.unknown_now, comparison.unknown_base
    if gate.state != "passed":
        return gate
    cases = gate.name == MAX_REGRESSIONS
    regressed = count_gating(comparison.regressed)
    undecided = [case.title for case in comparison.undecided if not case.quarantined]
    if undecided and (not cases or regressed + now.worse + len(undecided) > gate.required):
        reason = (
            f"{gate.reason}; {count_phrase(len(undecided), 'case')} failed only in trials that the base does not have: "
            f"{_named_cases(undecided)}"
        )
        return replace(gate, state="undetermined", reason=reason)
    if (cases and regressed + now.worse > gate.required) or (not cases and now.cases):
        count = now.worse if cases else now.cases
        reason = f"{gate.reason}; {count_phrase(count, 'case')} not fully evaluated in this run may have got worse"
        return replace(gate, state="undetermined", reason=reason)
    if not base.cases:
        return gate
    reason = f"{gate.reason}; {count_phrase(base.cases, 'case')} not fully evaluated on the base"
    if settings.on_missing == "fail":
        return replace(gate, state="undetermined", reason=reason)
    could = regressed + now.worse + base.worse > gate.required if cases else True
    return replace(gate, state="skipped", reason=reason) if could else gate


def _base_failure(comparison: Comparison) -> str:
    """Return why no case of the base has a verdict, with its first error; an empty string if the base has none of the
    cases."""
    lost = [each.reason for each in comparison.unpaired if each.reason.startswith(f"{ON_BASE}: ")]
    if not lost:
        return ""
    cases = count_phrase(len(lost), "case")
    return f"the base could evaluate none of {cases}, so nothing is compared; {one_line(lost[0], _LONGEST_REASON)}"


def _gates_without_base(
    reason: str, reactions: dict[str, CaseReaction], state: GateState, max_regressions: int
) -> BaselineVerdict:
    limits = {MAX_REGRESSIONS: max_regressions}
    gates = (
        GateVerdict(name, state, None, limits.get(name, 0), reason)
        for name, reaction in reactions.items()
        if reaction in _FAILING
    )
    return BaselineVerdict(tuple(gates), ())


def _change_gates(comparison: Comparison, max_regressions: int) -> Iterator[GateVerdict]:
    cases = count_gating(comparison.regressed)
    which = "case" if cases or comparison.complete else "compared case"
    reason = f"{count_phrase(cases, which)} got worse than on the base ({permitted_text(max_regressions)})"
    if cases:
        named = [case.title for case in comparison.regressed[: min(cases, _CASES_NAMED)]]
        reason += f": {_named_cases(named, cases)}"
    if flaky := count_gating(comparison.flaky):
        reason += f"; {count_phrase(flaky, 'more case' if cases else 'case')} failed, but not in most trials"
    yield _limit_gate(MAX_REGRESSIONS, cases, max_regressions, reason)
    measures = list(comparison.measures(gating=True))
    worse = [change_sentence(name, change) for name, change in measures if change.state == "regressed"]
    reason = "worse beyond chance: " + "; ".join(worse) if worse else "nothing is worse beyond chance"
    yield _limit_gate(ON_REGRESSED, len(worse), 0, reason)
    open_ones = [name for name, change in measures if change.state == "inconclusive"]
    points = f"{100 * comparison.margin:g} points"
    reason = f"losses of more than {points} are ruled out"
    if open_ones:
        reason = f"too few cases to rule out a loss of more than {points} in {', '.join(open_ones)}"
    yield _limit_gate(ON_INCONCLUSIVE, len(open_ones), 0, reason)


def _named_cases(titles: Sequence[str], count: int | None = None) -> str:
    """Return the first titles of cases as text; `count` is the number of cases if `titles` does not have them all."""
    left_out = (len(titles) if count is None else count) - _CASES_NAMED
    return ", ".join(titles[:_CASES_NAMED]) + (f" and {left_out} more" if left_out > 0 else "")


def permitted_text(limit: int) -> str:
    """Return a clause with the number of cases that may get worse, such as `none allowed`."""
    return "none allowed" if limit == 0 else f"at most {limit:,} allowed"


def change_sentence(name: str, change: Difference) -> str:
    """Return a measure's name and its values in base and head as a sentence, with the interval of the difference if
    there is one.
    """
    said = f"{name} {change.base:.2f} → {change.head:.2f}"
    if change.low is None or change.high is None:
        return said
    return f"{said} (95 % interval of the difference {change.low:+.2f} to {change.high:+.2f})".replace("-", "−")


def _limit_gate(name: str, actual: int, limit: int, reason: str) -> GateVerdict:
    return GateVerdict(name, "passed" if actual <= limit else "failed", actual, limit, reason)
