"""The details of a case from a record and its verdict, as the viewer's page embeds them.

Values from outside, such as arguments of tools, are embedded as JSON text, since browsers would round large numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from holodeck_action.decide.case_verdicts import judge_trial
from holodeck_action.decide.compare.pairing import case_difference
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.decide.verdict import CaseVerdict, MetricVerdict, TrialVerdict, TurnVerdict
from holodeck_action.record.evaluation import PREFERENCE
from holodeck_action.record.facts import value_or_none
from holodeck_action.record.pair_texts import compares_conversations, sees_of
from holodeck_action.record.record import CaseRecord, TrialRecord, TurnRecord
from holodeck_action.record.serialization import to_json, to_plain
from holodeck_action.reports.page.run_columns import CaseInRun
from holodeck_action.reports.page.workspace_view import workspace_view
from holodeck_action.reports.report_building import conversation_problems, turn_problems
from holodeck_action.reports.simulated_users import user_lines

LONGEST_TEXT = 200_000
"""Maximum characters of a string; longer strings are cut, since browsers would be slow to show them."""

_SHORT_LINE = 80
_LINE = json.JSONEncoder(ensure_ascii=False)

_OWN_METADATA = ("judge", "panel", "passed")
"""Metadata of an evaluation that the page shows elsewhere."""


def case_detail(
    case: CaseRecord | None,
    verdict: CaseVerdict | None,
    base: CaseRecord | None,
    base_verdict: CaseVerdict | None,
    notes: Iterable[str],
    other_runs: Sequence[CaseInRun | None] = (),
) -> dict[str, Any]:
    """Return the details of a case, of the same case on the base, and of the same case in other runs.

    `case`, `base` and their verdicts are None if the run does not have the case.
    """
    about = [] if case is None or case.user is None else [*user_lines(case.user, None)]
    beside = [None if other is None else _trials(other.case, other.verdict) for other in other_runs]
    return {
        "remarks": [*notes, *about],
        "trials": [] if case is None else _trials(case, verdict),
        "base": None if base is None else _trials(base, base_verdict),
        **_pair(case, base),
        **({"others": beside} if beside else {}),
    }


def _pair(case: CaseRecord | None, base: CaseRecord | None) -> dict[str, Any]:
    """Return the metrics by which judges compared the case's answer with the base's, and the compared texts; empty if
    the questions differ."""
    if case is None or base is None or case_difference(base, case) is not None:
        return {}
    graded = (each for turn in case.turns for each in turn.evaluations)
    found = {each.evaluator_name: each for each in graded if each.criteria.kind == PREFERENCE}
    sees = next((sees_of(each) for each in found.values()), "turn")
    goal = None if case.user is None else case.user.goal
    conversation = compares_conversations(case, sees=sees)
    return {"pair": {"conversation": conversation, "goal": goal, "metrics": [*found]}}


def known_tokens(turns: Iterable[TurnRecord]) -> int | None:
    """Return the sum of all known token counts of prompts and answers; None if no count is known."""
    usages = [turn.usage for turn in turns if turn.usage is not None]
    known = [n for usage in usages for n in (usage.prompt_tokens, usage.completion_tokens) if n is not None]
    return sum(known) if known else None


def _trials(case: CaseRecord, verdict: CaseVerdict | None) -> list[dict[str, Any]]:
    counted = {} if verdict is None else {trial.index: trial for trial in verdict.trials}
    return [_trial(trial, counted.get(trial.index)) for trial in case.trials]


def _trial(trial: TrialRecord, verdict: TrialVerdict | None) -> dict[str, Any]:
    """Return a trial with its verdict, in the form that `data.ts` declares."""
    judged, prefix = verdict, ""
    if judged is None:
        judged, prefix = judge_trial(trial), "does not count, because earlier trials decide the case: "
    shown: dict[str, Any] = to_plain(trial)
    del shown["timing"]
    if trial.user is not None:
        seed = "none" if trial.user.seed is None else trial.user.seed
        ended = trial.user.ended or "by an error"
        shown["user"] = (
            f"Simulated user: {count_phrase(trial.user.calls, 'call')}, seed {seed}; the conversation ended: {ended}"
        )
    shown["outcome"], shown["reason"] = judged.outcome, f"{prefix}{judged.reason}"
    for turn, one, each in zip(trial.turns, judged.turns, shown["turns"], strict=True):
        _add_verdict(turn, one, each)
    evaluations = shown.pop("evaluations", ())
    if judged.conversation is not None:
        shown["conversation"] = {
            "outcome": judged.conversation.outcome,
            "problems": conversation_problems(judged.conversation),
            "evaluations": _evaluations(evaluations, judged.conversation),
        }
    return shown


def _add_verdict(turn: TurnRecord, verdict: TurnVerdict, page_turn: dict[str, Any]) -> None:
    """Add the verdict to a turn's data, and remove data that the page does not show."""
    del page_turn["index"], page_turn["source"]
    page_turn["steps"] = (page_turn.pop("timing") or {}).get("steps", ())
    page_turn["outcome"], page_turn["problems"] = verdict.outcome, turn_problems(turn, verdict)
    page_turn["latency_ms"] = _round_ms(value_or_none(turn.took_ms))
    page_turn["first_token_ms"] = _round_ms(value_or_none(turn.began_ms))
    for call in page_turn["tool_invocations"] or ():
        call["args"], call["result"] = _json(call["args"]), _as_text(call["result"])
        call["duration_ms"] = _round_ms(call["duration_ms"])
    metadata = page_turn.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("workspace"), dict):
        page_turn["workspace"] = workspace_view(metadata.pop("workspace"))
        page_turn["metadata"] = metadata or None
    for name in ("messages", "metadata"):
        page_turn[name] = _as_text(page_turn.get(name))
    own = {chunk.text for chunk in turn.retrieved_chunks or ()}
    page_turn["retrieval_context"] = [text for text in turn.retrieval_context or () if text not in own]
    if page_turn["error"] is not None:
        page_turn["error"]["context"] = _as_text(page_turn["error"]["context"] or None)
    page_turn["evaluations"] = _evaluations(page_turn["evaluations"], verdict)


def _evaluations(evaluations: Iterable[dict[str, Any]], verdict: TurnVerdict) -> list[dict[str, Any]]:
    return [_evaluation(each, judged) for each, judged in zip(evaluations, verdict.metrics, strict=True)]


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
        # The page shows it next to the reason.
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
        "duration_ms": _round_ms(evaluation["duration_ms"]),
    }


def _round_ms(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds, 1)


def shorten(value: Any) -> Any:
    """Cut all strings in a value to `LONGEST_TEXT` characters, followed by the number of omitted characters."""
    if isinstance(value, dict):
        return {name: shorten(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [shorten(item) for item in value]
    if not isinstance(value, str) or len(value) <= LONGEST_TEXT:
        return value
    return f"{value[:LONGEST_TEXT]}… ({len(value) - LONGEST_TEXT:,} more characters, in results.json)"


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    """Return a value as JSON, on one line if it is short."""
    line = _LINE.encode(value)
    return line if len(line) <= _SHORT_LINE else to_json(value, 1).decode()
