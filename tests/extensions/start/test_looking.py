"""`init` finds what a repository has to evaluate, proposes it, and writes a suite that compares something."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from holodeck_action.extensions.start.choices import CHECKS
from tests.commands.project import Project
from tests.extensions.start.test_init import Terminal, asked
from tests.tables import walk
from tests.targets.service import Service

REPEATS = 'def answer(messages):\n    return messages[-1]["content"].rpartition(": ")[2]\n'
ASKS = 'def ask(question, *, tone="kind"):\n    return question.rpartition(": ")[2]\n'
API = """
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()

class Question(BaseModel):
    session: str = ""
    question: str

@app.get("/health")
async def health():
    return {"ok": True}

@app.post("/chat")
async def chat(body: Question):
    return {"answer": body.question, "tokens": 3}
"""
PROMPTFOO = {
    "prompts": ["Say {{word}}"],
    "providers": ["echo"],
    "tests": [{"vars": {"word": "hello"}, "assert": [{"type": "contains", "value": "hello"}]}],
}
TWO_PROVIDERS = PROMPTFOO | {"providers": ["echo", {"id": "echo", "label": "second"}]}
DEEPEVAL = """
from deepeval import assert_test
from deepeval.metrics import ExactMatchMetric
from deepeval.test_case import LLMTestCase

def test_greeting():
    case = LLMTestCase(input="Hi", actual_output="Hello", expected_output="Hello")
    assert_test(case, [ExactMatchMetric()])
