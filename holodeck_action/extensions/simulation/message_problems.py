"""Checks the messages that a model writes in the role of a user."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from holodeck_action.text.lazy_patterns import lazy_pattern

LONGEST_QUOTE = 5
"""Maximum number of consecutive words that a message may copy from goal or persona."""
_AGENT_NAMES = ("agent", "assistant", "ai", "bot", "chatbot", "system")
_WORD = lazy_pattern(r"\w+")


def message_problem(
    message: str, *, instructions: Sequence[str], messages: Iterable[str], answers: Iterable[str], agent: str
) -> str:
    """Return a clause with the reason why a message cannot be the user's next message; empty if the message is valid.

    Args:
        message: the message.
        instructions: texts of goal and persona.
        messages: the user's earlier messages.
        answers: the agent's answers.
        agent: name of the agent.
    """
    words = _words(message)
    if not words:
        return "it is empty"
    if any(_words(earlier) == words for earlier in messages):
        return "it repeats an earlier message"
    names = "|".join(re.escape(name) for name in (*_AGENT_NAMES, agent) if name.strip())
    if re.search(rf"^[^\w\n]*(?:{names})\W*:", message, re.IGNORECASE | re.MULTILINE):
        return "it speaks as the agent"
    if any(_words(answer) == words for answer in answers):
        return "it speaks as the agent, whose answer it repeats"
    for title, text in zip(("goal", "persona"), instructions, strict=True):
        quote = _shared_words(words, _words(text))
        if quote:
            return f'it quotes the {title} ("{quote}")'
    return ""


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _shared_words(user_words: Sequence[str], text: Sequence[str]) -> str:
    """Return the first `LONGEST_QUOTE` + 1 consecutive words that are in both texts; empty if there are none."""
    count = LONGEST_QUOTE + 1
    known = {tuple(text[at : at + count]) for at in range(len(text) - count + 1)}
    runs = (tuple(user_words[at : at + count]) for at in range(len(user_words) - count + 1))
    return " ".join(next((run for run in runs if run in known), ()))
