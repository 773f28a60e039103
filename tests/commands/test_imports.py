"""What a run does not need it does not import."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from holodeck_action.metrics.registry import built_in
from tests.commands.project import Project
from tests.llm.models import FakeModels

# Runs the command line in a process of its own and tells which modules it has loaded at its end.
TELL = (
    "import atexit, json, os, sys\n"
    "atexit.register(lambda: open(os.environ['MODULES'], 'w').write(json.dumps(sorted(sys.modules))))\n"
    "from holodeck_action.cli import start\n"
    "start()\n"
)
NEVER = (
    "deepeval",
    "azure",
    "pydantic_ai",
    "github",
    "openai",
    "anthropic",
    "nltk",
    "sacrebleu",
    "rouge_score",
    "numpy",
    "scipy",
    "opentelemetry",
    "grpc",
)
HEAVY = {*NEVER, "pydantic", "yaml", "httpx2", "rich", "jinja2", "regex"}


def modules(project: Project, *arguments: str, **environ: str) -> set[str]:
    """The modules loaded by a call of the program."""
    file = project.folder / "modules.json"
    ended = subprocess.run(
        [sys.executable, "-c", TELL, *arguments],
        cwd=project.folder,
        env=project.environ(MODULES=str(file), **environ),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "error" not in ended.stderr, ended.stderr
    return set(json.loads(file.read_text()))


def loaded(project: Project, *arguments: str, **environ: str) -> set[str]:
    """The top-level packages loaded by a call of the program."""
    return {name.partition(".")[0] for name in modules(project, *arguments, **environ)}


@pytest.mark.full
def test_a_deterministic_run_imports_no_model_client_and_no_reference_library(project: Project) -> None:
    metrics = [
        {"type": "standard", "metric": name} for name in ("equality", "bleu", "rouge", "meteor", "f1_score", "numeric")
    ]
    project.write("checks.py", "def grade(context):\n    return 1.0\n")
    project.suite(
        [
            {
                "name": "a",
                "input": "q",
                "ground_truth": "1 two three",
                "expected_tools": [{"name": "t", "args": {"x": {"regex": "a+"}}}],
            }
        ],
        [*metrics, {"type": "code", "grader": "checks:grade"}, {"type": "length", "max_words": 9}],
    )
    project.answers(
        [{"case": "a", "response": "1 two three", "tool_invocations": [{"name": "t", "args": {"x": "aa"}}]}]
    )
    project.policy(target="recorded:answers.jsonl")
    assert loaded(project, "run", "-o", "out").isdisjoint(NEVER)
    assert (project.out / "results.json").exists()
    # Only what is asked for: no HTTP client for a transcript, no bar for a log, no templates without files.
    assert loaded(project, "run").isdisjoint({*NEVER, "httpx2", "rich", "jinja2"})


def test_a_plain_run_imports_its_own_metric_and_nothing_that_asks_github(project: Project) -> None:
    project.numbered(1)
    found = modules(project, "run")
    metrics = {metric.__module__ for metric in built_in().classes.values()}
    assert metrics & found == {"holodeck_action.metrics.standard"}
    assert {name for name in found if name.startswith("holodeck_action.github.")}.isdisjoint(
        {f"holodeck_action.github.{name}" for name in ("api", "merge_base", "stored_results", "artifacts", "event")}
    )
    assert {name for name in found if name.startswith("holodeck_action.reports.page.viewer")} == set()


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["run", "--help"]])
def test_help_imports_nothing_of_weight(project: Project, arguments: list[str]) -> None:
    assert loaded(project, *arguments).isdisjoint(HEAVY)


def test_completion_imports_nothing_of_weight(project: Project) -> None:
    asked = {"_HOLODECK_ACTION_COMPLETE": "bash_complete", "COMP_WORDS": "holodeck-action run --r", "COMP_CWORD": "2"}
    assert loaded(project, **asked).isdisjoint(HEAVY)


def test_validate_imports_no_agent(project: Project) -> None:
    project.numbered(3)
    assert loaded(project, "validate").isdisjoint({*NEVER, "httpx2", "rich", "jinja2"})


@pytest.mark.full
def test_a_replay_imports_nothing_that_sends(project: Project) -> None:
    sends = {"holodeck_action.llm.network", "holodeck_action.llm.connections", "httpcore2"}
    with FakeModels() as models:
        model = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url, "api_key": "sk-0123456789"}
        project.suite([{"input": "hi", "ground_truth": "echo: hi"}], model=model)
        assert sends <= modules(project, "run", "--record", "tape")
        asked = len(models.requests)
        assert sends.isdisjoint(modules(project, "run", "--replay", "tape"))
        assert len(models.requests) == asked == 1
