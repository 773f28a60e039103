"""What a record and its verdict hold of a case, as the viewer's page embeds them.

The script of the page shows them. Values of strangers, such as arguments of tools, stand there as JSON in lines: a
browser would round their large numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from holodeck_action.decide.case_verdicts import judge_trial
from holodeck_action.decide.verdict import CaseVerdict, MetricVerdict, TrialVerdict, TurnVerdict
from holodeck_action.record.facts import value_or_none
from holodeck_action.record.record import CaseRecord, TrialRecord, TurnRecord
from holodeck_action.record.serialization import to_json, to_plain
from holodeck_action.reports.report_building import problems_of

LONGEST_TEXT = 200_000
"""Characters of a text; what is longer is cut, as a browser draws no more of it in a moment."""

_SHORT_LINE = 80
_LINE = json.JSONEncoder(ensure_ascii=False)

_OWN_METADATA = ("judge", "panel", "passed")
"""What is told of an evaluation elsewhere."""


def detail_of(
    case: CaseRecord | None,
    verdict: CaseVerdict | None,
    base: CaseRecord | None,
    base_verdict: CaseVerdict | None,
    remarks: Iterable[str],
) -> dict[str, Any]:
    """Return everything about a case, with what it was on the base (None: nothing is known of one of them)."""
    return {
        "remarks": list(remarks),
        "trials": [] if case is None else _trials(case, verdict),
        "base": None if base is None else _trials(base, base_verdict),
    }


def tokens_of(turns: Iterable[TurnRecord]) -> int | None:
    """Return the tokens of prompts and answers, over what is known; None where nothing is."""
    usages = [turn.usage for turn in turns if turn.usage is not None]
    known = [n for usage in usages for n in (usage.prompt_tokens, usage.completion_tokens) if n is not None]
    return sum(known) if known else None


def _trials(case: CaseRecord, verdict: CaseVerdict | None) -> list[dict[str, Any]]:
    counted = {} if verdict is None else {trial.index: trial for trial in verdict.trials}
    return [_trial(trial, counted.get(trial.index)) for trial in case.trials]


def _trial(trial: TrialRecord, verdict: TrialVerdict | None) -> dict[str, Any]:
    """Return a trial with its verdict, see `data.ts` of the page's script."""
    judged, prefix = verdict, ""
    if judged is None:
        judged, prefix = judge_trial(trial), "does not count, as the trials before it decide the case: "
    shown: dict[str, Any] = to_plain(trial)
    del shown["timing"]
    shown["outcome"], shown["reason"] = judged.outcome, f"{prefix}{judged.reason}"
    for turn, one, each in zip(trial.turns, judged.turns, shown["turns"], strict=True):
        _add_verdict(turn, one, each)
    return shown


def _add_verdict(turn: TurnRecord, verdict: TurnVerdict, shown: dict[str, Any]) -> None:
    """Add to a turn of the record what follows from it, and take out what the page does not show."""
    del shown["index"], shown["source"], shown["timing"]
    shown["outcome"], shown["problems"] = verdict.outcome, problems_of(turn, verdict)
    shown["latency_ms"] = _rounded(value_or_none(turn.took_ms))
    shown["first_token_ms"] = _rounded(value_or_none(turn.began_ms))
    for call in shown["tool_invocations"] or ():
        call["args"], call["result"] = _json(call["args"]), _text(call["result"])
        call["duration_ms"] = _rounded(call["duration_ms"])
    for name in ("messages", "metadata"):
        shown[name] = _text(shown.get(name))
    own = {chunk.text for chunk in turn.retrieved_chunks or ()}
    shown["retrieval_context"] = [text for text in turn.retrieval_context or () if text not in own]
    if shown["error"] is not None:
        shown["error"]["context"] = _text(shown["error"]["context"] or None)
    shown["evaluations"] = [
        _evaluation(each, judged) for each, judged in zip(shown["evaluations"], verdict.metrics, strict=True)
    ]


def _evaluation(evaluation: dict[str, Any], verdict: MetricVerdict) -> dict[str, Any]:
    metadata, context = evaluation["metadata"], (evaluation["error"] or {}).get("context", {})
    panel = metadata.get("panel")
    votes = panel.get("verdicts") if isinstance(panel, dict) else None
    more = {name: value for name, value in metadata.items() if name not in _OWN_METADATA}
    if context:
        more["error"] = context
    if evaluation["confidence"] is not None:
        more["confidence"] = evaluation["confidence"]
    explanation, reason = evaluation["explanation"] or None, verdict.reason
    if explanation is not None and reason.endswith(explanation):
        # It stands beside the reason.
        reason = reason.removesuffix(explanation).rstrip(" ;:")
    return {
        "name": verdict.name,
        "outcome": verdict.outcome,
        "score": verdict.score,
        "category": verdict.category,
        "threshold": verdict.threshold,
        "reason": reason,
        "explanation": explanation,
        "judge": metadata.get("judge"),
        "votes": context.get("verdicts") if votes is None else votes,
        "details": _json(more) if more else None,
        "cost_usd": evaluation["cost_usd"],
        "duration_ms": _rounded(evaluation["duration_ms"]),
    }


def _rounded(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds, 1)


def shortened(value: Any) -> Any:
    """Return a value in which every text has at most `LONGEST_TEXT` characters, and tells how many are left out."""
    if isinstance(value, dict):
        return {name: shortened(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(item) for item in value]
    if not isinstance(value, str) or len(value) <= LONGEST_TEXT:
        return value
    return f"{value[:LONGEST_TEXT]}… ({len(value) - LONGEST_TEXT:,} more characters, in results.json)"


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    """Return JSON in one line where that is a short one."""
    line = _LINE.encode(value)
    return line if len(line) <= _SHORT_LINE else to_json(value, 1).decode()
