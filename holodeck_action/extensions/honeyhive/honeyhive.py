"""Converts a run to HoneyHive's evaluation data models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import fields

from holodeck_action.decide.summaries import EvaluationSummary, summary_score
from holodeck_action.decide.survey import minimized_metrics
from holodeck_action.extensions.history.history_lines import HistoryLine
from holodeck_action.extensions.honeyhive.honeyhive_models import (
    EXPORT_VERSION,
    KINDS,
    BatchMetadata,
    ConfidenceShares,
    EvaluatedAnswer,
    EvaluationBatch,
    EvaluationPerformance,
    EvaluationQuality,
    HoneyHiveExport,
    HumanAIEvaluation,
    MultiEvaluationResult,
)
from holodeck_action.extensions.honeyhive.honeyhive_patterns import (
    ab_tests,
    derived_id,
    summary_comparison,
    temporal_evaluations,
)
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.record import Record, TurnRecord
from holodeck_action.record.serialization import JSON_ERRORS, from_json, from_plain, to_json
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.suite.model.policy import GateSummary

_COMMON = tuple(field.name for field in fields(Evaluation))


def honeyhive_json(
    conclusion: Conclusion, earlier_lines: Sequence[HistoryLine] = (), humans: Sequence[HumanAIEvaluation] = ()
) -> str:
    """Return the JSON of a run's `HoneyHiveExport`.

    `##[` is escaped, because GitHub's runner would read it as a command in a log.

    Args:
        conclusion: the run, its verdict and its report.
        earlier_lines: earlier runs of the suite, oldest first.
        humans: comparisons of judges with human labels; for other metrics, the record's judge cards are used.
    """
    record, report = conclusion.record, conclusion.report
    measured = {found.metric for found in humans}
    cards = (summary_comparison(card, record, conclusion.verdict.record_digest) for card in record.cards)
    answers = tuple(_answer_results(record))
    export = HoneyHiveExport(
        schema_version=EXPORT_VERSION,
        evaluation_batch=EvaluationBatch(
            batch_id=f"batch_{record.run.run_id}",
            evaluations=tuple(each for answer in answers for each in answer.evaluations),
            batch_metadata=_metadata(conclusion),
            status="completed" if record.stopped is None else "failed",
        ),
        multi_evaluation_results=answers,
        evaluation_performance=_performance(report.evaluations),
        evaluation_quality=_quality(report.evaluations),
        ab_test_comparisons=tuple(ab_tests(report.comparison)) if report.comparison is not None else (),
        human_ai_comparisons=(*humans, *(found for found in cards if found.metric not in measured)),
        temporal_evaluations=tuple(temporal_evaluations(report, record, earlier_lines)),
    )
    return to_json(export, 1).decode().replace("##[", "\\u0023\\u0023[") + "\n"


def _answer_results(record: Record) -> Iterator[MultiEvaluationResult]:
    gate, minimized = record.gates.summary, minimized_metrics(record)
    for case in record.cases:
        for trial in case.trials:
            # HoneyHive has no place for a whole conversation, so its last answer gets these evaluations.
            graded = [*trial.graded]
            for turn in trial.turns:
                evaluations = tuple(each for at, each in graded if at == turn.index)
                if evaluations or turn.tool_assertions:
                    yield MultiEvaluationResult(
                        target_event_id=_event_id(turn, evaluations, record, case.id, trial.index),
                        evaluations=tuple(map(to_honeyhive_kind, evaluations)),
                        summary_score=_summary_score(evaluations, gate, minimized),
                        summary_method=None if gate is None or gate.method == "custom" else gate.method,
                        weights=None if gate is None else gate.weights,
                        target=EvaluatedAnswer(case.id, case.name, trial.index, turn.index),
                        tool_assertions=turn.tool_assertions,
                    )


def _event_id(turn: TurnRecord, evaluations: tuple[Evaluation, ...], record: Record, case_id: str, trial: int) -> str:
    """Return the event id of an answer; if it has no evaluations, an id derived from the run, case, trial and turn."""
    if evaluations:
        return evaluations[0].target_event_id
    return derived_id("evt", record.run.run_id, case_id, str(trial), str(turn.index))


def to_honeyhive_kind(evaluation: Evaluation) -> Evaluation:
    """Convert an evaluation to HoneyHive's class for the metric, with values from the metadata.

    The evaluation is returned unchanged if HoneyHive has no class for the metric, or if a field is missing in the
    metadata, as after a failure or with a panel of judges.
    """
    kind = KINDS.get(evaluation.criteria.kind)
    if kind is None:
        return evaluation
    own = [field.name for field in fields(kind) if field.name not in _COMMON]
    if not evaluation.metadata.keys() >= {*own}:
        return evaluation
    facts = {name: evaluation.metadata[name] for name in own}
    metadata = {name: value for name, value in evaluation.metadata.items() if name not in facts}
    common = {name: getattr(evaluation, name) for name in _COMMON}
    try:
        found = from_plain({**common, "metadata": metadata, **facts}, kind)
    except JSON_ERRORS:
        return evaluation
    written = to_json({name: getattr(found, name) for name in own})
    # The record may use these names with another meaning, so their values must not change.
    return found if from_json(written, dict) == from_json(to_json(facts), dict) else evaluation


def _summary_score(
    evaluations: Sequence[Evaluation], gate: GateSummary | None, minimized: frozenset[str]
) -> float | None:
    if gate is None or gate.method == "custom":
        return None
    lost = {each.evaluator_name for each in evaluations if each.status in ("failed", "pending")}
    if lost & (gate.weights.keys() if gate.weights is not None else lost):
        return None
    scores = {
        each.evaluator_name: float(each.score)
        for each in evaluations
        if each.status == "completed" and isinstance(each.score, int | float)
    }
    return summary_score(gate.method, gate.weights or {}, scores, minimized)


def _metadata(conclusion: Conclusion) -> BatchMetadata:
    record, verdict = conclusion.record, conclusion.verdict
    versions: dict[str, set[str]] = defaultdict(set)
    size = 0
    for each in record.evaluations:
        size += 1
        if each.evaluator_version is not None:
            versions[each.evaluator_name].add(each.evaluator_version)
    return BatchMetadata(
        batch_size=size,
        created_at=record.run.started_at,
        evaluator_versions={name: ", ".join(sorted(found)) for name, found in sorted(versions.items())},
        processing_time_ms=record.run.duration_ms,
        suite=record.suite,
        target=record.provenance.target,
        commit=record.provenance.commit,
        record_digest=verdict.record_digest,
        verdict=verdict.outcome,
        reason=verdict.reason,
        tool_version=record.provenance.tool_version,
    )


def _performance(summary: EvaluationSummary) -> EvaluationPerformance:
    performance = summary.performance
    return EvaluationPerformance(
        total_evaluations=performance.total,
        successful_evaluations=performance.successful,
        failed_evaluations=performance.failed,
        success_rate=performance.success_rate,
        average_duration_ms=performance.average_duration_ms,
        p95_duration_ms=performance.p95_duration_ms,
        total_cost_usd=performance.total_cost_usd,
    )


def _quality(summary: EvaluationSummary) -> EvaluationQuality:
    confidence = summary.quality.confidence
    correlations: Mapping[str, Any] = {"_vs_".join(each.metrics): each.r for each in summary.quality.correlations}
    return EvaluationQuality(
        evaluator_agreement=summary.quality.agreement,
        inter_evaluator_correlation=correlations,
        confidence_distribution=ConfidenceShares(confidence.high, confidence.medium, confidence.low),
    )
