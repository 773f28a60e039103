"""`Report`: record and verdict made ready to show; every channel shows this one value (DESIGN §1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holodeck_action.results.record import CaseRecord, Record, ToolInvocation, TurnRecord
from holodeck_action.results.verdict import CaseVerdict, Outcome, TrialVerdict, Verdict
from holodeck_action.suite.marks import SourceMark


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn of a shown case; texts are the agent's and the suite's own, to be made safe where they are shown.

    `problems` holds one line per failed or unevaluated metric, tool assertion or error.
    """

    index: int
    source: SourceMark
    outcome: Outcome
    input: str
    response: str | None
    ground_truth: str | None
    tool_invocations: tuple[ToolInvocation, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CaseView:
    """One case that is not plainly passed: its deciding trial, turn by turn."""

    id: str
    title: str
    source: SourceMark
    outcome: Outcome
    judged: Outcome
    reason: str
    trials: str | None
    turns: tuple[TurnView, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What a run is shown as.

    `attention` are the cases that failed, are in error, were not run or are quarantined, worst first, in suite order.
    """

    suite: str
    file: str
    target: str
    verdict: Verdict
    attention: tuple[CaseView, ...]
    informational: tuple[str, ...]
    notices: tuple[str, ...]


_WORST_FIRST: tuple[Outcome, ...] = ("failed", "error", "skipped", "quarantined")


def build_report(record: Record, verdict: Verdict) -> Report:
    """Put a record and its verdict together for showing."""
    cases = {case.id: case for case in record.cases}
    views = [
        _case_view(cases[judged.id], judged)
        for outcome in _WORST_FIRST
        for judged in verdict.cases
        if judged.outcome == outcome
    ]
    return Report(
        suite=record.suite.name,
        file=record.suite.file,
        target=record.provenance.target,
        verdict=verdict,
        attention=tuple(views),
        informational=tuple(_title(cases[case.id]) for case in verdict.cases if case.outcome == "informational"),
        notices=record.notices,
    )


def _title(case: CaseRecord) -> str:
    return case.name or case.id


def _case_view(case: CaseRecord, judged: CaseVerdict) -> CaseView:
    shown = _telling_trial(judged)
    records = {trial.index: trial for trial in case.trials}
    turns: tuple[TurnView, ...] = ()
    if shown is not None:
        pairs = zip(records[shown.index].turns, shown.turns, strict=True)
        turns = tuple(_turn_view(turn, verdict.outcome, tuple(_problems(turn, shown))) for turn, verdict in pairs)
    trials = None
    if case.repeat > 1:
        trials = f"{judged.passes} of {len(judged.trials)} trials passed, {case.min_pass} of {case.repeat} needed"
    return CaseView(
        id=case.id,
        title=_title(case),
        source=case.source,
        outcome=judged.outcome,
        judged=judged.judged,
        reason=judged.reason,
        trials=trials,
        turns=turns,
    )


def _telling_trial(judged: CaseVerdict) -> TrialVerdict | None:
    for outcome in ("failed", "error", "skipped"):
        for trial in judged.trials:
            if trial.outcome == outcome:
                return trial
    return next(iter(judged.trials), None)


def _turn_view(turn: TurnRecord, outcome: Outcome, problems: tuple[str, ...]) -> TurnView:
    return TurnView(
        index=turn.index,
        source=turn.source,
        outcome=outcome,
        input=turn.input,
        response=turn.response,
        ground_truth=turn.ground_truth,
        tool_invocations=turn.tool_invocations,
        problems=problems,
    )


def _problems(turn: TurnRecord, trial: TrialVerdict) -> Iterator[str]:
    verdict = next(turn_verdict for turn_verdict in trial.turns if turn_verdict.index == turn.index)
    if turn.error is not None:
        yield f"error: {turn.error.message}"
        output = _captured(turn.error.context)
        if output:
            yield f"output: {output}"
    if turn.skipped is not None:
        yield turn.skipped
    for assertion in turn.tool_assertions:
        if not assertion.matched:
            yield f"tools: expected {assertion.expected}: {assertion.reason}"
    if turn.error is not None or turn.skipped is not None:
        return
    for metric in verdict.metrics:
        if metric.outcome in ("failed", "error"):
            yield f"{metric.name} {'failed' if metric.outcome == 'failed' else 'not evaluated'}: {metric.reason}"


def _captured(context: Mapping[str, object]) -> str:
    return str(context.get("stderr") or context.get("output") or "")
