"""`init --framework`: the suite of a repository whose agent is made with a framework."""

from __future__ import annotations

import io
import shutil
import textwrap

import pytest
import yaml

from holodeck_action.cli import main
from tests.commands.project import Project, run_here
from tests.extensions.frameworks.framework_examples import FOLDER, check_record, variables
from tests.llm.models import serve_models
from tests.targets.shop_model import shop_answer
from tests.workers.installing import uv

CREWAI = FOLDER / "crewai"
PYDANTIC_AI = """
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

agent = Agent(TestModel(custom_output_text="The parcel arrives on Thursday."))
"""
GRAPH = "from langgraph.graph import StateGraph\nbuilder = StateGraph(dict)\ngraph = builder.compile()\n"


def _policy(project: Project) -> dict[str, object]:
    loaded: dict[str, object] = yaml.safe_load((project.folder / "holodeck-action.yaml").read_text())
    return loaded


@pytest.mark.full
@pytest.mark.proves("init: --framework")
def test_the_agent_of_a_repository_passes_by_the_commands_that_init_prints(project: Project) -> None:
    project.write("shop/agents/answering.py", PYDANTIC_AI)
    written = project.run("init", "--framework", "pydantic-ai")
    assert written.code == 0
    assert "note: pydantic-ai:shop.agents.answering:agent answers, from shop/agents/answering.py:5\n" in written.stdout
    # What has no packages of its own runs under the Python of the tests, which has pydantic-ai.
    assert "note: found no requirements.txt, and no dependencies in pyproject.toml" in written.stdout
    assert not (project.folder / "my_agent.py").exists()
    validated = project.run("validate")
    assert (validated.code, "ground_truth" in validated.stderr) == (0, False), validated.stderr
    ran = project.run("run")
    assert (ran.code, " · 1 of 1 passed" in ran.stdout) == (0, True), ran.stdout + ran.stderr
    [job] = yaml.safe_load((project.folder / ".github/workflows/evaluate.yml").read_text())["jobs"].values()
    assert job["steps"][1]["env"] == {"OPENAI_API_KEY": "${{ secrets.OPENAI_API_KEY }}"}
    for wrong in ("", "I can find orders."):
        project.write("shop/agents/answering.py", PYDANTIC_AI.replace("The parcel arrives on Thursday.", wrong))
        assert project.run("run").code != 0


@pytest.mark.parametrize(
    ("framework", "code", "name"),
    [
        ("langgraph", f"import re\nWORDS = re.compile('langgraph')\n{GRAPH}", "graph"),
        ("langgraph", "import langgraph.graph as g\na: object = g.StateGraph(dict).compile().with_config({})\n", "a"),
        ("langgraph", "from langgraph.prebuilt import create_react_agent as make\nshop = make('m', [])\n", "shop"),
        ("langgraph", "import langchain.agents\nshop = langchain.agents.create_agent('m')\n", "shop"),
        ("openai-agents", "from agents import Agent, Runner\nshop = Agent[dict](name='shop')\n", "shop"),
        ("pydantic-ai", "import pydantic_ai as p\nshop = p.Agent('m')\n", "shop"),
        # Without an agent that a name holds, functions that return one without an argument.
        (
            "langgraph",
            "from langgraph.graph import StateGraph\ndef make():\n    return StateGraph(dict).compile()\n",
            "make",
        ),
        ("langgraph", f"def build(debug=False):\n{textwrap.indent(GRAPH, '    ')}    return graph\n", "build"),
        ("pydantic-ai", "import pydantic_ai as p\ndef make():\n    return p.Agent('m')\nshop = p.Agent('m')\n", "shop"),
        (
            "langgraph",
            f"def build(model):\n{textwrap.indent(GRAPH, '    ')}    return graph\n"
            "def make():\n    return build('m')\nshop = build('m')\n",
            "shop",
        ),
        # None of these is an agent that a target could name.
        ("langgraph", f"def build(model):\n{textwrap.indent(GRAPH, '    ')}    return graph\n", ""),
        ("langgraph", f"def build(*, model):\n{textwrap.indent(GRAPH, '    ')}    return builder\n", ""),
        ("langgraph", "# langgraph\nimport re\na = re.compile('x')\n", ""),
        ("langgraph", "from langgraph.graph import StateGraph\nimport re\na = re.compile('x')\n", ""),
        (
            "langgraph",
            "from langgraph.graph import StateGraph\ndef make():\n    graph = StateGraph(dict).compile()\n",
            "",
        ),
        ("langgraph", "from .langgraph import create_agent\na = create_agent()\n", ""),
        ("openai-agents", "from shop import Agent\nimport agents\na = Agent()\n", ""),
        ("pydantic-ai", "from pydantic_ai import Agent\nagent = Agent('m'\n", ""),
        ("pydantic-ai", "from pydantic_ai import Agent\nagent = Agent\n\0", ""),
    ],
)
def test_what_is_an_agent(project: Project, framework: str, code: str, name: str) -> None:
    project.write("main.py", code)
    said = project.run("init", "--framework", framework)
    assert (said.code, said.stderr) == (0, "")
    if name:
        assert _policy(project)["target"] == f"{framework}:main:{name}"
    else:
        assert "note: found no name that holds a" in said.stdout
        assert "write your agent's MODULE:NAME into the line `target:` in place of my_agent:" in said.stdout
        assert str(_policy(project)["target"]).startswith(f"{framework}:my_agent:")


