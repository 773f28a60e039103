"""The texts for the comparison of two runs' answers: the question and both answers."""

from __future__ import annotations

import hashlib
import json

from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.record import CaseRecord, TrialRecord


def compares_conversations(case: CaseRecord, *, sees: str) -> bool:
    """Return whether a case's whole conversations are compared instead of the last answers.

    Conversations with a simulated user are always compared as a whole, since their last answers reply to different
    messages.

    Args:
        case: the case in either run.
        sees: the metric's setting: `turn` or `conversation`.
    """
    return case.user is not None or sees == "conversation"


def sees_of(evaluation: Evaluation) -> str:
    """Return the setting `sees` of the metric that made an evaluation."""
    return str(evaluation.criteria.settings.get("sees", "turn"))


def question_text(case: CaseRecord, trial: TrialRecord) -> str:
    """Return the question that the two answers of a pair reply to: the last input, or the goal of a simulated user."""
    return trial.turns[-1].input if case.user is None else case.user.goal


def compared_text(trial: TrialRecord, *, conversation: bool) -> str | None:
    """Return a trial's text for the comparison: the last answer, or all messages as JSON.

    For a conversation of one turn with a fixed input, the text is always the answer.

    Returns:
        The text; None if the trial has an error or no answer.
    """
    if trial.error is not None or not trial.turns or any(turn.error is not None for turn in trial.turns):
        return None
    last = trial.turns[-1]
    if last.response is None or not conversation or (len(trial.turns) == 1 and trial.user is None):
        return last.response
    messages = [
        {"role": role, "content": text}
        for turn in trial.turns
        for role, text in (("user", turn.input), ("assistant", turn.response or ""))
    ]
    return json.dumps(messages, ensure_ascii=False, indent=1)


def digest_of_text(text: str) -> str:
    """Return the SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
