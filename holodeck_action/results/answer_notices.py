"""What a reader of a verdict must know about answers that are not what the suite's model would have said in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from holodeck_action.results.record import CaseRecord


def about_answers(cases: Sequence[CaseRecord], max_tokens: int | None) -> Iterator[str]:
    """Yield one sentence each on answers that are not what the suite's model would have said in full.

    Args:
        cases: what was run.
        max_tokens: the model's limit; None for its own.
    """
    turns = [turn for case in cases for turn in case.turns]
    cut = sum(turn.finish_reason == "length" for turn in turns)
    if cut:
        limit = "the model's limit of tokens" if max_tokens is None else f"max_tokens {max_tokens}"
        yield f"{_answers(cut)} {'stops' if cut == 1 else 'stop'} at {limit}; raise model.max_tokens"
    others = Counter(turn.fallback_model for turn in turns if turn.fallback_model is not None)
    for name, number in sorted(others.items()):
        yield f"{_answers(number)} came from the fallback model {name}, because the suite's model could not answer"


def _answers(number: int) -> str:
    return f"{number} {'answer' if number == 1 else 'answers'}"
