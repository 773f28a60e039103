"""Traces that frameworks record are judged: here pydantic-ai, with its own instrumentation and OpenTelemetry's SDK."""

from __future__ import annotations

import asyncio

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings

from tests.commands.project import Project
from tests.extensions.traces.test_trace_target import outcomes, recorded, suite


def _answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(f"It is in {last.content}.")])
    return ModelResponse(parts=[ToolCallPart("find_order", {"order": "A-17"})])


def test_traces_of_pydantic_ai(project: Project) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    agent = Agent(FunctionModel(_answer), instructions="Answer customers.")
    agent.instrument = InstrumentationSettings(tracer_provider=provider)

    @agent.tool_plain
    def find_order(order: str) -> str:
        return "Leeds" if order == "A-17" else "York"

    async def talk() -> None:
        first = await agent.run("Where is A-17?")
        await agent.run("And now?", message_history=first.all_messages())
        await agent.run("Where is the other one?")

    asyncio.run(talk())
    content = encode_spans(exporter.get_finished_spans()).SerializeToString()
    project.write("night/traces.pb", content)
    suite(project, {"type": "contains", "value": "Leeds"})

    done = project.run("run", "agent.yaml", "-o", "out", "--target", "traces:night")

    assert done.code == 0, done.stderr
    assert outcomes(project) == ["passed", "passed"]
    two, one = recorded(project).cases
    asked = [[turn.input for turn in case.trials[0].turns] for case in (two, one)]
    assert asked == [["Where is A-17?", "And now?"], ["Where is the other one?"]]
    for turn in (*two.trials[0].turns, *one.trials[0].turns):
        assert turn.response == "It is in Leeds."
        calls = [(call.name, call.args, call.result) for call in turn.tool_invocations or ()]
        assert calls == [("find_order", {"order": "A-17"}, "Leeds")]
        assert turn.usage is not None
        assert (turn.usage.prompt_tokens or 0) > 0
