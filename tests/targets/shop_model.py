"""The model of the shop: it knows an order only from what it was told, in this turn or an earlier one."""

from __future__ import annotations

import re

from tests.llm.models import Answer, Request, ToolCall

ORDER = "A-17"
ANSWERS = {"you open": "We open at nine.", "where is": "Your order is in {}.", "when does": "It arrives tomorrow."}
"""Answers by words of the question."""


def shop_answer(request: Request) -> Answer:
    """Look the order of the conversation up in each turn that asks for it; without one number ask for that."""
    question = request.text.lower()
    # Some frameworks put the whole conversation into one message.
    asked = max(ANSWERS, key=question.rfind)
    orders = {found for message in request.messages for found in re.findall(r"\b[A-Z]-\d+", message.text)}
    if asked == "you open" and not orders:
        return Answer(ANSWERS[asked], prompt_tokens=12, completion_tokens=2, cached_tokens=4)
    if len(orders) != 1:
        return Answer(f"Which order: {', '.join(sorted(orders))}?", prompt_tokens=10, completion_tokens=3)
    if not request.results:
        return Answer(tools=(ToolCall("find_order", {"id": orders.pop()}),), prompt_tokens=10, completion_tokens=5)
    (place,) = re.findall("Leeds|York", request.results[-1])
    return Answer(ANSWERS[asked].format(place), prompt_tokens=20, completion_tokens=5, cached_tokens=4)
