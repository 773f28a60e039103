"""Everything that a record holds of a case, as the viewer's page shows it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holodeck_action.decide.case_verdicts import judge_trial
from holodeck_action.decide.consumption import cost_of
from holodeck_action.decide.verdict import CaseVerdict, MetricVerdict, TrialVerdict, TurnVerdict
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.facts import value_or_none
from holodeck_action.record.record import CaseRecord, ToolInvocation, TrialRecord, TurnRecord
from holodeck_action.record.serialization import to_json
from holodeck_action.reports.page.viewer_data import (
    CaseOutcome,
    Chunk,
    Detail,
    Evaluated,
    ExpectedTool,
    Fact,
    Tool,
    Trial,
    Turn,
    Vote,
)
from holodeck_action.reports.report_building import problems_of

LONGEST_TEXT = 200_000
"""Characters of a text; what is longer is cut, as a browser draws no more of it in a moment."""

_SHORT_LINE = 80
_LINE = json.JSONEncoder(ensure_ascii=False)

_OWN_FACTS = ("judge", "panel", "passed")
"""What is told of an evaluation elsewhere."""


def detail_of(
    case: CaseRecord | None,
    verdict: CaseVerdict | None,
    base: CaseRecord | None,
    base_verdict: CaseVerdict | None,
    remarks: Iterable[str],
) -> Detail:
    """Return everything about a case, with what it was on the base (None: nothing is known of one of them)."""
    return {
        "remarks": list(remarks),
        "trials": [] if case is None else list(_trials(case, verdict)),
        "base": None if base is None else list(_trials(base, base_verdict)),
    }


def tokens_of(turns: Iterable[TurnRecord]) -> int | None:
    """Return the tokens of prompts and answers, over what is known; None where nothing is."""
    usages = [turn.usage for turn in turns if turn.usage is not None]
    known = [n for usage in usages for n in (usage.prompt_tokens, usage.completion_tokens) if n is not None]
    return sum(known) if known else None


def _trials(case: CaseRecord, verdict: CaseVerdict | None) -> Iterator[Trial]:
    counted = {} if verdict is None else {trial.index: trial for trial in verdict.trials}
    for trial in case.trials:
        judged = counted.get(trial.index)
        if judged is not None:
            yield _trial(trial, judged, judged.reason)
        else:
            own = judge_trial(trial)
            yield _trial(trial, own, f"does not count, as the trials before it decide the case: {own.reason}")


def _trial(trial: TrialRecord, verdict: TrialVerdict, reason: str) -> Trial:
    took = value_or_none(trial.took_ms)
    return {
        "index": trial.index,
        "outcome": verdict.outcome,
        "reason": cut(reason),
        "turns": [_turn(turn, judged) for turn, judged in zip(trial.turns, verdict.turns, strict=True)],
        "latency_ms": None if took is None else round(took, 1),
        "cost_usd": cost_of(trial.turns).whole,
        "tokens": tokens_of(trial.turns),
        "error": None if trial.error is None else cut(trial.error.message),
    }


def _turn(turn: TurnRecord, verdict: TurnVerdict) -> Turn:
    usage = turn.usage
    names = [part.model for part in usage.models if part.model is not None] if usage is not None else []
    first = value_or_none(turn.began_ms)
    latency = value_or_none(turn.took_ms)
    return {
        "input": cut(turn.input),
        "response": _cut(turn.response),
        "expected": _cut(turn.ground_truth),
        "outcome": verdict.outcome,
        "error": None if turn.error is None else cut(turn.error.message),
        "problems": [cut(problem) for problem in problems_of(turn, verdict)],
        "tools": [_tool(call) for call in turn.tool_invocations or ()],
        "expected_tools": [
            ExpectedTool(name=cut(each.expected), args=None, ok=each.matched, text=cut(each.reason or ""))
            for each in turn.tool_assertions
        ],
        "chunks": list(_chunks(turn)),
        "context": [cut(text) for text in turn.context or ()],
        "evaluations": [
            _evaluated(evaluation, judged) for evaluation, judged in zip(turn.evaluations, verdict.metrics, strict=True)
        ],
        "facts": list(_facts(turn)),
        "latency_ms": None if latency is None else round(latency, 1),
        "first_token_ms": None if first is None else round(first, 1),
        "tokens": tokens_of((turn,)),
        "cost_usd": None if usage is None else usage.cost_usd,
        "models": names or ([turn.model] if turn.model is not None else []),
    }


def _tool(call: ToolInvocation) -> Tool:
    return {
        "name": cut(call.name),
        "args": _json(call.args),
        "result": None if call.result is None else _text(call.result),
        "error": _cut(call.error),
        "duration_ms": None if call.duration_ms is None else round(call.duration_ms, 1),
    }


def _chunks(turn: TurnRecord) -> Iterator[Chunk]:
    """Yield what was retrieved in the turn, and then what the metrics saw besides, from the turns before."""
    own = turn.retrieved_chunks or ()
    for chunk in own:
        yield {"id": cut(chunk.id), "text": cut(chunk.text or ""), "score": chunk.score}
    known = {chunk.text for chunk in own}
    for text in turn.retrieval_context or ():
        if text not in known:
            yield {"id": None, "text": cut(text), "score": None}


def _facts(turn: TurnRecord) -> Iterator[Fact]:
    told: tuple[tuple[str, Any], ...] = (
        ("not run", turn.skipped),
        ("why the model stopped", turn.finish_reason),
        ("fallback model", turn.fallback_model),
        ("what the error tells besides", turn.error.context if turn.error is not None and turn.error.context else None),
        ("messages", turn.messages),
        ("metadata", turn.metadata),
    )
    for name, value in told:
        if value is not None:
            yield {"name": name, "text": _text(value)}


def _evaluated(evaluation: Evaluation, verdict: MetricVerdict) -> Evaluated:
    explanation = evaluation.explanation or None
    reason = verdict.reason
    if explanation is not None and reason.endswith(explanation):
        # It stands beside the reason.
        reason = reason.removesuffix(explanation).rstrip(" ;:")
    told = evaluation.metadata
    judge = told.get("judge")
    more = {name: value for name, value in told.items() if name not in _OWN_FACTS} if told else {}
    if evaluation.error is not None and evaluation.error.context:
        more["error"] = evaluation.error.context
    if evaluation.confidence is not None:
        more["confidence"] = evaluation.confidence
    return {
        "metric": verdict.name,
        "outcome": verdict.outcome,
        "score": None if verdict.score is None else rounded(verdict.score),
        "raw": verdict.category,
        "threshold": verdict.threshold,
        "reason": cut(reason),
        "explanation": _cut(explanation),
        "judge": judge if isinstance(judge, str) else None,
        "votes": list(_votes(evaluation)) if told or evaluation.error is not None else [],
        "details": _json(more) if more else None,
        "cost_usd": evaluation.cost_usd,
        "duration_ms": None if evaluation.duration_ms is None else round(evaluation.duration_ms, 1),
    }


def _votes(evaluation: Evaluation) -> Iterator[Vote]:
    panel = evaluation.metadata.get("panel")
    found = panel.get("verdicts") if isinstance(panel, Mapping) else None
    if found is None and evaluation.error is not None:
        found = evaluation.error.context.get("verdicts")
    # A grader of the suite's own may keep anything under these names.
    for verdict in found if isinstance(found, list | tuple) else ():
        if isinstance(verdict, Mapping) and isinstance(verdict.get("model"), str):
            yield _vote(verdict)


def _vote(verdict: Mapping[str, Any]) -> Vote:
    passed, score, error = verdict.get("passed"), verdict.get("score"), verdict.get("error")
    outcome: CaseOutcome = "informational"
    if isinstance(error, Mapping) and passed is None and score is None:
        outcome = "error"
    elif isinstance(passed, bool):
        outcome = "passed" if passed else "failed"
    told = error.get("message") if outcome == "error" and isinstance(error, Mapping) else verdict.get("reason")
    fallback = " (fallback)" if verdict.get("fallback") is True else ""
    return {
        "judge": cut(f"{verdict['model']}{fallback}"),
        "outcome": outcome,
        "score": float(score) if isinstance(score, int | float) and not isinstance(score, bool) else None,
        "explanation": cut(told) if isinstance(told, str) and told else None,
    }


def rounded(value: float) -> float:
    """Return a score with the digits that a record keeps on every machine, in as few characters as that takes."""
    return float(f"{value:.12g}")


def cut(text: str) -> str:
    """Return a text, or its beginning and how much of it is left out."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}… ({len(text) - LONGEST_TEXT:,} more characters, in results.json)"


def _cut(text: str | None) -> str | None:
    return None if text is None else cut(text)


def _text(value: Any) -> str:
    return cut(value) if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    """Return JSON in one line where that is a short one."""
    line = _LINE.encode(value)
    return line if len(line) <= _SHORT_LINE else cut(to_json(value, 1).decode())
