"""What a reader of a verdict must know about answers that are not what the suite's model would have said in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from holodeck_action.record.record import CaseRecord, TrialRecord


def about_answers(cases: Iterable[CaseRecord], max_tokens: int | None) -> Iterator[str]:
    """Yield one sentence each on answers that are not what the suite's model would have said in full.

    Args:
        cases: what was run.
        max_tokens: the model's limit; None for its own.
    """
    cut, others = 0, Counter[str]()
    for turn in (turn for case in cases for turn in case.turns):
        cut += turn.finish_reason == "length"
        if turn.fallback_model is not None:
            others[turn.fallback_model] += 1
    if cut:
        limit = "the model's limit of tokens" if max_tokens is None else f"max_tokens {max_tokens}"
        yield f"{_answers(cut)} {'stops' if cut == 1 else 'stop'} at {limit}; raise model.max_tokens"
    for name, number in sorted(others.items()):
        yield f"{_answers(number)} came from the fallback model {name}, because the suite's model could not answer"


def is_about(trial: TrialRecord) -> bool:
    """Tell whether one of these sentences is about an answer of a trial."""
    return any(turn.finish_reason == "length" or turn.fallback_model is not None for turn in trial.turns)


def _answers(number: int) -> str:
    return f"{number} {'answer' if number == 1 else 'answers'}"
