"""Somebody who follows docs/getting-started.md: makes its files, types its commands, and opens the pull request."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from holodeck_action.record.result_files import read_record
from tests.commands.project import Project
from tests.docs.pages import ROOT, blocks, typed
from tests.github.events import HEAD
from tests.github.fake import FakeGitHub
from tests.github.workflow import REPOSITORY, Start, Workflow
from tests.llm.models import KEY, Answer, FakeModels, Request, ToolCall

PAGE = ROOT / "docs" / "getting-started.md"
OF_THE_MACHINE = ("UV_", "PIP_", "SSL_", "LANG", "LC_")
"""How variables begin that say how this machine reaches the package index."""


@contextmanager
def shop_models() -> Iterator[FakeModels]:
    """A model server that knows what the agent of the page is asked."""
    with FakeModels(keys=[KEY]) as models:
        models.answer(_shop)
        yield models
        assert models.violations == []


def _shop(request: Request) -> Answer:
    """Answer as a model that has the tool of the page's agent."""
    text = request.messages[-1].text
    asked = [message.text for message in request.messages if message.role == "user"][-1]
    if "A-17" not in asked:
        return Answer("You are welcome." if "Thank" in asked else "I can find orders.")
    if request.messages[-1].role != "tool":
        return Answer(tools=(ToolCall("find_order", {"order": "A-17"}),))
    return Answer(f"Order {text}." if "Thursday" in text else f"I cannot tell: {text}")


def of_the_machine() -> dict[str, str]:
    """Variables with which programs reach the package index."""
    return {name: value for name, value in os.environ.items() if name.startswith(OF_THE_MACHINE)}


class Beginner:
    """A clone of an empty repository, and a shell in it."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder / "shop"
        self.origin = folder / "shop.git"
        self.environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder / "home"), **environ}
        (folder / "home").mkdir()
        for setting in ("user.name octo", "user.email octo@example.com", "init.defaultBranch main"):
            self.type(f"git config --global {setting}", folder)
        self.type(f"git init --quiet --bare {self.origin}", folder)
        self.type(f"git clone --quiet {self.origin} {self.folder}", folder)
        self.type("git commit --quiet --allow-empty --message Start && git push --quiet origin main")

    def type(self, command: str, folder: Path | None = None) -> str:
        """Type a command and return what it prints; it must succeed."""
        ended = subprocess.run(
            ["bash", "-c", command],
            cwd=folder or self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    def follow(self) -> list[str]:
        """Make the files of the page and type its commands, from its top to its end; return these commands."""
        done = []
        for block in blocks(PAGE):
            if block.mark not in ("", "fragment", "norun"):
                (self.folder / block.mark).write_text(block.text, encoding="utf-8")
            elif block.language == "console":
                for each in typed(block):
                    printed = self.type(each.command)
                    assert each.shown in printed, f"{PAGE.name}:{each.line}: {printed}"
                    done.append(each.command)
        return done

    def check_last_run(self) -> None:
        """Check that the last run has seen what the agent did."""
        record = read_record(self.folder / ".holodeck/last/results.json")
        [call] = record.cases[0].trials[0].turns[0].tool_invocations or ()
        assert (call.name, call.args, call.result) == ("find_order", {"order": "A-17"}, "A-17 arrives on Thursday")

    def check_pull_request(self, hub: FakeGitHub, start: Start, **variables: str) -> None:
        """Open a pull request from the pushed branch, run the job of its workflow, and check that it is green.

        Args:
            hub: where the job reports.
            start: what runs the step.
            variables: of the runner.
        """
        checkout = self.folder.with_name("checkout")
        self.type(f"git clone --quiet --branch evaluate {self.origin} {checkout}")
        shutil.rmtree(checkout / ".git")
        document = yaml.safe_load((checkout / ".github/workflows/evaluate.yml").read_text(encoding="utf-8"))
        [job] = document["jobs"].values()
        [step] = [step for step in job["steps"] if step["uses"] == "holodeck-action/holodeck-action@v1"]
        secrets = {f"${{{{ secrets.{name} }}}}": value for name, value in self.environ.items()}
        permissions = {name.replace("-", "_"): level for name, level in job["permissions"].items()}
        repository = hub.add_repository(REPOSITORY)
        repository.add_pull(7, head_sha=HEAD, head_repository=REPOSITORY, branch="evaluate")
        given: dict[str, Any] = {name: secrets[value] for name, value in step["env"].items()} | variables
        workflow = Workflow(hub, Project(checkout), start, permissions=permissions)
        ended = workflow.job(inputs=step["with"] | {"require-publish": "true"}, **given)
        assert ended.code == 0, ended.text
        assert (ended.outputs["verdict"], ended.outputs["passed"]) == ("passed", "2")
        [check] = repository.check_runs(HEAD)
        assert check["conclusion"] == "success"
        assert ended.outputs["comment-url"] == repository.comments(7)[0]["html_url"]