@pytest.mark.full
def test_modules_below_src_find_each_other(project: Project) -> None:
    project.write("src/shop/words.py", 'WORDS = "The parcel arrives on Thursday."\n')
    project.write(
        "src/shop/main.py",
        f"from shop.words import WORDS\n{PYDANTIC_AI}".replace('"The parcel arrives on Thursday."', "WORDS"),
    )
    said = project.run("init", "--framework", "pydantic-ai").stdout
    assert "note: pydantic-ai:shop.main:agent answers, from src/shop/main.py:" in said
    assert project.run("run").code == 0


def test_tests_packages_and_what_cannot_be_imported_are_not_searched(project: Project) -> None:
    project.write("env/pyvenv.cfg", "")
    for folder in ("tests", "env/lib", "my-scripts", ".hidden", "node_modules/x", "shop"):
        project.write(f"{folder}/{'test_graph' if folder == 'shop' else 'graph'}.py", GRAPH)
    project.write("shop/deep/__init__.py", GRAPH)
    assert "langgraph:shop.deep:graph answers" in project.run("init", "--framework", "langgraph").stdout


def test_a_crew_gets_a_callable_that_asks_it(project: Project) -> None:
    crew = (CREWAI / "shop_agent.py").read_text(encoding="utf-8").partition("def answer(")[0]
    project.write("shop/crews.py", crew.replace("crew = Crew(", "clerks = Crew("))
    said = project.run("init", "--framework", "crewai").stdout
    assert "note: python:ask_crew:answer calls shop.crews:clerks, from shop/crews.py:" in said
    assert "the agent's packages must include openinference-instrumentation-crewai, " in said
    assert {"target": "python:ask_crew:answer", "spans": True}.items() <= _policy(project).items()
    assert "\nfrom shop.crews import clerks as crew\n" in (project.folder / "ask_crew.py").read_text()


@pytest.mark.frameworks
@pytest.mark.timeout(900)
def test_a_crew_passes_by_the_commands_that_init_prints(project: Project) -> None:
    shutil.copy(CREWAI / "requirements.txt", project.folder)
    project.write("crews.py", (CREWAI / "shop_agent.py").read_text(encoding="utf-8").partition("def answer(")[0])
    assert project.run("init", "--framework", "crewai").code == 0
    with serve_models(answer=shop_answer) as models:
        given = {**variables(models), "PATH": f"{uv().parent}:{project.environ()['PATH']}"}
        project.write("agent.yaml", (CREWAI / "agent.yaml").read_bytes())
        # The packages of CrewAI take long.
        ran = run_here(project.folder, ("run", "-o", "out", "--concurrency", "1"), project.environ(**given))
    assert ran.code == 0, ran.stdout + ran.stderr
    check_record(project.out / "results.json")


class Terminal(io.StringIO):
    """What a person types."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "code", "target"),
    [("9\n2\n", 0, "langgraph:b.c:graph"), ("\n", 0, "langgraph:a:graph"), ("x\n0\n²\n1\n", 2, None)],
)
def test_of_several_agents_a_person_chooses_one(project: Project, typed: str, code: int, target: str | None) -> None:
    for file in ("b/c.py", "a.py"):
        project.write(file, GRAPH)
    stdout, stderr = io.StringIO(), io.StringIO()
    arguments = ["init", "--framework", "langgraph"]
    assert main(arguments, project.environ(), project.folder, Terminal(typed), stdout, stderr) == code
    assert (
        "   1  langgraph:a:graph: a compiled graph of LangGraph, a.py:3\n   2  langgraph:b.c:graph: "
        in stderr.getvalue()
    )
    if target is None:
        assert stderr.getvalue().endswith("error: no agent was named in 3 answers; nothing was written\n")
        assert not (project.folder / "holodeck-action.yaml").exists()
        # Where nobody can be asked, the first is taken, and the others are named.
        said = project.run(*arguments)
        assert "note: also found: langgraph:b.c:graph; to use one of them, change the line `target:`\n" in said.stdout
        target = "langgraph:a:graph"
    assert _policy(project)["target"] == target


@pytest.mark.parametrize(
    ("files", "environment"),
    [
        ({"requirements.txt": "langgraph\n"}, {"requirements": "requirements.txt"}),
        ({"requirements.txt": "x\n", "pyproject.toml": "", "uv.lock": ""}, {"project": "pyproject.toml"}),
        ({"requirements.txt": "x\n", "pyproject.toml": "[project]"}, {"requirements": "requirements.txt"}),
        ({"pyproject.toml": '[project]\ndependencies = ["langgraph"]\n'}, {"project": "pyproject.toml"}),
        ({"pyproject.toml": "[tool.ruff]\n"}, None),
        ({"pyproject.toml": "[project\n"}, None),
    ],
)
def test_the_packages_are_those_that_the_repository_names(
    project: Project, files: dict[str, str], environment: dict[str, str] | None
) -> None:
    for name, content in files.items():
        project.write(name, content)
    said = project.run("init", "--framework", "langgraph").stdout
    assert _policy(project).get("environment") == environment
    assert ("name the agent's packages in the line `environment:`" in said) is (environment is None)


def test_a_suite_that_is_there_gets_the_agent_of_the_framework(project: Project) -> None:
    project.numbered(1)
    (project.folder / "holodeck-action.yaml").unlink()
    project.write("main.py", GRAPH)
    assert "kept agent.yaml\n" in project.run("init", "--framework", "langgraph").stdout
    assert _policy(project)["target"] == "langgraph:main:graph"
    project.policy(target="recorded:answers.jsonl")
    said = project.run("init", "--framework", "langgraph").stdout
    assert "note: holodeck-action.yaml already existed; check that it names this target\n" in said
    assert _policy(project)["target"] == "recorded:answers.jsonl"
