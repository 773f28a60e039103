"""Notices about answers that were cut off or came from a fallback model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from holodeck_action.record.record import CaseRecord


def answer_notices(cases: Iterable[CaseRecord], max_tokens: int | None) -> Iterator[str]:
    """Yield a sentence about answers that were cut off at the token limit, if there are any, and a sentence for each
    fallback model that answered.

    Args:
        cases: the cases that ran.
        max_tokens: maximum tokens of an answer; None if the model's default applies.
    """
    cut, others = 0, Counter[str]()
    for turn in (turn for case in cases for turn in case.turns):
        cut += turn.finish_reason == "length"
        if turn.fallback_model is not None:
            others[turn.fallback_model] += 1
    if cut:
        limit = "the model's token limit" if max_tokens is None else f"max_tokens {max_tokens}"
        yield f"{_number_of(cut)} {'stops' if cut == 1 else 'stop'} at {limit}; raise model.max_tokens"
    for name, number in sorted(others.items()):
        yield f"{_number_of(number)} came from the fallback model {name}, because the suite's model could not answer"


def _number_of(number: int) -> str:
    return f"{number} {'answer' if number == 1 else 'answers'}"
