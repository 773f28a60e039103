"""Gates on what changed since the base: cases, pass rate and metrics that got worse (docs/statistics.md)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.compare.comparison import Comparison, Difference, gating
from holodeck_action.decide.figures import counted
from holodeck_action.decide.verdict import GateState, GateVerdict
from holodeck_action.suite.model.policy import Baseline, Reaction

CASES, REGRESSED, INCONCLUSIVE = "max_regressions", "baseline.on_regressed", "baseline.on_inconclusive"
_NAMED = 3


class BaselineVerdict(Struct, frozen=True):
    """The gates on a comparison, and what it shows that only warns, each one sentence."""

    gates: tuple[GateVerdict, ...]
    warnings: tuple[str, ...]


def judge_comparison(
    comparison: Comparison | None, missing: str, settings: Baseline, max_regressions: int | None
) -> BaselineVerdict:
    """Judge what changed.

    Args:
        comparison: what changed; None where there is nothing to compare with.
        missing: why there is nothing, in one sentence.
        settings: what a loss does.
        max_regressions: cases that may have got worse; None for none.

    Returns:
        A gate for each reaction `fail`, and a sentence for each `warn` that there is cause for. Without pairs the gates
        are undetermined, or skipped where the settings accept that, and the reports say why.
    """
    found = list(_found(comparison, max_regressions or 0) if comparison is not None and comparison.paired else ())
    reactions = {
        CASES: settings.on_case_regression,
        REGRESSED: settings.on_regressed,
        INCONCLUSIVE: settings.on_inconclusive,
    }
    if comparison is not None and not comparison.paired and comparison.unknown_now.cases:
        found = list(_found(comparison, max_regressions or 0))
    if not found:
        reason = missing or "no case is the same in the base, so nothing is compared"
        short = "there is no base to compare with" if comparison is None and settings.on_missing == "warn" else reason
        return _without_base(short, reactions, settings, max_regressions or 0)
    assert comparison is not None
    found = [_as_known(gate, comparison, settings) for gate in found]
    return BaselineVerdict(
        tuple(gate for gate in found if reactions[gate.name] == "fail"),
        tuple(gate.reason for gate in found if reactions[gate.name] == "warn" and gate.state == "failed"),
    )


def _as_known(gate: GateVerdict, comparison: Comparison, settings: Baseline) -> GateVerdict:
    """Return a gate as passed only if what is not known could not turn it.

    What this run leaves unknown makes it undetermined. What the base leaves unknown does so with `on_missing: fail`;
    else the gate is skipped, unless it holds in any case.
    """
    now, base = comparison.unknown_now, comparison.unknown_base
    if gate.state != "passed":
        return gate
    cases = gate.name == CASES
    regressed = gating(comparison.regressed)
    if (cases and regressed + now.worse > gate.required) or (not cases and now.cases):
        count = now.worse if cases else now.cases
        reason = f"{gate.reason}; {counted(count, 'case')} not wholly evaluated in this run could have got worse"
        return replace(gate, state="undetermined", reason=reason)
    if not base.cases:
        return gate
    reason = f"{gate.reason}; the base leaves {counted(base.cases, 'case')} unknown"
    if settings.on_missing == "fail":
        return replace(gate, state="undetermined", reason=reason)
    could = regressed + now.worse + base.worse > gate.required if cases else True
    return replace(gate, state="skipped", reason=reason) if could else gate


def _without_base(
    reason: str, reactions: dict[str, Reaction], settings: Baseline, max_regressions: int
) -> BaselineVerdict:
    limits = {CASES: max_regressions}
    state: GateState = "undetermined" if settings.on_missing == "fail" else "skipped"
    gates = (
        GateVerdict(name, state, None, limits.get(name, 0), reason)
        for name, reaction in reactions.items()
        if reaction == "fail"
    )
    return BaselineVerdict(tuple(gates), ())


def _found(comparison: Comparison, max_regressions: int) -> Iterator[GateVerdict]:
    cases = gating(comparison.regressed)
    allowed = "none" if max_regressions == 0 else f"{max_regressions:,}"
    which = "case" if cases or comparison.complete else "compared case"
    reason = f"{counted(cases, which)} got worse than on the base, {allowed} allowed"
    if cases:
        more = f" and {cases - _NAMED} more" if cases > _NAMED else ""
        named = comparison.regressed[: min(cases, _NAMED)]
        reason += f": {', '.join(case.title for case in named)}{more}"
    yield _at_most(CASES, cases, max_regressions, reason)
    measures = list(comparison.measures(gating=True))
    worse = [text(name, change) for name, change in measures if change.state == "regressed"]
    reason = "worse beyond chance: " + "; ".join(worse) if worse else "nothing is worse beyond chance"
    yield _at_most(REGRESSED, len(worse), 0, reason)
    open_ones = [name for name, change in measures if change.state == "inconclusive"]
    loss = f"a loss of more than {100 * comparison.margin:g} points"
    reason = f"{loss} is ruled out"
    if open_ones:
        reason = f"{loss} can neither be shown nor ruled out for {', '.join(open_ones)}"
    yield _at_most(INCONCLUSIVE, len(open_ones), 0, reason)


def text(name: str, change: Difference) -> str:
    """Say what became of a measure: its values on both sides, and the interval of the difference where there is one."""
    said = f"{name} {change.base:.3g} → {change.head:.3g}"
    if change.low is None or change.high is None:
        return said
    return f"{said} (95 % interval of the difference {change.low:+.3f} to {change.high:+.3f})"


def _at_most(name: str, actual: int, limit: int, reason: str) -> GateVerdict:
    return GateVerdict(name, "passed" if actual <= limit else "failed", actual, limit, reason)
