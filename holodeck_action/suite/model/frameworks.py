"""Frameworks of agents, and how their agents look in Python. Imports nothing of weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Framework(NamedTuple):
    """A framework of agents.

    Attributes:
        agent: what a target names, for messages.
        packages: top-level packages that a file with such an agent imports from.
        functions: names in these packages whose calls return the agent.
        methods: methods of their objects whose calls return it.
        example: a module and a name in it.
        spans: packages that make its spans; none where they are not needed.
    """

    agent: str
    packages: frozenset[str]
    functions: frozenset[str]
    methods: frozenset[str] = frozenset()
    example: str = "my_agent:agent"
    spans: tuple[str, ...] = ()


FRAMEWORKS: Mapping[str, Framework] = {
    "langgraph": Framework(
        "a compiled graph of LangGraph",
        frozenset({"langgraph", "langchain", "langgraph_supervisor", "langgraph_swarm", "deepagents"}),
        frozenset({"create_agent", "create_react_agent", "create_deep_agent"}),
        frozenset({"compile"}),
        "my_agent:graph",
    ),
    "openai-agents": Framework("an Agent of the OpenAI Agents SDK", frozenset({"agents"}), frozenset({"Agent"})),
    "pydantic-ai": Framework("an Agent of pydantic-ai", frozenset({"pydantic_ai"}), frozenset({"Agent"})),
}
"""Frameworks whose agents can be named as they are, by the first word of a target."""
SPANNED: Mapping[str, Framework] = {
    "crewai": Framework(
        "a Crew of CrewAI",
        frozenset({"crewai"}),
        frozenset({"Crew"}),
        example="my_crew:crew",
        spans=("openinference-instrumentation-crewai", "openinference-instrumentation-openai", "opentelemetry-sdk"),
    ),
}
"""Frameworks whose agents a callable asks, which `init` writes; their spans tell what they did."""
