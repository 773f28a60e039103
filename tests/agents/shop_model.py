"""What the model of the shop says: it knows an order only from what it was told, in this turn or an earlier one."""

from __future__ import annotations

import re

from tests.llm.models import Answer, Request, ToolCall

KEY = "sk-of-the-shop"
"""The only one that is accepted."""
ORDER = "A-17"
ANSWERS = {"open": "At nine", "where": "In Leeds", "when": "Tomorrow"}
"""Answers by a word of the question."""


def answered(request: Request) -> Answer:
    """Look the order of the conversation up in each turn that asks for it; without its number ask for that."""
    question = request.text.lower()
    asked = next(word for word in ANSWERS if word in question)
    orders = [found for message in request.messages for found in re.findall(ORDER, message.text)]
    if asked == "open":
        return Answer(ANSWERS[asked], prompt_tokens=12, completion_tokens=2)
    if not orders:
        return Answer("Which order?", prompt_tokens=10, completion_tokens=3)
    if not request.results:
        return Answer(tools=(ToolCall("find_order", {"id": orders[-1]}),), prompt_tokens=10, completion_tokens=5)
    assert "Leeds" in request.results[-1], request.results
    return Answer(ANSWERS[asked], prompt_tokens=20, completion_tokens=5, cached_tokens=4)
