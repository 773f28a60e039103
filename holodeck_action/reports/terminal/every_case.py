"""Every case of a run on standard output, with each metric and the tool calls (`run --verbose`)."""

from __future__ import annotations

from collections.abc import Iterator

from holodeck_action.decide.verdict import CaseVerdict, MetricVerdict, TurnVerdict, Verdict
from holodeck_action.record.facts import Unknown, items_of
from holodeck_action.record.record import CaseRecord, Record, TurnRecord
from holodeck_action.reports.phrases import bound_text, call_text, place
from holodeck_action.reports.report_building import tool_call_view
from holodeck_action.text.plain import one_line

_SIGNS = {"passed": "✓", "failed": "✗", "error": "!", "skipped": "-", "quarantined": "~", "informational": "·"}
_CALLS_SHOWN = 20


def every_case_lines(record: Record, verdict: Verdict, folder: str) -> Iterator[str]:
    """Yield the lines of all cases that ran, in the order of the suite.

    Args:
        record: the record of the run.
        verdict: its verdict.
        folder: the suite's folder as the reader would type it.
    """
    for case, judged in zip(record.cases, verdict.cases, strict=True):
        if case.trials:
            yield from _case_lines(case, judged, folder)
            yield ""


def _case_lines(case: CaseRecord, judged: CaseVerdict, folder: str) -> Iterator[str]:
    title = one_line(case.name or case.id)
    yield f"{_SIGNS[judged.outcome]} {title}  [{judged.outcome}]  {one_line(place(case.source, folder))}"
    trials = {trial.index: trial for trial in case.trials}
    for trial in judged.trials:
        if len(judged.trials) > 1:
            yield f"    trial {trial.index + 1} of {case.repeat}: {trial.outcome}"
        turns = trials[trial.index].turns
        for turn, decided in zip(turns, trial.turns, strict=True):
            if len(turns) > 1:
                yield f"    turn {turn.index}"
            yield from _turn_lines(turn, decided)
        if trial.conversation is not None:
            yield "    conversation"
            yield from _metric_lines(trial.conversation)


def _turn_lines(turn: TurnRecord, decided: TurnVerdict) -> Iterator[str]:
    calls = items_of(turn.calls)
    if not isinstance(calls, Unknown):
        texts = "; ".join(call_text(tool_call_view(call)) for call in calls[:_CALLS_SHOWN])
        more = " …" if len(calls) > _CALLS_SHOWN else ""
        yield f"      tools: {one_line(texts, 600) or 'none'}{more}"
    for assertion in turn.tool_assertions:
        sign = "!" if assertion.matched is None else _SIGNS["passed" if assertion.matched else "failed"]
        yield f"      {sign} tool {one_line(assertion.expected, 300)}"
    yield from _metric_lines(decided)


def _metric_lines(decided: TurnVerdict) -> Iterator[str]:
    for metric in decided.metrics:
        yield f"      {_SIGNS[metric.outcome]} {_metric_text(metric)}"


def _metric_text(metric: MetricVerdict) -> str:
    name = one_line(metric.title or metric.name, 60)
    if metric.outcome in ("error", "skipped"):
        return f"{name}: {metric.outcome}: {one_line(metric.reason, 1000)}"
    score = metric.category or ("no score" if metric.score is None else f"{metric.score:.2f}")
    threshold = "" if metric.threshold is None else f" (threshold {bound_text(metric.threshold)})"
    return f"{name}: {one_line(score, 60)}{threshold}"