"""
REPOSITORIES: Mapping[str, tuple[Mapping[str, str], str]] = {
    "a function that takes messages": ({"shop/support.py": REPEATS}, "python:shop.support:answer answers, from"),
    "a function that takes a question": (
        {"src/shop/support.py": ASKS},
        "python:ask_agent:answer calls shop.support:ask",
    ),
    "a coroutine function": ({"support.py": f"async {ASKS}"}, "python:ask_agent:answer calls support:ask, from"),
    "promptfoo": ({"evaluation/promptfooconfig.yaml": json.dumps(PROMPTFOO)}, "a suite of promptfoo"),
    "promptfoo with two providers": ({"promptfooconfig.yaml": json.dumps(TWO_PROVIDERS)}, "a suite of promptfoo"),
    "deepeval": ({"tests/test_support.py": DEEPEVAL}, "tests/test_support.py is imported, a suite of deepeval"),
    "nothing": ({"README.md": "# Shop\n"}, ""),
}
"""Files of repositories whose suites run at once, without a key, and what `init` says of them."""


@pytest.mark.full
@walk(("files", "said"), REPOSITORIES.values())
def test_the_suite_of_what_is_found_runs_at_once_and_compares_something(
    tmp_path: Path, files: Mapping[str, str], said: str
) -> None:
    project = Project(tmp_path)
    for name, content in files.items():
        project.write(name, content)
    written = project.run("init")
    assert (written.code, written.stderr) == (0, "")
    assert said in written.stdout
    assert "also found" not in written.stdout
    assert (project.folder / "my_agent.py").exists() is (not said)
    suites = sorted(file.relative_to(project.folder).as_posix() for file in project.folder.rglob("agent.yaml"))
    [job] = yaml.safe_load((project.folder / ".github/workflows/evaluate.yml").read_text())["jobs"].values()
    assert job["steps"][1]["with"]["suite"].splitlines() == suites
    commands = [shlex.split(command) for command in written.stdout.partition("next:\n")[2].splitlines()]
    assert [command[:2] for command in commands] == [["holodeck-action", "validate"], ["holodeck-action", "run"]]
    for command in commands:
        ran = project.run(*command[1:])
        assert ran.code == 0, ran.stdout + ran.stderr
    assert [suite for suite in suites if f" ({suite}), target " in ran.stdout] == suites
    assert ran.stdout.count("  1       0\n") + ran.stdout.count("  2       0\n") >= len(suites)


@pytest.mark.full
def test_a_pipeline_at_the_root_names_each_imported_suite(project: Project) -> None:
    (project.folder / ".git").mkdir()
    project.write("my shop/promptfooconfig.yaml", json.dumps(TWO_PROVIDERS))
    assert project.run("init", "my shop", "--ci", "gitlab").code == 0
    job = yaml.safe_load((project.folder / ".gitlab-ci.yml").read_text())["evaluate"]
    for command in job["script"]:
        ran = project.run(*shlex.split(command)[1:])
        assert ran.code == 0, ran.stdout + ran.stderr
    for report in job["artifacts"]["reports"].values():
        assert len([*project.folder.glob(report)]) == 2
    assert "note: .gitlab-ci.yml already existed" in project.run("init", "other", "--ci", "gitlab").stdout


@pytest.mark.full
def test_evaluations_of_a_skill_are_imported_before_its_text_is_proposed(project: Project) -> None:
    project.write(".claude/skills/refunds/SKILL.md", "Refund.\n")
    evals = {"evals": [{"id": 1, "prompt": "Refund order 7.", "should_trigger": True}]}
    project.write(".claude/skills/refunds/evals/evals.json", json.dumps(evals))
    written = project.run("init")
    assert (written.code, ".claude/skills/refunds/evals/evals.json is imported" in written.stdout) == (0, True)
    policy = yaml.safe_load((project.folder / "holodeck-action.yaml").read_text())
    assert policy["target"] == {"agent": "claude", "workspace": "."}


@pytest.mark.full
def test_import_names_the_command_that_puts_each_suite_into_the_workflow(project: Project) -> None:
    (project.folder / ".git").mkdir()
    project.write("promptfooconfig.yaml", json.dumps(TWO_PROVIDERS))
    printed = project.run("import", "promptfoo", "promptfooconfig.yaml", "-o", "new").stdout
    commands = printed.split("for a workflow on pull requests: holodeck-action ")[1:]
    first, second = (project.run(*shlex.split(command)).stdout for command in commands)
    assert "wrote .github/workflows/evaluate.yml\n" in first
    assert (
        "suite: |\n            new/echo/agent.yaml\n" in (project.folder / ".github/workflows/evaluate.yml").read_text()
    )
    assert "already existed; add new/second/agent.yaml to the lines of `suite:` in it\n" in second


@pytest.mark.proves("init: --check --yes")
@walk("check", ["contains", "f1_score"])
def test_every_check_without_a_model_can_fail(tmp_path: Path, check: str) -> None:
    project = Project(tmp_path)
    project.write("support.py", REPEATS)
    assert project.run("init", "--yes", "--check", check).code == 0
    assert "#?" not in (project.folder / "agent.yaml").read_text()
    assert project.run("run").code == 0
    project.write("support.py", "def answer(messages):\n    return 'I can find orders.'\n")
    failed = project.run("run")
    assert (failed.code, check in failed.stdout) == (1, True), failed.stdout


def test_a_judge_is_a_check_that_needs_a_key(project: Project) -> None:
    assert project.run("init", "--check", "judge").code == 0
    assert next(iter(CHECKS)) == "contains"
    [job] = yaml.safe_load((project.folder / ".github/workflows/evaluate.yml").read_text())["jobs"].values()
    assert "OPENAI_API_KEY" in job["steps"][1]["env"]
    keyless = project.run("run")
    assert (keyless.code, "OPENAI_API_KEY" in keyless.stderr) == (2, True)


def test_a_service_gets_the_shape_of_its_route(project: Project, service: Service) -> None:
    project.write("api/main.py", API)
    said = project.run("init").stdout
    assert "note: http://127.0.0.1:8000/chat answers, from api/main.py:" in said
    assert "for example by: uvicorn api.main:app; " in said
    policy: dict[str, Any] = yaml.safe_load((project.folder / "holodeck-action.yaml").read_text())
    assert policy["target"] == {
        "type": "http",
        "url": "http://127.0.0.1:8000/chat",
        "request": {"question": "{{ turn.input }}"},
        "response": {"text": "$.answer"},
    }
    service.respond = lambda handler, _: handler.answer({"answer": "The parcel arrives on Thursday."})
    address = (project.folder / "holodeck-action.yaml").read_text().replace("http://127.0.0.1:8000/chat", service.url)
    project.write("holodeck-action.yaml", address)
    assert project.run("run").code == 0
    assert "Repeat this sentence" in service.received[0].body["question"]


@walk(
    ("file", "about"),
    [
        (".claude/skills/returns/SKILL.md", "a skill"),
        ("plugins/shop/skills/returns/SKILL.md", "a skill of the plugin in plugins/shop/"),
        ("prompts/support.md", "a prompt"),
    ],
)
def test_skills_and_prompts_are_instructions_of_a_model(tmp_path: Path, file: str, about: str) -> None:
    project = Project(tmp_path)
    project.write("plugins/shop/.claude-plugin/plugin.json", '{"name": "shop"}')
    project.write(file, "Answer customers.\n")
    assert f"by the instructions in {file}, {about}\n" in project.run("init").stdout
    suite = yaml.safe_load((project.folder / "agent.yaml").read_text())
    assert suite["instructions"] == {"file": file}
    assert "target" not in yaml.safe_load((project.folder / "holodeck-action.yaml").read_text())
    assert project.run("validate", OPENAI_API_KEY="sk-none").code == 0


@pytest.mark.needs("frameworks")
@pytest.mark.parametrize(
    ("typed", "environ", "options", "target", "ci"),
    [
        ("2\n2\n2\n", {}, (), "python:ask_agent:answer", "gitlab"),
        ("\n\n\n", {}, (), "pydantic-ai:a:agent", "github"),
        ("3\n", {}, (), "python:my_agent:answer", "github"),
        ("2\n2\n2\n", {"CI": "true"}, (), "pydantic-ai:a:agent", "github"),
        ("2\n2\n2\n", {}, ("--yes",), "pydantic-ai:a:agent", "github"),
    ],
)
def test_a_person_chooses_agent_check_and_ci(
    project: Project, typed: str, environ: dict[str, str], options: tuple[str, ...], target: str, ci: str
) -> None:
    project.write("a.py", "from pydantic_ai import Agent\nagent = Agent('m')\n")
    project.write("shop/support.py", ASKS)
    code, stdout, stderr = asked(project, typed, Terminal, *options, **environ)
    assert code == 0, stderr
    questions = ["What is evaluated?", "What grades the answers?", "Which CI runs the suite?"]
    assert [question in stderr for question in questions] == [not environ and not options] * 3
    assert yaml.safe_load((project.folder / "holodeck-action.yaml").read_text())["target"] == target
    assert (project.folder / ".gitlab-ci.yml").exists() is (ci == "gitlab")
    assert ("f1_score" in (project.folder / "agent.yaml").read_text()) is (ci == "gitlab")
    assert "also found: " in stdout
