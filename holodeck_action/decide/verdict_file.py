"""`verdict.json`: what a run is judged to be, without what `results.json` says already.

Scores, thresholds, places, and the explanations of what holds are in the record. A reason stands once: what is part of
something with the same reason does not repeat it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import fields

from holodeck_action.decide.verdict import (
    CaseVerdict,
    Counts,
    GateVerdict,
    MetricSummary,
    MetricVerdict,
    Outcome,
    PanelSummary,
    TrialVerdict,
    TurnVerdict,
    Verdict,
    VerdictOutcome,
)
from holodeck_action.record.serialization import to_plain

VERDICT_VERSION: Literal[2] = 2
"""Files without a version are of the first one, which repeated every metric of the record."""

_TOLD: frozenset[Outcome] = frozenset({"failed", "error", "skipped", "quarantined"})
"""Outcomes with a reason that a person can act on."""


class WrittenMetric(Struct, frozen=True, omit_defaults=True):
    """A metric on a turn that did not pass, by the name that the record gives it."""

    name: str
    outcome: Outcome
    reason: str | None = None


class WrittenTurn(Struct, frozen=True, omit_defaults=True):
    """One turn.

    Attributes:
        index: of the turn in its trial.
        outcome: over all that asserts.
        reason: of what did not pass, where it is not that of the trial.
        passed: names of the metrics that passed, in the order of the record.
        others: the other metrics, likewise; absent for none.
        tools: outcome of the tool assertions; absent where none were made.
    """

    index: int
    outcome: Outcome
    passed: tuple[str, ...]
    reason: str | None = None
    others: tuple[WrittenMetric, ...] = ()
    tools: Outcome | None = None


class WrittenTrial(Struct, frozen=True, omit_defaults=True):
    """One repetition of a case; `reason` of what did not pass, where it is not that of the case."""

    index: int
    outcome: Outcome
    turns: tuple[WrittenTurn, ...]
    reason: str | None = None


class WrittenCase(Struct, frozen=True, omit_defaults=True):
    """One case over its trials, see `CaseVerdict`; `reason` is absent for what passed or asserts nothing."""

    id: str
    outcome: Outcome
    judged: Outcome
    flaky: bool
    passes: int
    failures: int
    errors: int
    trials: tuple[WrittenTrial, ...]
    reason: str | None = None


class VerdictHead(Struct, frozen=True):
    """The judgement as far as nothing is compared, see `Verdict`."""

    schema_version: Literal[2]
    outcome: VerdictOutcome
    exit_code: int
    reason: str
    record_digest: str
    counts: Counts
    pass_rate: float | None
    completeness: float
    gates: tuple[GateVerdict, ...]
    metrics: Mapping[str, MetricSummary]
    panels: tuple[PanelSummary, ...]
    results_digest: str | None


def verdict_head(verdict: Verdict) -> dict[str, Any]:
    """Return the file of a verdict as JSON values, its cases left out."""
    told = {each.name: getattr(verdict, each.name) for each in fields(VerdictHead) if each.name != "schema_version"}
    head = VerdictHead(schema_version=VERDICT_VERSION, **told)
    return {
        **to_plain(head),
        "comparison": to_plain(verdict.comparison),
        "warnings": [*verdict.warnings],
    }


def written_cases(cases: Iterable[CaseVerdict]) -> Iterator[WrittenCase]:
    """Yield what the file says of cases."""
    return map(_case, cases)


def _case(case: CaseVerdict) -> WrittenCase:
    return WrittenCase(
        id=case.id,
        outcome=case.outcome,
        judged=case.judged,
        flaky=case.flaky,
        passes=case.passes,
        failures=case.failures,
        errors=case.errors,
        trials=tuple(_trial(trial, case) for trial in case.trials),
        reason=_reason(case),
    )


def _trial(trial: TrialVerdict, case: CaseVerdict) -> WrittenTrial:
    turns = tuple(_turn(turn, trial) for turn in trial.turns)
    return WrittenTrial(trial.index, trial.outcome, turns, _reason(trial, case))


def _turn(turn: TurnVerdict, trial: TrialVerdict) -> WrittenTurn:
    return WrittenTurn(
        index=turn.index,
        outcome=turn.outcome,
        passed=tuple(metric.name for metric in turn.metrics if metric.outcome == "passed"),
        reason=_reason(turn, trial),
        others=tuple(
            WrittenMetric(metric.name, metric.outcome, _reason(metric, turn))
            for metric in turn.metrics
            if metric.outcome != "passed"
        ),
        tools=turn.tools,
    )


def _reason(
    part: CaseVerdict | TrialVerdict | TurnVerdict | MetricVerdict,
    whole: CaseVerdict | TrialVerdict | TurnVerdict | None = None,
) -> str | None:
    """Return the reason of what did not pass; None where what it is part of gives it already."""
    if part.outcome not in _TOLD:
        return None
    told = whole is not None and whole.outcome in _TOLD and whole.reason == part.reason
    return None if told else part.reason
