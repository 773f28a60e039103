"""Tokens of the fake: words, numbers of up to three digits, single signs. Joined they are the text."""

from __future__ import annotations

import re

from tests.llm.models.values import Answer, Request

_TOKEN = re.compile(r" ?[^\W\d_]{1,6}|\d{1,3}|.", re.DOTALL)
_PER_MESSAGE = 3
"""Tokens that a message takes beside its text, as in OpenAI's own count."""


def split(text: str) -> list[str]:
    """Return a text's tokens."""
    return _TOKEN.findall(text)


def prompt_tokens(request: Request, answer: Answer) -> int:
    """Return how many tokens a request has."""
    if answer.prompt_tokens is not None:
        return answer.prompt_tokens
    texts = [*(message.text for message in request.messages), *request.inputs]
    return sum(len(split(text)) + _PER_MESSAGE for text in texts)


def completion_tokens(answer: Answer) -> int:
    """Return how many tokens an answer has."""
    if answer.completion_tokens is not None:
        return answer.completion_tokens
    texts = [answer.text, answer.refusal or "", answer.thinking or ""]
    return sum(len(split(text)) for text in [*texts, *(call.name + call.arguments_json() for call in answer.tools)])
