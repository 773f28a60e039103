"""Each option of `optimize` that it shares with other commands has an effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.project import Project
from tests.extensions.race.tuning import optimize, tuned, write
from tests.llm.models import KEY, FakeModels

pytestmark = pytest.mark.models(answer=tuned)


@pytest.mark.full
@pytest.mark.proves("optimize: --cache")
def test_a_cache_is_shared_by_optimizations(project: Project, models: FakeModels) -> None:
    write(project, models, 60)
    assert optimize(project, "--cache", "kept").code == 0
    before = len(models.requests)
    assert optimize(project, "--cache", "kept").code == 0
    # Only what no variant of the first one was asked: how far they run ahead of the last case that counts varies.
    assert len(models.requests) - before < before / 4


@pytest.mark.proves("optimize: --env-file")
def test_variables_of_a_file(project: Project, models: FakeModels) -> None:
    text = write(project, models, 60)
    project.write("agent.yaml", text.replace("name: gpt-4o ", "name: ${MODEL} "))
    project.write("variables", "MODEL=gpt-4o\n")
    found = [optimize(project, "--dry-run", *flags).code for flags in ((), ("--env-file", "variables"))]
    assert found == [2, 0]


@pytest.mark.proves("optimize: --allow-path --allow-plain-http --allow-unsafe-forks")
def test_permissions_are_those_of_the_command(tmp_path: Path, models: FakeModels) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "answers.jsonl").write_text("")
    project = Project(tmp_path / "checkout")
    project.folder.mkdir()
    write(project, models, 60)
    project.policy(target="recorded:../outside/answers.jsonl")
    found = [optimize(project, "--dry-run", *flags).stderr for flags in ((), ("--allow-path", str(outside)))]
    assert ["the file is outside the checkout" in text for text in found] == [True, False]
    project.policy(target={"type": "http", "url": "http://agent.example/", "headers": {"authorization": "Bearer x"}})
    found = [optimize(project, "--dry-run", *flags).stderr for flags in ((), ("--allow-plain-http",))]
    assert ["unencrypted to agent.example" in text for text in found] == [True, False]
    fork = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request_target", "OPENAI_API_KEY": KEY}
    found = [optimize(project, "--dry-run", *flags, **fork).stderr for flags in ((), ("--allow-unsafe-forks",))]
    assert found[0] != found[1]
    assert "fork" in found[0]


@pytest.mark.proves("optimize: --requirements")
def test_packages_of_the_code(project: Project, models: FakeModels) -> None:
    write(project, models, 60)
    project.write("agent.py", "def answer(messages):\n    return '0'\n")
    project.policy(target="python:agent:answer")
    refused = optimize(project, "--dry-run", "--requirements", "absent.txt")
    assert refused.code == 2
    assert "absent.txt" in refused.stderr
    assert "absent.txt" not in optimize(project, "--dry-run").stderr
