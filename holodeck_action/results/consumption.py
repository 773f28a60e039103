"""What a run took, as gates count it: tokens and dollars of every turn and judge, and the time of the answers.

Answers from a recording or a cache count with their original tokens, cost and time, so that a replay is judged as the
run that it repeats. What is not known is counted apart: it is never zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from holodeck_action.results.evaluation import Evaluation
from holodeck_action.results.record import CaseRecord, ModelUsage, Record, TurnRecord, Usage

_JUDGED_KINDS = (
    *("geval", "rag", "generation", "query_transformation", "summarization", "lm_retrieval", "agent"),
    *("refusal", "trajectory_accuracy", "composite"),
    *("quality", "factual_accuracy", "toxicity", "relevance"),
)
_COMPUTED_KINDS = ("code", "length", "retrieval", "tool_correctness", "deepeval_tool_correctness", "trajectory")
_OF_AZURE = ("groundedness", "relevance", "coherence", "fluency", "similarity")
_UNKNOWN = Usage()


@dataclass(frozen=True, slots=True)
class Total:
    """A sum over what is known, and how many parts (turns, evaluations) are not."""

    known: float
    unknown: int


@dataclass(frozen=True, slots=True)
class Latencies:
    """Milliseconds of the answered turns, how many turns have no answer, and how many answers do not tell theirs."""

    answered: tuple[float, ...]
    missing: int
    untold: int = 0


def tokens_of(record: Record) -> Total:
    """Return the tokens of all prompts and answers, quarantined cases included."""
    return _total(
        None
        if usage.prompt_tokens is None or usage.completion_tokens is None
        else usage.prompt_tokens + usage.completion_tokens
        for usage in _usages(record)
    )


def cost_of(record: Record) -> Total:
    """Return the list price of all model calls in US dollars, quarantined cases included."""
    return _total(usage.cost_usd for usage in _usages(record))


def judging_cost_of(record: Record) -> Total:
    """Return the list price of the judges' calls in US dollars, quarantined cases included."""
    return _total(usage.cost_usd for turn in record.turns for usage in _judges(turn))


def models_of(record: Record) -> tuple[ModelUsage, ...]:
    """Return what each model took whose name replies give, over what is known of it, in order of name."""
    used: dict[str, list[ModelUsage]] = {}
    for turn in record.turns:
        for part in () if turn.usage is None else turn.usage.models or (_of_one(turn.model, turn.usage),):
            if part.model is not None:
                used.setdefault(part.model, []).append(part)
    return tuple(_together(name, used[name]) for name in sorted(used))


def _of_one(model: str | None, usage: Usage) -> ModelUsage:
    tokens = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.reasoning_tokens)
    return ModelUsage(model, *tokens, usage.cost_usd)


def _together(model: str, parts: Sequence[ModelUsage]) -> ModelUsage:
    def known(name: str) -> list[Any]:
        return [value for part in parts if (value := getattr(part, name)) is not None]

    counts = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")
    tokens = {name: sum(found) for name in counts if (found := known(name))}
    costs = known("cost_usd")
    return ModelUsage(model, cost_usd=math.fsum(costs) if costs else None, **tokens)


def latencies_of(cases: Iterable[CaseRecord]) -> Latencies:
    """Return how long the agent worked on each turn.

    That is the working time of the models, waiting left out, where it is known (the suite's own model), and else the
    time from the question to the answer.
    """
    answered: list[float] = []
    missing = 0
    for turn in (turn for case in cases for turn in case.turns):
        if turn.response is None or turn.timing is None:
            missing += 1
        else:
            known = turn.timing.model_ms
            answered.append(turn.timing.duration_ms if known is None else known)
    return Latencies(tuple(answered), missing)


def first_tokens_of(cases: Iterable[CaseRecord]) -> Latencies:
    """Return how long it took until the answer of each turn began."""
    turns = [turn for case in cases for turn in case.turns]
    answered = [turn.timing.first_token_ms for turn in turns if turn.response is not None and turn.timing is not None]
    known = tuple(first for first in answered if first is not None)
    return Latencies(known, len(turns) - len(answered), len(answered) - len(known))


def reused_of(record: Record) -> int:
    """Return how many verdicts of judges are those of an earlier run."""
    return sum(evaluation.cached for evaluation in record.evaluations)


def _usages(record: Record) -> Iterator[Usage]:
    for turn in record.turns:
        if turn.skipped is None:
            # Of a turn that failed, too, nobody knows what it took.
            yield turn.usage or _UNKNOWN
        yield from _judges(turn)


def _judges(turn: TurnRecord) -> Iterator[Usage]:
    for evaluation in turn.evaluations:
        if _judged(evaluation) and evaluation.status in ("completed", "failed"):
            usage = evaluation.metadata.get("usage")
            if usage is None and evaluation.cost_usd is None and evaluation.status == "completed":
                # Nobody was asked: an empty answer needs no judge, nor do computed metrics of a composite.
                continue
            tokens = usage if isinstance(usage, dict) else {}
            yield Usage(
                _count(tokens.get("prompt_tokens")), _count(tokens.get("completion_tokens")), evaluation.cost_usd
            )


def _judged(evaluation: Evaluation) -> bool:
    criteria = evaluation.criteria
    if criteria.kind == "standard":
        return criteria.metric in _OF_AZURE
    if criteria.kind in _COMPUTED_KINDS:
        return False
    # A metric of another package tells by what it took.
    return criteria.kind in _JUDGED_KINDS or evaluation.cost_usd is not None or "usage" in evaluation.metadata


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _total(amounts: Iterable[float | None]) -> Total:
    found = list(amounts)
    known = [amount for amount in found if amount is not None]
    return Total(math.fsum(known), len(found) - len(known))
