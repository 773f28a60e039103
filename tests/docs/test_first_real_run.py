"""The commands of docs/first-real-run.md, typed with models and a GitHub on loopback."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.commands.project import Project
from tests.docs.pages import ROOT, blocks, typed
from tests.github.fake import FakeGitHub
from tests.github.fake.permissions import Token
from tests.github.test_merge_base import git
from tests.llm.models import FakeModels
from tests.llm.models.serving import KEY

PAGE = ROOT / "docs" / "first-real-run.md"


def commands() -> list[str]:
    """The commands below the heading; those of git and gh are one."""
    heading = PAGE.read_text(encoding="utf-8").partition("## The seven commands")[0].count("\n")
    return [command.command for block in blocks(PAGE) if block.line > heading for command in typed(block)]


def test_the_page_has_the_seven_commands_that_it_announces() -> None:
    assert len(commands()) == 7


@pytest.mark.needs
def test_the_seven_commands_do_what_the_page_says(project: Project, models: FakeModels) -> None:
    models.answer(lambda request: "Paris." if "capital" in request.text else "It is 42.")
    [suite] = [block for block in blocks(PAGE) if block.mark == "agent.yaml"]
    project.write("agent.yaml", suite.text)
    git(project.folder, "init", "--initial-branch", "first-run")
    git(project.folder, "add", "agent.yaml")
    git(project.folder, "commit", "--message", "Evaluate the agent")
    head = git(project.folder, "rev-parse", "HEAD")
    with FakeGitHub() as hub:
        repository = hub.add_repository("octo/shop")
        repository.add_pull(1, head_sha=head, branch="first-run")
        hub.add_token("ghp_mine", Token("alice", "classic", {"pull_requests": "write", "contents": "read"}))
        github = {"GITHUB_API_URL": hub.url}
        called = []
        for command in commands():
            variables = github | {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": models.openai_url}
            words = shlex.split(command)
            if words[0] == "git":
                continue
            if words[:3] == ["env", "-u", "OPENAI_API_KEY"]:
                variables["OPENAI_API_KEY"], words = "", words[3:]
            if words[0].startswith("GITHUB_TOKEN="):
                variables["GITHUB_TOKEN"], words = "ghp_mine", words[1:]
            assert words[0] == "holodeck-action"
            arguments = [word.replace("OWNER/NAME", "octo/shop") for word in words[1:]]
            online = ["doctor", "agent.yaml"] if "--online" in arguments else arguments
            finished = project.run(*online, **variables)
            assert finished.code == 0, (command, finished.stdout, finished.stderr)
            called.append(len(models.requests))
        # Only the third one calls the model.
        assert called == [0, 0, 2, 2, 2, 2]
        assert len(repository.comments(1)) == 1
        hub.take_violations()


@pytest.mark.needs
def test_the_commands_are_those_of_the_program(project: Project) -> None:
    for command in commands():
        for name, rest in re.findall(r"holodeck-action ([a-z]+)([^|&]*)", command):
            shown = project.run(name, "--help-all" if name == "run" else "--help").stdout
            for option in re.findall(r" (--[a-z-]+)", rest):
                assert option in shown, f"{name} {option}"
    assert Path(PAGE).is_file()
