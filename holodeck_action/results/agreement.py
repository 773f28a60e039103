"""How judges agree: Krippendorff's α, and what panels came to over a suite (evaluators reference §9)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holodeck_action.results.record import CaseRecord
from holodeck_action.results.verdict import CaseVerdict, PanelSummary

_NO_VARIATION = 1e-12
"""Below this the differences of scores are rounding."""
_DEEPEST = 4
"""Parts within parts: a composite holds an agent, which holds a generation, which holds its metrics."""


def krippendorff_alpha(units: Iterable[Sequence[float | None]]) -> float | None:
    """Return Krippendorff's α for interval data: 1 − Dₒ/Dₑ.

    Dₒ = 1/n · Σᵤ 1/(mᵤ−1) · Σ_{i≠j} (vᵤᵢ − vᵤⱼ)² over the units with mᵤ ≥ 2 values, and Dₑ = 1/(n(n−1)) · Σ_{i≠j}
    (vᵢ − vⱼ)² over all n values of these units. Source: Krippendorff 2011, Computing Krippendorff's Alpha-Reliability.

    Args:
        units: per answer the score of every judge; None where it gave none.

    Returns:
        At most 1; below 0 when judges disagree more than by chance. None with no two scores of one unit, and when all
        values are equal: agreement cannot be told from indifference then.
    """
    pairable = [found for unit in units if len(found := [value for value in unit if value is not None]) > 1]
    values = [value for unit in pairable for value in unit]
    n = len(values)
    if not n:
        return None
    expected = 2 * n * _squares(values) / (n * (n - 1))
    if expected <= _NO_VARIATION:
        return None
    observed = math.fsum(2 * len(unit) * _squares(unit) / (len(unit) - 1) for unit in pairable) / n
    return 1 - observed / expected


def _squares(values: Sequence[float]) -> float:
    """Return Σ(v − v̄)²; m times it is half the sum of (vᵢ − vⱼ)² over all ordered pairs of m values."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


@dataclass(slots=True)
class _Tally:
    sizes: set[int] = field(default_factory=set)
    evaluations: int = 0
    verdicts: int = 0
    fallbacks: int = 0
    missing: int = 0
    units: list[list[float | None]] = field(default_factory=list)
    spreads: list[float] = field(default_factory=list)
    agreements: list[float] = field(default_factory=list)

    def add(self, panel: Mapping[str, Any], verdicts: Sequence[Mapping[str, Any]]) -> None:
        given = [verdict for verdict in verdicts if verdict["score"] is not None or verdict["passed"] is not None]
        self.sizes.add(len(verdicts))
        self.evaluations += 1
        self.verdicts += len(given)
        self.fallbacks += sum(verdict["fallback"] for verdict in given)
        self.missing += len(verdicts) - len(given)
        # Another model's score in a judge's place says nothing about how the judges agree.
        self.units.append([None if verdict["fallback"] else verdict["score"] for verdict in verdicts])
        if panel.get("spread") is not None:
            self.spreads.append(panel["spread"])
        if panel.get("agreement") is not None:
            self.agreements.append(panel["agreement"])

    def summary(self, metric: str) -> PanelSummary:
        return PanelSummary(
            metric=metric,
            judges=next(iter(self.sizes)) if len(self.sizes) == 1 else None,
            evaluations=self.evaluations,
            verdicts=self.verdicts,
            fallbacks=self.fallbacks,
            missing=self.missing,
            alpha=krippendorff_alpha(self.units),
            mean_spread=_mean(self.spreads),
            agreement=_mean(self.agreements),
        )


def panel_summaries(cases: Iterable[tuple[CaseRecord, CaseVerdict]]) -> tuple[PanelSummary, ...]:
    """Return what panels came to, per metric in order of name, over the counted trials of the given cases.

    Every answer that was evaluated is a unit of its own. A panel without enough verdicts counts, too. The metrics of a
    preset or a composite have panels of their own, which stand under its name and theirs: `generation: completeness`.
    """
    tallies: dict[str, _Tally] = defaultdict(_Tally)
    for case, verdict in cases:
        for name, panel, verdicts in _panels(case, verdict):
            tallies[name].add(panel, verdicts)
    return tuple(tallies[name].summary(name) for name in sorted(tallies))


_Verdicts = Sequence[Mapping[str, Any]]
_Found = tuple[str, Mapping[str, Any], _Verdicts]
"""The name of a metric with its panel and the verdicts of that."""


def _panels(case: CaseRecord, verdict: CaseVerdict) -> Iterator[_Found]:
    counted = {trial.index for trial in verdict.trials}
    for trial in case.trials:
        if trial.index not in counted:
            continue
        for turn in trial.turns:
            for evaluation in turn.evaluations:
                found = evaluation.metadata if evaluation.error is None else evaluation.error.context
                yield from _within(evaluation.evaluator_name, found, _DEEPEST)


def _within(name: str, found: Mapping[str, Any], deepest: int) -> Iterator[_Found]:
    """Yield the panel of a metric, else those of its parts, from what is told of it or of its error."""
    panel = found.get("panel")
    if isinstance(panel, Mapping) and (verdicts := _verdicts(panel.get("verdicts"))) is not None:
        yield name, panel, verdicts
    elif (verdicts := _verdicts(found.get("verdicts"))) is not None:
        yield name, {}, verdicts
    elif deepest:
        parts = found.get("metrics")
        for part, told in (parts if isinstance(parts, Mapping) else found).items():
            if isinstance(told, Mapping) and "explanation" in told:
                yield from _within(f"{name}: {part}", told, deepest - 1)


def _verdicts(value: Any) -> _Verdicts | None:
    """Return verdicts of judges; None for anything else of that name, such as what a grader of the suite told."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        return None
    return value if all(isinstance(each, Mapping) and _is_verdict(each) for each in value) else None


def _is_verdict(value: Mapping[str, Any]) -> bool:
    score, passed = value.get("score", ""), value.get("passed", "")
    return (
        (score is None or (isinstance(score, int | float) and not isinstance(score, bool)))
        and (passed is None or isinstance(passed, bool))
        and isinstance(value.get("fallback"), bool)
    )


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
