"""Agents of frameworks named as they are: the real frameworks, asked over the fake model server."""

from __future__ import annotations

import pytest

from tests.action import composite
from tests.action.test_composite import TOKEN, environ, with_program
from tests.commands.project import Project
from tests.extensions.frameworks.framework_examples import (
    EXAMPLES,
    INSTALLING,
    check_record,
    copied,
    variables,
    without_index,
)
from tests.llm.models import FakeModels
from tests.metrics.judging.test_scope_conversation import answering, judged_by
from tests.metrics.judging.test_sees_conversation import QUALITY
from tests.targets.shop_model import shop_answer
from tests.workers.installing import NO_INDEX, bare_python, uv, wheel, with_uv

pytestmark = pytest.mark.models(answer=shop_answer)
ENVIRONMENT = "environment: { requirements: requirements.txt }\n"
MEMORY = "InMemorySaver()"
SQLITE = "langgraph-checkpoint-sqlite==3.1.2\n"


def _changed(project: Project, file: str, before: str, after: str) -> None:
    text = (project.folder / file).read_text(encoding="utf-8")
    assert before in text
    project.write(file, text.replace(before, after))


def _run(project: Project, models: FakeModels, **environ: str) -> None:
    """Run an example, in which one process has all conversations."""
    path = f"{uv().parent}:{project.environ()['PATH']}"
    ran = project.run("run", "-o", "out", "--concurrency", "1", PATH=path, **variables(models), **environ)
    assert ran.code == 0, ran.stderr + ran.stdout
    check_record(project.out / "results.json")


@pytest.mark.full
@pytest.mark.proves("PythonTarget: framework")
def test_an_agent_of_pydantic_ai(project: Project, models: FakeModels) -> None:
    """The one that the program itself uses."""
    example = Project(copied("pydantic_ai", project.folder / "example"))
    _changed(example, "holodeck-action.yaml", ENVIRONMENT, "")
    _run(example, models)


@pytest.mark.full
def test_a_function_that_makes_an_agent_of_pydantic_ai(project: Project, models: FakeModels) -> None:
    example = Project(copied("pydantic_ai", project.folder / "example"))
    _changed(example, "holodeck-action.yaml", ENVIRONMENT, "")
    _changed(example, "holodeck-action.yaml", "shop_agent:agent", "shop_agent:build")
    _changed(example, "shop_agent.py", "agent = Agent(", "made = Agent(")
    _changed(example, "shop_agent.py", "@agent.tool_plain", "@made.tool_plain")
    with (example.folder / "shop_agent.py").open("a", encoding="utf-8") as file:
        file.write("\n\nasync def build(of: str = 'shop', **more: int):\n    return made\n")
    _run(example, models)


def _graph_of_a_stand_in(project: Project, factory: str) -> None:
    """A suite whose agent is a graph that stand-ins of LangGraph's packages make."""
    project.write("langgraph.py", "")
    project.write("langchain_core/__init__.py", "")
    project.write("langchain_core/callbacks.py", "class UsageMetadataCallbackHandler:\n    usage_metadata = None\n")
    project.write("langchain_core/messages.py", "def convert_to_openai_messages(messages):\n    return []\n")
    project.write(
        "shop.py",
        "from types import SimpleNamespace as Message\n"
        "class Graph:\n"
        "    def get_graph(self): ...\n"
        "    def __init__(self, words): self.words = words\n"
        "    async def ainvoke(self, sent, config):\n"
        "        return {'messages': [Message(type='human'), Message(type='ai', text=self.words)]}\n" + factory,
    )
    project.suite([{"name": "a", "input": "?", "ground_truth": "made"}])
    project.policy(target="langgraph:shop:build")


@pytest.mark.models(answer=answering)
def test_the_judge_of_a_conversation_sees_all_answers_of_a_graph(project: Project, models: FakeModels) -> None:
    _graph_of_a_stand_in(project, "def build(): return Graph('made')\n")
    talk = {"name": "talk", "turns": [{"input": "One?"}, {"input": "Two?"}]}
    project.suite([talk], evaluations=judged_by(models, QUALITY))
    finished, record = project.evaluate()
    assert finished.code == 0, finished.stderr
    (trial,) = record.cases[0].trials
    assert ([len(turn.evaluations) for turn in trial.turns], len(trial.evaluations)) == ([0, 0], 1)
    (request,) = models.requests
    assert [request.text.count(text) for text in ('"One?"', '"Two?"', '"content": "made"')] == [2, 2, 2]


@pytest.mark.parametrize(
    "factory",
    [
        "def build(): return Graph('made')\n",
        "async def build(config): return Graph('made' if config == {'configurable': {}} else config)\n",
        "def build(*, setup: 'RunnableConfig', more=1): return Graph('made' if not setup['configurable'] else 'x')\n",
        "import functools\nbuild = functools.partial(Graph, 'made')\n",
    ],
)
def test_a_function_that_makes_a_graph(project: Project, factory: str) -> None:
    _graph_of_a_stand_in(project, factory)
    finished, record = project.evaluate()
    assert finished.code == 0, finished.stderr
    assert [turn.response for case in record.cases for turn in case.turns] == ["made"]


