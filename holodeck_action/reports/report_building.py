"""Builds the report of a record and its verdict."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from holodeck_action.decide.faults import Fault, classify_error
from holodeck_action.decide.named_turns import named_turn
from holodeck_action.decide.statistics import MIN_SAMPLE, mean_lower_bound, mean_upper_bound, weighted_mean
from holodeck_action.decide.summaries import case_means, summary_score
from holodeck_action.decide.survey import RecordTotals
from holodeck_action.decide.trials import trials_of_case
from holodeck_action.decide.verdict import (
    CaseVerdict,
    MetricSummary,
    MetricVerdict,
    Outcome,
    TurnVerdict,
    Verdict,
    explaining_trial,
)
from holodeck_action.record.evaluation import ErrorInfo, Evaluation
from holodeck_action.record.facts import value_or_none
from holodeck_action.record.record import CaseRecord, Record, ToolInvocation, TurnRecord
from holodeck_action.reports.history import History
from holodeck_action.reports.phrases import certain_end_text
from holodeck_action.reports.report_views import (
    REPORT_VERSION,
    CaseScore,
    CaseSummary,
    CaseView,
    ConversationView,
    MetricView,
    Report,
    ReportProvenance,
    RunView,
    SkippedMetric,
    ToolCallView,
    TurnView,
)
from holodeck_action.reports.simulated_users import user_lines
from holodeck_action.suite.model.policy import GateSummary

_WORST_FIRST: tuple[Outcome, ...] = ("failed", "error", "skipped", "quarantined")


def build_report(
    record: Record,
    verdict: Verdict,
    folder: str = "",
    history: History | None = None,
    survey: RecordTotals | None = None,
) -> Report:
    """Return the report of a record and its verdict.

    Args:
        record: the record of a run.
        verdict: the verdict on the record.
        folder: the suite's folder as the reader would type it; empty if positions have no folder.
        history: the trend of earlier runs; None if there are no earlier runs.
        survey: counts and sums over the record's cases; None to compute them.
    """
    survey = RecordTotals(record) if survey is None else survey
    attention, passing, informational = _case_groups(record, verdict, survey)
    scores = survey.inputs.scores
    return Report(
        version=REPORT_VERSION,
        suite=record.suite.name,
        file=record.suite.file,
        folder=folder,
        target=record.provenance.target,
        outcome=verdict.outcome,
        exit_code=verdict.exit_code,
        reason=verdict.reason,
        counts=verdict.counts,
        pass_rate=verdict.pass_rate,
        completeness=verdict.completeness,
        gates=verdict.gates,
        metrics=tuple(_metric_view(name, summary, scores.get(name, ())) for name, summary in verdict.metrics.items()),
        attention=attention,
        passing=passing,
        informational=informational,
        skipped_metrics=tuple(SkippedMetric(*about, count) for about, count in sorted(survey.skipped.items())),
        notices=(*record.notices, *_fallback_notices(verdict), *verdict.warnings),
        spend=survey.consumption.spend,
        provenance=ReportProvenance(
            tool_version=record.provenance.tool_version,
            commit=record.provenance.commit,
            folder=record.provenance.folder,
            suite_digest=record.suite.digest,
            record_digest=verdict.record_digest,
        ),
        run=RunView(record.run.started_at, record.run.duration_ms, record.run.model_calls),
        panels=verdict.panels,
        contradictions=verdict.contradictions,
        cards=record.cards,
        probes=record.probes,
        evaluations=survey.evaluations.summary(survey.consumption.judging_cost_usd),
        comparison=verdict.comparison,
        base_missing=(record.baseline.missing or None) if record.baseline is not None else None,
        history=history,
        trial_rates=survey.trials.summary,
        users=tuple(survey.users.summaries),
        end="" if record.certain is None else certain_end_text(verdict, record.certain, len(record.cases)),
    )


def _case_groups(record: Record, verdict: Verdict, survey: RecordTotals) -> tuple[tuple[CaseView, ...], ...]:
    """Return the cases that need attention, the passing cases, and the cases without assertions."""
    gate, minimized, stop_early = record.gates.summary, survey.inputs.minimized, record.stop_when_decided
    # Other shards run the cases without trials, or they do not count.
    apart = record.run.shard is not None or record.certain is not None
    views: dict[Outcome, list[CaseView]] = {outcome: [] for outcome in (*_WORST_FIRST, "passed", "informational")}
    for position, (case, judged) in enumerate(zip(record.cases, verdict.cases, strict=True)):
        if case.trials or not apart:
            summary = _case_summary(judged, gate, minimized)
            views[judged.outcome].append(_case_view(position, case, judged, summary, stop_early))
    attention = tuple(case for outcome in _WORST_FIRST for case in views[outcome])
    return attention, tuple(views["passed"]), tuple(views["informational"])


def _case_summary(judged: CaseVerdict, gate: GateSummary | None, minimized: frozenset[str]) -> CaseSummary | None:
    if gate is None or gate.method == "custom":
        return None
    lost = {metric.name for metric in judged.metrics if metric.outcome == "error"}
    if gate.weights is not None:
        lost &= gate.weights.keys()
    # A mean over the remaining metrics would be another number.
    score = None if lost else summary_score(gate.method, gate.weights or {}, case_means(judged.metrics), minimized)
    return CaseSummary(gate.method, gate.weights, score)


def _case_view(
    position: int, case: CaseRecord, judged: CaseVerdict, summary: CaseSummary | None, stopped_early: bool
) -> CaseView:
    repeats = None
    if case.repeat > 1:
        repeats = f"{judged.passes} of {len(judged.trials)} trials passed, {case.min_pass} of {case.repeat} needed"
    return CaseView(
        position=position,
        id=case.id,
        title=case.name or case.id,
        source=case.source,
        last=case.last,
        outcome=judged.outcome,
        judged=judged.judged,
        reason=judged.reason,
        repeats=repeats,
        flaky=judged.flaky,
        trial_rates=trials_of_case(case, judged, stop_when_decided=stopped_early),
        tags=case.tags,
        duration_ms=value_or_none(case.took_ms),
        scores=_case_scores(judged),
        summary=summary,
        turns=_turn_views(case, judged) if judged.outcome in _WORST_FIRST else (),
        trials=judged.trials,
        user=_user_view(case, judged) if judged.outcome in _WORST_FIRST else (),
        conversation=_conversation_view(case, judged) if judged.outcome in _WORST_FIRST else None,
    )


def _case_scores(judged: CaseVerdict) -> tuple[CaseScore, ...]:
    scores: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for trial in judged.trials:
        for metric in (metric for part in trial.parts for metric in part.metrics):
            if metric.outcome not in ("skipped", "error"):
                found = scores.setdefault(metric.name, {})
                if metric.score is not None:
                    found.setdefault(trial.index, []).append((metric.score, 1.0))
    return tuple(_case_score(name, list(scores[name].values())) for name in sorted(scores))


def _case_score(name: str, trials: list[list[tuple[float, float]]]) -> CaseScore:
    mean = weighted_mean([score for trial in trials for score in trial])
    # Most cases have one trial, whose mean is already computed.
    means = [each for trial in trials if (each := weighted_mean(trial)) is not None] if len(trials) > 1 else []
    several = len(means) > 1
    return CaseScore(name, mean, min(means) if several else None, max(means) if several else None)


def _turn_views(case: CaseRecord, judged: CaseVerdict) -> tuple[TurnView, ...]:
    explaining = explaining_trial(judged.trials)
    if explaining is None:
        return ()
    record = next(trial for trial in case.trials if trial.index == explaining.index)
    return tuple(
        _turn_view(turn, verdict, record.error) for turn, verdict in zip(record.turns, explaining.turns, strict=True)
    )


def _conversation_view(case: CaseRecord, judged: CaseVerdict) -> ConversationView | None:
    explaining = explaining_trial(judged.trials)
    if explaining is None or explaining.conversation is None:
        return None
    trial = next(trial for trial in case.trials if trial.index == explaining.index)
    verdict = explaining.conversation
    failed = (
        evaluation
        for evaluation, metric in zip(trial.evaluations, verdict.metrics, strict=True)
        if metric.outcome == "failed"
    )
    first = next(failed, None)
    return ConversationView(
        outcome=verdict.outcome,
        problems=conversation_problems(verdict),
        faults=tuple(_evaluation_faults(trial.evaluations)),
        named_turn=None if first is None else named_turn(first, len(trial.turns)),
        graded=all(turn.error is None and turn.skipped is None for turn in trial.turns),
    )


def conversation_problems(verdict: TurnVerdict) -> tuple[str, ...]:
    """Return a message for each metric of a whole conversation that failed or was not evaluated."""
    return tuple(metric.reason for metric in verdict.metrics if metric.outcome in ("failed", "error"))


def _user_view(case: CaseRecord, judged: CaseVerdict) -> tuple[str, ...]:
    explaining = explaining_trial(judged.trials)
    if case.user is None or explaining is None:
        return ()
    calls = next(trial.user for trial in case.trials if trial.index == explaining.index)
    return tuple(user_lines(case.user, calls))


def _turn_view(turn: TurnRecord, verdict: TurnVerdict, trial_error: ErrorInfo | None) -> TurnView:
    return TurnView(
        index=turn.index,
        source=turn.source,
        outcome=verdict.outcome,
        input=turn.input,
        response=turn.response,
        ground_truth=turn.ground_truth,
        tool_calls=tuple(tool_call_view(call) for call in turn.tool_invocations or ()),
        problems=turn_problems(turn, verdict),
        faults=tuple(_faults(turn, trial_error)),
        said_by=turn.said_by,
    )


def tool_call_view(call: ToolInvocation) -> ToolCallView:
    """Return the view of a tool call."""
    result = call.result if call.result is None or isinstance(call.result, str) else _json(call.result)
    arguments = ", ".join(f"{name}={_json(value)}" for name, value in call.args.items())
    return ToolCallView(call.name, arguments, result, call.error, call.duration_ms)


def turn_problems(turn: TurnRecord, verdict: TurnVerdict) -> tuple[str, ...]:
    """Return the problems of a turn: a message for each failed metric, tool assertion or error, then possible
    causes."""
    return (*_problem_texts(turn, verdict.metrics), *_note_texts(turn))


def _problem_texts(turn: TurnRecord, metrics: Sequence[MetricVerdict]) -> Iterator[str]:
    if turn.error is not None:
        yield f"error: {turn.error.message}"
        output = turn.error.context.get("stderr") or turn.error.context.get("output")
        if output:
            yield f"output: {output}"
    if turn.skipped is not None:
        yield turn.skipped
    for assertion in turn.tool_assertions:
        if not assertion.matched:
            yield assertion.problem
    if turn.error is not None or turn.skipped is not None:
        return
    for metric in metrics:
        if metric.outcome in ("failed", "error"):
            yield metric.reason


def _faults(turn: TurnRecord, trial_error: ErrorInfo | None) -> Iterator[Fault]:
    # A turn that did not run has the error of its trial.
    error = turn.error or (trial_error if turn.skipped is not None else None)
    if error is not None:
        yield classify_error(error, None)
        return
    yield from _evaluation_faults(turn.evaluations)


def _evaluation_faults(evaluations: Sequence[Evaluation]) -> Iterator[Fault]:
    for evaluation in evaluations:
        if evaluation.status == "failed" and evaluation.error is not None:
            yield classify_error(evaluation.error, evaluation.evaluator_name)


def _note_texts(turn: TurnRecord) -> Iterator[str]:
    """Yield sentences about facts that could explain the problems of an answer."""
    if turn.finish_reason == "length":
        yield "the answer stops at the model's max_tokens"
    if turn.fallback_model is not None:
        yield f"the fallback model {turn.fallback_model} answered"


def _metric_view(name: str, summary: MetricSummary, scores: Sequence[tuple[float, float]]) -> MetricView:
    margin = None
    if summary.mean is not None and summary.threshold is not None:
        margin = summary.mean - summary.threshold
    low, high = _interval(scores)
    return MetricView(
        name=name,
        mean=summary.mean,
        threshold=summary.threshold,
        margin=margin,
        polarity=summary.polarity,
        cases=summary.cases,
        passed=summary.passed,
        failed=summary.failed,
        errors=summary.errors,
        skipped=summary.skipped,
        informational=summary.informational,
        low=low,
        high=high,
        within_noise=_is_within_noise(summary.threshold, margin, low, high),
    )


def _interval(scores: Sequence[tuple[float, float]]) -> tuple[float | None, float | None]:
    """Return both ends of the 95 % interval of the mean over cases; (None, None) if there are too few cases."""
    return (mean_lower_bound(scores), mean_upper_bound(scores)) if len(scores) >= MIN_SAMPLE else (None, None)


def _is_within_noise(threshold: float | None, margin: float | None, low: float | None, high: float | None) -> bool:
    if threshold is None or margin is None or low is None or high is None:
        return False
    # No mean is beyond a threshold of 0 or 1.
    return 0.0 < threshold < 1.0 and abs(margin) < (high - low) / 2


def _fallback_notices(verdict: Verdict) -> Iterator[str]:
    for panel in verdict.panels:
        if panel.fallbacks:
            yield (
                f"{panel.metric}: {panel.fallbacks} of {panel.verdicts} verdicts "
                f"({panel.fallbacks / panel.verdicts:.0%}) came from fallback models and not from the chosen judges"
            )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
