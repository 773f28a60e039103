"""`verdict.json`: the verdict on a run, without the data of `results.json`.

Scores, thresholds, positions, and the explanations of passing metrics are only in the record. Each reason is written
once: for example, a turn does not repeat the reason of its trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import fields

from holodeck_action.decide.verdict import (
    CaseVerdict,
    ContradictionSummary,
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
"""Version of the file's format. Files of the first version have no version and repeat every metric of the record."""

_EXPLAINED: frozenset[Outcome] = frozenset({"failed", "error", "skipped", "quarantined"})
"""Outcomes with an actionable reason."""


class WrittenMetric(Struct, frozen=True, omit_defaults=True):
    """A metric that did not pass on a turn, identified by its name in the record."""

    name: str
    outcome: Outcome
    reason: str | None = None


class WrittenTurn(Struct, frozen=True, omit_defaults=True):
    """The verdict on one turn.

    Attributes:
        index: index of the turn in its trial.
        outcome: outcome of all assertions together.
        reason: why the turn did not pass; absent if the trial has the same reason.
        passed: names of the metrics that passed, in the order of the record.
        others: the other metrics, in the order of the record; absent if all passed.
        tools: outcome of the tool assertions; absent if there are no tool assertions.
    """

    index: int
    outcome: Outcome
    passed: tuple[str, ...]
    reason: str | None = None
    others: tuple[WrittenMetric, ...] = ()
    tools: Outcome | None = None


class WrittenConversation(Struct, frozen=True, omit_defaults=True):
    """The metrics of a whole conversation; the fields are those of `WrittenTurn`."""

    outcome: Outcome
    passed: tuple[str, ...]
    reason: str | None = None
    others: tuple[WrittenMetric, ...] = ()


class WrittenTrial(Struct, frozen=True, omit_defaults=True):
    """One trial of a case; `reason` is why it did not pass, absent if the case has the same reason. `conversation` is
    absent if no metric grades the whole conversation."""

    index: int
    outcome: Outcome
    turns: tuple[WrittenTurn, ...]
    reason: str | None = None
    conversation: WrittenConversation | None = None


class WrittenCase(Struct, frozen=True, omit_defaults=True):
    """The verdict on one case, see `CaseVerdict`; `reason` is absent for passed and informational cases."""

    id: str
    outcome: Outcome
    judged: Outcome
    flaky: bool
    passes: int
    failures: int
    errors: int
    trials: tuple[WrittenTrial, ...]
    reason: str | None = None


class VerdictHead(Struct, frozen=True, omit_defaults=True):
    """The fields of the verdict except cases, comparison and warnings, see `Verdict`."""

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
    contradictions: tuple[ContradictionSummary, ...] = ()


def verdict_head(verdict: Verdict) -> dict[str, Any]:
    """Return the JSON values of a verdict's file, without its cases."""
    told = {each.name: getattr(verdict, each.name) for each in fields(VerdictHead) if each.name != "schema_version"}
    head = VerdictHead(schema_version=VERDICT_VERSION, **told)
    return {
        **to_plain(head),
        "comparison": to_plain(verdict.comparison),
        "warnings": [*verdict.warnings],
    }


def written_case(case: CaseVerdict) -> WrittenCase:
    """Return the verdict on a case in the form of the file."""
    return WrittenCase(
        id=case.id,
        outcome=case.outcome,
        judged=case.judged,
        flaky=case.flaky,
        passes=case.passes,
        failures=case.failures,
        errors=case.errors,
        trials=tuple(_written_trial(trial, case) for trial in case.trials),
        reason=_new_reason(case),
    )


def _written_trial(trial: TrialVerdict, case: CaseVerdict) -> WrittenTrial:
    turns = tuple(_written_turn(turn, trial) for turn in trial.turns)
    conversation = None
    if (whole := trial.conversation) is not None:
        conversation = WrittenConversation(
            whole.outcome, _passed_names(whole), _new_reason(whole, trial), _other_metrics(whole)
        )
    return WrittenTrial(trial.index, trial.outcome, turns, _new_reason(trial, case), conversation)


def _written_turn(turn: TurnVerdict, trial: TrialVerdict) -> WrittenTurn:
    return WrittenTurn(
        index=turn.index,
        outcome=turn.outcome,
        passed=_passed_names(turn),
        reason=_new_reason(turn, trial),
        others=_other_metrics(turn),
        tools=turn.tools,
    )


def _passed_names(turn: TurnVerdict) -> tuple[str, ...]:
    return tuple(metric.name for metric in turn.metrics if metric.outcome == "passed")


def _other_metrics(turn: TurnVerdict) -> tuple[WrittenMetric, ...]:
    return tuple(
        WrittenMetric(metric.name, metric.outcome, _new_reason(metric, turn))
        for metric in turn.metrics
        if metric.outcome != "passed"
    )


def _new_reason(
    judged: CaseVerdict | TrialVerdict | TurnVerdict | MetricVerdict,
    verdict: CaseVerdict | TrialVerdict | TurnVerdict | None = None,
) -> str | None:
    """Return the reason of a case, trial, turn or metric; None if it passed, is informational, or has the same reason
    as the enclosing `verdict`."""
    if judged.outcome not in _EXPLAINED:
        return None
    told = verdict is not None and verdict.outcome in _EXPLAINED and verdict.reason == judged.reason
    return None if told else judged.reason
