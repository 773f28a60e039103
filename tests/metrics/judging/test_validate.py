"""What `validate` says of the judges of a suite; nobody is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands.project import Project

pytestmark = pytest.mark.needs("deepeval")

REFUSED = "note: a run would be refused here: "
WITHOUT = "import sys; sys.modules[{name!r}] = None; from holodeck_action.cli import start; start()"
NOWHERE = {"provider": "openai", "name": "x", "endpoint": "nowhere"}
AWAY = "https://models.example.com/v1"
"""No loopback address, since that needs no key."""


def tone(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "geval", "name": name, "criteria": "polite", "evaluation_steps": ["Look."], **more}


def suite(project: Project, *metrics: dict[str, Any]) -> None:
    model = {"provider": "openai", "name": "gpt-4o", "endpoint": AWAY}
    project.suite(
        [{"name": "a", "input": "Hi", "ground_truth": "Hi", "expected_tools": ["look"]}], list(metrics), model=model
    )


def refused_notes(stderr: str) -> list[str]:
    return [line.removeprefix(REFUSED) for line in stderr.splitlines() if line.startswith(REFUSED)]


def test_each_key_that_is_missing_is_a_note_at_the_first_metric_that_needs_it(project: Project) -> None:
    other = {"provider": "anthropic", "name": "claude-3-5-haiku-latest"}
    suite(project, tone("one"), tone("two", model=other), tone("three", model=other))
    finished = project.run("validate")
    assert finished.code == 0, finished.stderr
    own, judge = refused_notes(finished.stderr)
    # The suite's own model grades the first one: that is one key.
    assert own.startswith("OpenAI needs a key for the model gpt-4o")
    assert judge.startswith("agent.yaml:")
    assert ": two: Anthropic needs a key for the model claude-3-5-haiku-latest" in judge
    assert "below the metric's `model`;" in judge
    finished = project.run("validate", OPENAI_API_KEY="sk-one", ANTHROPIC_API_KEY="sk-two")
    assert (finished.code, refused_notes(finished.stderr)) == (0, [])


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        ({"type": "standard", "metric": "groundedness"}, "is graded only by models of the provider azure_openai"),
        (tone("far", judges={"models": [NOWHERE]}), "endpoint is not a URL"),
        (tone("few", judges={"models": [], "min_successful_judges": 2}), "min_successful_judges is 2"),
    ],
)
def test_a_judge_that_could_never_grade_is_an_error_as_in_a_run(
    project: Project, metric: dict[str, Any], told: str
) -> None:
    suite(project, tone("fine"), metric)
    project.policy(judges={"models": [{"provider": "openai", "name": "y", "endpoint": AWAY}]})
    validated, run = project.run("validate"), project.run("run", OPENAI_API_KEY="sk-one")
    assert (validated.code, run.code) == (2, 2)
    assert told in validated.stderr
    assert validated.stderr == run.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    ("metric", "package", "extras"),
    [
        (tone("one"), "deepeval", "judges"),
        ({"type": "deepeval_tool_correctness", "threshold": 0.5}, "deepeval", "judges"),
        ({"type": "deepeval", "metric": "MisuseMetric"}, "deepeval", "judges"),
        ({"type": "azure", "metric": "ToolCallAccuracyEvaluator"}, "azure", "azure"),
        ({"type": "standard", "metric": "relevance", "threshold": 0.5}, "azure.ai.evaluation", "azure"),
    ],
)
def test_packages_that_are_missing_are_a_note(
    project: Project, metric: dict[str, Any], package: str, extras: str
) -> None:
    azure = {"provider": "azure_openai", "name": "x", "endpoint": AWAY, "api_version": "2024-10-21"}
    suite(project, {**metric, "model": azure} if metric["type"] == "standard" else metric)
    project.policy(target="recorded:answers.jsonl", ground_truth="unused")
    project.answers([{"case": "a", "response": "Hi"}])
    keys = project.environ(OPENAI_API_KEY="sk-one", AZURE_OPENAI_API_KEY="sk-two")
    ended = _without(package, project.folder, keys, "validate")
    assert ended.returncode == 0, ended.stderr
    (note,) = refused_notes(ended.stderr)
    assert f"needs packages that are not installed: run pip install 'holodeck-action[{extras}]'" in note
    refused = _without(package, project.folder, keys, "run")
    assert refused.returncode == 2
    assert note in refused.stderr


def _without(package: str, folder: Path, environ: dict[str, str], command: str) -> subprocess.CompletedProcess[str]:
    code = WITHOUT.format(name=package)
    return subprocess.run(
        [sys.executable, "-c", code, command], cwd=folder, env=environ, capture_output=True, text=True, timeout=60
    )
