"""The turn that a judge of a whole conversation names."""

from __future__ import annotations

import re

from holodeck_action.record.evaluation import Evaluation
from holodeck_action.text.lazy_patterns import lazy_pattern

_TURN = lazy_pattern(r"\bturn (\d{1,4})\b", re.IGNORECASE)
_OTHER_COUNTS = ("deepeval",)
"""Kinds of metrics whose judges are not told how turns are numbered."""


def named_turn(evaluation: Evaluation, turn_count: int) -> int | None:
    """Return the index of the turn that the explanation of an evaluation names; None if it names no turn or several.

    Args:
        evaluation: the evaluation of a whole conversation.
        turn_count: number of turns of the conversation.
    """
    if evaluation.criteria.kind in _OTHER_COUNTS or evaluation.status != "completed":
        return None
    found = {int(number) for number in _TURN.findall(evaluation.explanation or "")}
    return found.pop() if len(found) == 1 and max(found) < turn_count else None