@pytest.mark.parametrize(
    ("factory", "says"),
    [
        ("def build(): raise KeyError('x')\n", "build in the module shop raised KeyError: 'x' (shop.py:7)"),
        ("async def build(): raise SystemExit(3)\n", "it called sys.exit(3)"),
        (
            "def build(): return 7\n",
            "the result of build in the module shop is of type int, not a compiled graph of LangGraph",
        ),
        (
            "def build(runtime): return Graph('made')\n",
            "build in the module shop needs runtime, but a function that creates an agent is called without arguments, "
            "except for a single RunnableConfig; give these parameters defaults, or name a function without parameters",
        ),
        (
            "def build(config, runtime): return Graph('made')\n",
            "build in the module shop needs config and runtime, but",
        ),
        ("build = Graph\n", "build in the module shop is of type type, not a compiled graph of LangGraph"),
    ],
)
def test_a_function_that_makes_no_graph_is_refused_before_the_run(project: Project, factory: str, says: str) -> None:
    _graph_of_a_stand_in(project, factory)
    for command in ("run", "validate"):
        found = project.run(command)
        assert found.code == 2
        assert says in found.stderr


@pytest.mark.frameworks
@pytest.mark.timeout(900)
def test_a_function_that_makes_a_graph_of_langgraph(project: Project, models: FakeModels) -> None:
    example = Project(copied("langgraph", project.folder / "example"))
    made = "graph = builder.compile(checkpointer=InMemorySaver())"
    head = "from langchain_core.runnables import RunnableConfig\n\n\nasync def build(config: RunnableConfig):"
    _changed(example, "shop_agent.py", made, f"{head}\n    return {made.removeprefix('graph = ')}")
    _changed(example, "holodeck-action.yaml", "shop_agent:graph", "shop_agent:build")
    _run(example, models)


@pytest.mark.frameworks
@pytest.mark.timeout(900)
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_in_the_action_without_a_container(project: Project, models: FakeModels, example: str) -> None:
    workspace = copied(example, project.folder / "workspace")
    path = with_program(project, bare_python(project.folder / "job"))
    job = {**environ(project, path), "UV_OFFLINE": "0", **variables(models)}
    for installs in (True, False):
        given = job if installs else without_index(job)
        ended = composite.run(workspace, {"output-dir": "out"}, given, TOKEN, timeout_s=600)
        assert (ended.code, ended.outputs["verdict"], ended.outputs["passed"]) == (0, "passed", "3"), ended.log
        assert (INSTALLING in ended.log) == installs
        assert float(ended.outputs["cost-usd"]) > 0
        check_record(workspace / "out" / "results.json")


@pytest.mark.frameworks
@pytest.mark.timeout(900)
def test_a_graph_without_a_checkpointer(project: Project, models: FakeModels) -> None:
    example = Project(copied("langgraph", project.folder / "example"))
    _changed(example, "shop_agent.py", f"checkpointer={MEMORY}", "")
    _run(example, models)


@pytest.mark.frameworks
@pytest.mark.timeout(900)
def test_a_graph_whose_checkpointer_does_not_wait(project: Project, models: FakeModels) -> None:
    """LangGraph's own for SQLite refuses asynchronous calls."""
    example = Project(copied("langgraph", project.folder / "example"))
    example.write("requirements.txt", example.folder.joinpath("requirements.txt").read_text() + SQLITE)
    opened = "SqliteSaver(__import__('sqlite3').connect('states.db', check_same_thread=False))"
    for before, after in (
        ("langgraph.checkpoint.memory import InMemorySaver", "langgraph.checkpoint.sqlite import SqliteSaver"),
        (MEMORY, opened),
        ("async def answer", "def answer"),
        ("await model.ainvoke", "model.invoke"),
    ):
        _changed(example, "shop_agent.py", before, after)
    _run(example, models)
    assert (example.folder / "states.db").stat().st_size > 0


@pytest.mark.full
@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("pydantic-ai:shop:number", "number in the module shop is of type int, not an Agent of pydantic-ai"),
        ("pydantic-ai:shop:agnet", "the module shop has no agnet"),
        (
            "langgraph:shop:number",
            "agents of langgraph need langgraph in the environment of the suite, but it is not",
        ),
        (
            "openai-agents:shop:number",
            "agents of openai-agents need openai-agents 0.0.17 or newer in the",
        ),
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


@pytest.mark.parametrize(
    ("target", "installed", "says"),
    [
        ("pydantic-ai", (), "need pydantic-ai-slim 1.0 or newer in the environment of the suite, but "),
        ("pydantic-ai", (("pydantic_ai_slim", "0.8.1", "pydantic_ai"),), "pydantic-ai-slim 1.0 or newer"),
        (
            "openai-agents",
            (("openai_agents", "0.0.9", "agents"),),
            "but version 0.0.9 is installed there; add the",
        ),
        (
            "langgraph",
            (("langgraph", "0.2.1", "langgraph"), ("langchain_core", "0.3.9", "langchain_core")),
            "langchain-core 0.3.49 or newer in the environment of the suite, but version 0.3.9 ",
        ),
    ],
)
def test_a_framework_that_is_missing_or_too_old_in_the_environment(
    project: Project, target: str, installed: tuple[tuple[str, str, str], ...], says: str
) -> None:
    """It is told before the module of the suite stumbles over it."""
    for name, version, module in installed:
        wheel(project.folder / "wheels", name, version, "", module=module)
    project.write("requirements.txt", NO_INDEX + "".join(f"{name}\n" for name, _, _ in installed))
    (project.folder / "wheels").mkdir(exist_ok=True)
    project.write("shop.py", "from agents import Agent\n")
    project.suite([{"name": "a", "input": "?", "ground_truth": "x"}])
    project.policy(target=f"{target}:shop:number", environment={"requirements": "requirements.txt"})
    found = project.run("run", **with_uv(project.folder))
    assert found.code == 2
    assert says in found.stderr
