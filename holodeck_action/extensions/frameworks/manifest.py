"""The manifest of the extension `frameworks`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Framework, Observer

_ADAPTERS = "holodeck_action.extensions.frameworks.adapters"

EXTENSION = Extension(
    name="frameworks",
    help="Agents of frameworks, and the spans that agents send.",
    frameworks=(
        Framework(
            name="langgraph",
            agent="a compiled graph of LangGraph",
            packages=frozenset({"langgraph", "langchain", "langgraph_supervisor", "langgraph_swarm", "deepagents"}),
            functions=frozenset({"create_agent", "create_react_agent", "create_deep_agent"}),
            methods=frozenset({"compile"}),
            example="my_agent:graph",
            adapter=f"{_ADAPTERS}.langgraph",
            requires=(("langgraph", "langgraph", ""), ("langchain-core", "langchain_core", "0.3.49")),
        ),
        Framework(
            name="openai-agents",
            agent="an Agent of the OpenAI Agents SDK",
            packages=frozenset({"agents"}),
            functions=frozenset({"Agent"}),
            adapter=f"{_ADAPTERS}.openai_agents",
            requires=(("openai-agents", "agents", "0.0.17"),),
        ),
        Framework(
            name="pydantic-ai",
            agent="an Agent of pydantic-ai",
            packages=frozenset({"pydantic_ai"}),
            functions=frozenset({"Agent"}),
            adapter=f"{_ADAPTERS}.pydantic_ai",
            requires=(("pydantic-ai-slim", "pydantic_ai", "1.0"),),
        ),
        Framework(
            name="crewai",
            agent="a Crew of CrewAI",
            packages=frozenset({"crewai"}),
            functions=frozenset({"Crew"}),
            example="my_crew:crew",
            spans=(
                "openinference-instrumentation-crewai",
                "openinference-instrumentation-openai",
                "opentelemetry-sdk",
            ),
        ),
    ),
    observer=Observer(
        reader="holodeck_action.extensions.frameworks.spans.reader:SpanReader",
        listener="holodeck_action.extensions.frameworks.spans.listening:Listener",
        receiver="holodeck_action.extensions.frameworks.spans.receiver:Receiver",
        recorder="holodeck_action.extensions.frameworks.instrumentation:Recorder",
    ),
)
