"""Agents of frameworks named as they are: the real frameworks, asked over the fake model server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holodeck_action.results.record import TurnRecord
from holodeck_action.results.result_files import read_record
from tests.cli.project import Project
from tests.llm.models import Answer, FakeModels, Request, ToolCall
from tests.usercode.installing import bare_python, with_uv

KEY = "sk-of-the-framework"
PYDANTIC_AI = """
import os
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(os.environ["MODELS"], os.environ["OPENAI_API_KEY"])
agent = Agent(OpenAIChatModel("gpt-4o-mini", provider=provider))

@agent.tool_plain
def find_order(id: str) -> dict:
    return {"place": "Leeds"}
"""
OPENAI_AGENTS = """
import os
from agents import Agent, OpenAIChatCompletionsModel, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)

@function_tool
def find_order(id: str) -> dict:
    return {"place": "Leeds"}

client = AsyncOpenAI(base_url=os.environ["MODELS"])
agent = Agent(name="shop", model=OpenAIChatCompletionsModel("gpt-4o-mini", client), tools=[find_order])
"""
LANGGRAPH = """
import os
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

@tool
def find_order(id: str) -> dict:
    "Find an order."
    return {"place": "Leeds"}

model = ChatOpenAI(model="gpt-4o-mini", base_url=os.environ["MODELS"]).bind_tools([find_order])

def think(state):
    return {"messages": [model.invoke(state["messages"])]}

graph = StateGraph(MessagesState)
graph.add_node("think", think)
graph.add_node("tools", ToolNode([find_order]))
graph.add_edge(START, "think")
graph.add_conditional_edges("think", tools_condition)
graph.add_edge("tools", "think")
agent = graph.compile(checkpointer=InMemorySaver())
without = graph.compile()
"""
QUESTIONS = ("Where is A-17?", "What did I ask?")


@pytest.fixture
def models() -> Iterator[FakeModels]:
    with FakeModels(keys=[KEY]) as models:
        models.answer(_answer)
        yield models
        assert models.violations == []


def _answer(request: Request) -> Answer:
    """Call the tool in the first turn; in the second tell what is known of the first."""
    asked = [message.text for message in request.messages if message.role == "user"]
    called = [message for message in request.messages if message.role == "tool"]
    if not called:
        return Answer(tools=(ToolCall("find_order", {"id": "A-17"}),), prompt_tokens=10, completion_tokens=5)
    if len(asked) == 1:
        return Answer("In Leeds", prompt_tokens=20, completion_tokens=5, cached_tokens=4)
    return Answer(f"You asked: {asked[0]} {called[0].text}", prompt_tokens=40, completion_tokens=7)


def _turns(project: Project, models: FakeModels, target: str, **policy: object) -> tuple[TurnRecord, ...]:
    """Run a conversation of two turns, twice at the same time."""
    turns = [{"input": QUESTIONS[0], "ground_truth": "In Leeds"}, {"input": QUESTIONS[1], "ground_truth": "x"}]
    project.suite([{"name": name, "turns": turns} for name in ("a", "b")])
    project.policy(target=target, **policy)
    path = with_uv(project.folder)["PATH"]
    ran = project.run("run", "-o", "out", PATH=path, MODELS=models.openai_url, OPENAI_API_KEY=KEY)
    assert ran.code == 1, ran.stderr + ran.stdout
    cases = read_record(project.out / "results.json").cases
    return tuple(turn for case in cases for turn in case.trials[0].turns)


def _check(turns: tuple[TurnRecord, ...], model: str) -> None:
    for first, second in (turns[:2], turns[2:]):
        assert first.error is None, first.error
        assert second.error is None, second.error
        assert first.response == "In Leeds"
        (call,) = first.tool_invocations or ()
        assert (call.name, call.args, call.error) == ("find_order", {"id": "A-17"}, None)
        assert "Leeds" in str(call.result)
        assert first.usage is not None
        assert first.usage.cost_usd is not None
        assert (first.usage.prompt_tokens, first.usage.completion_tokens, first.usage.cached_tokens) == (30, 10, 4)
        assert str(second.response).startswith(f"You asked: {QUESTIONS[0]} ")
        assert "Leeds" in str(second.response)
        assert second.tool_invocations == ()
        assert second.usage is not None
        assert (second.usage.prompt_tokens, second.usage.completion_tokens) == (40, 7)
        assert (first.model, second.model) == (model, model)


@pytest.mark.slow
@pytest.mark.proves("PythonTarget: framework")
def test_an_agent_of_pydantic_ai(project: Project, models: FakeModels) -> None:
    project.write("shop.py", PYDANTIC_AI)
    _check(_turns(project, models, "pydantic-ai:shop:agent"), "openai/gpt-4o-mini")


@pytest.mark.frameworks
@pytest.mark.parametrize(
    ("target", "code", "packages", "model"),
    [
        ("langgraph:shop:agent", LANGGRAPH, ("langgraph>=1", "langchain-openai"), "gpt-4o-mini"),
        ("langgraph:shop:without", LANGGRAPH, ("langgraph>=1", "langchain-openai"), "gpt-4o-mini"),
        ("openai-agents:shop:agent", OPENAI_AGENTS, ("openai-agents",), "gpt-4o-mini"),
        ("pydantic-ai:shop:agent", PYDANTIC_AI, ("pydantic-ai-slim[openai]",), "openai/gpt-4o-mini"),
    ],
)
def test_an_agent_of_an_installed_framework(
    project: Project, models: FakeModels, target: str, code: str, packages: tuple[str, ...], model: str
) -> None:
    project.write("shop.py", code)
    project.write("requirements.txt", "\n".join(packages))
    _check(_turns(project, models, target, environment={"requirements": "requirements.txt"}), model)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("pydantic-ai:shop:number", "number in the module shop is of type int, not an Agent of pydantic-ai"),
        ("pydantic-ai:shop:agnet", "the module shop has no agnet"),
        ("langgraph:shop:number", "number in the module shop: langgraph is missing or too old in the environment"),
        ("openai-agents:shop:number", "number in the module shop: openai-agents is missing or too old in the env"),
        ("crewai:shop:number", "langgraph|openai-agents|pydantic-ai:MODULE:AGENT"),
        ("langgraph:shop", "must be langgraph:MODULE:CALLABLE"),
    ],
)
def test_what_is_no_agent_is_refused_before_the_run(project: Project, target: str, says: str) -> None:
    project.write("shop.py", "number = 7\n")
    project.suite([{"name": "a", "input": "?", "ground_truth": "x"}])
    project.policy(target=target)
    for command in ("run", "validate"):
        found = project.run(command)
        assert found.code == 2
        assert says in found.stderr


def test_a_framework_that_is_missing_in_the_environment(project: Project, tmp_path: Path) -> None:
    bare_python(tmp_path / "env")
    project.write("shop.py", "number = 7\n")
    project.suite([{"name": "a", "input": "?", "ground_truth": "x"}])
    project.policy(target="pydantic-ai:shop:number", environment={"interpreter": str(tmp_path / "env/bin/python")})
    found = project.run("run")
    assert found.code == 2
    assert "pydantic-ai is missing or too old in the environment of the suite" in found.stderr
