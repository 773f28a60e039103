"""Judges the gates of a run that stopped because its exit code was certain.

Each case that was not run could have passed, failed or been in error. The functions of `decide.gates` therefore judge
the extreme completions of the run: all of these cases pass, all fail, or all are in error. A gate is failed if it fails
in every completion, passed if it passes in every completion, else undetermined. This is sound for gates whose measure
moves in one direction with each case. Other gates are undetermined until the results of all their cases are known
(docs/verdict.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.consumption import KnownTotal
from holodeck_action.decide.gates import MIN_PASS_RATE, NOT_DETERMINED, GateInputs, Scores, judge_gates
from holodeck_action.decide.verdict import GateVerdict, MetricSummary
from holodeck_action.suite.model.policy import BOUNDS_OF_METRICS, Gates, active_gates

_COUNTING = (MIN_PASS_RATE, "min_completeness", "max_errors", "max_flaky", "max_cost_usd", "max_total_tokens")
"""Gates that the extreme completions can decide: their measures are counts, sums and rates."""
_WHOLE = ("p95_latency_ms", "p95_first_token_ms", "summary")
"""Gates that are undetermined until every case has run. Other gates do not wait for quarantined cases."""
_MEANS = BOUNDS_OF_METRICS[0]


class UncountedCases(Struct, frozen=True):
    """The cases that are not counted because the run stopped.

    Attributes:
        weights: weights of the cases with an assertion, except quarantined cases.
        silent: weights of the cases without an assertion, except quarantined cases.
        repeated: number of cases that can be flaky.
        evaluations: maximum number of evaluations of these cases.
        quarantined: number of quarantined cases, of which only the usage counts.
    """

    weights: Sequence[float]
    silent: Sequence[float]
    repeated: int
    evaluations: int
    quarantined: int

    @property
    def gating(self) -> int:
        """Number of these cases that are not quarantined."""
        return len(self.weights) + len(self.silent)

    @property
    def cases(self) -> int:
        """Number of these cases, quarantined cases included."""
        return self.gating + self.quarantined


def judge_stopped_gates(gates: Gates, inputs: GateInputs, remaining_cases: UncountedCases) -> Iterator[GateVerdict]:
    """Judge every configured gate of a stopped run. `inputs` covers the counted cases, `remaining_cases` the
    others."""
    ends = (judge_gates(gates, each) for each in _extreme_completions(inputs, remaining_cases))
    for gate, *others in zip(judge_gates(gates, inputs), *ends, strict=True):
        states = {each.state for each in others}
        if len(states) == 1 and states <= {"passed", "failed"} and _is_settled(gate.name, remaining_cases):
            yield replace(gate, state=states.pop())
        else:
            yield _as_undetermined(gate)


def judge_stopped_base_gates(verdicts: Sequence[GateVerdict], *, compared: bool) -> Iterator[GateVerdict]:
    """Return the gates on the comparison with the base for a stopped run: undetermined, except those that were skipped
    because there is no base."""
    return (gate if gate.state == "skipped" and not compared else _as_undetermined(gate) for gate in verdicts)


def _as_undetermined(gate: GateVerdict) -> GateVerdict:
    return GateVerdict(gate.name, "undetermined", None, gate.required, NOT_DETERMINED)


def _is_settled(name: str, remaining_cases: UncountedCases) -> bool:
    """Return whether the extreme completions suffice to judge a gate."""
    if name in _WHOLE:
        return not remaining_cases.cases
    return name in _COUNTING or name.endswith(tuple(f".{key}" for key in _MEANS)) or not remaining_cases.gating


def gates_by_end(gates: Gates, *, compared: bool) -> tuple[list[str], list[str]]:
    """Return two lists of names: the gates that can be known to fail before all cases have run, and the other gates.

    Args:
        gates: the gates of a suite.
        compared: whether a comparison with a base can fail the run.
    """
    names = [name for name, gate, _ in active_gates(gates) if gate.looks_at not in ("base", "missing")]
    early = [name for name in names if name in _COUNTING]
    late = [name for name in names if name not in _COUNTING]
    for metric, bounds in sorted(gates.metrics.items()):
        keys = [key for pair in BOUNDS_OF_METRICS for key in pair if getattr(bounds, key) is not None]
        early += [f"metrics.{metric}.{key}" for key in keys if key in _MEANS]
        late += [f"metrics.{metric}.{key}" for key in keys if key not in _MEANS]
    late += ["summary"] if gates.summary is not None else []
    late += ["the gates on the base"] if compared else []
    return early, late


def _extreme_completions(inputs: GateInputs, remaining_cases: UncountedCases) -> Iterator[GateInputs]:
    """Yield the completions in which all remaining cases pass, all fail, and all are in error with an unknown input.

    The last completion comes twice: with the highest and with the lowest metric scores that are possible.
    """
    planned = inputs.planned + remaining_cases.evaluations
    run = replace(inputs, planned=planned, completed=inputs.completed + remaining_cases.evaluations)
    yield replace(run, passed=[*inputs.passed, *remaining_cases.weights])
    yield replace(run, failed=[*inputs.failed, *remaining_cases.weights], flaky=inputs.flaky + remaining_cases.repeated)
    for best in (1.0, 0.0):
        yield replace(
            inputs,
            planned=planned,
            missing=[*inputs.missing, *remaining_cases.weights, *remaining_cases.silent],
            errors=inputs.errors + remaining_cases.gating,
            unreported=inputs.unreported + (remaining_cases.evaluations > 0),
            undecided=inputs.undecided + remaining_cases.repeated,
            tokens=_with_unknown(inputs.tokens, remaining_cases),
            cost_usd=_with_unknown(inputs.cost_usd, remaining_cases),
            metrics={
                name: _extreme_summary(found, inputs.scores.get(name, ()), remaining_cases, best)
                for name, found in inputs.metrics.items()
            },
        )


def _with_unknown(total: KnownTotal, remaining_cases: UncountedCases) -> KnownTotal:
    return KnownTotal(total.known, total.unknown + remaining_cases.cases)


def _extreme_summary(
    current: MetricSummary, scores: Scores, remaining_cases: UncountedCases, best: float
) -> MetricSummary:
    """Return a metric's summary with the mean nearest to `best` that a completion of the run can reach.

    If j of the remaining cases have the score `best`, the sum of their weights is at most that of the j largest
    weights. All other evaluations of the remaining cases can be in error; gates count the score of an evaluation in
    error as `best`, too.
    """
    if current.mean is None:
        return current
    weight = math.fsum(each for _, each in scores)
    heaviest = sorted((*remaining_cases.weights, *remaining_cases.silent), reverse=True)[: remaining_cases.evaluations]
    nearest, added = current, 0.0
    least = math.inf
    for scored, more in enumerate([0.0, *heaviest]):
        added += more
        summary = replace(
            current,
            mean=(weight * current.mean + best * added) / (weight + added),
            cases=current.cases + scored,
            errors=current.errors + remaining_cases.evaluations - scored,
        )
        assert summary.mean is not None
        distance = abs(best - summary.mean) * summary.cases / (summary.cases + summary.errors)
        if distance < least:
            nearest, least = summary, distance
    return nearest
