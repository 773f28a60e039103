"""Talks with the agent of an example, and writes the spans of its framework to a file.

    python talk.py FRAMEWORK FILE

It runs in the framework's environment and the example's folder, for scripts/record_traces.py. Standard input has the
questions by session, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence

from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

Ask = Callable[[str, str], object]
"""Asks a question in a session."""


def langgraph(provider: TracerProvider) -> Ask:
    """LangGraph, with the instrumentation of OpenInference. Its thread is the session."""
    from openinference.instrumentation.langchain import LangChainInstrumentor
    from shop_agent import graph

    LangChainInstrumentor().instrument(tracer_provider=provider)
    loop = asyncio.new_event_loop()

    def ask(session: str, question: str) -> object:
        config = {"configurable": {"thread_id": session}}
        return loop.run_until_complete(graph.ainvoke({"messages": [("user", question)]}, config))

    return ask


def openai_agents(provider: TracerProvider) -> Ask:
    """OpenAI Agents, with the instrumentation of OpenInference."""
    from agents import Runner, set_tracing_disabled
    from openinference.instrumentation import using_session
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
    from shop_agent import agent

    set_tracing_disabled(False)
    # It takes the place of the exporter to OpenAI.
    OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
    said: dict[str, list] = {}

    def ask(session: str, question: str) -> None:
        with using_session(session):
            given = [*said.get(session, ()), {"role": "user", "content": question}]
            said[session] = Runner.run_sync(agent, given).to_input_list()

    return ask


def pydantic_ai(provider: TracerProvider) -> Ask:
    """Pydantic AI, with its own instrumentation and sessions."""
    from pydantic_ai.models.instrumented import InstrumentationSettings
    from shop_agent import agent

    agent.instrument = InstrumentationSettings(tracer_provider=provider)
    said: dict[str, list] = {}

    def ask(session: str, question: str) -> None:
        ran = agent.run_sync(question, message_history=said.get(session), conversation_id=session)
        said[session] = ran.all_messages()

    return ask


def crewai(provider: TracerProvider) -> Ask:
    """CrewAI, with the instrumentations of OpenInference for it and for the client of its models."""
    from openinference.instrumentation import using_session
    from openinference.instrumentation.crewai import CrewAIInstrumentor
    from openinference.instrumentation.openai import OpenAIInstrumentor
    from shop_agent import answer

    CrewAIInstrumentor().instrument(tracer_provider=provider)
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    said: dict[str, list] = {}

    def ask(session: str, question: str) -> None:
        messages = said.setdefault(session, [])
        messages.append({"role": "user", "content": question})
        with using_session(session):
            messages.append({"role": "assistant", "content": answer(messages)})

    return ask


def main(framework: str, file: str, conversations: Mapping[str, Sequence[str]]) -> None:
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    provider.add_span_processor(BatchSpanProcessor(FileSpanExporter(file)))
    ask = {each.__name__: each for each in (langgraph, openai_agents, pydantic_ai, crewai)}[framework](provider)
    for session, questions in conversations.items():
        for question in questions:
            try:
                ask(session, question)
            except Exception as error:
                print(f"{session}: {error}", file=sys.stderr)
    provider.shutdown()


if __name__ == "__main__":
    # Telemetry of CrewAI's own is disabled before its instrumentation imports it.
    sys.path.insert(0, "")
    main(sys.argv[1], sys.argv[2], json.load(sys.stdin))
