"""The model of the shop in the words of frameworks that do not call tools as the API of the model does."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from tests.llm.models import Answer, Message, Request, ToolCall
from tests.targets.shop_model import shop_answer


def answer_smolagents(request: Request) -> Answer:
    """Answer with a call of `final_answer`; results of tools come as messages of the user."""
    *before, last = request.messages
    _, task, words = last.text.rpartition("New task:\n")
    _, observed, result = words.rpartition("Observation:\n")
    if observed:
        asked = (replace(last, text=last.text.removesuffix(observed + result)),) if task else ()
        request = replace(request, messages=(*before, *asked, Message("tool", result)))
    answer = shop_answer(request)
    return (
        answer if answer.tools else replace(answer, text="", tools=(ToolCall("final_answer", {"answer": answer.text}),))
    )


def answer_dspy(request: Request) -> Answer:
    """Write the fields that DSPy's `ReAct` asks for: a call, then `finish`, then the answer."""
    *_, last = request.messages
    results = re.findall(r"\[\[ ## observation_0 ## \]\]\n(.*)", last.text)
    answer = shop_answer(replace(request, messages=(*request.messages, *(Message("tool", each) for each in results))))
    if "next_tool_name" not in last.text:
        return replace(
            answer, text=_fields(reasoning="It is known.", answer=answer.text), prompt_tokens=10, completion_tokens=3
        )
    (call,) = answer.tools or (ToolCall("finish", {}),)
    wish = {"next_thought": "Look.", "next_tool_name": call.name, "next_tool_args": json.dumps(call.arguments)}
    written = replace(answer, text=_fields(**wish), tools=())
    return written if answer.tools else replace(written, prompt_tokens=10, completion_tokens=2, cached_tokens=0)


def answer_claude(request: Request) -> Answer:
    """Call the tool by the name that Claude's program gives to a tool of an MCP server, whatever it says in between."""
    said = tuple(message for message in request.messages if message.role != "system")
    answer = shop_answer(replace(request, messages=said))
    return replace(answer, tools=tuple(replace(call, name=f"mcp__shop__{call.name}") for call in answer.tools))


def _fields(**fields: str) -> str:
    return "".join(f"[[ ## {name} ## ]]\n{text}\n\n" for name, text in fields.items()) + "[[ ## completed ## ]]\n"
