"""DeepEval's metric classes by themselves, with its own client and its own traces, in a process of their own.

    python -m tests.extensions.deepeval.native_classes URL KEY

reads `[{"metric", "options"}, …]` from standard input and prints their scores as JSON, in this order.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

CASE: dict[str, Any] = {
    "input": "How warm is it in Oslo?",
    "actual_output": "It is 3 degrees, I think.",
    "expected_output": "It is 3 degrees in Oslo.",
    "context": ["Oslo: 3 degrees.", "Bergen: 5 degrees."],
    "retrieval_context": ["Oslo: 3 degrees.", "Bergen: 5 degrees."],
}
CALLS: list[dict[str, Any]] = [
    {"name": "lookup", "args": {"city": "Oslo"}, "result": {"degrees": 3}, "error": None},
    {"name": "forecast", "args": {"city": "Oslo", "days": 2}, "result": None, "error": "no such service"},
]
CASE_OPTIONS = ("chatbot_role", "scenario", "user_description")
FIRST = {"input": "Hello?", "response": "Hello! Where are you?"}
"""The turn before, in conversations."""


def observed_trace() -> dict[str, Any]:
    """Return the trace that DeepEval's own decorator records for an agent that makes the calls and answers."""
    import deepeval.tracing as tracing
    from deepeval.tracing import context

    library: Any = tracing
    current: Any = context.current_span_context

    spans = []

    def lookup(city: str) -> Any:
        return CALLS[0]["result"]

    def forecast(city: str, days: int) -> Any:
        raise LookupError(CALLS[1]["error"])

    def agent(input: str) -> str:
        spans.append(current.get())
        library.observe(lookup, type="tool")(**CALLS[0]["args"])
        try:
            library.observe(forecast, type="tool")(**CALLS[1]["args"])
        except LookupError:
            return str(CASE["actual_output"])
        raise AssertionError

    library.observe(agent, type="agent")(input=CASE["input"])
    found: dict[str, Any] = library.trace_manager.create_nested_spans_dict(spans[0])
    return found


def main(url: str, key: str) -> None:
    names = ("DEEPEVAL_TELEMETRY_OPT_OUT", "DEEPEVAL_DISABLE_DOTENV", "DEEPEVAL_DISABLE_LEGACY_KEYFILE")
    os.environ.update(dict.fromkeys(names, "1"))
    import deepeval.metrics as metrics
    import httpx2
    from deepeval.models import OpenAIModel
    from deepeval.test_case import ConversationalTestCase, LLMTestCase, ToolCall, Turn
    from pydantic import BaseModel, TypeAdapter

    class Order(BaseModel):
        total: int

    tools = [ToolCall(name=call["name"], input_parameters=call["args"], output=call["result"]) for call in CALLS]

    # One for all: making one for every class takes longer than its calls.
    client = httpx2.AsyncClient(trust_env=False, timeout=60)
    model = OpenAIModel(model="gpt-4o", api_key=key, base_url=url, temperature=0.0, async_http_client=client)

    async def score(metric: str, options: dict[str, Any]) -> float:
        if "expected_schema" in options:
            options = {**options, "expected_schema": Order}
        kind = getattr(metrics, metric)
        if "model" in kind.__init__.__annotations__:
            options = {**options, "model": model}
        for name, converted in kind.__init__.__annotations__.items():
            if name in options and name != "expected_schema" and name != "model":
                options = {**options, name: TypeAdapter(converted).validate_python(options[name])}
        made = kind(**{name: value for name, value in options.items() if name not in CASE_OPTIONS})
        if issubclass(kind, metrics.BaseConversationalMetric):
            texts = CASE["retrieval_context"]
            turns = [
                Turn(role="user", content=FIRST["input"]),
                Turn(role="assistant", content=FIRST["response"], tools_called=[], retrieval_context=texts),
                Turn(role="user", content=CASE["input"]),
                Turn(role="assistant", content=CASE["actual_output"], tools_called=tools, retrieval_context=texts),
            ]
            fields = {name: value for name, value in options.items() if name in CASE_OPTIONS}
            talk = ConversationalTestCase(turns=turns, expected_outcome=CASE["expected_output"], **fields)
            return float(await made.a_measure(talk, _show_indicator=False))
        case = LLMTestCase(**CASE, tools_called=tools)
        if getattr(made, "requires_trace", False):
            case._trace_dict = observed_trace()
        return float(await made.a_measure(case, _show_indicator=False))

    async def scores() -> list[float]:
        return [await score(**each) for each in json.load(sys.stdin)]

    print("\n" + json.dumps(asyncio.run(scores())))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
